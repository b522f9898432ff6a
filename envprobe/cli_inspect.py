"""`envprobe inspect`: from parsed options to an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Final

from envprobe import cli_output, cli_workers
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.inspection import Inspection

_MAX_SECONDS: Final = 3600.0


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `inspect` says, as it was given."""

    pid: int
    queries: tuple[str, ...] = ()
    format: str = "text"
    output: tuple[str, ...] = ()
    deadline: float = 10.0
    unmask: bool = False
    calibrate: bool = False
    calibrate_with: str | None = None


def run(options: Options) -> Exit:
    """Ask the process and report; return the exit code. Raises EnvprobeError."""
    from envprobe import inspection
    from envprobe.report.inspection import exit_of

    with contextlib.ExitStack() as stack:
        stack.enter_context(cli_output.told_on_stdout(options.format))
        outputs = cli_workers.formats_by_path(options.output)
        files = stack.enter_context(cli_output.reports(outputs, private=options.unmask))
        _check(options)
        request = inspection.Request(
            options.pid,
            options.queries,
            options.deadline,
            calibrate=options.calibrate or options.calibrate_with is not None,
            calibrate_with=options.calibrate_with,
        )
        found = inspection.inspect(request, cli_output.tell)
        for path, kind in outputs.items():
            files[path].write(render(found, kind, options.unmask, cli_output.FILE_WIDTH))
        cli_output.write(render(found, options.format, options.unmask, cli_output.width()))
    return exit_of(found)


def _check(options: Options) -> None:
    """Raise UsageError for an option that is out of range."""
    if not 0 < options.deadline <= _MAX_SECONDS:
        raise UsageError(
            f"--deadline takes a number of seconds above 0 and at most {_MAX_SECONDS:g}",
            "Write for example --deadline 10.",
        )


def render(found: Inspection, kind: str, unmask: bool, width: int) -> str:
    """Return the answers in one of the formats of `cli_workers.FORMATS`."""
    if kind == "json":
        from envprobe.report import inspection_document

        return inspection_document.render(found, unmask=unmask)
    from envprobe.report import inspection

    return inspection.render(found, unmask=unmask, width=width)
