"""The check `framework-wrote`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks import breaks, who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.outcomes import covered
from envprobe.model import Confidence, Sentence
from envprobe.routes.types import Break, Change, Route
from envprobe.values import Value

_NAMED: Final = 12
_TOLD: Final = 64
"""How many of the variables that were added a message names, and of how many the writer is told."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Written:
    route: Route
    found: Break


def _run(context: Context) -> Iterator[Finding]:
    changes = list(who.folded(_all(context), _key).values())
    yield from (_overwritten(context, one) for one in changes if not _is_new(one))
    new = who.folded((one for one in changes if _is_new(one)), _spot)
    yield from (_added(context, together) for together in new.values())


def _all(context: Context) -> Iterator[_Written]:
    broken = context.once(covered)
    for name in context.routing.names:
        for pid in context.routing.workers():
            route = context.routing.routes.get((pid, name))
            if route is not None and (pid, name) not in broken:
                yield from (_Written(route, one) for one in route.arriving if _arrived(route, one))


def _arrived(route: Route, found: Break) -> bool:
    """Return whether a known writer's change is not undone before the worker.

    What it set after the children were started never was on its way to them.
    """
    before, now = route.stops[found.before].reading, route.final()
    return bool(found.writer) and (before.state, before.value) != (now.state, now.value)


def _key(written: _Written) -> tuple[object, ...]:
    return (written.route.name, breaks.key(written.route, written.found))


def _is_new(group: list[_Written]) -> bool:
    return group[0].found.change is Change.APPEARED


def _spot(group: list[_Written]) -> tuple[object, ...]:
    route, found = group[0].route, group[0].found
    before, after = route.stops[found.before], route.stops[found.after]
    return (_pids(group), before.pid, before.view, after.pid, after.view)


def _pids(group: list[_Written]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(one.route.pid for one in group))


def _overwritten(context: Context, group: list[_Written]) -> Finding:
    """Return the finding about one variable of which known code replaced or removed the value."""
    name, found = group[0].route.name, group[0].found
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence(
            (
                f"{name} went from ",
                *who.distinct(name, (_value(one, one.found.before) for one in group)),
                " to ",
                *who.distinct(name, (_value(one, one.found.after) for one in group)),
                f" on the way to {who.in_words(context, _pids(group))}, as known code does:"
                f" {found.writer}.",
            )
        ),
        confidence=found.confidence,
        pids=_pids(group),
        variable=name,
        remedy=Sentence.of(
            f"Nothing needs to be done. To have another value of {name}, use the framework's"
            " option, and state the value that you expect with --expect."
        ),
        breaks=tuple(one.found for one in group),
    )


def _added(context: Context, together: list[list[_Written]]) -> Finding:
    """Return one finding about all variables that known code set at one place, unset before."""
    names = [group[0].route.name for group in together]
    sure = all(group[0].found.confidence is Confidence.PROVED for group in together)
    count = "variable that was" if len(names) == 1 else "variables that were"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"Known code set {len(names)} {count} not set before, on the way to"
            f" {who.in_words(context, _pids(together[0]))}: {who.some(names, _NAMED)}."
        ),
        confidence=Confidence.PROVED if sure else Confidence.INFERRED,
        pids=_pids(together[0]),
        variable=names[0] if len(names) == 1 else "",
        evidence=tuple(_told(group) for group in together[:_TOLD]),
        remedy=Sentence.of(
            "Nothing needs to be done. Where another value is wanted, set it before the first"
            " process of the server starts, and state it with --expect."
        ),
        breaks=tuple(one.found for group in together for one in group),
    )


def _told(group: list[_Written]) -> Sentence:
    name = group[0].route.name
    values = who.distinct(name, (_value(one, one.found.after) for one in group))
    return Sentence((f"{name} is ", *values, f": {group[0].found.writer}."))


def _value(written: _Written, stop: int) -> Value | None:
    return written.route.stops[stop].reading.value


CHECK = Check(
    id="EP014",
    slug="framework-wrote",
    severity=Severity.INFO,
    summary="Known code of the framework set or changed a variable.",
    why="SGLang, vLLM, torchrun and others write variables themselves, some over the user's value"
    " (SGLang sets CUDA_DEVICE_MAX_CONNECTIONS in every server). That is no fault, but explains a"
    " value that nobody set. If it contradicts an expectation, that is a finding of its own.",
    mend="Nothing needs to be done. To have another value, use the framework's option instead of"
    " the variable.",
    run=_run,
)
