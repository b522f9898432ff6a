"""What the driver says of the cards, before anything is started on them.

Asked through ctypes, so that "no GPU" can be told where neither torch nor a CUDA package is; no
context is made on a card. Sources: CUDA Driver API (cuInit, cuDeviceGetAttribute, cuDeviceGetUuid)
and NVML (nvmlDeviceGetMemoryInfo, nvmlDeviceGetComputeRunningProcesses).
"""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass
from typing import Any

ATTRIBUTES = {
    "major": 75,
    "minor": 76,
    "multiprocessors": 16,
    "shared_limit": 97,
    "registers": 82,
    "compute_mode": 20,
}
"""CU_DEVICE_ATTRIBUTE_*: COMPUTE_CAPABILITY_MAJOR and _MINOR, MULTIPROCESSOR_COUNT,
MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, MAX_REGISTERS_PER_MULTIPROCESSOR, COMPUTE_MODE."""
PROHIBITED = 2
"""CU_COMPUTEMODE_PROHIBITED."""
NAME_BYTES = 256
MOST_PROCESSES = 256


class NoCards(Exception):  # noqa: N818 - an outcome of looking
    """No card can be used here, and why."""


@dataclass(frozen=True)
class Card:
    """One card as this process sees it. `index` counts the visible ones.

    shared_limit: bytes that a block may have; registers: of 32 bits, a multiprocessor; free and
    total: bytes of memory; processes: how many hold a context on it, of any user, None if nobody
    says (no NVML).
    """

    index: int
    name: str
    uuid: str
    major: int
    minor: int
    multiprocessors: int
    shared_limit: int
    registers: int
    compute_mode: int
    free: int | None
    total: int | None
    processes: int | None


def cards() -> tuple[int, list[Card]]:
    """Return the newest CUDA that the driver supports, such as 13000, and the visible cards.

    Raises NoCards.
    """
    driver = _library("libcuda.so.1")
    if driver is None:
        raise NoCards("there is no driver for NVIDIA GPUs: libcuda.so.1 is not found")
    status = driver.cuInit(0)
    if status:
        raise NoCards(f"the driver does not start: {_error(driver, status)}")
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        raise NoCards("no GPU is visible to this process")
    management = _Management()
    found = [_card(driver, management, index) for index in range(count.value)]
    return version.value, found


def _library(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _error(driver: Any, status: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(name))
    return (name.value or str(status).encode()).decode("ascii", "replace")


def _card(driver: Any, management: _Management, index: int) -> Card:
    device, name, identity = ctypes.c_int(), ctypes.create_string_buffer(NAME_BYTES), _Uuid()
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, NAME_BYTES, device)
    ask = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    ask(ctypes.byref(identity), device)
    numbers = {}
    for word, attribute in ATTRIBUTES.items():
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        numbers[word] = value.value
    text = str(uuid.UUID(bytes=bytes(identity.bytes)))
    free, total, processes = management.of(text)
    return Card(
        index=index,
        name=name.value.decode("utf-8", "replace"),
        uuid=text,
        free=free,
        total=total,
        processes=processes,
        **numbers,
    )


class _Uuid(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 16)]


class _Memory(ctypes.Structure):
    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Management:
    """NVML, as far as it is there."""

    def __init__(self) -> None:
        self._library = _library("libnvidia-ml.so.1")
        if self._library is not None and self._library.nvmlInit_v2():
            self._library = None

    def of(self, identity: str) -> tuple[int | None, int | None, int | None]:
        """Return free and total memory in bytes, and the number of processes; None: not told."""
        handle = ctypes.c_void_p()
        library = self._library
        if library is None or not any(
            library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle)) == 0
            for name in (f"GPU-{identity}".encode(), f"MIG-{identity}".encode())
        ):
            return None, None, None
        memory = _Memory()
        if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
            return None, None, self._processes(handle)
        return memory.free, memory.total, self._processes(handle)

    def _processes(self, handle: ctypes.c_void_p) -> int | None:
        ask = getattr(self._library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        count, room = ctypes.c_uint(MOST_PROCESSES), (_Process * MOST_PROCESSES)()
        if ask is None or ask(handle, ctypes.byref(count), room):
            return None
        return int(count.value)
