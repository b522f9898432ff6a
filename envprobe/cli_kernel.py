"""`envprobe kernel`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shutil
from typing import TYPE_CHECKING, Final

from envprobe import cli_definition, cli_output, cli_report
from envprobe.errors import Exit, UndeterminedError, UsageError

if TYPE_CHECKING:
    from envprobe.config import Config
    from envprobe.kernel.architecture import Architecture
    from envprobe.kernel.facts import KernelFacts
    from envprobe.kernel.start import Asked, Starter
    from envprobe.report.kernel_model import Report
    from envprobe.startup.types import Launch

_MAX_SECONDS: Final = 7200.0
_SIZE: Final = re.compile(r"(\d{1,6})(MiB|GiB)", re.IGNORECASE)
_UNITS: Final = {"mib": 1 << 20, "gib": 1 << 30}
_LEAST_MEMORY: Final = 256 << 20
_INSIDE: Final = "Run envprobe where the unit's own file system is seen."


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `kernel` says; `command` follows `--`.

    `time` and `in_class`: True if a run without that part is no answer, False to leave it out.
    """

    installed: bool = False
    expect_installed: str | None = None
    python: str | None = None
    env: tuple[str, ...] = ()
    unit: tuple[str, ...] = ()
    user: bool = False
    command: tuple[str, ...] | None = None
    device: tuple[int, ...] = ()
    all_devices: bool = False
    memory: str = "1GiB"
    time: bool | None = None
    in_class: bool | None = None
    compile_only: bool = False
    arch: tuple[str, ...] = ()
    archs_of: tuple[str, ...] = ()
    config: str | None = None
    timeout: float = 900.0
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False


def run(options: Options) -> Exit:
    """Do what was asked for, judge and report; return the exit code. Raises EnvprobeError."""
    report = cli_report.reported(options, lambda: _report(options), render)
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def _report(options: Options) -> Report:
    from envprobe.checks.kernel.registry import CHECKS

    config = cli_report.config_of(options.config, options.allow_unknown, CHECKS, "kernel")
    return judged(found(options), config, options)


def found(options: Options) -> KernelFacts:
    """Return what was found; says on stderr what is run, and how far it is.

    Raises UsageError, and UndeterminedError where an interpreter cannot be told or started.
    """
    from envprobe.kernel import library, start
    from envprobe.kernel.facts import KernelFacts, Question

    _require_one_job(options)
    question = Question(
        installed=(options.expect_installed or "") if _installed(options) else None,
        timed=options.time is True,
        in_class=options.in_class is True,
        memory=_memory(options.memory),
        devices=_architectures(options),
    )
    starter = _starter(options)
    if options.archs_of:
        libraries = tuple(one for path in options.archs_of for one in library.read(path))
        if not question.devices:
            visible = start.visible_architectures(starter)
            question = dataclasses.replace(question, devices=visible)
        return KernelFacts(question, libraries=libraries)
    cli_output.tell(f"this runs {starter.launch.python}{_what(options)}")
    if options.compile_only:
        compiled = start.compile_for(question.devices, starter)
        return KernelFacts(question, compile_only=compiled)
    return KernelFacts(question, run=start.run_on_cards(_asked(options), starter))


def judged(facts: KernelFacts, config: Config, options: Options) -> Report:
    """Return the report on what was found; of `config` what it ignores and accepts counts."""
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.kernel.registry import CHECKS
    from envprobe.checks.registry import run_checks
    from envprobe.report.kernel_model import Report

    result = run_checks(CHECKS, facts, config.ignore)
    accepted = frozenset(config.allow_unknown)
    severity = Severity(options.fail_on)
    made = verdict.of_findings(result, accepted, severity)
    return Report(facts, result, made, accepted, severity, options.exit_zero)


render = functools.partial(cli_report.render, "kernel")


# --- what was asked for --------------------------------------------------------------------------


def _installed(options: Options) -> bool:
    return options.installed or options.expect_installed is not None


def _require_one_job(options: Options) -> None:
    jobs = {
        "--installed": _installed(options),
        "--compile-only": options.compile_only,
        "--archs-of": bool(options.archs_of),
    }
    asked = [name for name, given in jobs.items() if given]
    if len(asked) > 1:
        raise UsageError(f"{asked[0]} and {asked[1]} exclude each other", "Run one after another.")
    if options.expect_installed == "":
        raise UsageError("--expect-installed is empty", "Name a module, or a file.")
    job = asked[0] if asked else ""
    if options.compile_only and not options.arch:
        raise UsageError("--compile-only needs --arch", "Write for example --arch sm_120,sm_90.")
    if options.arch and job not in ("--compile-only", "--archs-of"):
        raise UsageError(
            "--arch is for --compile-only and --archs-of: a GPU says itself what it is",
            "Choose the GPU with --device N.",
        )
    on_card = options.device or options.all_devices or options.time is not None
    if on_card and job in ("--compile-only", "--archs-of"):
        raise UsageError(f"{job} runs nothing on a device", "Leave out the options of a run.")
    if options.device and options.all_devices:
        raise UsageError("--device and --all-devices exclude each other", "Leave out one of them.")
    if options.in_class is not None and job:
        raise UsageError(f"--in-class is of the bundled kernel, not of {job}", "Leave it out.")
    if not 0 < options.timeout <= _MAX_SECONDS:
        raise UsageError(
            f"--timeout takes a number of seconds above 0 and at most {_MAX_SECONDS:g}",
            "Write for example --timeout 900.",
        )


def _memory(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * _UNITS[found[2].lower()] if found is not None else 0
    if size < _LEAST_MEMORY:
        raise UsageError(
            f"--memory {text} is no size of at least {_LEAST_MEMORY >> 20} MiB",
            "Write for example --memory 4GiB.",
        )
    return size


def _architectures(options: Options) -> tuple[Architecture, ...]:
    from envprobe.kernel.architecture import Architecture

    words = [one for given in options.arch for one in given.split(",")]
    return tuple(dict.fromkeys(Architecture.parse(one) for one in words))


def _asked(options: Options) -> Asked:
    from envprobe.kernel.start import Asked

    devices: tuple[int, ...] | None = options.device or None
    return Asked(
        devices=() if options.all_devices else devices,
        memory=_memory(options.memory),
        bundled=not _installed(options),
        time=options.time is not False,
        in_class=options.in_class is not False,
        installed=_installed(options),
    )


def _what(options: Options) -> str:
    if _installed(options):
        return " and with it its start-up hooks, imports SGLang, and calls what is in its class"
    if options.compile_only:
        return " to compile the bundled kernel; nothing runs on a device"
    return " to build the bundled kernel and run it on the GPU"


# --- the interpreter -----------------------------------------------------------------------------


def _starter(options: Options) -> Starter:
    from envprobe.kernel import start
    from envprobe.kernel.start import Starter

    declared = options.unit or options.command is not None
    if options.user and not options.unit:
        raise UsageError("--user needs --unit", "Name the unit with --unit NAME.")
    if declared:
        launch, chosen, gaps = _declared(options)
    else:
        environment = _environment(options)
        gaps = ()
        if options.python is not None:
            launch, chosen = _named(options.python, environment), "given with --python"
        elif _installed(options):
            launch = _named("python3", environment)
            chosen = "the first python3 on PATH"
        else:
            launch, chosen = start.own_launch(environment), "envprobe's own"
    return Starter(launch, chosen, options.timeout, cli_output.tell, gaps)


def _declared(options: Options) -> tuple[Launch, str, tuple[str, ...]]:
    """Return the start of the one interpreter that a definition starts."""
    from envprobe.launch import sandbox
    from envprobe.startup import declared

    given = "--unit" if options.unit else "`-- COMMAND`"
    for name in ("python", "env"):
        if getattr(options, name) not in (None, ()):
            raise UsageError(f"--{name} and {given} exclude each other", "Leave out one of them.")
    context = cli_definition.context_of(user=options.user)
    definition = cli_definition.of_one("kernel", options.unit, options.command, context)
    starts = declared.starts_of(definition)
    different = {one.launch.python for one in starts}
    if len(different) > 1:
        raise UndeterminedError(
            f"{definition.subject} starts several interpreters: {', '.join(sorted(different))}",
            "Name one with --python P, and its variables with --env K=V.",
        )
    start = starts[0]
    by = sandbox.concerning(start.sandbox, start.launch.python)
    if by is not None:
        told = f"{by.place}: what {start.launch.python} is to the unit is not known here ({by})"
        raise UndeterminedError(told, _INSIDE)
    gaps = (*start.gaps, *(f"{name}: {why}" for name, why in start.undecided.items()))
    return start.launch, f"declared by {definition.subject}", gaps


def _environment(options: Options) -> dict[str, str]:
    from envprobe.isolation import caller_environment

    environment = {
        os.fsdecode(name): os.fsdecode(value) for name, value in caller_environment().items()
    }
    for given in options.env:
        name, equals, value = given.partition("=")
        if not name or not equals:
            raise UsageError(f"--env {given} sets nothing", "Write --env NAME=VALUE.")
        environment[name] = value
    return environment


def _named(python: str, environment: dict[str, str]) -> Launch:
    from envprobe.startup.types import Launch

    path = shutil.which(python, path=environment.get("PATH", os.defpath))
    if path is None:
        raise UsageError(f"{python} is no program that can be run", "Give --python PATH.")
    return Launch(os.path.abspath(path), environment, cwd=os.getcwd())
