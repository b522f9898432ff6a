"""`envprobe gate`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING

from envprobe import (
    cli_gateparts,
    cli_kernel,
    cli_rehearse,
    cli_report,
    cli_unit,
    cli_workers,
)
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.checks.gate.plan import Phase
    from envprobe.checks.unit.about import UnitContext
    from envprobe.config import Config
    from envprobe.report.gate_model import Part, Report

_BASELINE = (
    "Write what must hold to a file and give it with --config, or have it made from a healthy"
    " server: `envprobe baseline --pid PID > envprobe.toml`."
)


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `gate` says, as it was given; `command` follows `--`."""

    config: str | None = None
    unit: tuple[str, ...] = ()
    user: bool = False
    command: tuple[str, ...] | None = None
    pid: int | None = None
    match: tuple[str, ...] = ()
    workers: int | None = None
    framework: str | None = None
    start_method: str | None = None
    live: bool = False
    static: bool = False
    wait: tuple[str, ...] = ()
    timeout: float | None = None
    nccl_log: tuple[str, ...] = ()
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False


def run(options: Options) -> Exit:
    """Ask every part, judge and report; return the exit code. Raises EnvprobeError."""

    def make() -> Report:
        phase = _phase(options)
        return judged(options, phase, _config(options))

    report = cli_report.reported(options, make, render)
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def judged(options: Options, phase: Phase, config: Config) -> Report:
    """Return the report of all parts."""
    from envprobe.checks.finding import Severity
    from envprobe.checks.gate import nothing_decided, plan
    from envprobe.checks.gate.about import GateContext
    from envprobe.report.gate_model import Report

    if phase is plan.Phase.LIVE:
        subject = options.unit[0] if options.unit else f"PID {options.pid}"
        ask = cli_gateparts.Ask(plan.live(config), config, subject, options.fail_on)
        parts = [cli_gateparts.workers(ask, _of_workers(options))]
    else:
        context = cli_unit.context_of(_of_unit(options))
        (definition,) = context.definitions
        made = plan.before(config, phase, definition, context.entries.get(0, ()))
        ask = cli_gateparts.Ask(made, config, definition.subject, options.fail_on)
        parts = _before(ask, context, options)
    parts += cli_gateparts.kernel(ask, _of_kernel(options, config))
    checks = (nothing_decided.CHECK,)
    own = cli_gateparts.of_gate(ask, GateContext(ask.plan, ask.subject), checks)
    if own.findings:
        parts.append(cli_gateparts.made(ask, "gate", checks, own))
    return Report(
        ask.plan,
        ask.subject,
        tuple(parts),
        ask.accepted,
        Severity(options.fail_on),
        options.exit_zero,
    )


def _before(ask: cli_gateparts.Ask, context: UnitContext, options: Options) -> list[Part]:
    """Return the parts before a start; without --static the declared interpreter is run."""
    from envprobe.checks.gate.plan import Phase

    if ask.plan.phase is Phase.STATIC:
        return [cli_gateparts.unit(ask, context)]
    (definition,) = context.definitions
    traced = cli_gateparts.startup(ask, definition)
    asked = _of_rehearse(options, ask)
    rehearsed, proven = cli_gateparts.rehearsal(ask, definition, asked)
    return [cli_gateparts.unit(ask, context, proven), traced, rehearsed]


render = functools.partial(cli_report.render, "gate")


# --- what was asked for --------------------------------------------------------------------------


def _phase(options: Options) -> Phase:
    """Return what is looked at. Raises UsageError for options that do not go together."""
    from envprobe.checks.gate.plan import Phase

    running = options.pid is not None or options.live
    defined = bool(options.unit) or options.command is not None
    if options.pid is not None and defined:
        raise UsageError(
            "--pid names a running server, and cannot be used with a launch definition",
            "Leave one of them out; --unit NAME --live looks at the unit's running server.",
        )
    if options.live and options.pid is None and not options.unit:
        raise UsageError(
            "--live needs --unit or --pid", "Write `envprobe gate --unit NAME --live`."
        )
    if not running and not defined:
        raise UsageError(
            "nothing was named to judge",
            "Name --unit NAME|FILE or `-- COMMAND...` before a start, and --pid PID or"
            " --unit NAME --live after it.",
        )
    if options.static and running:
        raise UsageError("--static asks files, not a running server", "Leave --static out.")
    if options.user and not options.unit:
        raise UsageError("--user needs --unit", "Name the unit with --unit NAME.")
    phase = Phase.STATIC if options.static else Phase.BEFORE
    phase = Phase.LIVE if running else phase
    _refuse_others(options, phase)
    return phase


def _refuse_others(options: Options, phase: Phase) -> None:
    """Raise UsageError for an option that is of another phase."""
    from envprobe.checks.gate.plan import Phase

    given = {
        "--wait": (options.wait, Phase.LIVE, "a running server", "Add --live, or leave it out."),
        "--nccl-log": (options.nccl_log, Phase.LIVE, "a running server", "Add --live."),
        "--match": (options.match, Phase.LIVE, "a running server", "Add --live, or leave it out."),
        "--workers": (options.workers, Phase.BEFORE, "the rehearsal", "Leave it out."),
        "--framework": (options.framework, Phase.BEFORE, "the rehearsal", "Leave it out."),
        "--start-method": (options.start_method, Phase.BEFORE, "the rehearsal", "Leave it out."),
    }
    for name, (value, of, what, remedy) in given.items():
        if value not in ((), None) and phase is not of:
            raise UsageError(f"{name} is for {what}", remedy)


def _config(options: Options) -> Config:
    """Return what is expected. Raises UsageError if nothing is: then there is nothing to pass."""
    from envprobe.configfile import DEFAULT_NAME

    if options.config is None and not os.path.lexists(DEFAULT_NAME):
        raise UsageError(f"there is no --config, and no ./{DEFAULT_NAME}", _BASELINE)
    given = _of_workers(options)
    cli_workers.check(given)
    config = cli_workers.config_of(given)
    if not config.expects:
        raise UsageError(f"{options.config or DEFAULT_NAME} expects nothing", _BASELINE)
    return config


def _of_unit(options: Options) -> cli_unit.Options:
    """Return what `unit` is asked with. Raises UsageError unless one definition is named."""
    named = [one for one in options.unit if not one.endswith(".conf")]
    if len(named) + (options.command is not None) != 1:
        raise UsageError(
            "`gate` takes one launch definition",
            "Name one --unit, with its drop-ins (*.conf) by more --unit behind it, or one command.",
        )
    return cli_unit.Options(
        units=options.unit,
        command=options.command,
        user=options.user,
        no_interpreter=options.static,
    )


def _of_rehearse(options: Options, ask: cli_gateparts.Ask) -> cli_rehearse.Options:
    """Return what `rehearse` is asked with: modules to be patched are really imported.

    Children are spawned where nothing says how they are started: a forked one would have whatever
    its parent has, and so prove little.
    """
    return cli_rehearse.Options(
        workers=options.workers,
        framework=options.framework,
        start_method=options.start_method,
        otherwise="spawn",
        import_target=bool(ask.plan.patches),
        fail_on=options.fail_on,
    )


def _of_kernel(options: Options, config: Config) -> cli_kernel.Options | None:
    """Return what `kernel` is asked with: what is installed is run, else it is only compiled.

    None if it is to be run in the interpreter of a process, which says not how that was started.
    """
    expected = config.kernel
    if expected is None or not expected.installed:
        arch = (expected.arch,) if expected is not None else ()
        return cli_kernel.Options(compile_only=True, arch=arch, fail_on=options.fail_on)
    if options.pid is not None:
        return None
    return cli_kernel.Options(
        installed=True,
        unit=options.unit,
        user=options.user,
        command=options.command,
        fail_on=options.fail_on,
    )


def _of_workers(options: Options) -> cli_workers.Options:
    """Return what `workers` is asked with. Raises UsageError for more than one unit."""
    if options.live and len(options.unit) > 1:
        raise UsageError("--live takes one unit", "Name one --unit; its files do not matter.")
    return cli_workers.Options(
        pid=options.pid,
        unit=options.unit[0] if options.live and options.unit else None,
        user=options.user and options.live,
        match=options.match,
        nccl_log=options.nccl_log,
        config=options.config,
        wait=options.wait,
        timeout=options.timeout,
        fail_on=options.fail_on,
        allow_unknown=options.allow_unknown,
        unmask=options.unmask,
    )
