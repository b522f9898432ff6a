"""A server that a unit starts: spawned workers under a scheduler's titles, readiness by sd_notify.

Workers end when their parent does. `--deaf` makes the server ignore SIGTERM, `--late SECONDS` has
it wait before it starts its workers, `--left` leaves one process outside the server's tree.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import socket
import time
from multiprocessing.connection import Connection

from titled import take_title


def work(rank: int, told: Connection) -> None:
    """Be one worker: ready once it has its title, alive until the parent is gone."""
    take_title(f"sglang::scheduler_TP{rank}", "auto")
    told.send(os.getpid())
    try:
        told.recv()
    except EOFError:
        os._exit(0)


def serve(workers: int) -> list[Connection]:
    """Start the workers; return the pipes that keep them alive, once all have their titles."""
    context = multiprocessing.get_context("spawn")
    pipes = []
    for rank in range(workers):
        ours, theirs = context.Pipe()
        context.Process(target=work, args=(rank, theirs), daemon=True).start()
        theirs.close()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv()
    return pipes


def leave() -> None:
    """Leave a process of this control group that init or a subreaper adopts."""
    if os.fork():
        return
    if os.fork() == 0:
        while True:
            signal.pause()
    os._exit(0)


def notify(message: str) -> None:
    """Tell the service manager something, if there is one."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(path.replace("@", "\0", 1) if path.startswith("@") else path)
            manager.send(message.encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--left", action="store_true")
    parser.add_argument("--late", type=float, default=0)
    options = parser.parse_args()
    if options.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.left:
        leave()
    time.sleep(options.late)
    kept = serve(options.workers)
    notify("READY=1")
    while kept:
        signal.pause()


if __name__ == "__main__":
    main()
