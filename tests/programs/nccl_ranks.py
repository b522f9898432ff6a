"""Logs of NCCL 2.28.9 with chosen ranks and variables, in the words of the real ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ID = "0xfeedc0de00000001"


def rank(
    number: int,
    nranks: int,
    reads: Mapping[str, str],
    *,
    version: str = "2.28.9+cuda13.0",
    host: str = "node0",
    comm_id: str = ID,
    completed: bool = True,
    chunk: int = 524288,
    channels: int = 24,
    network: str = "Socket",
    warnings: Iterable[str] = (),
) -> list[str]:
    """Return the lines of one rank; `reads` maps a variable to the text of its line, as printed.

    A text that ends in a full stop is a number's, as NCCL writes it.
    """
    at = f"{host}:{100 + number}:{100 + number} [0] NCCL INFO"
    who = f"comm 0x5500{number:04x} rank {number}"
    made = f"cudaDev {number} nvmlDev {number} busId {number:x}0 commId {comm_id}"
    lines = [
        f"{at} ENV/Plugin: Could not find: libnccl-env.so",
        f"{at} NCCL version {version}",
        f"{at} Using network {network}",
        f"{at} ncclCommInitRankConfig {who} nranks {nranks} {made} - Init START",
        *(f"{at} {name} set by environment to {text}" for name, text in reads.items()),
        f"{at} {who} nRanks {nranks} nNodes 1 localRanks {nranks} localRank {number} MNNVL 0",
        f"{at} P2P Chunksize set to {chunk}",
        f"{at} {channels} coll channels, {channels} collnet channels, 0 nvls channels,"
        f" {channels} p2p channels, {channels} p2p channels per peer",
    ]
    for text in warnings:
        lines += ["", f"{at.replace('NCCL INFO', 'bootstrap.cc:77 NCCL WARN')} {text}"]
    if completed:
        lines.append(f"{at} ncclCommInitRankConfig {who} nranks {nranks} {made} - Init COMPLETE")
    return lines


def write(folder: Path, ranks: Iterable[list[str]], name: str = "nccl.log") -> str:
    """Write the lines of several ranks to a file, as they would come, and return its path."""
    path = folder / name
    path.write_text("\n".join(_interleaved(list(ranks))) + "\n", "utf-8")
    return str(path)


def _interleaved(ranks: list[list[str]]) -> Iterator[str]:
    for number in range(max(map(len, ranks))):
        for lines in ranks:
            # A warning begins with an empty line and stays whole.
            if number < len(lines) and lines[number]:
                yield from (
                    ("", lines[number]) if " NCCL WARN " in lines[number] else (lines[number],)
                )
