"""The facts of what NCCL set up and used, as its lines say it: a part of `facts`."""

from __future__ import annotations

import dataclasses

from envprobe.nccl.place import Place


@dataclasses.dataclass(frozen=True, slots=True)
class Channels:
    """`N coll channels, ...`: None where this version does not print the number."""

    coll: int
    collnet: int | None
    nvls: int | None
    p2p: int
    p2p_per_peer: int


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """Connections of one kind between two ranks, `count` of them.

    `via` is the transport as written, such as `P2P/CUMEM`, `SHM/direct/direct`, `NET/Socket/0`.
    `direction` is "send", "receive" or "" (P2P and SHM lines are the sender's).
    """

    source: int
    target: int
    via: str
    direction: str = ""
    count: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """`Enabled NCCL Func/Proto/Algo Matrix:` (2.24.3 to 2.30.7): what was asked for, not used.

    `rows` maps a function to its protocols and algorithms with 0 off, 1 on, 2 automatic. `whole` is
    false where rows were missing.
    """

    rows: dict[str, dict[str, int]]
    place: Place
    whole: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The algorithm and protocol that NCCL chose for one size of one collective (rank 0 only).

    `function` is "" where the version does not say it (2.20.3 to 2.22.3); `size` is in bytes.
    `channels` is the range as written, such as `0..3`. `algorithm` and `protocol` are names in
    upper case; numbers of older versions are translated (nccl_device: 0 TREE, 1 RING, ...).
    """

    function: str
    size: int
    algorithm: str
    protocol: str
    channels: str = ""
    times: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """Collective calls of one function on one communicator (lines of subsystem COLL)."""

    function: str
    times: int


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What NCCL set up, as its lines say it. Empty fields: no such line was seen.

    `ring_lines` counts `Channel 00/24 : 0 1 ...` (rank 0 only). `networks` are those of `Using
    network X`. `p2p_chunks` maps `P2P Chunksize set to N` (bytes) to how often it was said.
    `channels` maps each `N coll channels ...` line to its number of times. The rest is as written.
    """

    ring_lines: int = 0
    channels: dict[Channels, int] = dataclasses.field(default_factory=dict)
    links: tuple[Link, ...] = ()
    networks: tuple[str, ...] = ()
    p2p_chunks: dict[int, int] = dataclasses.field(default_factory=dict)
    thread_thresholds: str = ""
    matrices: tuple[Matrix, ...] = ()
    choices: tuple[Choice, ...] = ()
    calls: tuple[Call, ...] = ()

    @property
    def transports(self) -> dict[str, int]:
        """The number of connection lines by transport."""
        counts: dict[str, int] = {}
        for link in self.links:
            counts[link.via] = counts.get(link.via, 0) + link.count
        return counts
