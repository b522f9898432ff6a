"""The texts of NCCL's messages, 2.14 to 2.32: `read` gives what one text says.

The wordings are those of src/init.cc, misc/param.cc, graph/paths.cc, graph/tuning.cc, enqueue.cc,
bootstrap.cc and transport/*.cc of the tags v2.17.1-1 to v2.30.7-1, and of the strings of 2.32.3.
A text that is not known is a message too, and never a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from envprobe.nccl import messages
from envprobe.nccl.facts import Wording
from envprobe.nccl.messages import UNKNOWN, Message

TEXT_NAMES: Final = frozenset(
    b"NCCL_" + name
    for name in (
        b"ALGO PROTO THREAD_THRESHOLDS COMM_ID HOSTID LAUNCH_MODE SOCKET_FAMILY SOCKET_IFNAME "
        b"TOPO_FILE TOPO_DUMP_FILE GRAPH_FILE GRAPH_DUMP_FILE IB_ADDR_FAMILY IB_ADDR_RANGE IB_HCA "
        b"NETDEVS_POLICY PROFILER_PLUGIN NET_PLUGIN TUNER_PLUGIN ENV_PLUGIN GIN_PLUGIN CHECK_MODE "
        b"IBVERBS_LIB RMA_PLUGIN NET_MERGE_POLICY OOB_NET_IFNAME P2P_LEVEL P2P_DISABLE "
        b"NET_GDR_LEVEL"
    ).split()
)
"""The names whose lines hold a text with no full stop of NCCL's own."""

_ALGORITHMS: Final = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS: Final = ("LL", "LL128", "SIMPLE")

_Match = re.Match[bytes]
_Maker = Callable[[_Match], Message]
_Rows = tuple[tuple[bytes, _Maker], ...]


def read(text: bytes) -> Message:
    """Return what the text of one message says; UNKNOWN if it is none of the known ones."""
    # A terminal's copy fills up its lines; the value of a variable may end in blanks of its own.
    bare = text.rstrip()
    found = _read(bare)
    if len(bare) < len(text) and isinstance(found, messages.Variable):
        found = _read(text)
    if found is UNKNOWN:
        located = _LOCATION.match(text)
        if located is not None:
            return _read(text[located.end() :])
    return found


def _read(text: bytes) -> Message:
    for pattern, make in _BY_START.get(text[:4], _ANYWHERE):
        match = pattern.fullmatch(text)
        if match is not None:
            return make(match)
    return UNKNOWN


def _text(raw: bytes | None) -> str:
    return raw.decode("utf-8", "surrogateescape") if raw else ""


def _number(raw: bytes | None) -> int | None:
    return int(raw) if raw is not None and raw.removeprefix(b"-").isdigit() else None


def _from_environment(match: _Match) -> Message:
    name, value = match[1], match[2] or b""
    if name in TEXT_NAMES:
        return messages.Variable("ENV", name, value)
    bare = value.rstrip()
    number = _number(bare[:-1]) if bare.endswith(b".") else None
    if number is not None:
        return messages.Variable("ENV", name, bare[:-1], number, Wording.INTEGER)
    # An integer without its full stop lost its end, and perhaps digits with it.
    cut = re.fullmatch(rb"-?\d*", value) is not None
    wording = Wording.INTEGER if cut else Wording.TEXT
    return messages.Variable("ENV", name, value, None, wording, whole=not cut)


def _set_to(match: _Match) -> Message:
    # These lines belong to ENV and to another subsystem, so they prove neither.
    return messages.Variable("", match[1], match[2] or b"")


def _plugin(match: _Match) -> Message:
    return messages.Variable("INIT", b"NCCL_%s_PLUGIN" % match[1].upper(), match[2], source="env")


def _net_plugin(match: _Match) -> Message:
    return messages.Variable("INIT", b"NCCL_NET_PLUGIN", match[1], source="env")


def _refused(match: _Match) -> Message:
    fallback = _number(match[3])
    meaning = _text(match[3]) if fallback is None else fallback
    return messages.Variable("ENV", match[2], match[1], meaning, Wording.REFUSED)


def _refused_number(match: _Match) -> Message:
    instead = _number(match[3]) if len(match.groups()) > 2 else None
    return messages.Variable("ENV", match[1], match[2], instead, Wording.REFUSED)


def _override(match: _Match) -> Message:
    return messages.Variable("ENV", match[1], match[2], None, Wording.OVERRIDE)


def _parsed(match: _Match) -> Message:
    return messages.Variable("ENV", match[1], match[2], int(match[3]), Wording.PARSED)


def _written(match: _Match) -> Message:
    value = match[2].strip(b'"')
    return messages.Variable("NET", match[1], value, None, Wording.WRITTEN, "NET/OFI")


def _uncached(match: _Match) -> Message:
    return messages.Variable("ENV", match[1], b"", None, Wording.UNCACHED)


def _config(match: _Match) -> Message:
    return messages.Config("ENV", _text(match[1]), _text(match[2]))


def _init(match: _Match) -> Message:
    function, pointer, rank, nranks, device, nvml, bus, extra, phase = match.groups()
    pairs = dict(re.findall(rb"(\w+) (\S+)", extra))
    split = pairs.get(b"splitCount", pairs.get(b"childCount"))
    return messages.Init(
        "INIT",
        _text(phase),
        _text(function),
        _text(pointer),
        int(rank),
        int(nranks),
        int(device),
        _number(nvml),
        _text(bus),
        _text(pairs.get(b"commId")),
        _text(pairs.get(b"parent")),
        _number(split),
        _number(pairs.get(b"color")),
    )


def _shape(match: _Match) -> Message:
    pointer, nodes, local_ranks, local_rank, mnnvl = match.groups()
    counts = int(nodes), int(local_ranks), int(local_rank)
    return messages.Shape("INIT", _text(pointer), *counts, _number(mnnvl))


def _version(match: _Match) -> Message:
    return messages.Version("INIT", _text(match[1]).lower(), _text(match[2]))


def _ring(match: _Match) -> Message:
    return messages.Ring("INIT")


def _connection(match: _Match) -> Message:
    source, target, direction, via = match.groups()
    subsystem = next((name for name in ("NET", "P2P", "SHM") if via.startswith(name.encode())), "")
    end = _text(via), _text(direction)
    return messages.Connection(subsystem, int(source), int(target), *end)


def _network(match: _Match) -> Message:
    return messages.Network("INIT", _text(match[1]))


def _channel_counts(match: _Match) -> Message:
    coll, collnet, nvls, p2p, peer = match.groups()
    return messages.ChannelCounts(
        "INIT", int(coll), _number(collnet), _number(nvls), int(p2p), int(peer)
    )


def _chosen(match: _Match) -> Message:
    function, size, algorithm, protocol, low, high = match.groups()
    names = _choice(algorithm, _ALGORITHMS), _choice(protocol, _PROTOCOLS)
    channels = f"{_text(low)}..{_text(high)}" if low is not None else ""
    return messages.Chosen("TUNING", _text(function), int(size), *names, channels)


def _called(match: _Match) -> Message:
    return messages.Called("COLL", _text(match[1]), _text(match[2]))


def _choice(raw: bytes, names: tuple[str, ...]) -> str:
    number = _number(raw)
    if number is not None and number < len(names):
        return names[number]
    return _text(raw).upper()


def _once(subsystem: str, key: str) -> _Maker:
    return lambda match: messages.Once(subsystem, key, _text(match[0]))


def _said(subsystem: str, kind: str) -> _Maker:
    return lambda match: messages.Said(subsystem, kind, _text(match[1]))


def _known(subsystem: str) -> _Maker:
    counted = messages.Counted(subsystem)
    return lambda match: counted


_LOCATION: Final = re.compile(rb"\S+\.(?:cc|cu|h|cpp):\d+ \([^()]*\) ")
_NAME: Final = rb"([A-Z][A-Z0-9]*_[A-Z0-9_]+)"
_SET: Final = _NAME + rb" set by environment to(?: (.*))?"
_INIT: Final = (
    rb"(?:\[Rank \d+\] )?(?:(\w+) )?comm (0x[0-9a-f]+) rank (\d+) nranks (\d+) cudaDev (-?\d+)"
    rb"(?: nvmlDev (-?\d+))? busId ([0-9a-f]+)(.*?) ?- (\w+ (?:START|COMPLETE))"
)
_SHAPE: Final = (
    rb"comm (0x[0-9a-f]+) rank \d+ nRanks \d+ nNodes (\d+) localRanks (\d+) localRank (\d+)"
    rb"(?: MNNVL (\d+))?"
)
_CONNECTION: Final = (
    rb"Channel \d+(?:/\d+)? : (\d+)\[[0-9a-f]+\] -> (\d+)\[[0-9a-f]+\](?: \[(send|receive)\])?"
    rb" via (\S.*?) *"
)
_COUNTS: Final = (
    rb"(\d+) coll channels,(?: (\d+) collnet channels,)?(?: (\d+) nvls channels,)?"
    rb" (\d+) p2p channels, (\d+) p2p channels per peer"
)
_CHOSEN: Final = (
    rb"(?:(\w+): )?(\d+) Bytes -> Algo (\w+) proto (\w+)"
    rb"(?: channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}.*| time .*)"
)

_TIMINGS: Final = rb"Init timings(?: - \w+)?: rank \d+ nranks \d+ total \d+\.\d+ .*"
_CONNECTED: Final = rb"Connected (?:all )?(?:rings|trees|binomial trees|NVLS tree)(?:,.*)?"

_NCCL: Final[_Rows] = (
    (_SET, _from_environment),
    (rb"(NCCL_(?:IB_HCA|OOB_NET_IFNAME|SOCKET_IFNAME|TUNER_PLUGIN)) set to (.*)", _set_to),
    (rb"(NCCL) version (\d\S*)", _version),
    (rb"NCCL git version .*", _once("INIT", "git")),
    (_NAME + rb" (-?\d+) is too \w+, leaving it set at (-?\d+)", _refused_number),
)
_COMM: Final[_Rows] = ((_INIT, _init), (_SHAPE, _shape))
_NET: Final[_Rows] = (
    (rb"NET/OFI Adding " + _NAME + rb"=(.*) to environment", _written),
    (rb"NET/OFI Setting " + _NAME + rb" to (.*)", _written),
    (rb"NET/Plugin: Plugin name set by env to (.*)", _net_plugin),
    (rb"NET/.*", _known("NET")),
)
_STARTING: Final[dict[bytes, _Rows]] = {
    b"NCCL": _NCCL,
    b"Chan": ((_CONNECTION, _connection), (rb"Channel \d+/\d+ :(?: +\d+)+ *", _ring)),
    b"comm": _COMM,
    b"nccl": (*_COMM, (rb"ncclTopoGetCpuAffinity: .*", _known("INIT"))),
    b"[Ran": _COMM,
    b"NET/": _NET,
    b"Init": (
        (_TIMINGS, _known("INIT")),
        (rb"Initialized NET plugin .*", _known("NET")),
    ),
    b"Tree": ((rb"Trees \[.*", _known("INIT")),),
    b"Comm": (
        (rb"Comm config (\w+) set to (.*)", _config),
        (rb"Comm config \w+ reset to " + _NAME + rb"=(.*)", _override),
    ),
    b"Conn": (
        (_CONNECTED, _known("INIT")),
        (rb"Connected NVLS .*", _known("NVLS")),
    ),
    b"Boot": (
        (rb"Bootstrap ?: Using .*", _once("BOOTSTRAP", "bootstrap")),
        (rb"Bootstrap timings total .*", _known("BOOTSTRAP")),
    ),
    b"[Pro": ((rb"\[Proxy (?:Service|Progress).*", _known("PROXY")),),
}  # fmt: skip
"""Rows by the first four bytes of their texts."""

_OTHER: Final[_Rows] = (
    (_CHOSEN, _chosen),
    (rb"(\w+): opCount [0-9a-f]+ .* comm (0x[0-9a-f]+) .*", _called),
    (_COUNTS, _channel_counts),
    (_SET, _from_environment),
    (rb"Using network (\S.*)", _network),
    (rb"P2P Chunksize set to (\d+)", _said("INIT", "chunk")),
    (rb"threadThresholds (\d.*)", _said("TUNING", "thresholds")),
    (rb"Check P2P Type \w+ .*", _known("P2P")),
    (rb"NVLS multicast support is .*", _known("NVLS")),
    (rb"Enabled NCCL Func/Proto/Algo Matrix:", lambda match: messages.MatrixHead("ENV")),
    (rb"cudaDriverVersion \d+", _once("INIT", "driver")),
    (rb"(RCCL) version *:? *(\d\S*).*", _version),
    (rb"ENV/Plugin: .*", _once("", "env plugin")),
    (rb"Plugin name set by env to (.*)", _net_plugin),
    (rb"(\w+)/Plugin: Plugin name set by env to (.*)", _plugin),
    (rb"TUNER/Plugin: (NCCL_TUNER_PLUGIN) set to (.*)", _set_to),
    (rb"Invalid value (.*) for " + _NAME + rb", using default (.*)\.", _refused),
    (rb"Invalid (NCCL_\w+) (\S+) \(must be .*\)", _refused_number),
    (rb"Parsed environment variable " + _NAME + rb"=(.*) to (-?\d+)", _parsed),
    (rb"TOPO/NET : Force-fusing NICs using " + _NAME + rb"=(.*)", _set_to),
    (rb"(?:PARAM: )?Disabling caching for environment variable " + _NAME + rb"\.", _uncached),
    (rb"(?:Assigned|Failed to initialize) NET plugin .*", _known("NET")),
    (rb"(?:CC O|Setting affinity ).*", _known("INIT")),
    (rb"RAS .*", _known("RAS")),
    (rb"\w+/Plugin: .*", _known("INIT")),
)


def _compiled(rows: _Rows) -> tuple[tuple[re.Pattern[bytes], _Maker], ...]:
    return tuple((re.compile(pattern, re.DOTALL), make) for pattern, make in rows)


_ANYWHERE: Final = _compiled(_OTHER)
_BY_START: Final = {start: _compiled(rows) for start, rows in _STARTING.items()}
