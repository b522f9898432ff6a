"""`envprobe unit`: from parsed options to an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from envprobe import cli_definition, cli_output, cli_report
from envprobe.errors import EnvprobeError, Exit, UsageError

if TYPE_CHECKING:
    from envprobe.checks.unit.about import UnitContext
    from envprobe.launch.definition import Definition
    from envprobe.launch.entry import EntryLook
    from envprobe.model import Sentence
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
    config: str | None = None
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False


def run(options: Options) -> Exit:
    """Read the definitions, judge and report; return the exit code. Raises EnvprobeError."""
    report = cli_report.reported(options, lambda: _report(options), render)
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def _report(options: Options) -> Report:
    from envprobe.checks.unit.registry import CHECKS

    config = cli_report.config_of(options.config, options.allow_unknown, CHECKS, "unit")
    accepted = frozenset(config.allow_unknown)
    return judged(context_of(options), accepted, options, config.ignore)


def context_of(options: Options) -> UnitContext:
    """Return the definitions that were named, with a look at the files they begin with."""
    from envprobe.checks.unit.about import UnitContext
    from envprobe.expectations import parse

    expectations = tuple(parse(one) for one in options.expect)
    definitions = tuple(_definitions(options))
    looks = {
        number: looked for number, one in enumerate(definitions) if (looked := _looks(one, options))
    }
    causes = {
        number: cause
        for number, one in enumerate(definitions)
        if (cause := _cause(one, options)) is not None
    }
    return UnitContext(definitions, expectations, looks, causes)


def judged(
    context: UnitContext,
    accepted: frozenset[str],
    options: Options,
    ignore: Mapping[str, str] | None = None,
) -> Report:
    """Return the report on what was found; `ignore` maps checks that are kept apart to reasons."""
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.registry import run_checks
    from envprobe.checks.unit.registry import CHECKS
    from envprobe.report.unit_model import Report

    result = run_checks(CHECKS, context, ignore or {})
    severity = Severity(options.fail_on)
    made = verdict.of_findings(result, accepted, severity)
    return Report(context, result, made, accepted, severity, options.exit_zero)


render = functools.partial(cli_report.render, "unit")


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


def _cause(one: Definition, options: Options) -> Sentence | None:
    """Return why a failed unit has failed, as far as its journal and logs tell."""
    from envprobe.checks.triage import oneline
    from envprobe.launch.manager import Manager

    if one.live is None or not one.live.failed:
        return None
    variables = cli_definition.context_of(user=options.user).variables
    with contextlib.suppress(EnvprobeError):
        return oneline.of_unit(Manager(options.user, variables), one.live.name)
    return None


def _looks(one: Definition, options: Options) -> tuple[EntryLook, ...]:
    from envprobe.launch import entry

    if one.origin.value in ("compose", "pod"):
        return ()
    found = []
    for launch in one.launches:
        if launch.python is None or launch.container is not None:
            continue
        looked = entry.look(launch, own=options.no_interpreter, tell=cli_output.tell)
        if looked is not None:
            found.append(looked)
    return tuple(dict.fromkeys(found))
