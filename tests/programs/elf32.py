"""A 32-bit x86 program of a few bytes, since few machines can compile one.

It writes "ready" and waits for ever.
"""

from __future__ import annotations

import struct
from pathlib import Path

_BASE = 0x08048000
_HEADERS = 52 + 32
_TEXT = b"ready\n"
_CODE = (
    b"\xb8\x04\0\0\0\xbb\x01\0\0\0"  # mov eax, 4 (write); mov ebx, 1
    + b"\xb9"
    + struct.pack("<I", _BASE + _HEADERS)  # mov ecx, _TEXT
    + b"\xba\x06\0\0\0\xcd\x80"  # mov edx, 6; int 0x80
    + b"\xb8\x1d\0\0\0\xcd\x80\xeb\xf7"  # mov eax, 29 (pause); int 0x80; jmp back
)


def write(path: Path) -> None:
    """Write the program to `path`, executable."""
    start = _HEADERS + len(_TEXT)
    size = start + len(_CODE)
    ident = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
    header = struct.pack("<16s2H5I6H", ident, 2, 3, 1, _BASE + start, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    segment = struct.pack("<8I", 1, 0, _BASE, _BASE, size, size, 5, 4096)
    path.write_bytes(header + segment + _TEXT + _CODE)
    path.chmod(0o755)
