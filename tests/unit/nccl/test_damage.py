"""Whatever happens to real lines on their way: no crash, no variable that no process read.

Lines are cut, glued, interleaved, prefixed and dropped at random. What is whole in the damaged text
must be found; what is found must have been in the original.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envprobe.nccl import facts, log

DATA = Path(__file__).resolve().parents[2] / "data" / "nccl"
REAL = [
    line
    for name in ("037", "038", "043", "045")
    for line in (DATA / f"{name}.log").read_bytes().splitlines()
    if b" NCCL INFO " in line and b" via " not in line and b"Channel" not in line
]
PREFIXES = [
    b"",
    b"[1,3]<stdout>:",
    b"[default0]:",
    b"(Worker pid=812, ip=10.0.0.3) ",
    b"\x1b[36m(Worker pid=812)\x1b[0m ",
    b"> ",
    b" 4: ",
    b"node-7: ",
    b"2025-07-29T17:39:01.123456789Z ",
    b"2025-07-29T17:39:01.123456789Z stdout F ",
    b"[pod/trainer-0/main] ",
    b"worker-1  | ",
    b"Nov 29 15:36:00 node7 sglang[812]: ",
    b"[2026-01-31 23:59:59] ",
]


def read(text: bytes) -> facts.Log:
    with tempfile.NamedTemporaryFile(suffix=".log") as file:
        file.write(text)
        file.flush()
        return log.read([file.name])


def whole_reads(found: facts.Log) -> set[tuple[int | None, str, bytes]]:
    return {
        (process.pid, each.name, each.value.reveal())
        for process in found.processes
        for each in process.variables
        if each.whole
    }


TRUTH = {(pid, name, value) for pid, name, value in whole_reads(read(b"\n".join(REAL) + b"\n"))}
LINES = st.lists(st.sampled_from(REAL), min_size=1, max_size=30)
SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


@SETTINGS
@given(LINES, st.sampled_from(PREFIXES), st.sampled_from([b"\n", b"\r\n", b"\x1b[0m\n"]))
def test_a_prefix_takes_nothing_away(lines: list[bytes], prefix: bytes, end: bytes) -> None:
    bare = read(b"\n".join(lines) + b"\n")
    found = read(b"".join(prefix + line + end for line in lines))
    assert whole_reads(found) == whole_reads(bare)
    assert found.messages == bare.messages == len(lines)
    assert {process.host for process in found.processes} == {"vm"}
    assert not found.damage_counts


@SETTINGS
@given(LINES, st.data())
def test_cut_and_glued_lines_lose_only_what_was_destroyed(
    lines: list[bytes], data: st.DataObject
) -> None:
    # The first line tells the host; a process that shows nothing whole cannot be known.
    text = io.BytesIO()
    text.write(b"\n".join(REAL[:40]) + b"\n")
    safe = set(whole_reads(read(text.getvalue())))
    for line in lines:
        if data.draw(st.booleans()):
            text.write(line + b"\n")
            safe |= whole_reads(read(line + b"\n"))
        else:
            # Its end is lost, and the next line follows at once.
            text.write(line[: data.draw(st.integers(0, len(line)))])
    found = read(text.getvalue())
    assert whole_reads(found) <= TRUTH
    lost = safe - whole_reads(found)
    assert not lost
    # A process of which no line begins at the start of a line may keep what stands before its host.
    assert all(process.host.endswith("vm") for process in found.processes)


@SETTINGS
@given(st.binary(max_size=400), LINES, st.integers(0, 4000))
def test_foreign_bytes_never_make_a_variable(junk: bytes, lines: list[bytes], at: int) -> None:
    text = b"\n".join(lines)
    at = min(at, len(text))
    found = read(text[:at] + b"\n" + junk.replace(b"NCCL", b"") + b"\n" + text[at:])
    names = {name for _, name, _ in whole_reads(found)}
    assert names <= {name for _, name, _ in TRUTH}


@SETTINGS
@given(st.lists(st.sampled_from(REAL[:80]), min_size=2, max_size=40, unique=True), st.randoms())
def test_threads_of_processes_may_alternate(lines: list[bytes], random: object) -> None:
    once = read(b"\n".join(lines) + b"\n")
    by_process: dict[bytes, list[bytes]] = {}
    for line in lines:
        by_process.setdefault(line.split(b":")[1], []).append(line)
    sequences = list(by_process.values())
    shuffled = []
    while sequences:
        sequence = random.choice(sequences)  # type: ignore[attr-defined]
        shuffled.append(sequence.pop(0))
        sequences = [each for each in sequences if each]
    mixed = read(b"\n".join(shuffled) + b"\n")
    assert whole_reads(mixed) == whole_reads(once)
    assert {(p.pid, p.messages) for p in mixed.processes} == {
        (p.pid, p.messages) for p in once.processes
    }


@SETTINGS
@given(st.binary(max_size=2000))
def test_any_bytes_are_read(junk: bytes) -> None:
    found = read(junk)
    assert not whole_reads(found)


@pytest.mark.parametrize("name", ["036", "037", "038", "043", "045"])
@pytest.mark.parametrize("size", [4096, 4099, 2335, 1151, 966, 448])
def test_blocks_of_two_processes_cut_each_others_lines(name: str, size: int) -> None:
    """C stdio writes a pipe in blocks of 4096 bytes, whatever a line is."""
    lines = (DATA / f"{name}.log").read_bytes().replace(b"[1,", b"\n[1,").splitlines()
    lines = [line[line.rfind(b">:") + 2 :] if b">:vm" in line else line for line in lines]
    streams: dict[bytes, bytes] = {}
    for line in lines:
        if b" NCCL INFO " in line:
            pid = line.split(b":")[1]
            streams[pid] = streams.get(pid, b"") + line + b"\n"
    whole = read(b"".join(streams.values()))
    mixed = b""
    for at in range(0, max(map(len, streams.values())), size):
        mixed += b"".join(stream[at : at + size] for stream in streams.values())
    found = read(mixed)
    assert {process.pid for process in found.processes} >= {p.pid for p in whole.processes}
    # A line that lost its prefix belongs to no process.
    truth = {(name, value) for _, name, value in whole_reads(whole)}
    nameless = {read for read in whole_reads(found) if read[0] is None and read[1:] in truth}
    # A text that may be anything cannot be told from its beginning with another's end behind it.
    invented = {
        read
        for read in whole_reads(found) - whole_reads(whole) - nameless
        if read[1] not in ("NCCL_HOSTID", "NCCL_SOCKET_IFNAME")
    }
    assert not invented
    blocks = sum(-(-len(stream) // size) for stream in streams.values())
    lost = whole.messages - found.messages
    assert 0 <= lost <= blocks
