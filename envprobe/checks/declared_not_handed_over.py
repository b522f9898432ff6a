"""The check `declared-not-handed-over`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.checks import behind, breaks, who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.outcomes import reported
from envprobe.model import Confidence, Reading, Sentence, Shown
from envprobe.unitfacts import Entry, UnitFacts
from envprobe.values import Value

_REMEDY = "Set {name} behind the last program of ExecStart= that changes it, and restart the unit."


@dataclasses.dataclass(frozen=True, slots=True)
class _Missed:
    """What was declared, in which place, and is not what the main process was started with."""

    name: str
    declared: Value | None
    place: str
    severity: Severity
    sure: bool


def _run(context: Context) -> Iterator[Finding]:
    unit, given = behind.unit_of(context), behind.handed(context)
    if unit is None or given is None:
        return
    told = context.once(behind.explained) | _of_expectations(context)
    for name in dict.fromkeys(one.name for one in (*unit.declared, *unit.handed)):
        reading = given.reading(name)
        found = _missed(unit, name, reading) if reading.known and name not in told else None
        if found is not None:
            yield _finding(context, found, reading)


def _of_expectations(context: Context) -> frozenset[str]:
    """Return the variables of which findings on expectations tell the same break."""
    routes = context.routing.routes
    return frozenset(
        name
        for pid, name in context.once(reported)
        if (pid, name) in routes and breaks.at_declaration(routes[pid, name]) is not None
    )


def _missed(unit: UnitFacts, name: str, reading: Reading) -> _Missed | None:
    """Compare what was handed over with what is declared, behind the wrappers if that is known."""
    entry, after = unit.entry(name), unit.behind_wrappers(name)
    followed = not unit.opaque and (not unit.open if after is None else after.known)
    if not followed:
        # What the manager adds is nobody's declaration where a wrapper may have set it anew.
        given = entry is not None and entry.given
        return None if given else _of(entry, reading, Severity.ERROR)
    if after is not None and after.final != reading.value:
        return _of(after, reading, Severity.ERROR)
    # The wrappers gave just this: what they take away is missed, what they extend is not.
    if reading.value is None:
        return _of(entry, reading, Severity.ERROR)
    return None if _extended(entry, reading.value) else _of(entry, reading, Severity.WARNING)


def _of(entry: Entry | None, reading: Reading, severity: Severity) -> _Missed | None:
    if entry is None or entry.final == reading.value or (entry.value is None and not entry.removed):
        return None
    if entry.removed and entry.doubt:
        return None
    return _Missed(
        entry.name,
        entry.final,
        entry.removed or entry.place or entry.source,
        Severity.WARNING if entry.given else severity,
        entry.known,
    )


def _extended(entry: Entry | None, value: Value) -> bool:
    """Return whether a value still holds what is declared, as a list with more elements does."""
    if entry is None or entry.removed or entry.value is None:
        return True
    return not value.hidden and not entry.value.hidden and entry.value.reveal() in value.reveal()


def _finding(context: Context, missed: _Missed, reading: Reading) -> Finding:
    name = missed.name
    main = behind.main_process(context)
    assert main is not None
    route = context.routing.routes.get((main.pid, name))
    found = None if route is None else breaks.at_declaration(route)
    values = [missed.declared, reading.value]
    sure = missed.sure and reading.confidence is Confidence.PROVED
    return Finding(
        check=CHECK.slug,
        severity=missed.severity,
        message=Sentence(
            (
                f"{name} is declared {'' if missed.declared is None else 'as '}",
                *_said(name, missed.declared),
                f" ({missed.place}), and {main.named} was started with {who.unlike(name, values)}",
                *_said(name, reading.value),
                f"{breaks.wrappers(context)}.",
            )
        ),
        confidence=Confidence.PROVED if sure else Confidence.INFERRED,
        pids=(main.pid,),
        variable=name,
        evidence=()
        if route is None or found is None
        else tuple(breaks.evidence(context, route, found)),
        remedy=breaks.remedy(found, _REMEDY.format(name=name)),
        breaks=() if found is None else (found,),
    )


def _said(name: str, value: Value | None) -> Iterator[str | Shown]:
    yield f"no {name}" if value is None else Shown(name, value)


CHECK = Check(
    id="EP043",
    slug="declared-not-handed-over",
    severity=Severity.ERROR,
    summary="The server's process was not started with what its unit declares for a variable.",
    why="What stands in the unit is not what the main process was given: a wrapper in ExecStart="
    " took it out or set another value, a PAM module or the manager's own environment was another"
    " one, or the definition was changed since. Every worker starts from what was given.",
    mend="The finding names every cause that fits, with the line where there is one. Set the"
    " variable behind the wrapper that changes it, and restart the unit.",
    run=_run,
)
