"""A small tree of real processes that looks like an SGLang server, with four planted faults.

`python demo_tree.py -m sglang.launch_server --tp 4` is the launcher; the arguments change nothing
but its command line, by which an SGLang server is recognised. It spawns real `multiprocessing`
children, which write their titles over the block behind /proc/PID/environ, as the setproctitle
extension does: the memory from `arg_start` to `env_end` (fields 48 and 51 of /proc/self/stat,
proc(5)) is their own and is written through /proc/self/mem, after every variable has been copied
out of it with putenv. So /proc/PID/environ of a worker is really empty, while getenv still answers.

It must be started with the variables of BEFORE_START. When all children have reported, it prints
one line of JSON, `{"expected": {name: value}, "workers": {rank: {"pid": ..., "sees": {name:
value}}}}`, where `sees` is what getenv answers in that worker. It ends when stdin does, or after
MAX_SECONDS. Standard library only, Python 3.9 to 3.15.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import select
import signal
import sys
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

MAX_SECONDS = 120

BEFORE_START = {
    "NCCL_ALGO": "Ring",
    "NCCL_DEBUG": "WARN",
    "NCCL_NTHREADS": "256",
    "NCCL_PROTO": "Simple",
}
SET_AFTER_FORKSERVER = ("NCCL_BUFFSIZE", "8388608")
SET_AFTER_TP2 = ("NCCL_MIN_NCHANNELS", "4")
DROPPED_FOR_TP1 = "NCCL_PROTO"

EXPECTED = dict([*BEFORE_START.items(), SET_AFTER_FORKSERVER, SET_AFTER_TP2])


def set_title(title: str) -> None:
    """Write a title over the kernel's block of arguments and environment."""
    for name, value in os.environb.items():
        # setenv copies: from here on no live entry points into the block.
        os.putenv(name, value)
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    # The list starts with field 3.
    start, end = int(fields[48 - 3]), int(fields[51 - 3])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(title.encode()[: end - start - 1].ljust(end - start, b"\0"))
    with open("/proc/self/comm", "w") as comm:
        comm.write(title[:15])


def getenv(name: str) -> str | None:
    """Return what C's getenv says, or None."""
    function = ctypes.CDLL(None).getenv
    function.restype = ctypes.c_char_p
    value = function(name.encode())
    return None if value is None else value.decode()


def child(title: str, connection: Connection) -> None:
    """Be one titled process until the launcher is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_title(title)
    sees = {name: getenv(name) for name in sorted(EXPECTED)}
    connection.send({"pid": os.getpid(), "sees": sees})
    connection.poll(MAX_SECONDS)


def start(context: BaseContext, title: str) -> tuple[Connection, dict[str, Any]]:
    """Start a titled child and return its pipe once it has reported, with the report."""
    ours, theirs = context.Pipe()
    context.Process(target=child, args=(title, theirs), daemon=True).start()
    theirs.close()
    if not ours.poll(MAX_SECONDS):
        sys.exit("a child did not report")
    return ours, ours.recv()


def start_all() -> dict[str, tuple[Connection, dict[str, Any]]]:
    """Start the tree in the order that plants the faults; return pipes and reports by title."""
    spawn = multiprocessing.get_context("spawn")
    forkserver = multiprocessing.get_context("forkserver")
    started = {}

    # A forkserver keeps the environment it was started with.
    started["sglang::detokenizer"] = start(forkserver, "sglang::detokenizer")
    os.environ[SET_AFTER_FORKSERVER[0]] = SET_AFTER_FORKSERVER[1]
    started["sglang::scheduler_TP2"] = start(spawn, "sglang::scheduler_TP2")
    os.environ[SET_AFTER_TP2[0]] = SET_AFTER_TP2[1]
    dropped = os.environ.pop(DROPPED_FOR_TP1)
    started["sglang::scheduler_TP1"] = start(spawn, "sglang::scheduler_TP1")
    os.environ[DROPPED_FOR_TP1] = dropped
    started["sglang::scheduler_TP0"] = start(spawn, "sglang::scheduler_TP0")
    started["sglang::scheduler_TP3"] = start(forkserver, "sglang::scheduler_TP3")
    return started


def main() -> None:
    """Start the tree, report it, and wait for the end of stdin."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    started = start_all()
    workers = {
        title.rpartition("_")[2]: report
        for title, (_, report) in started.items()
        if "scheduler" in title
    }
    print(json.dumps({"expected": EXPECTED, "workers": workers}), flush=True)
    select.select([sys.stdin], [], [], MAX_SECONDS)


if __name__ == "__main__":
    main()
