"""Which lines of the log show what NCCL used: reading a variable is one thing, using it another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from envprobe.nccl.facts import Communicator, Rank
from envprobe.nccl.outcomefacts import Outcome

_LEAST_CHUNK: Final = 1 << 17
"""The smallest default of a chunk in bytes; an eighth of NCCL_BUFFSIZE limits it."""


def used(communicator: Communicator, rank: Rank, name: str) -> str:
    """Return what the rank's lines show of the thing that a variable decides, "" if none does."""
    show = _SHOWN_BY.get(name)
    return "" if show is None else show(communicator, rank)


def summary(communicator: Communicator, rank: Rank) -> tuple[str, ...]:
    """Return what the rank set up, in a few words."""
    shown = (
        _channels(communicator, rank),
        transports(rank.outcome),
        _network(communicator, rank),
        _chunks(communicator, rank),
        _choices(communicator, rank),
    )
    return tuple(one for one in shown if one)


def transports(outcome: Outcome) -> str:
    """Return the transports of a rank's connections with their numbers."""
    counts = outcome.transports
    return ", ".join(f"{via} ({number})" for via, number in sorted(counts.items()))


def _channels(communicator: Communicator, rank: Rank) -> str:
    found = {one.coll for one in rank.outcome.channels}
    return f"{_joined(found)} channels" if found else ""


def _p2p_channels(communicator: Communicator, rank: Rank) -> str:
    found = {one.p2p for one in rank.outcome.channels}
    return f"{_joined(found)} p2p channels" if found else ""


def _links(communicator: Communicator, rank: Rank) -> str:
    return transports(rank.outcome)


def _network(communicator: Communicator, rank: Rank) -> str:
    networks = rank.outcome.networks
    return f"network {', '.join(networks)}" if networks else ""


def _chunks(communicator: Communicator, rank: Rank) -> str:
    found = rank.outcome.p2p_chunks
    return f"P2P chunks of {_joined(found)} bytes" if found else ""


def _small_chunks(communicator: Communicator, rank: Rank) -> str:
    """Return the chunks if they are smaller than all defaults, so that the buffer size shows."""
    small = max(rank.outcome.p2p_chunks, default=_LEAST_CHUNK) < _LEAST_CHUNK
    return _chunks(communicator, rank) if small else ""


def _nodes(communicator: Communicator, rank: Rank) -> str:
    return f"{rank.nodes} nodes" if rank.nodes is not None else ""


def _nvls(communicator: Communicator, rank: Rank) -> str:
    found = {one.nvls for one in rank.outcome.channels if one.nvls is not None}
    return f"{_joined(found)} NVLS channels" if found else ""


def _thresholds(communicator: Communicator, rank: Rank) -> str:
    found = rank.outcome.thread_thresholds
    return f"thresholds {found}" if found else ""


def _choices(communicator: Communicator, rank: Rank) -> str:
    """Return the algorithms and protocols that were chosen; only rank 0 logs them."""
    choices = [one for member in communicator.ranks for one in member.outcome.choices]
    pairs = dict.fromkeys(f"{one.algorithm}/{one.protocol}" for one in choices)
    return f"chosen {', '.join(pairs)}" if pairs else ""


def _joined(found: Iterable[int]) -> str:
    return " or ".join(str(one) for one in sorted(found))


_SHOWN_BY: Final[dict[str, Callable[[Communicator, Rank], str]]] = {
    "NCCL_ALGO": _choices,
    "NCCL_PROTO": _choices,
    "NCCL_THREAD_THRESHOLDS": _thresholds,
    "NCCL_HOSTID": _nodes,
    **dict.fromkeys(
        ("NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME"), _network
    ),
    **dict.fromkeys(
        ("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_CUMEM_ENABLE"), _links
    ),
    **dict.fromkeys(("NCCL_P2P_READ_ENABLE", "NCCL_P2P_USE_CUDA_MEMCPY"), _links),
    **dict.fromkeys(
        (
            "NCCL_MAX_NCHANNELS",
            "NCCL_MIN_NCHANNELS",
            "NCCL_MAX_NRINGS",
            "NCCL_MIN_NRINGS",
            "NCCL_MAX_CTAS",
            "NCCL_MIN_CTAS",
        ),
        _channels,
    ),
    **dict.fromkeys(("NCCL_MAX_P2P_NCHANNELS", "NCCL_MIN_P2P_NCHANNELS"), _p2p_channels),
    **dict.fromkeys(("NCCL_NVLS_ENABLE", "NCCL_NVLS_NCHANNELS"), _nvls),
    "NCCL_BUFFSIZE": _small_chunks,
    **dict.fromkeys(
        (
            "NCCL_P2P_NET_CHUNKSIZE",
            "NCCL_P2P_PCI_CHUNKSIZE",
            "NCCL_P2P_NVL_CHUNKSIZE",
        ),
        _chunks,
    ),
}
"""The lines that a variable shows in."""
