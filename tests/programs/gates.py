"""Running `envprobe gate` on definitions that a test writes, with JSON as its output."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from envprobe import tables
from tests.programs.envprobe_cli import environment, envprobe

PYTHON = os.path.realpath(sys.executable)
SERVER = """\
import signal

def main():
    signal.pause()

if __name__ == "__main__":
    main()
"""


@dataclasses.dataclass(frozen=True)
class Gate:
    """The exit code of one run, its report and what it said on stderr."""

    code: int
    report: Any
    stderr: str

    @property
    def checks(self) -> set[tuple[str, str, tuple[str, ...]]]:
        """Check, variable ("" for none) and parts of each finding that is no mere information.

        Orphans are those of the whole machine, and other tests leave some on purpose.
        """
        return {
            (one["check"], one["variable"] or "", tuple(one["parts"]))
            for one in self.report["findings"]
            if one["severity"] != "info" and one["check"] != "orphan-worker"
        }

    def of(self, check: str) -> list[Any]:
        """Return the findings of one check."""
        return [one for one in self.report["findings"] if one["check"] == check]

    def part(self, name: str) -> int:
        """Return the exit code of one part."""
        codes = {one["name"]: one["verdict"]["exit"] for one in self.report["parts"]}
        return int(codes[name])

    def standing(self, kind: str) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return how each expectation of one kind stands, and which parts judge it, by name."""
        return {
            one["name"]: (one["standing"], tuple(one["parts"]))
            for one in self.report["expectations"]
            if one["kind"] == kind
        }


def gate(*arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Gate:
    """Run the gate and return what it says; the report must fit its schema."""
    ran = envprobe("gate", "--format", "json", *arguments, env=env, cwd=cwd)
    assert ran.stdout.startswith("{"), (ran.returncode, ran.stdout, ran.stderr)
    report = json.loads(ran.stdout)
    jsonschema.Draft202012Validator(tables.load("gate.schema")).validate(report)
    assert ran.returncode == report["verdict"]["exit"]
    return Gate(ran.returncode, report, ran.stderr)


class Place:
    """A folder with a server, its hook, its unit file and a configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hooks = folder / "hooks"
        self.hooks.mkdir()
        self.hook = self.hooks / "sitecustomize.py"
        self.hook.write_text("LOADED = True\n")
        self.server = folder / "serve.py"
        self.server.write_text(SERVER)
        self.config = folder / "envprobe.toml"

    def unit(self, *lines: str, start: str = "") -> str:
        """Write the unit and return its path; the hook's folder is in its PYTHONPATH."""
        path = self.folder / "sgl.service"
        start = start or f"{PYTHON} {self.server}"
        body = ["[Service]", f"Environment=PYTHONPATH={self.hooks}", *lines, f"ExecStart={start}"]
        path.write_text("\n".join([*body, ""]))
        return str(path)

    def expect(self, text: str) -> str:
        """Write the configuration and return its path."""
        self.config.write_text(text)
        return str(self.config)

    def gate(self, *arguments: str, **more: str) -> Gate:
        """Run the gate with the configuration."""
        return gate("--config", str(self.config), *arguments, env=environment(**more))
