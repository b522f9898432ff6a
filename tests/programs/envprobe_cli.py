"""Running envprobe as a user does: the console script, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS = 60


def script() -> list[str]:
    """Return the command that starts the installed console script."""
    installed = Path(sys.executable).with_name("envprobe")
    assert installed.exists(), "envprobe is not installed beside this interpreter"
    return [str(installed)]


def environment(**changes: str) -> dict[str, str]:
    """Return a plain environment, with some variables added."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", **changes}


def envprobe(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    command: Sequence[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command line to its end; stdin is /dev/null."""
    return subprocess.run(
        [*(command or script()), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment() if env is None else dict(env),
        cwd=cwd or Path("/"),
        check=False,
    )


def parsed(ran: subprocess.CompletedProcess[str]) -> Any:
    """Return the JSON report that a run has printed."""
    assert ran.stdout.startswith("{"), ran.stderr
    return json.loads(ran.stdout)
