"""One rank of one NCCL communicator; scripts/nccl_gpu.py starts several of them.

It makes the communicator, checks all-reduces of several sizes element by element, and reports each
step as a line of JSON on a pipe. CUDA is called through the driver's library alone, so that a
machine without a toolkit will do.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import sys
import time
from typing import Any

SIZES = (1 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20)
"""Bytes of each all-reduce of 32-bit floats; a fault may begin at any of them."""

COLLECTIVE_LIMIT = 8.0
"""Seconds after which a collective counts as hung; the first one also makes the connections."""

HUNG = 3
"""The exit code of a rank that gave up waiting."""

UNIQUE_ID = 128
"""Bytes of a communicator's id (NCCL_UNIQUE_ID_BYTES, nccl.h)."""

_FLOAT32, _SUM = 7, 0
_NOT_READY = 600
_NON_BLOCKING = 1


class CallFailedError(Exception):
    """A call of the driver or of NCCL did not succeed."""


class _UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_char * UNIQUE_ID),)


class _Gpu:
    """The driver's API, as far as a rank needs it: memory, copies, one stream."""

    def __init__(self, device: int) -> None:
        self._api = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(handle), device)
        # The primary context is the one that NCCL's own runtime uses.
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self.call("cuCtxSetCurrent", context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), _NON_BLOCKING)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; CallFailedError unless it succeeds."""
        code = getattr(self._api, name)(*arguments)
        if code:
            raise CallFailedError(f"{name}: {code}")

    def memory(self, size: int) -> ctypes.c_uint64:
        """Return the address of `size` new bytes of the GPU's memory."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def done(self) -> bool:
        """Return whether all work of the stream has ended; CallFailedError if it failed."""
        code = self._api.cuStreamQuery(self.stream)
        if code not in (0, _NOT_READY):
            raise CallFailedError(f"cuStreamQuery: {code}")
        return bool(code == 0)


class Rank:
    """One rank: its number, how many there are, the GPU it uses, the pipe it reports on."""

    def __init__(self, library: str, rank: int, ranks: int, device: int, report: int) -> None:
        self._nccl = ctypes.CDLL(library)
        self._nccl.ncclGetErrorString.restype = ctypes.c_char_p
        self._rank, self._ranks, self._device, self._report = rank, ranks, device, report

    def run(self) -> None:
        """Make the communicator, then check an all-reduce of each size, twice."""
        unique = self._unique_id()
        gpu = _Gpu(self._device)
        comm = ctypes.c_void_p()
        self._call("ncclCommInitRank", ctypes.byref(comm), self._ranks, unique, self._rank)
        self.tell({"init": "complete"})
        given, taken = gpu.memory(max(SIZES)), gpu.memory(max(SIZES))
        data = array.array("f", [self._rank + 1.0]) * (max(SIZES) // 4)
        gpu.call("cuMemcpyHtoD_v2", given, _address(data), ctypes.c_size_t(max(SIZES)))
        for size in SIZES * 2:
            self._reduce(gpu, comm, given, taken, size)
        self.tell({"done": True})
        self._call("ncclCommDestroy", comm)

    def _unique_id(self) -> _UniqueId:
        unique = _UniqueId()
        if self._rank == 0:
            self._call("ncclGetUniqueId", ctypes.byref(unique))
            self.tell({"unique_id": bytes(unique).hex()})
            return unique
        handed = sys.stdin.buffer.read(UNIQUE_ID)
        if len(handed) < UNIQUE_ID:
            raise CallFailedError("rank 0 made no id")
        return _UniqueId.from_buffer_copy(handed)

    def _reduce(
        self,
        gpu: _Gpu,
        comm: ctypes.c_void_p,
        given: ctypes.c_uint64,
        taken: ctypes.c_uint64,
        size: int,
    ) -> None:
        count = size // 4
        gpu.call("cuMemsetD8Async", taken, 0, ctypes.c_size_t(size), gpu.stream)
        sizes = (ctypes.c_size_t(count), _FLOAT32, _SUM)
        self._call("ncclAllReduce", given, taken, *sizes, comm, gpu.stream)
        end = time.monotonic() + COLLECTIVE_LIMIT
        while not gpu.done():
            if time.monotonic() > end:
                self.tell({"bytes": size, "hung": True})
                os._exit(HUNG)
            time.sleep(0.001)
        result = array.array("f", bytes(size))
        gpu.call("cuMemcpyDtoH_v2", _address(result), taken, ctypes.c_size_t(size))
        right = result.count(self._ranks * (self._ranks + 1) / 2)
        self.tell({"bytes": size, "elements": count, "wrong": count - right})

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._nccl, name)(*arguments)
        if code:
            words = self._nccl.ncclGetErrorString(code)
            raise CallFailedError(f"{name}: {code} ({words.decode(errors='replace')})")

    def tell(self, fact: dict[str, Any]) -> None:
        """Report one step."""
        os.write(self._report, json.dumps(fact).encode() + b"\n")


def _address(data: array.array[float]) -> ctypes.c_void_p:
    return ctypes.c_void_p(data.buffer_info()[0])


def main() -> None:
    """Be the rank that the command line names: library, rank, ranks, device, pipe."""
    rank = Rank(sys.argv[1], *(int(one) for one in sys.argv[2:6]))
    code = 0
    try:
        rank.run()
    except CallFailedError as error:
        rank.tell({"failed": str(error)})
        code = 1
    sys.stdout.flush()
    # A regular exit would tear CUDA down, which can wait for a kernel that never ends; what C's
    # own buffer of stdout still holds is lost then, as it is for a killed server.
    os._exit(code)


if __name__ == "__main__":
    main()
