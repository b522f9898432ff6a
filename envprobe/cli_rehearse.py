"""`envprobe rehearse`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from envprobe import cli_definition, cli_output, cli_report, cli_workers, redact
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.checks.finding import Context
    from envprobe.checks.rehearse.about import Open, RehearseContext, Rehearsed
    from envprobe.checks.unit.about import UnitContext
    from envprobe.config import Config, PatchExpectation
    from envprobe.launch.definition import Definition
    from envprobe.launch.manager import Manager
    from envprobe.rehearsal.types import Rehearsal
    from envprobe.report.model import Presentation
    from envprobe.report.rehearse_model import Report
    from envprobe.startup.declared import Start

_MAX_SECONDS: Final = 3600.0
_SECONDS: Final = 60.0
_WITH_IMPORT: Final = 300.0
"""SGLang's attention backend takes half a minute to import on two busy cores, in each worker."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `rehearse` says, as it was given; `command` follows `--`.

    `otherwise` is the start method where neither it nor a framework says one.
    """

    unit: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None
    user: bool = False
    workers: int | None = None
    framework: str | None = None
    start_method: str | None = None
    patch: tuple[str, ...] = ()
    import_target: bool = False
    with_gpu: bool = False
    expect: tuple[str, ...] = ()
    config: str | None = None
    timeout: float | None = None
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False
    otherwise: str = ""


def run(options: Options) -> Exit:
    """Rehearse, judge and report; return the exit code. Raises EnvprobeError."""
    report = cli_report.reported(options, lambda: _report(options), render)
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def _report(options: Options) -> Report:
    config = config_of(options)
    context = cli_definition.context_of(user=options.user)
    definition = cli_definition.of_one("rehearse", options.unit, options.command, context)
    return judged(definition, config, options)


def config_of(options: Options) -> Config:
    """Return what is expected, ignored and accepted, in the file and on the command line."""
    from envprobe import expectations, patchexpect
    from envprobe.checks.rehearse.registry import KNOWN
    from envprobe.config import combine

    found = cli_report.config_of(options.config, options.allow_unknown, KNOWN, "rehearse")
    return combine(
        found,
        expectations=[expectations.parse(one) for one in options.expect],
        patches=[patchexpect.parse_patch(one) for one in options.patch if "=" in one],
    )


def judged(definition: Definition, config: Config, options: Options) -> Report:
    """Rehearse a definition and return the report on it; foreign code is run, and that is said.

    Of `config` count the variables, hooks and patches that it expects, and what it ignores and
    accepts. Raises UsageError, and UndeterminedError where nothing can be rehearsed.
    """
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.registry import run_checks
    from envprobe.checks.rehearse import registry
    from envprobe.report.rehearse_model import Report

    expected = _number_of(config)
    config = dataclasses.replace(config, nccl=(), libraries=(), workers={}, kernel=None)
    context = context_of(definition, config, options, expected)
    result = run_checks(registry.running(), context, config.ignore)
    severity = Severity(options.fail_on)
    bare = any(one.scan is None or not one.rehearsal.workers for one in context.rehearsed)
    others = (Exit.UNDETERMINED,) if bare else ()
    made = verdict.of_findings(result, config.allow_unknown, severity, others)
    return Report(context, result, made, config, severity, options.exit_zero)


def context_of(
    definition: Definition, config: Config, options: Options, expected: int | None = None
) -> RehearseContext:
    """Rehearse every interpreter that a definition starts; return what the checks look at.

    `expected` workers are started where neither the options nor the command line say how many.
    """
    from envprobe.checks.rehearse.about import RehearseContext
    from envprobe.startup.declared import starts_of

    asked = _Asked(options, config, _patches(options, config.patches), expected)
    starts = starts_of(definition)
    unit = _unit(definition)
    rehearsed = tuple(_rehearsed(definition, one, asked, len(starts) > 1) for one in starts)
    plain = tuple(one for one in options.patch if "=" not in one)
    return RehearseContext(definition, rehearsed, unit, plain, config.patches)


def render(report: Report, kind: str, presentation: Presentation) -> str:
    """Return the report in one of `cli_workers.REPORT_FORMATS`."""
    if kind == "json":
        from envprobe.report import rehearse_document

        return rehearse_document.render(report, presentation)
    if kind != "text":
        from envprobe.report import formats, rehearse_outlet

        return formats.render(kind, rehearse_outlet.build(report, presentation))
    from envprobe.report import rehearse

    return rehearse.render(report, presentation)


# --- what was asked for --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What every start of a definition is rehearsed with."""

    options: Options
    config: Config
    patches: tuple[str, ...]
    expected: int | None


def _number_of(config: Config) -> int | None:
    """Return how many workers are expected, None unless it is of one kind of them."""
    from envprobe.process import roletable

    kinds = {one.role for one in roletable.rows() if one.worker or one.worker_unless_parent_of}
    numbers = [number for role, number in config.workers.items() if role in {"", *kinds}]
    return numbers[0] if len(numbers) == 1 else None


def _patches(options: Options, expected: Iterable[PatchExpectation]) -> tuple[str, ...]:
    """Return all attributes to ask about; UsageError for what names none."""
    from envprobe.cpython.query import Query

    origins = {one: f"--patch {one}" for one in options.patch if "=" not in one}
    origins |= {one.query: one.origin for one in expected}
    for patch, origin in origins.items():
        try:
            Query.parse(patch)
        except UsageError as error:
            raise UsageError(f"{origin}: {error.message}", error.remedy) from None
        if ":" not in patch:
            raise UsageError(
                f"{origin}: {patch} names no attribute", "Write MODULE:NAME or MODULE:Class.attr."
            )
    return tuple(origins)


def _rehearsed(definition: Definition, start: Start, asked: _Asked, several: bool) -> Rehearsed:
    from envprobe.checks.rehearse.about import Rehearsed
    from envprobe.rehearsal.plan import Wanted
    from envprobe.rehearsal.run import Request, rehearse

    options, config = asked.options, asked.config
    seconds = options.timeout
    if seconds is None:
        seconds = _WITH_IMPORT if options.import_target else _SECONDS
    if not 0 < seconds <= _MAX_SECONDS:
        raise UsageError(
            f"--timeout takes a number of seconds above 0 and at most {_MAX_SECONDS:g}",
            "Write for example --timeout 60.",
        )
    set_here = (*definition.relevant, *start.declared.declared.names)
    named = tuple(map(redact.pattern_of, dict.fromkeys(set_here)))
    request = Request(
        wanted=Wanted(
            options.workers,
            options.framework,
            options.start_method,
            asked.expected,
            options.otherwise,
        ),
        patches=asked.patches,
        names=cli_workers.wanted(config, named, everything=options.show_all),
        import_target=options.import_target,
        with_gpu=options.with_gpu,
        seconds=seconds,
        manager=_manager(definition) if start.sandbox else None,
    )
    found = rehearse(start, request, lambda: _tell(start))
    place = f" at {start.declared.place}" if several else ""
    scan, left = _scan(found, config)
    return Rehearsed(found, scan, f"{definition.subject}{place}", left)


def _manager(definition: Definition) -> Manager:
    """Return the manager of the kind that the unit is for."""
    from envprobe.launch.manager import Manager

    variables = cli_definition.context_of().variables
    return Manager(definition.user_manager, variables)


def _tell(start: Start) -> None:
    launch = start.launch
    whose = "" if launch.rights is None else f" as {launch.rights}"
    told = f"this runs {launch.python} with its start-up hooks{whose}, and children of it"
    cli_output.tell(told)


def _scan(rehearsal: Rehearsal, config: Config) -> tuple[Context | None, tuple[Open, ...]]:
    """Return what `workers` makes of the processes, and what is expected that it cannot judge."""
    from envprobe.checks.rehearse import open_names

    if rehearsal.snapshot is None:
        return None, ()
    scan = cli_workers.context_of(rehearsal.snapshot, config)
    left = open_names.of(scan, rehearsal.start, rehearsal.hidden)
    if not left:
        return scan, ()
    without = {one.expectation for one in left}
    kept = tuple(one for one in config.expectations if one not in without)
    kept_only = dataclasses.replace(config, expectations=kept)
    return cli_workers.context_of(rehearsal.snapshot, kept_only), left


def _unit(definition: Definition) -> UnitContext:
    """Return a look at the first files of what is started; none of them is run."""
    from envprobe.checks.unit.about import UnitContext
    from envprobe.launch import entry

    launches = [one for one in definition.launches if one.python and one.container is None]
    looks = tuple(looked for one in launches if (looked := entry.look(one)) is not None)
    return UnitContext((definition,), entries={0: looks})
