"""`envprobe rehearse`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from envprobe import cli_definition, cli_output, cli_report, cli_workers, redact
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.checks.finding import Context
    from envprobe.checks.rehearse.about import RehearseContext, Rehearsed
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
    """What the command line of `rehearse` says, as it was given; `command` follows `--`."""

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

    config = dataclasses.replace(config, nccl=(), libraries=(), workers={}, kernel=None)
    context = context_of(definition, config, options)
    result = run_checks(registry.running(), context, config.ignore)
    severity = Severity(options.fail_on)
    bare = any(not one.rehearsal.workers for one in context.rehearsed)
    others = (Exit.UNDETERMINED,) if bare else ()
    made = verdict.of_findings(result, config.allow_unknown, severity, others)
    return Report(context, result, made, config, severity, options.exit_zero)


def context_of(definition: Definition, config: Config, options: Options) -> RehearseContext:
    """Rehearse every interpreter that a definition starts; return what the checks look at."""
    from envprobe.checks.rehearse.about import RehearseContext
    from envprobe.startup.declared import starts_of

    patches = _patches(options, config.patches)
    starts = starts_of(definition)
    unit = _unit(definition)
    rehearsed = tuple(
        _rehearsed(definition, start, config, patches, options, len(starts) > 1) for start in starts
    )
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


def _patches(options: Options, expected: Iterable[PatchExpectation]) -> tuple[str, ...]:
    """Return all attributes to ask about; UsageError for what names none."""
    from envprobe.cpython.query import Query

    plain = [one for one in options.patch if "=" not in one]
    every = dict.fromkeys((*plain, *(one.query for one in expected)))
    for patch in every:
        Query.parse(patch)
        if ":" not in patch:
            raise UsageError(
                f"--patch {patch} names no attribute", "Write MODULE:NAME or MODULE:Class.attr."
            )
    return tuple(every)


def _rehearsed(
    definition: Definition,
    start: Start,
    config: Config,
    patches: tuple[str, ...],
    options: Options,
    several: bool,
) -> Rehearsed:
    from envprobe.checks.rehearse.about import Rehearsed
    from envprobe.rehearsal.plan import Wanted
    from envprobe.rehearsal.run import Request, rehearse

    seconds = options.timeout
    if seconds is None:
        seconds = _WITH_IMPORT if options.import_target else _SECONDS
    if not 0 < seconds <= _MAX_SECONDS:
        raise UsageError(
            f"--timeout takes a number of seconds above 0 and at most {_MAX_SECONDS:g}",
            "Write for example --timeout 60.",
        )
    set_here = (*definition.relevant, *start.declared.declared.names)
    named = tuple(one.replace("[", "[[]") for one in dict.fromkeys(set_here))
    request = Request(
        wanted=Wanted(options.workers, options.framework, options.start_method),
        patches=patches,
        names=cli_workers.wanted(config, named, everything=options.show_all),
        import_target=options.import_target,
        with_gpu=options.with_gpu,
        seconds=seconds,
        manager=_manager(definition) if start.sandbox else None,
    )
    _tell(start)
    found = rehearse(start, request)
    place = f" at {start.declared.place}" if several else ""
    return Rehearsed(found, _scan(found, config), f"{definition.subject}{place}")


def _manager(definition: Definition) -> Manager:
    """Return the manager of the kind that the unit is for."""
    from envprobe.launch.manager import Manager

    variables = cli_definition.context_of().variables
    return Manager(definition.user_manager, variables)


def _tell(start: Start) -> None:
    launch = start.launch
    whose = "" if launch.rights is None else f" as {launch.rights}"
    told = f"this runs {launch.python} with its start-up hooks{whose}, and children of it"
    cli_output.note(f"envprobe: {redact.show_text(told)}")


def _scan(rehearsal: Rehearsal, config: Config) -> Context | None:
    if rehearsal.snapshot is None:
        return None
    return cli_workers.context_of(rehearsal.snapshot, config)


def _unit(definition: Definition) -> UnitContext:
    """Return a look at the first files of what is started; none of them is run."""
    from envprobe.checks.unit.about import UnitContext
    from envprobe.launch import entry

    launches = [one for one in definition.launches if one.python and one.container is None]
    looks = tuple(looked for one in launches if (looked := entry.look(one)) is not None)
    return UnitContext((definition,), entries={0: looks})
