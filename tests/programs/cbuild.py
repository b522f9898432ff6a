"""Builds the C target programs into a cache of this user, once for each source and set of flags."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.programs.requirement import missing

SOURCES = Path(__file__).parent / "c"


def _cache() -> Path:
    """Return a directory that only this user can write to."""
    place = Path(tempfile.gettempdir()) / f"envprobe-targets-{os.getuid()}"
    place.mkdir(mode=0o755, exist_ok=True)
    status = place.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or place.is_symlink():
        raise RuntimeError(f"{place} can be written by others")
    return place


def build(source: str, *flags: str, compiler: str = "gcc") -> Path:
    """Return the program or library made of `c/SOURCE.c`; skips where there is no compiler."""
    if shutil.which(compiler) is None:
        missing("musl" if compiler == "musl-gcc" else "gcc", f"{compiler} is not installed")
    text = (SOURCES / f"{source}.c").read_bytes()
    key = hashlib.sha256(repr((text, flags, compiler)).encode()).hexdigest()[:16]
    target = _cache() / f"{source}-{key}"
    if not target.exists():
        unfinished = target.with_name(f"{target.name}.{os.getpid()}")
        command = [compiler, "-O1", "-Wall", "-o", str(unfinished), str(SOURCES / f"{source}.c")]
        subprocess.run([*command, *flags], check=True, timeout=60)
        os.replace(unfinished, target)
    return target
