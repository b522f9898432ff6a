"""`envprobe nccl`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from typing import TYPE_CHECKING

from envprobe import cli_nccllog, cli_report
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.config import Config
    from envprobe.nccl import conf
    from envprobe.nccl.facts import Log
    from envprobe.report.nccl_model import Report


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `nccl` says, as it was given."""

    logs: tuple[str, ...]
    expect: tuple[str, ...] = ()
    conf: tuple[str, ...] = ()
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    show_all: bool = False
    unmask: bool = False


def run(options: Options) -> Exit:
    """Read the logs, judge and report; return the exit code. Raises EnvprobeError."""
    report = cli_report.reported(
        options,
        lambda: _report(options),
        render,
        lambda paths: _check_outputs(paths, options.logs),
    )
    return Exit.HOLDS if options.exit_zero else report.verdict.exit


def _report(options: Options) -> Report:
    _check(options)
    return judged(cli_nccllog.read(options.logs), _config(options), options)


def judged(log: Log, config: Config, options: Options) -> Report:
    """Return the report on a log, with the configuration files that belong to it."""
    from envprobe.checks import verdict
    from envprobe.checks.finding import Severity
    from envprobe.checks.nccl.context import Context
    from envprobe.checks.nccl.registry import CHECKS
    from envprobe.checks.registry import run_checks
    from envprobe.report.nccl_model import Report

    context = Context(log, config, configuration_files(log, options.conf))
    result = run_checks(CHECKS, context, config.ignore)
    severity = Severity(options.fail_on)
    found = verdict.of_findings(result, config.allow_unknown, severity)
    return Report(context, result, found, severity, options.exit_zero)


render = functools.partial(cli_report.render, "nccl")


# --- what was asked for --------------------------------------------------------------------------


def _check(options: Options) -> None:
    """Raise UsageError for arguments that are missing or empty."""
    if not options.logs:
        raise UsageError("no log was given", "Name log files of NCCL, or - for the standard input.")
    for name, values in (("LOG", options.logs), ("--conf", options.conf)):
        if "" in values:
            raise UsageError(f"{name} is empty", "Give it the path of a file, or leave it out.")
    if "-" in options.logs and sys.stdin is None:
        raise UsageError("the standard input is closed", "Name log files of NCCL.")


def _check_outputs(outputs: tuple[str, ...], logs: tuple[str, ...]) -> None:
    """Raise UsageError for a report that would replace one of the logs."""
    from envprobe.nccl import streams

    read = [path for path in streams.expand(logs) if os.path.isfile(path)] if outputs else []
    for output in outputs:
        if os.path.isfile(output) and any(os.path.samefile(output, path) for path in read):
            raise UsageError(
                f"-o {output} would replace a log that is read",
                "Give the report a name of its own, which no glob of the logs matches.",
            )


def _config(options: Options) -> Config:
    from envprobe.checks.nccl.registry import CHECKS
    from envprobe.checks.registry import accepted
    from envprobe.config import Config, combine
    from envprobe.expectations import parse

    return combine(
        Config(),
        expectations=[parse(one) for one in options.expect],
        allow_unknown=accepted(options.allow_unknown, CHECKS, "nccl"),
    )


# --- the facts -----------------------------------------------------------------------------------


def configuration_files(log: Log, named: tuple[str, ...]) -> tuple[conf.File, ...]:
    """Return the configuration files that were named, else those of this machine.

    This machine's count only where the log has a process of a host with its name. They are those of
    the user who runs envprobe; the job's may be another one's.
    """
    from envprobe.checks.nccl.context import usual_version
    from envprobe.nccl import conf

    version = usual_version(log)
    if named:
        found = conf.load(named, version, _opened)
        missing = [one for one in found if one.state is not conf.State.READ]
        for one in missing:
            raise UsageError(
                f"--conf {one.path} cannot be read{f': {one.reason}' if one.reason else ''}",
                "Give it the path of a configuration file of NCCL.",
            )
        return found
    here = os.uname().nodename.split(".")[0]
    if here not in {process.host for process in log.processes}:
        return ()
    import pwd

    try:
        home: str | None = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = None
    return conf.load(conf.paths(version, {"HOME": home} if home else {}, home), version, _opened)


def _opened(path: str) -> bytes:
    from envprobe import inputfile
    from envprobe.nccl import conf

    try:
        return inputfile.read(path, conf.MAX_BYTES, remedy="")
    except UsageError as error:
        raise OSError(None, error.message.removeprefix(f"{path} ")) from None
