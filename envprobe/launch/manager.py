"""Asking a running service manager by systemctl, and how it writes lists of words.

systemctl(1) prints the words of a list with the quoting of a shell: double quotes, and `$'...'`
for characters that double quotes cannot hold.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shutil
from collections.abc import Mapping
from typing import Final

from envprobe.errors import UndeterminedError
from envprobe.launch import words
from envprobe.runner import supervised
from envprobe.runner.started import Bounds

_BOUNDS: Final = Bounds(seconds=20.0, output_bytes=8 << 20, processes=16)
_NEEDED: Final = ("HOME", "PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "LD_LIBRARY_PATH")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_DOLLAR_QUOTE: Final = re.compile(r"(^|\s)\$'")
_VERSION: Final = re.compile(r"\d+")
_OFFLINE: Final = (
    "Without a manager `envprobe unit FILE` reads the unit's file, and `envprobe workers --pid PID`"
    " the processes."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What systemctl printed, and its exit code."""

    code: int
    text: str
    error: str


@dataclasses.dataclass(frozen=True)
class Manager:
    """One service manager: that of the system, or (`user`) that of the calling user.

    `variables` is the caller's environment, which says where a user's manager is found.
    """

    user: bool
    variables: Mapping[str, str]

    def ask(self, *arguments: str) -> Answer:
        """Run systemctl, which only asks; UndeterminedError if there is none or it hangs."""
        path = shutil.which("systemctl", path=self.variables.get("PATH", os.defpath))
        if path is None:
            raise UndeterminedError("there is no systemctl on PATH", _OFFLINE)
        given = {name: self.variables[name] for name in _NEEDED if name in self.variables}
        options = ("--user",) if self.user else ("--system",)
        ended = supervised.run(
            supervised.Command(
                path,
                (path, *options, "--no-pager", *arguments),
                {**given, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"},
            ),
            _BOUNDS,
            name="systemctl",
        )
        if ended.stopped or ended.cut:
            raise UndeterminedError("systemctl does not answer, or says too much", _OFFLINE)
        text, error = (
            one.decode("utf-8", "surrogateescape") for one in (ended.stdout, ended.stderr)
        )
        return Answer(ended.code, text, error.strip())

    @functools.cached_property
    def environment(self) -> dict[str, str]:
        """What the manager hands to each unit; UndeterminedError if it cannot be asked."""
        answer = self.ask("show-environment")
        if answer.code:
            raise UndeterminedError(
                f"the {self.named} cannot be asked: {_first(answer.error)}", _OFFLINE
            )
        found = {}
        for line in answer.text.splitlines():
            name, equals, value = line.partition("=")
            if equals:
                found[name] = unquoted(value)
        return found

    @functools.cached_property
    def version(self) -> int | None:
        """The number of systemd's version, None if it does not say."""
        answer = self.ask("show", "--property=Version", "--value")
        found = _VERSION.search(answer.text)
        return int(found[0]) if not answer.code and found else None

    def properties(self, unit: str, names: tuple[str, ...]) -> dict[str, list[str]]:
        """Return properties of a unit by name, each with the lines it has.

        Raises UndeterminedError if the manager cannot be asked.
        """
        answer = self.ask("show", f"--property={','.join(names)}", "--", unit)
        if answer.code:
            raise UndeterminedError(
                f"the {self.named} cannot be asked: {_first(answer.error)}", _OFFLINE
            )
        found: dict[str, list[str]] = {}
        for line in answer.text.splitlines():
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
        return found

    @property
    def named(self) -> str:
        """The manager in words."""
        return "user's service manager" if self.user else "system's service manager"


def local_version(variables: Mapping[str, str]) -> int | None:
    """Return the version of systemd that is installed here, None if there is none."""
    try:
        answer = Manager(True, variables).ask("--version")
    except UndeterminedError:
        return None
    found = _VERSION.search(answer.text)
    return int(found[0]) if not answer.code and found else None


def _first(text: str) -> str:
    return text.splitlines()[0] if text else "it says nothing"


def unquoted(text: str) -> str:
    """Return one value as systemctl prints it, without its quotes."""
    found = listed(text)
    return found[0] if found else ""


def listed(text: str) -> list[str]:
    """Return the words of a list as systemctl prints it."""
    # A dollar sign that is no part of a value has no backslash before it.
    plain = _DOLLAR_QUOTE.sub(r"\1'", text)
    # Of a shell's escapes only these two are none of C's.
    plain = _ESCAPED.sub(lambda one: one[1] if one[1] in "$`" else one[0], plain)
    return [one.text for one in words.split(plain, words.Escapes.RELAXED).words]
