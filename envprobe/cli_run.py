"""`envprobe run`: from parsed options to the exit code of the command that it runs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from envprobe import cli_output, cli_workers, isolation
from envprobe.errors import EXIT_MEANINGS, TargetGoneError, UsageError
from envprobe.runner import foreground

if TYPE_CHECKING:
    from envprobe.config import Config
    from envprobe.model import Snapshot


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `run` says: the words behind `--`, and what is reported of them."""

    command: tuple[str, ...] | None
    report: cli_workers.Options


def run(options: Options) -> int:
    """Run the command to its end and return its exit code; report on it beside it.

    Raises EnvprobeError before anything is started.
    """
    if not options.command:
        raise UsageError(
            "no command was given to run",
            "Write it behind --, as in `envprobe run --wait scheduler=8 -- python3 -m"
            " sglang.launch_server --tp 8`.",
        )
    for path in (
        options.report.save_facts,
        *(one.partition("=")[2] for one in options.report.output),
    ):
        if path and cli_output.is_stdout(path):
            raise UsageError(
                f"{path} is the standard output of the command",
                "Name a file, or /dev/stderr; without -o the report goes to stderr.",
            )
    here = foreground.fork()
    if isinstance(here, foreground.Keeper):
        return here.run(options.command, isolation.caller_environment())
    return _report(options.report, here)


def _report(options: cli_workers.Options, beside: foreground.Reporter) -> int:
    """Judge the command's processes in the process beside it."""
    cli_output.leave_stdout(to_stderr=not options.output)

    def scan(given: cli_workers.Options, config: Config) -> tuple[Snapshot, ...]:
        asked = dataclasses.replace(given, wait=_awaited(config), timeout=options.timeout)
        cli_workers.check(asked)
        asked = dataclasses.replace(asked, pid=beside.command())
        try:
            return cli_workers.snapshots_of(asked, config)
        except TargetGoneError:
            raise TargetGoneError(
                "the command ended before its workers were there",
                "Look in its own output for the reason; `envprobe triage` names it.",
            ) from None

    # Whether something is waited for is known only with the configuration.
    code = cli_workers.run(dataclasses.replace(options, timeout=None), scan)
    if options.output:
        cli_output.note(f"envprobe: the report is written: {EXIT_MEANINGS[code]}")
    return code


def _awaited(config: Config) -> tuple[str, ...]:
    """Return the workers to wait for, as --wait takes them; UsageError if none are told."""
    if not config.workers:
        raise UsageError(
            "nothing says how many workers the command will have, so that a report could come too"
            " early",
            "Add for example --wait scheduler=8, or [expect.workers] to envprobe.toml.",
        )
    return tuple(
        f"{role}={count}" if role else f"{count}" for role, count in config.workers.items()
    )
