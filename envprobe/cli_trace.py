"""`envprobe trace-sitecustomize`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Final

from envprobe import cli_definition, cli_output, cli_report
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.checks.trace.about import Expected
    from envprobe.config import Config
    from envprobe.report.trace_model import Report
    from envprobe.startup.examine import Questions
    from envprobe.startup.traced import Traced
    from envprobe.startup.types import Launch

_MAX_SECONDS: Final = 3600.0
_MAX_RUNS: Final = 101
_LETTERS: Final = frozenset("bBdEIOPqRsSuv")
"""Options of Python without a value that may stand before a program."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `trace-sitecustomize` says; `command` follows `--`."""

    python: str | None = None
    pid: int | None = None
    unit: tuple[str, ...] = ()
    user: bool = False
    command: tuple[str, ...] | None = None
    env: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    cwd: str | None = None
    patch: tuple[str, ...] = ()
    spawn: bool = True
    expect_winner: str | None = None
    expect_reach: tuple[str, ...] = ()
    config: str | None = None
    runs: int = 5
    timeout: float = 60.0
    with_gpu: bool = False
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False


def run(options: Options) -> Exit:
    """Trace, judge and report; return the exit code. Raises EnvprobeError."""
    report = cli_report.reported(options, lambda: _report(options), render)
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def _report(options: Options) -> Report:
    from envprobe.checks.trace.registry import CHECKS

    expected = expected_of(options)
    config = cli_report.config_of(
        options.config, options.allow_unknown, CHECKS, "trace-sitecustomize"
    )
    return judged(traced(options), expected, config, options)


def traced(options: Options) -> Traced:
    """Run what was asked for, and say on stderr that foreign code is run."""
    from envprobe.startup import traced

    questions = _questions(options)
    declared = options.unit or options.command is not None
    if options.user and not options.unit:
        raise UsageError("--user needs --unit", "Name the unit with --unit NAME.")
    if declared:
        _refuse_others(options, "--unit" if options.unit else "`-- COMMAND`")
        context = cli_definition.context_of(user=options.user)
        found = cli_definition.of_one("trace-sitecustomize", options.unit, options.command, context)
        return traced.trace_definition(found, questions, cli_output.tell)
    if options.pid is None:
        return traced.trace_python(options.python, _launch(options), questions, cli_output.tell)
    _refuse_others(options, "--pid")
    return traced.trace_pid(options.pid, questions, cli_output.tell)


_SAY_ALL: Final = {
    "--pid": "With --pid the running process says how it was started.",
    "--unit": "With --unit the unit says all of it.",
    "`-- COMMAND`": "The command line says all of it; write `-- env NAME=VALUE COMMAND` to add.",
}


def _refuse_others(options: Options, given: str) -> None:
    """Raise UsageError for an option that says what `given` says already."""
    others = ("python", "cwd", "env", "unset", "flags", *(("pid",) if given != "--pid" else ()))
    for name in others:
        if getattr(options, name) not in (None, ()):
            raise UsageError(
                f"--{name.replace('flags', 'flag')} and {given} exclude each other",
                _SAY_ALL[given],
            )


def judged(found: Traced, expected: Expected, config: Config, options: Options) -> Report:
    """Return the report on what was found; of `config` what it ignores and accepts counts."""
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.registry import run_checks
    from envprobe.checks.trace.about import TraceContext
    from envprobe.checks.trace.registry import CHECKS
    from envprobe.report.trace_model import Report

    context = TraceContext(found, expected)
    result = run_checks(CHECKS, context, config.ignore)
    accepted = frozenset(config.allow_unknown)
    severity = Severity(options.fail_on)
    made = verdict.of_findings(result, accepted, severity)
    return Report(context, result, made, accepted, severity, options.exit_zero)


render = functools.partial(cli_report.render, "trace")


# --- what was asked for --------------------------------------------------------------------------


def _questions(options: Options) -> Questions:
    from envprobe.startup import reach
    from envprobe.startup.examine import Questions

    if not 0 < options.timeout <= _MAX_SECONDS:
        raise UsageError(
            f"--timeout takes a number of seconds above 0 and at most {_MAX_SECONDS:g}",
            "Write for example --timeout 60.",
        )
    if not 0 <= options.runs <= _MAX_RUNS:
        raise UsageError(
            f"--runs takes a number from 0 to {_MAX_RUNS}", "0 does not measure the cost."
        )
    return Questions(
        patches=options.patch,
        methods=reach.METHODS if options.spawn else (),
        cost_runs=options.runs,
        seconds=options.timeout,
        with_gpu=options.with_gpu,
        wanted=options.expect_winner or "",
    )


def expected_of(options: Options) -> Expected:
    """Return what must hold; UsageError for what cannot be asked."""
    from envprobe.checks.trace.about import Expected
    from envprobe.cpython.query import Query
    from envprobe.startup import reach

    for patch in options.patch:
        Query.parse(patch)
        if ":" not in patch:
            raise UsageError(
                f"--patch {patch} names no attribute", "Write MODULE:NAME or MODULE:Class.attr."
            )
    for method in options.expect_reach:
        if method not in reach.METHODS:
            raise UsageError(
                f"--expect-reach {method}: there is no such way to start a child",
                f"Name one of {', '.join(reach.METHODS)}.",
            )
    if options.expect_reach and not options.spawn:
        raise UsageError(
            "--expect-reach needs children, and --no-spawn starts none", "Leave out one of them."
        )
    if options.expect_winner == "":
        raise UsageError("--expect-winner is empty", "Give it the path of the hook.")
    return Expected(options.expect_winner, options.expect_reach, options.patch)


def _launch(options: Options) -> Launch:
    """Return the launch that the options describe; the interpreter is chosen later."""
    from envprobe.isolation import caller_environment
    from envprobe.startup.types import Launch

    environment = {
        os.fsdecode(name): os.fsdecode(value) for name, value in caller_environment().items()
    }
    for given in options.env:
        name, equals, value = given.partition("=")
        if not name or not equals:
            raise UsageError(f"--env {given} sets nothing", "Write --env NAME=VALUE.")
        environment[name] = value
    for name in options.unset:
        environment.pop(name, None)
    cwd = _cwd(options)
    if not os.path.isdir(cwd):
        raise UsageError(f"--cwd {cwd} is no directory", "Give a directory that exists.")
    if not os.access(cwd, os.X_OK):
        raise UsageError(
            f"--cwd {cwd} may not be entered by this user", "Give another, or run as its owner."
        )
    return Launch(python="", environment=environment, flags=_flags(options), cwd=cwd)


def _cwd(options: Options) -> str:
    try:
        return os.path.abspath(options.cwd or ".")
    except FileNotFoundError:
        raise UsageError(
            "the current directory does not exist any more",
            "Change to one that does, or give an absolute --cwd DIR.",
        ) from None


def _flags(options: Options) -> tuple[str, ...]:
    return tuple(_flag(flag) for flag in options.flags)


def _flag(flag: str) -> str:
    """Return an option of Python as one word; its value may stand after a blank."""
    plain = flag[:1] == "-" and len(flag) > 1 and set(flag[1:]) <= _LETTERS
    value = flag[2:].strip() if flag.startswith(("-X", "-W")) else ""
    if not plain and not value:
        raise UsageError(
            f"--flag {flag}: Python has no such option before a program",
            "Write for example --flag=-I, or --flag=-Xdev.",
        )
    return flag if plain else flag[:2] + value
