"""`envprobe baseline`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from envprobe import cli_output, cli_target, cli_workers, redact
from envprobe.errors import Exit

if TYPE_CHECKING:
    from envprobe.model import Snapshot
    from envprobe.report.model import Report

_MAX_TOLD: Final = 5


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `baseline` says, as it was given."""

    pid: int
    patch: tuple[str, ...] = ()
    var: tuple[str, ...] = ()
    deadline: float = 2.0


def run(options: Options) -> Exit:
    """Scan, and print the configuration if the server is healthy. Raises EnvprobeError.

    What is printed was tried on the very scan: a baseline that does not hold is never printed.
    """
    from envprobe import baseline, configfile
    from envprobe.config import Config
    from envprobe.process import roletable

    snapshot = _snapshot(options)
    report = cli_workers.judged((snapshot,), Config())
    if report.exit is not Exit.HOLDS:
        return _refuse(report, "The server is not healthy, and no baseline can be made of it")
    made = baseline.build(report.scans[0].context, options.patch)
    text = baseline.dumps(made)
    config = configfile.parse(
        configfile.DEFAULT_NAME, text.encode(), cli_workers.slug_of, roletable.role_names()
    )
    tried = cli_workers.judged((snapshot,), config)
    if tried.exit is not Exit.HOLDS:
        return _refuse(tried, "The baseline does not hold for the server that it was made of")
    for name, reason in sorted(made.left_out.items()):
        cli_output.note(f"left out: {redact.show_name(name)} ({reason})")
    cli_output.write(text)
    return Exit.HOLDS


def _snapshot(options: Options) -> Snapshot:
    """Return a scan that has read what matters, and what the unit in front of it speaks of."""
    from envprobe import collect
    from envprobe.config import Config
    from envprobe.cpython.query import Query
    from envprobe.pythonfacts import HOOKS

    queries = tuple(one for one in dict.fromkeys(options.patch) if one not in HOOKS)
    for one in queries:
        Query.parse(one)
    target = cli_target.Finder(cli_target.Pointer(pid=options.pid)).find()
    request = collect.Request(
        target.roots,
        target.wanted(cli_workers.wanted(Config(), options.var)),
        (),
        options.deadline,
        python=True,
        queries=queries,
    )
    return collect.collect(request)


def _refuse(report: Report, why: str) -> Exit:
    """Say on stderr why nothing is printed, with the worst findings."""
    cli_output.note(f"envprobe: {why}:")
    for finding in report.scans[0].result.findings[:_MAX_TOLD]:
        cli_output.note(f"  {finding.check}: {redact.show_sentence(finding.message)}")
    cli_output.note("  `envprobe workers --pid PID` shows everything.")
    return report.exit
