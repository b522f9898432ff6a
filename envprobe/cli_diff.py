"""`envprobe diff`: from parsed options to an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from envprobe import cli_output, cli_workers
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.diff import Comparison


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `diff` says, as it was given."""

    before: str
    after: str
    ignore: tuple[str, ...] = ()
    show_all: bool = False
    format: str = "text"
    output: tuple[str, ...] = ()


def run(options: Options) -> Exit:
    """Compare two reports; return the exit code. Raises EnvprobeError."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(cli_output.told_on_stdout(options.format))
        outputs = cli_workers.formats_by_path(options.output)
        files = stack.enter_context(cli_output.reports(outputs))
        if "" in options.ignore:
            raise UsageError("--ignore is empty", "Give it a pattern such as 'HF_*'.")
        found = _compared(options)
        for path, kind in outputs.items():
            files[path].write(render(found, kind, cli_output.FILE_WIDTH))
        cli_output.write(render(found, options.format, cli_output.width()))
    return found.exit


def render(found: Comparison, kind: str, width: int) -> str:
    """Return the comparison in one of the formats of `cli_workers.FORMATS`."""
    from envprobe.report import comparison

    return comparison.document(found) if kind == "json" else comparison.render(found, width)


def _compared(options: Options) -> Comparison:
    from envprobe import diff
    from envprobe.report.pretty import SCHEMA_VERSION

    before, after = (diff.load(one, SCHEMA_VERSION) for one in (options.before, options.after))
    return diff.compare(before, after, ignore=options.ignore, every=options.show_all)
