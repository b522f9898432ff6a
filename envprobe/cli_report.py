"""What commands that report findings share: from options to a report in each place it goes to."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from envprobe import cli_output, cli_workers, redact

if TYPE_CHECKING:
    from envprobe.checks.finding import Check
    from envprobe.config import Config
    from envprobe.report.model import Presentation

Report = TypeVar("Report")


class Shown(Protocol):
    """The options that say how a report is shown and where it goes."""

    @property
    def format(self) -> str:
        """What is printed."""

    @property
    def output(self) -> tuple[str, ...]:
        """Files that it goes to, each as FORMAT=PATH."""

    @property
    def show_all(self) -> bool:
        """Whether everything is shown."""

    @property
    def unmask(self) -> bool:
        """Whether credentials are shown in clear."""


def reported(
    options: Shown,
    make: Callable[[], Report],
    render: Callable[[Report, str, Presentation], str],
    check: Callable[[tuple[str, ...]], None] = lambda paths: None,
) -> Report:
    """Make a report, write it to every place that the options name, and return it.

    `check` gets the paths before anything is opened. An error that ends the run is written wherever
    the report would be. Raises EnvprobeError.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(cli_output.told_on_stdout(options.format))
        outputs = cli_workers.formats_by_path(options.output, cli_workers.REPORT_FORMATS)
        check(tuple(outputs))
        files = stack.enter_context(cli_output.reports(outputs, private=options.unmask))
        cli_workers.require((options.format, *outputs.values()))
        report = make()
        for path, kind in outputs.items():
            files[path].write(render(report, kind, _presentation(options, to_file=True)))
        cli_output.write(render(report, options.format, _presentation(options, to_file=False)))
    return report


def render(command: str, report: object, kind: str, presentation: Presentation) -> str:
    """Return a report of a command in one of `cli_workers.REPORT_FORMATS`.

    Its renderers are the modules of `envprobe.report` that have the command's name; only the one
    that is needed is imported.
    """
    if kind == "json":
        document = importlib.import_module(f"envprobe.report.{command}_document")
        return str(document.render(report, unmask=presentation.unmask))
    if kind != "text":
        from envprobe.report import formats

        outlet = importlib.import_module(f"envprobe.report.{command}_outlet")
        return formats.render(kind, outlet.build(report, presentation))
    return str(importlib.import_module(f"envprobe.report.{command}").render(report, presentation))


def _presentation(options: Shown, *, to_file: bool) -> Presentation:
    return cli_output.presentation(
        unmask=options.unmask, show_all=options.show_all, to_file=to_file
    )


def config_of(
    path: str | None, allow_unknown: Iterable[str], checks: Iterable[Check], command: str
) -> Config:
    """Return what a configuration file ignores and accepts, and what the command line accepts.

    `checks` are those of `command`. Raises UsageError.
    """
    from envprobe.checks.registry import accepted, slug_of
    from envprobe.config import combine
    from envprobe.configfile import load
    from envprobe.process import roletable

    config = load(path, slug_of, roletable.role_names())
    for told in config.over:
        cli_output.note(f"note: {redact.show_text(told)}")
    return combine(config, allow_unknown=accepted(allow_unknown, checks, command))
