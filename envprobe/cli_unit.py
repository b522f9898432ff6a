"""`envprobe unit`: from parsed options to an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import TYPE_CHECKING

from envprobe import cli_definition, cli_output, cli_workers, redact
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.checks.unit.about import UnitContext
    from envprobe.launch.definition import Definition
    from envprobe.launch.entry import EntryLook
    from envprobe.report.model import Presentation
    from envprobe.report.unit_model import Report


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `unit` says, as it was given; `command` follows `--`."""

    units: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None
    user: bool = False
    expect: tuple[str, ...] = ()
    env_file: tuple[str, ...] = ()
    compose: str | None = None
    service: str | None = None
    kube: tuple[str, ...] = ()
    container: str | None = None
    image_inspect: str | None = None
    no_interpreter: bool = False
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False


def run(options: Options) -> Exit:
    """Read the definitions, judge and report; return the exit code. Raises EnvprobeError."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(cli_output.told_on_stdout(options.format))
        outputs = cli_workers.formats_by_path(options.output)
        files = stack.enter_context(cli_output.reports(outputs, private=options.unmask))
        accepted = frozenset(_accepted(options))
        report = judged(context_of(options), accepted, options)
        for path, kind in outputs.items():
            files[path].write(render(report, kind, _presentation(options, to_file=True)))
        cli_output.write(render(report, options.format, _presentation(options)))
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def context_of(options: Options) -> UnitContext:
    """Return the definitions that were named, with a look at the files they begin with."""
    from envprobe.checks.unit.about import UnitContext
    from envprobe.expectations import parse

    expectations = tuple(parse(one) for one in options.expect)
    definitions = tuple(_definitions(options))
    looks = {
        number: looked for number, one in enumerate(definitions) if (looked := _looks(one, options))
    }
    return UnitContext(definitions, expectations, looks)


def judged(context: UnitContext, accepted: frozenset[str], options: Options) -> Report:
    """Return the report on what was found."""
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.registry import run_checks
    from envprobe.checks.unit.registry import CHECKS
    from envprobe.report.unit_model import Report

    result = run_checks(CHECKS, context, {})
    severity = Severity(options.fail_on)
    made = verdict.of_findings(result, accepted, severity)
    return Report(context, result, made, accepted, severity, options.exit_zero)


def render(report: Report, kind: str, presentation: Presentation) -> str:
    """Return the report in one of the formats of `cli_workers.FORMATS`."""
    if kind == "json":
        from envprobe.report import unit_document

        return unit_document.render(report, unmask=presentation.unmask)
    from envprobe.report import unit

    return unit.render(report, presentation)


# --- what was asked for --------------------------------------------------------------------------


def _definitions(options: Options) -> list[Definition]:
    from envprobe.launch import definition, documents

    context = cli_definition.context_of(user=options.user, image_inspect=options.image_inspect)
    found = cli_definition.of_units(options.units, context)
    found += [documents.of_env_file(one, context) for one in options.env_file]
    if options.compose is not None:
        found.append(documents.of_compose(options.compose, options.service, context))
    elif options.service is not None:
        raise UsageError("--service needs --compose", "Name the compose project with --compose.")
    if options.kube:
        found += documents.of_kubernetes(options.kube, options.container)
    elif options.container is not None:
        raise UsageError("--container needs --kube", "Name the manifest with --kube.")
    if options.command is not None:
        if not options.command:
            raise UsageError("no command follows `--`", "Write `envprobe unit -- COMMAND...`.")
        found.append(definition.of_command(options.command, context, os.getcwd()))
    if not found:
        raise UsageError(
            "nothing was named to look at",
            "Name a unit or its file, --env-file, --compose or --kube, or `-- COMMAND...`.",
        )
    return found


def _looks(one: Definition, options: Options) -> tuple[EntryLook, ...]:
    from envprobe.launch import entry

    if one.origin.value in ("compose", "pod"):
        return ()
    found = []
    for launch in one.launches:
        if launch.python is None or launch.container is not None:
            continue
        if not options.no_interpreter:
            told = f"this runs {launch.python.interpreter} -I -S to parse the program's first file"
            cli_output.note(f"envprobe: {redact.show_text(told)}")
        looked = entry.look(launch, own=options.no_interpreter)
        if looked is not None:
            found.append(looked)
    return tuple(dict.fromkeys(found))


def _accepted(options: Options) -> tuple[str, ...]:
    from envprobe.checks.registry import accepted
    from envprobe.checks.unit.registry import CHECKS

    return accepted(options.allow_unknown, CHECKS, "unit")


def _presentation(options: Options, *, to_file: bool = False) -> Presentation:
    return cli_output.presentation(
        unmask=options.unmask, show_all=options.show_all, to_file=to_file
    )
