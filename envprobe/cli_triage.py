"""`envprobe triage`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING

from envprobe import cli_report
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.report.triage_model import Report
    from envprobe.triage.facts import Triage


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `triage` says, as it was given."""

    log: str | None = None
    unit: str | None = None
    user: bool = False
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False


def run(options: Options) -> Exit:
    """Read the log, judge and report; return the exit code. Raises EnvprobeError."""
    report = cli_report.reported(
        options, lambda: _report(options), render, lambda paths: _check(options, paths)
    )
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def _report(options: Options) -> Report:
    accepted = frozenset(_accepted(options))
    return judged(looked_at(options), accepted, options)


def looked_at(options: Options) -> Triage:
    """Return what the log, or the unit with all its logs, says."""
    if options.unit is not None:
        from envprobe import cli_definition
        from envprobe.launch.manager import Manager
        from envprobe.triage import unit

        context = cli_definition.context_of(user=options.user)
        return unit.look(Manager(options.user, context.variables), options.unit)
    from envprobe.triage import reading
    from envprobe.triage.facts import Triage

    assert options.log is not None
    return Triage((reading.read(options.log),))


def judged(facts: Triage, accepted: frozenset[str], options: Options) -> Report:
    """Return the report on what was found."""
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.registry import run_checks
    from envprobe.checks.triage.about import TriageContext
    from envprobe.checks.triage.judgement import judge
    from envprobe.checks.triage.registry import CHECKS
    from envprobe.report.triage_model import Report

    context = TriageContext(facts, judge(facts))
    result = run_checks(CHECKS, context, {})
    severity = Severity(options.fail_on)
    made = verdict.of_findings(result, accepted, severity)
    return Report(context, result, made, accepted, severity, options.exit_zero)


render = functools.partial(cli_report.render, "triage")


# --- what was asked for --------------------------------------------------------------------------


def _check(options: Options, outputs: tuple[str, ...]) -> None:
    """Raise UsageError for nothing or two things to look at, or a report that replaces the log."""
    if (options.log is None) == (options.unit is None) or "" in (options.log, options.unit):
        raise UsageError(
            "`triage` takes one log or one unit",
            "Write `envprobe triage FILE`, `envprobe triage -` or `envprobe triage --unit NAME`.",
        )
    if options.user and options.unit is None:
        raise UsageError("--user needs --unit", "Name the unit with --unit.")
    if options.log is None or not os.path.isfile(options.log):
        return
    for output in outputs:
        if os.path.isfile(output) and os.path.samefile(output, options.log):
            raise UsageError(
                f"-o {output} would replace the log that is read",
                "Give the report a name of its own.",
            )


def _accepted(options: Options) -> tuple[str, ...]:
    from envprobe.checks.registry import accepted
    from envprobe.checks.triage.registry import CHECKS

    return accepted(options.allow_unknown, CHECKS, "triage")
