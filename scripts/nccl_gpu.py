"""Run real NCCL communicators with and without a variable, and keep their logs and what they did.

Needs Linux, NVIDIA's driver and a libnccl.so.2 (searched for beside this Python, in the loader's
cache, or given with --libnccl); neither torch nor a network. One GPU is enough: ranks that share it
are told apart by NCCL_HOSTID and talk over sockets. With two GPUs they talk over peer-to-peer
copies too. NVLink multicast stays off.

    python3 scripts/nccl_gpu.py --out DIR [--seconds 330] [--only SUBSTRING] [--list]

DIR then holds machine.json (what was found), results.json (for each case: the environment given to
each rank, the sums it returned, how it ended) and logs.tar.gz (one log a case, all ranks in it).
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import json
import os
import select
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from typing import Any

CASE_LIMIT = 25.0
"""Seconds that one communicator may take; a rank gives up by itself before (nccl_rank.py)."""

_RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nccl_rank.py")


# --- the cases -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """One communicator: its name, how its ranks talk, and what is set in each rank."""

    name: str
    link: str
    given: tuple[dict[str, str], ...]
    buffered: bool = False


def _differing(variable: str, value: str, other: str | None = None) -> list[dict[str, str]]:
    return [{variable: value}, {} if other is None else {variable: other}]


PLANS: dict[str, dict[str, tuple[str, str | None]]] = {
    "p2p": {
        "NCCL_PROTO": ("Simple", None),
        "NCCL_ALGO": ("Ring", "Tree"),
        "NCCL_P2P_LEVEL": ("LOC", None),
        "NCCL_MAX_NCHANNELS": ("4", None),
        "NCCL_BUFFSIZE": ("8388608", None),
        "NCCL_NTHREADS": ("64", None),
        "NCCL_CUMEM_ENABLE": ("0", None),
        "NCCL_P2P_DISABLE": ("1", None),
    },
    "socket": {
        "NCCL_PROTO": ("LL", None),
        "NCCL_ALGO": ("Ring", "Tree"),
        "NCCL_P2P_LEVEL": ("SYS", None),
        "NCCL_MAX_NCHANNELS": ("1", None),
        "NCCL_BUFFSIZE": ("1048576", None),
        "NCCL_NTHREADS": ("64", None),
    },
}
"""For each way to talk: a variable, its value, and what the differing rank has (None: nothing)."""

MISREAD = {
    "suffix": {"NCCL_BUFFSIZE": "8M"},
    "lower-case-level": {"NCCL_P2P_LEVEL": "nvl"},
    "level-number": {"NCCL_P2P_LEVEL": "2"},
    "bad-multiple": {"NCCL_NTHREADS": "100"},
    "unknown-word": {"NCCL_ALGO": "Rings"},
    "excluded": {"NCCL_PROTO": "^LL128"},
    "forced-ll128": {"NCCL_PROTO": "LL128"},
    "one-function": {"NCCL_ALGO": "allreduce:tree"},
    "misspelt": {"NCCL_BUFSIZE": "8388608"},
    "empty": {"NCCL_ALGO": ""},
}
"""Values that NCCL reads as something else, refuses, or takes without saying so."""


def cases(gpus: int) -> Iterator[Case]:
    """Return the cases that this many GPUs allow, the telling ones first."""
    links = [link for link in ("p2p", "socket") if link == "socket" or gpus > 1]
    for link in links:
        yield Case(f"{link}-plain", link, ({}, {}))
        for name, (value, other) in PLANS[link].items():
            short = name.removeprefix("NCCL_").lower()
            yield Case(f"{link}-{short}-equal", link, ({name: value}, {name: value}))
            yield Case(f"{link}-{short}-differs", link, tuple(_differing(name, value, other)))
    for label, given in MISREAD.items():
        yield Case(f"{links[0]}-{label}", links[0], (given, given))
    four = {"NCCL_BUFFSIZE": "1048576"}
    yield Case("socket-four-equal", "socket", (four, four, four, four))
    yield Case("socket-four-one-lacks", "socket", (four, four, {}, four))
    yield Case("socket-buffered", "socket", ({"NCCL_PROTO": "Simple"},) * 2, buffered=True)


# --- the parent ----------------------------------------------------------------------------------


def _environment(case: Case, rank: int) -> dict[str, str]:
    """Return a rank's environment: no NCCL variable but those of the case and the fixed ones."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("NCCL_")}
    fixed = {"NCCL_DEBUG": "INFO", "NCCL_NVLS_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo"}
    if case.link == "socket":
        fixed["NCCL_HOSTID"] = f"rank{rank}"
    return {**kept, **fixed, "NCCL_IB_DISABLE": "1", **case.given[rank]}


@dataclasses.dataclass
class _Started:
    """A started rank, the pipe on which it reports, and what it has reported so far."""

    process: subprocess.Popen[bytes]
    pipe: int
    text: bytes = b""


def _start(case: Case, rank: int, library: str, log: int) -> _Started:
    report, child_end = os.pipe()
    device = rank if case.link == "p2p" else 0
    command = [sys.executable, *([] if case.buffered else ["-u"]), _RANK, library]
    command += [str(one) for one in (rank, len(case.given), device, child_end)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env=_environment(case, rank),
        pass_fds=(child_end,),
        start_new_session=True,
    )
    os.close(child_end)
    return _Started(process, report)


def _run(case: Case, library: str, path: str) -> dict[str, Any]:
    """Run one case within CASE_LIMIT; all its processes are ended afterwards."""
    begin = time.monotonic()
    log = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    ranks = [_start(case, rank, library, log) for rank in range(len(case.given))]
    os.close(log)
    try:
        late = not _follow(ranks, begin + CASE_LIMIT)
    finally:
        for one in ranks:
            _end(one)
    told = [[json.loads(line) for line in one.text.splitlines()] for one in ranks]
    return {
        "case": case.name,
        "link": case.link,
        "buffered": case.buffered,
        "seconds": round(time.monotonic() - begin, 1),
        "late": late,
        "outcome": _outcome(told, [one.process.returncode for one in ranks]),
        "ranks": [
            {
                "rank": rank,
                "pid": one.process.pid,
                "given": case.given[rank],
                "code": one.process.returncode,
                "told": [fact for fact in told[rank] if "unique_id" not in fact],
            }
            for rank, one in enumerate(ranks)
        ],
    }


def _follow(ranks: list[_Started], end: float) -> bool:
    """Read reports until all pipes close; return False if time ran out first.

    The first report of rank 0 is the communicator's id, which the others wait for.
    """
    waiting = {one.pipe: one for one in ranks}
    handed = False
    while waiting and time.monotonic() < end:
        for pipe in select.select(list(waiting), [], [], max(0.0, end - time.monotonic()))[0]:
            data = os.read(pipe, 65536)
            waiting[pipe].text += data
            if not data:
                del waiting[pipe]
        first, newline, _ = ranks[0].text.partition(b"\n")
        if newline and not handed:
            handed = True
            _hand_out(bytes.fromhex(json.loads(first).get("unique_id", "")), ranks[1:])
    return not waiting


def _hand_out(unique: bytes, ranks: list[_Started]) -> None:
    for one in ranks:
        assert one.process.stdin is not None
        try:
            one.process.stdin.write(unique)
            one.process.stdin.close()
        except BrokenPipeError:
            one.process.stdin = None


def _end(one: _Started) -> None:
    try:
        one.process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait(timeout=30)
    os.close(one.pipe)


def _outcome(told: list[list[dict[str, Any]]], codes: list[int]) -> str:
    """Return what happened: right, or wrong, crash, init-failed, failed, hang, joined by "+"."""
    facts = [fact for rank in told for fact in rank]
    crashed = [code < 0 and code != -signal.SIGKILL for code in codes]
    ended = [bool(rank) and not {"done", "failed"}.isdisjoint(rank[-1]) for rank in told]
    init = "failed" if any("init" in fact for fact in facts) else "init-failed"
    words = {
        "wrong": any(fact.get("wrong") for fact in facts),
        "crash": any(crashed),
        init: any("failed" in fact for fact in facts),
        "hang": not all(end or crash for end, crash in zip(ended, crashed, strict=True)),
    }
    return "+".join(word for word, applies in words.items() if applies) or "right"


# --- the machine ---------------------------------------------------------------------------------


def _libraries() -> list[str]:
    """Return every libnccl.so.2 found: beside this Python, in the usual places, by the loader."""
    places = [os.path.join(entry, "nvidia/nccl/lib/libnccl.so.2") for entry in sys.path]
    places += [os.path.join(entry, "torch/lib/libnccl.so.2") for entry in sys.path]
    places += glob.glob("/opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2")
    places += glob.glob("/usr/lib/*/libnccl.so.2") + glob.glob("/usr/local/lib/libnccl.so.2")
    return list(dict.fromkeys(os.path.realpath(one) for one in places if os.path.exists(one)))


def _said(command: list[str]) -> str:
    """Return what a short program prints: the parent itself never opens the GPU."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.strip() or done.stderr.strip()[-200:]


_GPUS = """
import ctypes
api, number = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
for code in api.cuInit(0), api.cuDeviceGetCount(ctypes.byref(number)):
    assert code == 0, f"the driver answers {code}"
print(number.value)
"""
_VERSION = """
import ctypes
number = ctypes.c_int()
ctypes.CDLL({library!r}).ncclGetVersion(ctypes.byref(number))
print(number.value)
"""


def _machine(library: str | None) -> dict[str, Any]:
    run = [sys.executable, "-c"]
    found = [library] if library else _libraries()
    gpus = _said([*run, _GPUS])
    return {
        "python": sys.version.split()[0],
        "gpus": int(gpus) if gpus.isdecimal() else 0,
        "gpus_said": gpus,
        "libraries": {one: _said([*run, _VERSION.format(library=one)]) for one in found},
        "topology": _said(["nvidia-smi", "topo", "-m"]),
        "environment": {k: v for k, v in os.environ.items() if k.startswith(("NCCL_", "CUDA_"))},
    }


def _save(directory: str, name: str, content: Any) -> None:
    with open(os.path.join(directory, name), "w", encoding="utf-8") as stream:
        json.dump(content, stream, indent=1)
        stream.write("\n")


def _pack(directory: str, logs: str) -> None:
    with tarfile.open(os.path.join(directory, "logs.tar.gz"), "w:gz") as archive:
        for name in sorted(os.listdir(logs)):
            archive.add(os.path.join(logs, name), name)


def main() -> int:
    """Run all cases and save what they did; 3 if this machine cannot run them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--out", default=".")
    parser.add_argument("--seconds", type=float, default=330.0, help="no case starts after this")
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    parser.add_argument("--skip", action="append", default=[], help="leave this case out")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--libnccl")
    options = parser.parse_args()
    if options.list:
        print("\n".join(one.name for one in cases(2)))
        return 0
    os.makedirs(options.out, exist_ok=True)
    machine = _machine(options.libnccl)
    _save(options.out, "machine.json", machine)
    print(json.dumps(machine, indent=1), flush=True)
    if not machine["gpus"] or not machine["libraries"]:
        print("nothing was run: no GPU, or no libnccl.so.2 (give one with --libnccl)")
        return 3
    return _run_all(options, machine)


def _run_all(options: argparse.Namespace, machine: dict[str, Any]) -> int:
    end = time.monotonic() + options.seconds
    library = next(iter(machine["libraries"]))
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as logs:
        for case in cases(machine["gpus"]):
            if options.only not in case.name or case.name in options.skip:
                continue
            if time.monotonic() > end:
                results.append({"case": case.name, "outcome": "not run: out of time"})
                continue
            results.append(_run(case, library, os.path.join(logs, f"{case.name}.log")))
            print(
                f"{results[-1]['seconds']:5} s  {case.name}: {results[-1]['outcome']}", flush=True
            )
            _save(options.out, "results.json", {"library": library, "cases": results})
            _pack(options.out, logs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
