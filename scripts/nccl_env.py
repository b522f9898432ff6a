#!/usr/bin/env python3
"""Fetch real NCCL libraries of several versions for the tests of the log parser; no GPU is needed.

Each wheel is 150 to 350 MB; only its libnccl.so.2 is kept, as DIRECTORY/VERSION/libnccl.so.2, and
it is written last, under its own name, so that a file that is there is whole.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The oldest that still installs, one from each change of wording in between, and the newest.
WHEELS = {
    "2.16.5": "nvidia-nccl-cu12",
    "2.21.5": "nvidia-nccl-cu12",
    "2.28.9": "nvidia-nccl-cu12",
    "2.32.3": "nvidia-nccl-cu13",
}
LIBRARY = "libnccl.so.2"
TIMEOUT_S = 1800


class SetupError(Exception):
    """A step failed: what happened and what to do about it."""


def default_directory() -> Path:
    """Return where the libraries live when no directory is named."""
    cache = os.environ.get("ENVPROBE_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "envprobe") / "nccl"


def library(directory: Path, version: str) -> Path:
    """Return the path of one version's library, which may not be there."""
    return directory / version / LIBRARY


def download(package: str, version: str, folder: str) -> Path:
    """Download one wheel with pip, without its dependencies."""
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    options += ["--only-binary=:all:", "--no-cache-dir", "--dest", folder]
    command = [sys.executable, "-m", "pip", "download", *options, f"{package}=={version}"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"pip download of {package} {version} failed: {error}") from error
    wheels = list(Path(folder).glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        tail = "\n".join(done.stdout.splitlines()[-8:])
        raise SetupError(f"pip download of {package} {version} failed; check the index:\n{tail}")
    return wheels[0]


def fetch(directory: Path, version: str) -> None:
    """Put one version's library in its place, unless it is there."""
    target = library(directory, version)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"nccl_env: {WHEELS[version]} {version} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        wheel = download(WHEELS[version], version, folder)
        half = Path(folder) / LIBRARY
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith("/" + LIBRARY))
            with archive.open(member) as source, half.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
        half.replace(target)


def main() -> int:
    """Fetch what is missing and print the directory."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--dir",
        type=Path,
        default=default_directory(),
        help="where to keep them (default: $ENVPROBE_CACHE/nccl or ~/.cache/envprobe/nccl)",
    )
    parser.add_argument("--version", action="append", choices=WHEELS, help="only this one")
    parser.add_argument("--check", action="store_true", help="fetch nothing; exit 1 if one lacks")
    arguments = parser.parse_args()
    directory = arguments.dir.absolute()
    wanted = arguments.version or list(WHEELS)
    try:
        if arguments.check:
            lacking = [version for version in wanted if not library(directory, version).exists()]
            if lacking:
                raise SetupError(f"no NCCL {', '.join(lacking)} in {directory}; run this script")
        for version in wanted:
            if not arguments.check:
                fetch(directory, version)
    except SetupError as error:
        print(f"nccl_env: error: {error}", file=sys.stderr)
        return 1
    print(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
