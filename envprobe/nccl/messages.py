"""What one message of NCCL says: plain objects that the grammar makes of its text.

Objects compare by identity: the scanner counts them in dictionaries, millions of times.
"""

from __future__ import annotations

import dataclasses

from envprobe.nccl.facts import Wording


@dataclasses.dataclass(eq=False, slots=True)
class Message:
    """Any message; `subsystem` is "" where it is not known."""

    subsystem: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class Counted(Message):
    """A message whose only effect is that it was said: equal texts need to be read only once."""


@dataclasses.dataclass(eq=False, slots=True)
class Variable(Message):
    """A variable was read; the fields are those of `facts.VariableRead`."""

    name: bytes = b""
    value: bytes = b""
    meaning: int | str | None = None
    wording: Wording = Wording.TEXT
    source: str = "environment"
    whole: bool = True


@dataclasses.dataclass(eq=False, slots=True)
class Config(Message):
    """`Comm config FIELD set to V`."""

    field: str = ""
    value: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class Init(Message):
    """A line about one rank with its pointer; `phase` is as written: "Init START", ..."""

    phase: str = ""
    function: str = ""
    pointer: str = ""
    rank: int = 0
    nranks: int = 0
    device: int | None = None
    nvml_device: int | None = None
    bus_id: str = ""
    comm_id: str = ""
    parent: str = ""
    split: int | None = None
    color: int | None = None


@dataclasses.dataclass(eq=False, slots=True)
class Shape(Message):
    """`comm P rank R nRanks N nNodes X localRanks L localRank l MNNVL m`."""

    pointer: str = ""
    nodes: int = 0
    local_ranks: int = 0
    local_rank: int = 0
    mnnvl: int | None = None


@dataclasses.dataclass(eq=False, slots=True)
class Network(Message):
    """`Using network X`, which comes before the `Init START` of its communicator."""

    name: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class Version(Message):
    """The banner of a library: once per copy of the library in a process."""

    family: str = "nccl"
    version: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class Once(Message):
    """A line that a process writes before its first communicator, once for its `key`."""

    key: str = ""
    text: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class MatrixHead(Message):
    """`Enabled NCCL Func/Proto/Algo Matrix:`; its rows follow without a prefix."""


@dataclasses.dataclass(eq=False, slots=True)
class Ring(Counted):
    """`Channel 00/24 : 0 1 2 3`."""


@dataclasses.dataclass(eq=False, slots=True)
class Connection(Counted):
    """`Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0`."""

    source: int = 0
    target: int = 0
    via: str = ""
    direction: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class ChannelCounts(Counted):
    """`N coll channels, N collnet channels, N nvls channels, ...`."""

    coll: int = 0
    collnet: int | None = None
    nvls: int | None = None
    p2p: int = 0
    p2p_per_peer: int = 0


@dataclasses.dataclass(eq=False, slots=True)
class Said(Counted):
    """A short fact of one kind: a chunk size, `Connected all X`, ..."""

    kind: str = ""
    text: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class Chosen(Counted):
    """The algorithm and protocol of one collective of one size."""

    function: str = ""
    size: int = 0
    algorithm: str = ""
    protocol: str = ""
    channels: str = ""


@dataclasses.dataclass(eq=False, slots=True)
class Called(Counted):
    """`AllReduce: opCount 1a ... comm 0x55e2 ...`: one call on one communicator."""

    function: str = ""
    pointer: str = ""


UNKNOWN = Counted()
"""A text that is none of the known ones."""
