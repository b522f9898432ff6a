#!/usr/bin/env python3
"""Fail if `envprobe --help` or `envprobe workers` imports what makes start-up slow or unsafe.

Usage: check_imports.py. Runs the interpreter it is run with, in the isolated form that the console
script re-executes itself in, and reads the list of modules from `-X importtime`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import envprobe
from envprobe import isolation

FORBIDDEN: Final = {
    "asyncio": "an event loop is never needed",
    "concurrent": "a pool of threads is never needed",
    "email": "comes in by importlib.metadata or http; 5 ms",
    "http": "nothing is fetched",
    "multiprocessing": "children are forked by runner/forked.py; 10 ms",
    "pydantic": "typer 0.29 and later import it to read arguments; 55 ms",
    "rich": "typer imports it only for formatted help; 60 ms",
    "sglang": "only the targets have it",
    "ssl": "nothing is fetched",
    "torch": "only the targets have it",
    "unittest": "comes in by mistake only",
    "urllib.request": "nothing is fetched",
}
OTHERS: Final = dict.fromkeys(
    (
        "envprobe.calibration",
        "envprobe.checks.gate",
        "envprobe.checks.kernel",
        "envprobe.checks.nccl",
        "envprobe.checks.rehearse",
        "envprobe.checks.trace",
        "envprobe.checks.triage",
        "envprobe.checks.unit",
        "envprobe.factsfile",
        "envprobe.inspection",
        "envprobe.kernel",
        "envprobe.launch",
        "envprobe.nccl",
        "envprobe.rehearsal",
        "envprobe.startup",
        "envprobe.triage",
        "envprobe.unitscan",
    ),
    "only other commands, or options that were not given, need it",
)
NO_PYTHON: Final = {"envprobe.cpython": "--no-python reads nothing inside the workers"}
_SCAN: Final = ("workers", "--pid", str(os.getpid()), "--format", "json")
COMMANDS: Final = {
    ("--help",): FORBIDDEN | OTHERS | NO_PYTHON,
    ("workers", "--help"): FORBIDDEN | OTHERS | NO_PYTHON,
    _SCAN: FORBIDDEN | OTHERS,
    (*_SCAN, "--no-python"): FORBIDDEN | OTHERS | NO_PYTHON,
}
SECONDS: Final = 60
EXPECTED_CODES: Final = (0, 3)


def imported(arguments: tuple[str, ...]) -> set[str]:
    """Return the names of all modules that one command line imports."""
    main = Path(envprobe.__file__).with_name("__main__.py")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    options = ["-I", "-S", "-X", "importtime", "-X", f"{isolation.PATH_OPTION}={path}"]
    ran = subprocess.run(
        [sys.executable, *options, str(main), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    lines = ran.stderr.decode().splitlines()
    if ran.returncode not in EXPECTED_CODES or not ran.stdout:
        said = [line for line in lines if not line.startswith("import time:")]
        sys.exit(f"envprobe {' '.join(arguments)} failed ({ran.returncode}): {' '.join(said)}")
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def main() -> int:
    """Print each forbidden import and return how many there are, at most 1."""
    failed = False
    for arguments, forbidden in COMMANDS.items():
        modules = imported(arguments)
        for name, reason in forbidden.items():
            if any(module == name or module.startswith(f"{name}.") for module in modules):
                print(f"envprobe {' '.join(arguments)} imports {name}: {reason}")
                failed = True
        print(f"envprobe {' '.join(arguments)}: {len(modules)} modules")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
