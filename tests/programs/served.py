"""A server that a unit starts: a guarded main module, spawned workers under a scheduler's titles.

Each worker imports the engine that a hook may patch, takes its title and tells its parent; when all
have, the service manager is told (sd_notify(3)). Workers end when their parent does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import socket
from multiprocessing.connection import Connection

from titled import take_title


def work(rank: int, told: Connection) -> None:
    """Be one worker: ready once the engine is imported, alive until the parent is gone."""
    import engine

    take_title(f"sglang::scheduler_TP{rank}", "auto")
    told.send((os.getpid(), engine.Backend().plain()))
    try:
        told.recv()
    except EOFError:
        os._exit(0)


def serve(workers: int, method: str) -> None:
    """Start the workers, say that they are ready, and live until a signal ends it."""
    context = multiprocessing.get_context(method)
    pipes = []
    for rank in range(workers):
        ours, theirs = context.Pipe()
        context.Process(target=work, args=(rank, theirs), daemon=True).start()
        theirs.close()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv()
    notify("READY=1")
    while True:
        signal.pause()


def notify(message: str) -> None:
    """Tell the service manager something, if there is one."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(path.replace("@", "\0", 1) if path.startswith("@") else path)
            manager.send(message.encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--method", default="spawn")
    options = parser.parse_args()
    serve(options.workers, options.method)


if __name__ == "__main__":
    main()
