"""Starts to rehearse: hooks, frameworks and units of a test's own, where every user can read."""

from __future__ import annotations

import json
import os
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

from envprobe import tables
from tests.programs.envprobe_cli import environment, envprobe

MARK = "STAGED_BY"


class Stage:
    """A folder with what a start needs; `mark` is in the environment of all that comes of it.

    `caller` are variables of envprobe itself.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.caller: dict[str, str] = {}

    def write(self, name: str, text: str = "") -> Path:
        """Write a file that every user can read, with its folders."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def hook(self, text: str, folder: str = "hooks") -> str:
        """Write a sitecustomize.py and return its folder."""
        return str(self.write(f"{folder}/sitecustomize.py", text).parent)

    def framework(self, name: str, version: str, folder: str = "packages") -> str:
        """Make as if a framework was installed, and return the folder that it is in."""
        self.write(f"{folder}/{name}/__init__.py")
        self.write(f"{folder}/{name}/launch_server.py", "raise SystemExit('it was run')\n")
        told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        self.write(f"{folder}/{name}-{version}.dist-info/METADATA", told)
        return str(self.folder / folder)

    def unit(self, start: str, *lines: str) -> str:
        """Write a unit and return its path."""
        marked = (f"Environment={MARK}={self.mark}", *lines, f"ExecStart={start}", "")
        path = self.folder / "staged.service"
        path.write_text("\n".join(["[Service]", *marked]))
        return str(path)

    def rehearse(self, *arguments: str, **variables: str) -> Rehearsed:
        """Rehearse as a user does; the command behind `--` is given these variables.

        envprobe itself does not get them: it is the start that is to run the hooks.
        """
        if variables:
            at = arguments.index("--") + 1
            given = (f"{name}={value}" for name, value in variables.items())
            arguments = (*arguments[:at], "env", *given, *arguments[at:])
        marked = environment(**{MARK: self.mark}, **self.caller)
        ran = envprobe("rehearse", "--format", "json", *arguments, env=marked, cwd=self.folder)
        return Rehearsed(ran.returncode, ran.stdout, ran.stderr)

    def left(self) -> list[str]:
        """Return the command lines of what is still running of all that came of this folder."""
        return [_command(pid) for pid in self._marked()]

    def _marked(self) -> Iterator[int]:
        wanted = f"{MARK}={self.mark}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdecimal():
                continue
            try:
                block = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if wanted in block.split(b"\0"):
                yield int(entry)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return str(pid)


class Rehearsed:
    """The exit code of a rehearsal and its report, which is valid."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stderr = stderr
        assert stdout.startswith("{"), stderr
        self.document: Any = json.loads(stdout)
        schema = tables.load("rehearse.schema")
        jsonschema.Draft202012Validator(schema).validate(self.document)
        assert self.document["verdict"]["exit"] == code

    @property
    def one(self) -> Any:
        """The only rehearsal."""
        (found,) = self.document["rehearsals"]
        return found

    def found(self, check: str, variable: str = "") -> list[Any]:
        """Return the findings of a check, of a variable or any."""
        return [
            one
            for one in self.document["findings"]
            if one["check"] == check and variable in ("", one["variable"])
        ]

    def loud(self) -> set[str]:
        """Return the checks of all findings above info, or that could not tell."""
        return {
            one["check"]
            for one in self.document["findings"]
            if one["severity"] != "info" or one["undetermined"]
        }

    def unknown(self) -> list[Any]:
        """Return the findings that could not tell."""
        return [one for one in self.document["findings"] if one["undetermined"]]

    @property
    def whole(self) -> bool:
        """Whether the first process and all workers came up."""
        here = self.one["processes"]
        started = self.one["workers"]["started"]
        return bool(here) and sum(each["worker"] for each in here) == started

    def names(self, finding: Any) -> set[str]:
        """Return the processes that a finding speaks of, in words."""
        named = {one["pid"]: one["name"] for one in self.one["processes"]}
        return {named[pid] for pid in finding["pids"]}

    @property
    def workers(self) -> set[str]:
        """The workers that came up, in words."""
        return {one["name"] for one in self.one["processes"] if one["worker"]}

    def values(self, name: str) -> dict[str, str | None]:
        """Return what was read from outside of a variable, by process; None: it is absent."""
        named = {one["pid"]: one["name"] for one in self.one["processes"]}
        (scan,) = self.document["scans"]
        found = {}
        for variable in scan["variables"]:
            for one in variable["readings"] if variable["name"] == name else ():
                reading = one["views"].get("libc")
                if one["pid"] in named and reading is not None:
                    assert reading["state"] in ("value", "absent"), reading
                    found[named[one["pid"]]] = reading.get("value", {}).get("text")
        return found
