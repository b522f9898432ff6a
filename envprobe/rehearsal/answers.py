"""What the processes of a rehearsal say of themselves (payload/rehearse_member.py), as facts."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from envprobe.errors import UndeterminedError
from envprobe.rehearsal.types import FIRST, Failed, Held, Member, Node, Plan, Target
from envprobe.runner import supervised
from envprobe.startup import effects, reach
from envprobe.startup.result import Child
from envprobe.startup.types import MODULES, SITECUSTOMIZE, Launch
from envprobe.values import Value

_SAID: Final = 1 << 16
_UNTOLD: Final = 83
"""The exit code of a first process whose answer did not come through (rehearse_member.py)."""


class Answers:
    """Takes the answers of one rehearsal as they come."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self._launch = launch
        self._nodes = {node.id: node for node in plan.walk()}
        self._told: dict[int, Mapping[str, Any]] = {}
        self._first: Mapping[str, Any] | None = None
        self._set: Mapping[str, Any] | None = None
        self._said: dict[int, str] = {}
        self._failed: list[Mapping[str, Any]] = []
        self.helpers: dict[str, str] = {}
        self.ready = False

    def take(self, told: Mapping[str, Any]) -> None:
        """Take one answer in; of a process that is none of the tree's nothing is taken.

        Raises UndeterminedError for what no process of a rehearsal says.
        """
        with _sense():
            self._take(told)

    def _take(self, told: Mapping[str, Any]) -> None:
        about, node = told.get("about"), told.get("node")
        if about == "first":
            self._first = told
        elif about == "set":
            self._set = told
        elif about == "ready":
            self.ready = True
        elif about == "said" and isinstance(node, str):
            self.helpers[node] = _text(told["text"])
        elif node in self._nodes:
            if about == "member":
                self._told[node] = told
            elif about == "said":
                self._said[node] = _text(told["text"])
            elif about == "failed":
                self._failed.append(told)

    @property
    def began(self) -> bool:
        """Whether the first process has told of itself."""
        return self._first is not None

    @property
    def environment(self) -> Mapping[str, str]:
        """The os.environ of the first process before anything was set in it."""
        with _sense():
            told = self._first["facts"]["environment"] if self._first else {}
            return {str(name): str(text) for name, text in told.items()}

    @property
    def method(self) -> str:
        """The start method that the interpreter has chosen, "" before it has."""
        return str(self._set.get("method", "")) if self._set else ""

    @property
    def forkserver(self) -> bool:
        """Whether a fork server ran before any child was started."""
        return bool(self._first and self._first.get("forkserver"))

    def members(self, method: str, began: float, said: str) -> tuple[Member, ...]:
        """Return the processes that told of themselves, the first one first.

        `began` is when that was started (monotonic), `said` what it wrote to stderr. Raises
        UndeterminedError for what no process of a rehearsal says.
        """
        with _sense():
            return self._members(method, began, said)

    def _members(self, method: str, began: float, said: str) -> tuple[Member, ...]:
        if self._first is None:
            return ()
        first = reach.Told(self._first, self._launch)
        made = [self._member(None, self._first, first, method)]
        seconds = max(_seconds(self._first["began"]) - began, 0.0)
        made[0] = dataclasses.replace(made[0], said=said[:_SAID], seconds=seconds)
        made += [
            self._member(self._nodes[number], told, first, method)
            for number, told in sorted(self._told.items())
        ]
        return tuple(made)

    def _member(
        self, node: Node | None, told: Mapping[str, Any], first: reach.Told, method: str
    ) -> Member:
        own = reach.Told(told, self._launch) if node is not None else first
        later = told if node is not None else self._set or {}
        environment = later.get("environment", told["facts"]["environment"])
        return Member(
            node=node,
            pid=_whole(told["pid"]),
            parent=_whole(told["parent"]),
            told=own,
            flags={_text(name): _whole(one) for name, one in told["flags"].items()},
            environment={name: Value(os.fsencode(text)) for name, text in environment.items()},
            hooks=() if node is None else tuple(_hooks(first, own, method, self._launch)),
            targets={name: _target(one) for name, one in later.get("targets", {}).items()},
            held={name: _held(one) for name, one in told.get("held", {}).items()},
            recorded={_text(name): _text(one) for name, one in told["recorded"].items()},
            titled=bool(told.get("titled")),
            cuda_after=_or_none(
                bool, told.get("torch_after", {"initialised": False})["initialised"]
            ),
            said=self._said.get(node.id, "") if node is not None else "",
            seconds=_seconds(told.get("seconds", 0.0)),
        )

    def failed(self, first_code: int, said: str) -> tuple[Failed, ...]:
        """Return the processes that did not come up; the first one with its exit code.

        Raises UndeterminedError for what no process of a rehearsal says.
        """
        with _sense():
            return self._not_up(first_code, said)

    def _not_up(self, first_code: int, said: str) -> tuple[Failed, ...]:
        found = [
            Failed(
                name=self._nodes[one["node"]].name,
                why=_text(one["why"]),
                code=_or_none(int, one.get("code")),
                said=self._said.get(one["node"], ""),
                worker=self._nodes[one["node"]].worker,
            )
            for one in self._failed
        ]
        if self._first is None and first_code != _UNTOLD:
            found.insert(0, Failed(FIRST, "ended", first_code, said[:_SAID]))
        return tuple(found)


@contextlib.contextmanager
def _sense() -> Iterator[None]:
    """Say so where an answer makes no sense: hooks run in the process, and may write anything."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise UndeterminedError(
            "a rehearsed process answers with something else than what it was asked",
            f"Look for a start-up hook that writes to the descriptor {supervised.ANSWER}.",
        ) from None


_T = TypeVar("_T")


def _of(kind: type[_T], told: object) -> _T:
    """Return what is of a type, as it is; TypeError for anything else."""
    # True is no number of a process.
    if not isinstance(told, kind) or (isinstance(told, bool) and kind is not bool):
        raise TypeError(f"{kind.__name__} is expected")
    return told


def _text(told: object) -> str:
    return _of(str, told)


def _whole(told: object) -> int:
    return _of(int, told)


def _or_none(kind: type[_T], told: object) -> _T | None:
    return None if told is None else _of(kind, told)


def _seconds(told: object) -> float:
    number = float(told) if isinstance(told, int) else _of(float, told)
    if not math.isfinite(number):
        raise ValueError("a time is expected")
    return number


def _hooks(first: reach.Told, own: reach.Told, method: str, launch: Launch) -> Iterator[Child]:
    """Yield what became of each hook of the first process, and of one that only runs here."""
    for module in MODULES:
        either = module in first.facts.loaded or module in own.facts.loaded
        if module == SITECUSTOMIZE or either:
            yield reach.child_of(module, method, first, own, launch, {})


def _target(told: Mapping[str, Any]) -> Target:
    return Target(
        origin=_text(told["origin"] or ""),
        missing=_text(told["missing"]),
        error=_text(told["error"]),
        imported=bool(told["imported"]),
    )


def _held(told: Mapping[str, Any]) -> Held:
    return Held(
        attribute=effects.attribute(told),
        own=_text(told["own"] or ""),
        runs_in=_text(told["runs_in"] or ""),
        recorded=_text(told["recorded"]),
        seconds=_seconds(told["seconds"]),
    )
