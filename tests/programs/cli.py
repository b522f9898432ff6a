"""What `envprobe workers` says of a tree, in a form that tests can state in advance.

`workers` runs the console script; `judge` runs the same command line in this process, which is
faster; `judge_as` does so with the rights of another user.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import json
import os
import pickle
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envprobe import cli, cli_workers
from envprobe.errors import EnvprobeError
from tests.programs.envprobe_cli import envprobe

Place = tuple[int, str]
"""A process and a view of it, such as (4711, "libc")."""


@dataclasses.dataclass(frozen=True)
class Span:
    """One break: what changed, between which places, and which causes fit there."""

    change: str
    before: Place
    after: Place
    causes: frozenset[str]
    excluded: frozenset[str]
    confidence: str
    writer: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    """The exit code, what was printed, and the report if it is JSON."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The whole report."""
        assert self.stdout.startswith("{"), (self.code, self.stderr)
        return json.loads(self.stdout)

    @property
    def scan(self) -> Any:
        """The only scan of the report, whose verdict is the exit code."""
        (scan,) = self.document["scans"]
        assert scan["verdict"]["exit"] == self.document["verdict"]["exit"] == self.code
        return scan

    # --- findings

    def findings(self, check: str = "", variable: str = "") -> list[Any]:
        """Return the findings of a check (or all), of a variable (or any)."""
        return [
            one
            for one in self.scan["findings"]
            if check in ("", one["check"]) and variable in ("", one["variable"])
        ]

    def loud(self, among: Iterable[int]) -> list[Any]:
        """Return the findings above `info` that speak of these processes, or of none.

        Orphans of other trees on this machine are in every scan.
        """
        pids = set(among)
        return [
            one
            for one in self.findings()
            if one["severity"] != "info" and (not one["pids"] or pids.intersection(one["pids"]))
        ]

    def pids(self, check: str, variable: str = "") -> set[int]:
        """Return all processes of which a check's findings speak."""
        return {pid for one in self.findings(check, variable) for pid in one["pids"]}

    # --- facts

    def process(self, pid: int) -> Any:
        """Return what the report says of one process."""
        (process,) = (one for one in self.scan["processes"] if one["pid"] == pid)
        return process

    def workers(self) -> set[int]:
        """Return the pids of all counted workers."""
        return {pid for launch in self.scan["launches"] for pid in launch["workers"]}

    def reading(self, pid: int, name: str, view: str = "libc") -> Any:
        """Return one reading; None if the report has none."""
        for variable in self.scan["variables"]:
            if variable["name"] == name:
                for one in variable["readings"]:
                    if one["pid"] == pid:
                        return one["views"].get(view)
        return None

    def text(self, pid: int, name: str, view: str = "libc") -> str | None:
        """Return a value as os.fsdecode would, None if it is absent; fails if it is neither."""
        reading = self.reading(pid, name, view)
        assert reading is not None, f"no {view} reading of {name} in {pid}"
        if reading["state"] == "absent":
            return None
        assert reading["state"] == "value", reading
        value = reading["value"]
        if "base64" in value:
            return os.fsdecode(base64.b64decode(value["base64"]))
        return str(value["text"])

    def spans(self, pid: int, name: str) -> list[Span]:
        """Return the breaks of one variable on the way to one process."""
        for route in self.scan["routes"]:
            if (route["pid"], route["name"]) == (pid, name):
                places = [(stop["pid"], stop["view"]) for stop in route["stops"]]
                return [_span(places, one) for one in route["breaks"]]
        return []

    def arriving(self, pid: int, name: str) -> list[Span]:
        """Return the breaks on the way to a process's C environ: not that of its os.environ."""
        return [one for one in self.spans(pid, name) if one.after[1] != "python"]


def _span(places: list[Place], one: Any) -> Span:
    return Span(
        change=one["change"],
        before=places[one["before"]],
        after=places[one["after"]],
        causes=frozenset(cause["id"] for cause in one["causes"]),
        excluded=frozenset(cause["id"] for cause in one["excluded"]),
        confidence=one["confidence"],
        writer=one.get("writer", ""),
    )


def workers(*arguments: str, cwd: Path | None = None) -> Run:
    """Run `envprobe workers --format json` as a user does."""
    done = envprobe("workers", *_as_json(arguments), cwd=cwd)
    return Run(done.returncode, done.stdout, done.stderr)


def _as_json(arguments: tuple[str, ...]) -> list[str]:
    """Ask for JSON unless the arguments name a format."""
    named = any(one.startswith("--format") for one in arguments)
    return [*arguments] if named else ["--format", "json", *arguments]


def judge(*arguments: str) -> Run:
    """Run `envprobe workers` in this process; JSON unless another --format is asked for."""
    given = ["workers", *_as_json(arguments)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _in("/"):
        try:
            code = int(cli.app(args=given, prog_name="envprobe", standalone_mode=False)())
        except EnvprobeError as error:
            code = int(error.code)
            err.write(f"{error.message}\n{error.remedy}\n")
    return Run(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _in(folder: str) -> Iterator[None]:
    """Change the working directory for a while: an envprobe.toml of ours must not count."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def judge_as(uid: int, *arguments: str, seconds: int = 30) -> Run:
    """Run `judge` in a child that is another user without any capability; needs root."""
    assert cli_workers  # imported here: the other user may not be able to read our files
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(seconds)
            os.close(reading)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            with open(writing, "wb") as file:
                pickle.dump(judge(*arguments), file)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    run: Run = pickle.loads(answer)
    return run
