"""The unit in front of a scan: what its checks look at, and how they tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envprobe.checks.finding import Check, Context, Finding
from envprobe.model import Environment, Process, Sentence, View
from envprobe.unitfacts import UnitFacts

if TYPE_CHECKING:
    from envprobe.checks.unit.since import Told


def unit_of(context: Context) -> UnitFacts | None:
    """Return the unit whose main process is a root of the scan, None if there is none."""
    return context.routing.snapshot.unit


def main_process(context: Context) -> Process | None:
    """Return the main process of the unit."""
    unit = unit_of(context)
    return None if unit is None else context.routing.snapshot.process(unit.main_pid)


def handed(context: Context) -> Environment | None:
    """Return what the main process was started with."""
    main = main_process(context)
    return None if main is None else main.environment(View.EXEC)


def changes(context: Context) -> tuple[Told | None, Told | None, tuple[Told, ...]]:
    """Return what changed since the load, since the start, and in which environment files.

    Left out is what nothing but the difference itself speaks for: it has other causes as well.
    """
    unit = unit_of(context)
    if unit is None:
        return None, None, ()
    # A scan without a unit, which is most, must not wait for these.
    from envprobe.checks.unit import since

    given = handed(context)
    files = tuple(one for one in since.env_files(unit, given) if one.shown)
    restarted = since.not_restarted(unit, given)
    shown = restarted if restarted is not None and restarted.shown else None
    return since.not_reloaded(unit), shown, files


def explained(context: Context) -> frozenset[str]:
    """Return the variables whose difference the findings on such changes name."""
    reloaded, restarted, files = context.once(changes)
    told = [one for one in (reloaded, restarted, *files) if one is not None]
    return frozenset(name for one in told for name in one.names or ())


def finding(check: Check, context: Context, told: Told) -> Finding:
    """Return the finding of one change."""
    main = main_process(context)
    names = told.names or ()
    said = f"{told.message} {told.attempt}" if told.attempt else told.message
    return Finding(
        check=check.slug,
        severity=told.severity,
        message=Sentence.of(said),
        pids=(main.pid,) if main is not None else (),
        variable=names[0] if len(names) == 1 else "",
        evidence=told.evidence,
        remedy=Sentence.of(told.remedy or check.mend),
    )
