#!/usr/bin/env python3
"""Measure the log parser on a long log of 64 ranks against plain peers in the same run.

The log is made from a real one (tests/data/nccl/045.log): its lines with the hosts, pids, ranks and
addresses of 64 ranks, and collective calls in NCCL's wording. `dense`: every line is NCCL's, and
the peer is a loop over the lines with one regular expression, which finds prefix, level and text;
a second one also counts the messages of each process.
`sparse`: under 1 % of the lines are NCCL's among those of a server, and the peer is
`grep -c 'NCCL INFO'`. Times are CPU seconds, the least of the rounds; contenders take turns.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT / "tests" / "data" / "nccl" / "045.log"
RANKS = 64
PER_HOST = 8
COMMUNICATORS = 32
GOALS = {"dense": 1.0, "sparse": 6.0}
MOST_MEMORY_MB = 150

SERVER_LINE = (
    b"[2026-11-29 17:39:%02d TP%d] Decode batch. #running-req: %d, #token: %d, token usage: 0.03, "
    b"gen throughput (token/s): %d.33, #queue-req: 0\n"
)
CALL = (
    b"AllReduce: opCount %x sendbuff 0x7fdf541ff800 recvbuff 0x7fdf%08x count %d datatype 7 op 0 "
    b"root 0 comm %s [nranks=64] stream 0x55e29067e430\n"
)

PARSER = """
import sys, time
from envprobe.nccl import log
begun = time.process_time()
found = log.read(sys.argv[1:])
print(time.process_time() - begun, found.messages, len(found.communicators))
"""
PLAIN_LOOP = """
import re, sys, time
begun = time.process_time()
line_of_nccl = re.compile(rb"(\\S+):(\\d+):(\\d+) \\[(-?\\d+)\\] NCCL (INFO|WARN) (.*)")
count = 0
with open(sys.argv[1], "rb") as log:
    for line in log:
        if line_of_nccl.search(line):
            count += 1
print(time.process_time() - begun, count)
"""
COUNTING_LOOP = """
import collections, re, sys, time
begun = time.process_time()
line_of_nccl = re.compile(rb"(\\S+):(\\d+):(\\d+) \\[(-?\\d+)\\] NCCL (INFO|WARN) (.*)")
counts = collections.Counter()
with open(sys.argv[1], "rb") as log:
    for line in log:
        found = line_of_nccl.search(line)
        if found:
            host, pid, tid, device, level, text = found.groups()
            counts[host, pid] += 1
print(time.process_time() - begun, sum(counts.values()))
"""


def prefix(rank: int) -> bytes:
    """Return what stands in front of a rank's messages."""
    pid = 4000 + rank
    return b"node%d:%d:%d [%d] NCCL INFO " % (rank // PER_HOST, pid, pid, rank % PER_HOST)


def pointer(rank: int, communicator: int) -> bytes:
    """Return the address of a rank's communicator."""
    return b"0x55e2%04x%04x" % (rank, communicator)


def real_messages() -> tuple[list[bytes], list[bytes]]:
    """Return the real texts of one process: up to the communicator, and from it on."""
    texts = re.findall(rb"^vm:2907:\d+ \[\d\] NCCL INFO (.*)$", REAL.read_bytes(), re.MULTILINE)
    first = next(index for index, text in enumerate(texts) if b"Init START" in text)
    return texts[:first], texts[first:]


def placed(text: bytes, rank: int, communicator: int) -> bytes:
    """Return a real text of rank 0 of 2 as one of this rank of 64."""
    device, peer = rank % PER_HOST, (rank + 1) % RANKS
    link = b" : %d[%d] -> %d[%d] via" % (rank, device, peer, peer % PER_HOST)
    text = text.replace(b" : 0[0] -> 1[1] via", link)
    text = text.replace(b"0x19cc4860", pointer(rank, communicator))
    text = text.replace(b"0xe8f451f5ed253c08", b"0xe8f451f5%08x" % communicator)
    text = text.replace(b" rank 0 nranks 2 ", b" rank %d nranks %d " % (rank, RANKS))
    text = text.replace(b" rank 0 nRanks 2 ", b" rank %d nRanks %d " % (rank, RANKS))
    return text.replace(b"cudaDev 0 nvmlDev 0", b"cudaDev %d nvmlDev %d" % (device, device))


def messages() -> Iterator[bytes]:
    """Yield NCCL's lines without end, in pieces: communicators, then connections and calls."""
    before, after = real_messages()
    ranks = range(RANKS)
    yield b"".join(prefix(rank) + text + b"\n" for text in before for rank in ranks)
    for communicator in range(COMMUNICATORS):
        for text in after:
            lines = (prefix(rank) + placed(text, rank, communicator) + b"\n" for rank in ranks)
            yield b"".join(lines)
    connections = [text for text in after if b" via " in text]
    count = 0
    while True:
        for text in connections:
            count += 1
            communicator = count % COMMUNICATORS
            pairs = []
            for rank in ranks:
                call = CALL % (count, count * 512, count * 64, pointer(rank, communicator))
                connection = placed(text, rank, communicator) + b"\n"
                pairs.append(prefix(rank) + connection + prefix(rank) + call)
            yield b"".join(pairs)


def server_lines() -> bytes:
    """Return lines of a server that are none of NCCL's."""
    numbers = range(2000)
    return b"".join(SERVER_LINE % (n % 60, n % 8, n, n * 91, n % 977) for n in numbers)


def write(path: Path, size: int, kind: str) -> None:
    """Write a log of about this many bytes."""
    others = server_lines() if kind == "sparse" else b""
    written = 0
    waiting = b""
    with path.open("wb") as log:
        for piece in messages():
            waiting += piece
            while waiting and written < size:
                # Sixteen of NCCL's lines for 2000 of the server's.
                part = waiting
                if others:
                    end = 0
                    for _ in range(16):
                        end = waiting.find(b"\n", end) + 1 or len(waiting)
                    part = waiting[:end]
                waiting = waiting[len(part) :]
                written += log.write(part + others)
            if written >= size:
                return


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, float, list[str]]:
    """Run a contender; return its CPU seconds, its peak memory in MB, and what it printed."""
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read().split()
    if child.returncode not in (0, 1):
        raise SystemExit(f"bench_nccl: {command[0]} ended with {child.returncode}")
    own = float(printed[0]) if command[0] == sys.executable else usage.ru_utime + usage.ru_stime
    return own, usage.ru_maxrss / 1024, printed


def compare(path: Path, kind: str, rounds: int) -> bool:
    """Let the contenders take turns on one log; print the result and tell whether goals are met."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    contenders = {
        "envprobe": [sys.executable, "-c", PARSER, str(path)],
        "grep -c": ["grep", "-c", "NCCL INFO", str(path)],
    }
    if kind == "dense":
        contenders["plain loop"] = [sys.executable, "-c", PLAIN_LOOP, str(path)]
        contenders["counting loop"] = [sys.executable, "-c", COUNTING_LOOP, str(path)]
    best = dict.fromkeys(contenders, float("inf"))
    memory = 0.0
    found: dict[str, list[str]] = {}
    for _ in range(rounds):
        for name, command in contenders.items():
            seconds, peak, found[name] = measure(command, environment)
            best[name] = min(best[name], seconds)
            memory = max(memory, peak) if name == "envprobe" else memory
    size = path.stat().st_size
    print(f"{kind}: {size / 1e6:.0f} MB, {found['envprobe'][1]} messages (grep: "
          f"{found['grep -c'][0]}), {found['envprobe'][2]} communicators")  # fmt: skip
    for name, seconds in best.items():
        print(f"  {name:<13} {seconds:8.3f} s {size / 1e6 / seconds:8.0f} MB/s")
    peer = "plain loop" if kind == "dense" else "grep -c"
    ratio = best["envprobe"] / best[peer]
    print(f"  {ratio:.2f} times {peer} (goal {GOALS[kind]}), peak {memory:.0f} MB "
          f"(goal {MOST_MEMORY_MB})")  # fmt: skip
    return ratio <= GOALS[kind] and memory <= MOST_MEMORY_MB


def main() -> int:
    """Make the logs, compare, and return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--megabytes", type=int, default=1000, help="size of each log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=GOALS, action="append", help="default: both")
    parser.add_argument("--dir", help="where the logs are made (default: a temporary directory)")
    arguments = parser.parse_args()
    met = True
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        for kind in arguments.kind or GOALS:
            path = Path(folder) / f"{kind}.log"
            write(path, arguments.megabytes * 1_000_000, kind)
            met = compare(path, kind, arguments.rounds) and met
            path.unlink()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
