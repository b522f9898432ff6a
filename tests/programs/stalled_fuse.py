"""A file system whose one file never gives its contents, and a program that maps that file.

`serve` is a FUSE server in plain Python (protocol 7.31 of linux/fuse.h): it answers everything but
READ. It mounts through mount(2) and so needs root. Killing the server ends all requests that hang:
the kernel aborts the connection when its last descriptor of /dev/fuse is closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SIZE = 1 << 20
FILE = "stalled"

_ROOT, _NODE = 1, 2
_IN = struct.Struct("<IIQQIIII")
_OUT = struct.Struct("<IiQ")
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ = 1, 2, 3, 14, 15
_STATFS, _RELEASE, _FLUSH, _INIT, _INTERRUPT, _BATCH_FORGET = 17, 18, 25, 26, 36, 42
_SILENT = {_FORGET, _READ, _INTERRUPT, _BATCH_FORGET}
_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def _attributes(node: int) -> bytes:
    """`struct fuse_attr`, 88 bytes."""
    mode = stat.S_IFDIR | 0o755 if node == _ROOT else stat.S_IFREG | 0o444
    size = 0 if node == _ROOT else SIZE
    return struct.pack(
        "<QQQQQQIIIIIIIIII", node, size, size >> 9, *[0] * 6, mode, 1, *[0] * 3, 4096, 0
    )


def _answer(operation: int, node: int, body: bytes) -> bytes | int:
    """Return the body of the answer, or an error number."""
    if operation == _INIT:
        return struct.pack("<IIIIHHIIHH32x", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0)
    if operation == _GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + _attributes(node)
    if operation == _LOOKUP:
        if body.rstrip(b"\0") != FILE.encode():
            return errno.ENOENT
        return struct.pack("<QQQQII", _NODE, 0, 3600, 3600, 0, 0) + _attributes(_NODE)
    if operation == _OPEN:
        return struct.pack("<QII", 1, 0, 0)
    if operation in (_RELEASE, _FLUSH):
        return b""
    if operation == _STATFS:
        return bytes(80)
    return errno.ENOSYS


def serve(mountpoint: str) -> None:
    """Mount, print `ready`, and answer until the mount is gone."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if _libc.mount(b"envprobe-test", mountpoint.encode(), b"fuse", 6, options):
        raise OSError(ctypes.get_errno(), "mount")
    print("ready", flush=True)
    while True:
        try:
            request = os.read(device, 1 << 18)
        except InterruptedError:
            continue
        except OSError as error:
            if error.errno == errno.ENOENT:  # the request was interrupted before it was read
                continue
            return
        _, operation, unique, node, *_ = _IN.unpack_from(request)
        if operation in _SILENT:
            if operation == _READ:
                print("read", flush=True)
            continue
        answer = _answer(operation, node, request[_IN.size :])
        number, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
        with contextlib.suppress(OSError):
            os.write(device, _OUT.pack(_OUT.size + len(body), number, unique) + body)


def hold(path: str, use: str) -> None:
    """Map the file without touching it, print the address, and wait for the end of stdin.

    `use` is `mapping`, or `environ`: then the C environ points to the mapping, as if it had entries
    there, and whoever looks for them hangs.
    """
    descriptor = os.open(path, os.O_RDONLY)
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    address = _libc.mmap(None, SIZE, 1, 2, descriptor, 0)
    if use == "environ":
        ctypes.c_void_p.in_dll(_libc, "environ").value = address
    print(address, flush=True)
    os.read(0, 1)


class Stalled:
    """A running target: its pid, the address of the mapping that never answers, the server."""

    def __init__(self, server: subprocess.Popen[bytes], target: subprocess.Popen[bytes]) -> None:
        self.server = server
        self.target = target
        self.pid = target.pid
        self.address = int(_line(target))

    def wait_for_read(self) -> None:
        """Return once the kernel has asked the server for the contents."""
        assert _line(self.server) == b"read"


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-S", os.path.abspath(__file__), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()


@contextlib.contextmanager
def stalled(use: str = "mapping") -> Iterator[Stalled]:
    """Give a target with a mapping that never answers; all of it is taken down afterwards.

    With `use` "environ" that is where its C environ points.
    """
    mountpoint = tempfile.mkdtemp(prefix="stalled-")
    with contextlib.ExitStack() as stack:
        stack.callback(os.rmdir, mountpoint)
        server = _start("serve", mountpoint)
        stack.callback(_libc.umount2, mountpoint.encode(), _DETACH)
        # Runs before the unmounting: what hangs is let go, so that nothing holds the mount.
        stack.callback(_stop, server)
        if _line(server) != b"ready":
            raise OSError("the FUSE server did not start")
        target = _start("hold", str(Path(mountpoint, FILE)), use)
        stack.callback(_stop, target)
        yield Stalled(server, target)


if __name__ == "__main__":
    {"serve": serve, "hold": hold}[sys.argv[1]](*sys.argv[2:])
