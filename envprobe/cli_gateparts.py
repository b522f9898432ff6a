"""The parts of `envprobe gate`: each is a command, handed what the configuration expects of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Final

from envprobe import (
    cli_kernel,
    cli_output,
    cli_rehearse,
    cli_trace,
    cli_unit,
    cli_workers,
)
from envprobe.errors import UndeterminedError, UsageError

if TYPE_CHECKING:
    from envprobe.checks.finding import Check, Finding
    from envprobe.checks.gate.about import GateContext, Unjudged
    from envprobe.checks.gate.plan import Plan
    from envprobe.checks.registry import Result
    from envprobe.checks.rehearse.about import Rehearsed
    from envprobe.checks.trace.about import Expected
    from envprobe.checks.unit.about import UnitContext
    from envprobe.config import Config
    from envprobe.launch.definition import Definition
    from envprobe.report.gate_model import Part
    from envprobe.startup.traced import Traced

_RUNNING: Final = ("unit-not-restarted", "env-file-newer", "unit-failed")
"""What `unit` finds of the process that runs now, or of the last one."""
_ENDED: Final = "it is of the process before the restart that this gate is for"
_DECLARED: Final = "declared-unexpected"
_PROVEN: Final = "each rehearsed worker has what is expected: a hook or the framework sets it"


@dataclasses.dataclass(frozen=True)
class Ask:
    """What every part is asked with: the plan, the configuration, and from where 1 begins."""

    plan: Plan
    config: Config
    subject: str
    fail_on: str

    @property
    def accepted(self) -> frozenset[str]:
        """The checks of which the unknown is accepted."""
        return frozenset(self.config.allow_unknown)


def of_gate(ask: Ask, context: GateContext, checks: Iterable[Check]) -> Result:
    """Return what checks of `gate` itself find."""
    from envprobe.checks.registry import run_checks

    return run_checks(checks, context, ask.config.ignore)


def made(ask: Ask, name: str, checks: Iterable[Check], *results: Result) -> Part:
    """Return a part of what its checks have found."""
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.registry import Result
    from envprobe.report.gate_model import Part

    findings = [one for result in results for one in result.findings]
    findings.sort(key=lambda one: -one.severity.rank)
    whole = Result(tuple(findings), tuple(one for result in results for one in result.ignored))
    judged = verdict.of_findings(whole, ask.accepted, Severity(ask.fail_on))
    return Part(name, tuple(checks), whole, judged)


# --- before a start ------------------------------------------------------------------------------


def unit(ask: Ask, context: UnitContext, proven: Container[str] = ()) -> Part:
    """Judge what a definition hands over, and what is expected of it.

    `proven` are variables that rehearsed workers have as expected, whatever is handed over.
    """
    from envprobe.checks.gate import hook_ruled_out
    from envprobe.checks.gate.about import GateContext
    from envprobe.checks.gate.plan import UNIT, Phase, pythons
    from envprobe.checks.unit.registry import CHECKS

    expected = dataclasses.replace(context, expectations=ask.plan.declared)
    if ask.plan.phase is Phase.STATIC:
        read = tuple(one for one in context.entries.get(0, ()) if not one.reason)
        definitions = tuple(map(_without_lacking, expected.definitions))
        expected = dataclasses.replace(expected, entries={0: read}, definitions=definitions)
    options = cli_unit.Options(fail_on=ask.fail_on)
    report = cli_unit.judged(expected, ask.accepted, options, ask.config.ignore)
    (definition,) = context.definitions
    kept = _apart(_without_the_running(report.result, definition), proven)
    checks, more = CHECKS, []
    if ask.plan.phase is Phase.STATIC:
        own = GateContext(ask.plan, ask.subject, pythons=pythons(definition))
        more = [of_gate(ask, own, (hook_ruled_out.CHECK,))]
        checks = (*CHECKS, hook_ruled_out.CHECK)
    return made(ask, UNIT, checks, kept, *more)


def _without_lacking(definition: Definition) -> Definition:
    """Return a definition of which no environment file and no interpreter is missed here.

    They are on the machine of the server; the plan lists the files.
    """
    from envprobe.checks.gate.plan import not_here

    lacking = not_here(definition)
    kept = tuple(one for one in definition.remarks if one not in lacking)
    launches = tuple(dataclasses.replace(one, missing="") for one in definition.launches)
    return dataclasses.replace(definition, remarks=kept, launches=launches)


def _without_the_running(result: Result, definition: Definition) -> Result:
    """Keep apart what was found of the process that a restart ends."""
    live = definition.live
    refused = live is not None and live.refused_until is not None
    over = [one for one in _RUNNING if one != "unit-failed" or not refused]
    return _kept_apart(result, lambda one: one.check in over, _ENDED)


def _apart(result: Result, proven: Container[str]) -> Result:
    """Keep apart that something is not handed over which the workers get in another way."""

    def over(one: Finding) -> bool:
        return one.check == _DECLARED and not one.undetermined and one.variable in proven

    return _kept_apart(result, over, _PROVEN)


def _kept_apart(result: Result, over: Callable[[Finding], bool], reason: str) -> Result:
    return dataclasses.replace(
        result,
        findings=tuple(one for one in result.findings if not over(one)),
        ignored=(*result.ignored, *((one, reason) for one in result.findings if over(one))),
    )


def startup(ask: Ask, definition: Definition) -> Part:
    """Trace the declared interpreter, and judge the hooks that are expected."""
    from envprobe.checks.gate import hook_not_as_expected, startup_not_judged
    from envprobe.checks.gate.about import GateContext, Unjudged
    from envprobe.checks.gate.plan import STARTUP
    from envprobe.checks.trace.about import Expected
    from envprobe.checks.trace.registry import CHECKS

    winners = [one.source for one in ask.plan.hooks if hook_not_as_expected.by_winner(one)]
    expected = Expected(
        winner=winners[0] if winners else None,
        reach=hook_not_as_expected.CHILDREN if winners else (),
    )
    traced: tuple[Traced, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    try:
        traced = _traced(definition, expected)
    except (UndeterminedError, UsageError) as error:
        unjudged = (Unjudged(STARTUP, error.message, error.remedy),)
    options = cli_trace.Options(fail_on=ask.fail_on)
    results = [cli_trace.judged(one, expected, ask.config, options).result for one in traced]
    own = (startup_not_judged.CHECK, hook_not_as_expected.CHECK)
    context = GateContext(ask.plan, ask.subject, traced=traced, unjudged=unjudged)
    checks = (*(CHECKS if traced else ()), *own)
    return made(ask, STARTUP, checks, *results, of_gate(ask, context, own))


def _traced(definition: Definition, expected: Expected) -> tuple[Traced, ...]:
    """Run each interpreter that a definition starts, with its hooks, and say so on stderr."""
    from envprobe.startup import traced
    from envprobe.startup.examine import Questions

    questions = Questions(cost_runs=0, wanted=expected.winner or "")
    return (traced.trace_definition(definition, questions, cli_output.tell),)


def rehearsal(
    ask: Ask, definition: Definition, options: cli_rehearse.Options
) -> tuple[Part, frozenset[str]]:
    """Rehearse the start with real children, and judge what they have.

    Returns the variables besides that are in each rehearsed worker as they are expected.
    """
    from envprobe.checks.gate import rehearsal_not_judged
    from envprobe.checks.gate.about import GateContext, Unjudged
    from envprobe.checks.gate.plan import REHEARSAL
    from envprobe.checks.rehearse.registry import KNOWN
    from envprobe.report import rehearse_model
    from envprobe.report.gate_model import Part

    plan = ask.plan
    expected = dataclasses.replace(
        ask.config, expectations=plan.children, hooks=plan.hooks, patches=plan.patches
    )
    try:
        report = cli_rehearse.judged(definition, expected, options)
    except (UndeterminedError, UsageError) as error:
        own = (rehearsal_not_judged.CHECK,)
        unjudged = (Unjudged(REHEARSAL, error.message, error.remedy),)
        context = GateContext(plan, ask.subject, unjudged=unjudged)
        return made(ask, REHEARSAL, own, of_gate(ask, context, own)), frozenset()
    rehearsed = report.context.rehearsed
    notes = [line for one in rehearsed for line in rehearse_model.chosen(one.rehearsal)]
    part = Part(
        REHEARSAL,
        KNOWN,
        report.result,
        report.verdict,
        notes=tuple(dict.fromkeys(notes)),
        called=lambda pid: _member(rehearsed, pid),
    )
    return part, _proven(rehearsed)


def _member(rehearsed: tuple[Rehearsed, ...], pid: int) -> str:
    """Return what a process stood for in its rehearsal."""
    members = (member for one in rehearsed for member in one.rehearsal.members)
    return next((f"{one.name} (PID {pid})" for one in members if one.pid == pid), f"PID {pid}")


def _proven(rehearsed: tuple[Rehearsed, ...]) -> frozenset[str]:
    from envprobe.checks.outcomes import Status, outcomes

    if any(one.scan is None or not one.rehearsal.workers for one in rehearsed):
        return frozenset()
    judged = [told for one in rehearsed if one.scan for told in one.scan.once(outcomes)]
    broken = {told.expectation.name for told in judged if told.status is not Status.HOLDS}
    return frozenset(told.expectation.name for told in judged) - broken


def kernel(ask: Ask, options: cli_kernel.Options | None) -> list[Part]:
    """Try the kernel that is expected; without one there is no such part.

    `options` name what starts the server; None: nothing says which interpreter that is.
    """
    from envprobe.checks.gate import kernel_not_installed, kernel_not_judged, kernel_other_gpu
    from envprobe.checks.gate.about import GateContext, Unjudged
    from envprobe.checks.gate.plan import KERNEL
    from envprobe.checks.kernel.registry import CHECKS
    from envprobe.report.kernel_model import headline

    if not any(KERNEL in stand.parts for stand in ask.plan.stands):
        return []
    own = (kernel_not_judged.CHECK, kernel_other_gpu.CHECK, kernel_not_installed.CHECK)
    context = GateContext(ask.plan, ask.subject)
    if options is None:
        reason = "a process does not say how its interpreter was started"
        lacking = Unjudged(KERNEL, reason, "Name the unit: `envprobe gate --unit NAME --live`.")
        context = dataclasses.replace(context, unjudged=(lacking,))
        return [made(ask, KERNEL, own, of_gate(ask, context, own))]
    try:
        facts = cli_kernel.found(options)
    except (UndeterminedError, UsageError) as error:
        lacking = Unjudged(KERNEL, error.message, error.remedy)
        context = dataclasses.replace(context, unjudged=(lacking,))
        return [made(ask, KERNEL, own, of_gate(ask, context, own))]
    result = cli_kernel.judged(facts, ask.config, options).result
    context = dataclasses.replace(context, kernel=facts)
    part = made(ask, KERNEL, (*CHECKS, *own), result, of_gate(ask, context, own))
    return [dataclasses.replace(part, notes=(headline(facts),))]


# --- after a start -------------------------------------------------------------------------------


def workers(ask: Ask, options: cli_workers.Options) -> Part:
    """Judge the running server; `options` are those of `workers`."""
    from envprobe import cli_facts
    from envprobe.checks import who
    from envprobe.checks.gate.plan import WORKERS
    from envprobe.checks.registry import CHECKS
    from envprobe.report.gate_model import Part

    snapshots = cli_workers.snapshots_of(options, ask.config)
    config = ask.config if options.unmask else cli_facts.covered(ask.config, snapshots)
    (scan,) = cli_workers.judged(snapshots, config, ask.fail_on).scans
    return Part(
        WORKERS,
        CHECKS,
        scan.result,
        scan.verdict,
        notes=scan.snapshot.notes,
        called=lambda pid: who.named(scan.context, pid),
    )
