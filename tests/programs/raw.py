"""Run a program with an environment block exactly as given: duplicates and oddities included."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator, Sequence

PROGRAM = "/bin/cat"


@contextlib.contextmanager
def running(block: Sequence[bytes], program: str = PROGRAM) -> Iterator[int]:
    """Give the pid of `program`, a filter that copies lines, once it answers; then end it.

    Each item of `block` becomes one string of the environment, as execve(2) takes it.
    """
    into, out = os.pipe(), os.pipe()
    libc = ctypes.CDLL(None)
    arguments = (ctypes.c_char_p * 2)(os.fsencode(program), None)
    environment = (ctypes.c_char_p * (len(block) + 1))(*block, None)
    pid = os.fork()
    if not pid:
        os.dup2(into[0], 0)
        os.dup2(out[1], 1)
        libc.execve(os.fsencode(program), arguments, environment)
        os._exit(127)
    try:
        os.close(into[0])
        os.close(out[1])
        os.write(into[1], b"ready\n")
        if os.read(out[0], 6) != b"ready\n":
            raise OSError(f"{program} did not start")
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(into[1])
        os.close(out[0])
