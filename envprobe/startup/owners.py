"""Which tool a hook belongs to: from its path, the distribution that brought it, or the packages.

The table of tools is data/startup-agents.json.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Any, Final

from envprobe import tables
from envprobe.errors import UndeterminedError
from envprobe.runner import supervised
from envprobe.runner.started import Bounds
from envprobe.startup.types import Launch

_DPKG: Final = "/usr/bin/dpkg-query"
_PACKAGED: Final = ("/usr/", "/etc/", "/lib", "/opt/")
"""Where packages put files; asking about others takes half a second for nothing."""

_BOUNDS: Final = Bounds(seconds=10.0, output_bytes=1 << 16, processes=4)
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


def agent_of(path: str) -> str:
    """Return the name of the tool that is known by the end of a hook's path, "" if none."""
    row = _agent(path)
    return "" if row is None else str(row["name"])


def hides_others(path: str) -> bool:
    """Return whether the tool at a path is known not to run the hook that it hides."""
    row = _agent(path)
    return row is not None and not row["chains"]


def _agent(path: str) -> dict[str, Any] | None:
    rows: list[dict[str, Any]] = tables.load("startup-agents")["agents"]
    return next((row for row in rows if path.endswith("/" + row["path"])), None)


def tool_of(path: str) -> str:
    """Return the tool that is known by the name of a startup file, "" if none."""
    for row in tables.load("startup-agents")["startup_files"]:
        if posixpath.basename(path) == row["name"]:
            return str(row["tool"])
    return ""


def packages(paths: Iterable[str], launch: Launch) -> dict[str, str]:
    """Return the Debian package of each path that has one; {} where dpkg does not answer.

    It is asked in the root directory and with the rights of the launch.
    """
    wanted = tuple(dict.fromkeys(path for path in paths if path.startswith(_PACKAGED)))
    if not wanted:
        return {}
    words = (_DPKG, "--search", *wanted)
    command = supervised.Command(_DPKG, words, _ENVIRONMENT, root=launch.root, rights=launch.rights)
    try:
        ended = supervised.run(command, _BOUNDS, name="dpkg-query")
    except UndeterminedError:
        return {}
    found: dict[str, str] = {}
    for line in ended.stdout.decode("utf-8", "replace").splitlines():
        package, separator, path = line.partition(": ")
        if separator and path in wanted:
            found[path] = package.split(",")[0].partition(":")[0]
    return found
