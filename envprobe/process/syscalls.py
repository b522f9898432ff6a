"""The system calls that the standard library lacks (setns: before 3.12).

Importing this loads ctypes: do so only when one is needed.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_IN_ROOT: Final = 0x10
_OPENAT2: Final = 437  # the same number on every architecture

_libc = ctypes.CDLL(None, use_errno=True)


class _Span(ctypes.Structure):
    """`struct iovec` of process_vm_readv(2)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def _failure(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


def process_vm_readv(task: int, address: int, size: int) -> bytes:
    """Return up to `size` bytes of a task's memory; OSError (EFAULT: nothing there)."""
    buffer = ctypes.create_string_buffer(size)
    local = _Span(ctypes.addressof(buffer), size)
    remote = _Span(address, size)
    call = _libc.process_vm_readv
    call.restype = ctypes.c_ssize_t
    got = call(task, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    if got < 0:
        raise _failure("process_vm_readv")
    return buffer.raw[:got]


def setns(descriptor: int, kind: int) -> None:
    """Make this thread a member of the namespace that a descriptor refers to; OSError."""
    if _libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)):
        raise _failure("setns")


def openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """Open `path` below the directory descriptor; OSError.

    The system call of that name, openat2(2): ENOSYS before Linux 5.6.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    call = _libc.syscall
    call.restype = ctypes.c_long
    descriptor = call(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if descriptor < 0:
        raise _failure("openat2")
    return int(descriptor)
