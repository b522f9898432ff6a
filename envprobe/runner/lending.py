"""The memory of a process, opened by one of its ancestors for a reader that is none.

Under Yama's scope 1 only an ancestor may open it (Documentation/admin-guide/LSM/Yama.rst of the
kernel), and readers are children that can be killed (`forked`), so they are none. What is checked
is who opens /proc/PID/mem, not who reads from the descriptor (mem_open, fs/proc/base.c): the
ancestor opens the file and hands the descriptor over (SCM_RIGHTS, unix(7)).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

_PATH_BYTES: Final = 64
_DESCRIPTORS: Final = 2
"""Of a request: the directory, and the socket for the answer."""

_lender: socket.socket | None = None
"""Leads to the ancestor that opens for this process and its children."""


def borrow_from(channel: socket.socket) -> None:
    """Have `borrow` ask the process that runs `lend` at the other end."""
    global _lender  # noqa: PLW0603 - one lender for all that this process reads
    _lender = channel


def borrow(directory: int, path: str) -> int | None:
    """Return a new descriptor of `path` below the directory descriptor, opened by the lender.

    None if there is no lender, or if it is refused as well. The caller closes the descriptor.
    """
    if _lender is None:
        return None
    # Every command imports this module, and only `run` needs a socket.
    import socket

    own, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with own:
        # An answer to a reader that was killed meanwhile must not reach the next one.
        with others:
            try:
                socket.send_fds(_lender, [path.encode()], [directory, others.fileno()])
            except OSError:
                return None
        _, received, _, _ = socket.recv_fds(own, 1, 1, socket.MSG_CMSG_CLOEXEC)
    return received[0] if received else None


def lend(channel: socket.socket) -> None:
    """Open what is asked for, for reading, until nobody is left at the other end."""
    import socket

    while True:
        path, received, _, _ = socket.recv_fds(
            channel, _PATH_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        try:
            if not path:
                return
            # Fewer come where this process may open no more descriptors (unix(7), MSG_CTRUNC).
            if len(received) == _DESCRIPTORS:
                _answer(path, *received)
        except OSError:
            # The borrower sees the end of its socket.
            continue
        finally:
            for descriptor in received:
                os.close(descriptor)


def _answer(path: bytes, directory: int, borrower: int) -> None:
    import socket

    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        with socket.socket(fileno=os.dup(borrower)) as reply:
            socket.send_fds(reply, [b"1"], [opened], socket.MSG_NOSIGNAL)
    finally:
        os.close(opened)
