#!/usr/bin/env python3
"""Make a virtual environment with the agents that take the slot of sitecustomize, for their tests.

Usage: agents_env.py [--dir DIR]   (default: ENVPROBE_AGENTS_DIR, or ~/.cache/envprobe/agents)

The packages have fixed versions and are unchanged. A marker file with a hash of this list and of
the interpreter is written last; where it is missing or another, all is made anew.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "coverage==7.17.5",
    "ddtrace==4.16.0",
    "newrelic==14.1.0",
    "opentelemetry-distro==0.66b2",
    "opentelemetry-instrumentation==0.66b2",
)
MARKER: Final = ".envprobe-agents"


def default_folder() -> Path:
    """Return where the environment is kept."""
    given = os.environ.get("ENVPROBE_AGENTS_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(given) if given else Path(cache) / "envprobe" / "agents"


def wanted() -> str:
    """Return the hash that a complete environment of this interpreter has in its marker."""
    about = [*PACKAGES, os.path.realpath(sys.executable), sys.version]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()


def is_complete(folder: Path) -> bool:
    """Return whether the environment is there, whole and of this list."""
    marker = folder / MARKER
    return marker.exists() and marker.read_text() == wanted()


def make(folder: Path) -> None:
    """Make the environment anew."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", *PACKAGES], check=True)
    (folder / MARKER).write_text(wanted())


def main() -> int:
    """Make the environment if need be and print its folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, default=default_folder(), help="where it is kept")
    folder = parser.parse_args().dir
    if not is_complete(folder):
        make(folder)
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
