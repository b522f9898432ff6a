"""`envprobe demo`: start the tree, report on it, say what to look at, end it."""

from __future__ import annotations

import textwrap

from envprobe import cli_output, cli_workers, collect, demo
from envprobe.errors import Exit
from envprobe.report.model import Presentation


def run() -> Exit:
    """Show the report on the demo's tree; return HOLDS if exactly the planted faults were found."""
    cli_output.note("starting a small process tree with planted faults ...")
    with demo.tree() as tree:
        names = cli_workers.wanted(tree.config, ())
        snapshot = collect.collect(collect.Request((tree.pid,), names))
        report = cli_workers.judged((snapshot,), tree.config)
        width = cli_output.width()
        shown = Presentation(width=width, color=cli_output.wants_color())
        cli_output.write(cli_workers.render(report, "text", shown))
        cli_output.write(_explanation(width))
        scan = report.scans[0]
        wrong = demo.differences(tree, scan.context, scan.result.findings)
    for one in wrong:
        cli_output.note(f"envprobe: {one}")
    return Exit.INTERNAL if wrong else Exit.HOLDS


def _explanation(width: int) -> str:
    lines = ["", "What to look at:"]
    for number, text in enumerate(demo.EXPLANATION, 1):
        lines += textwrap.wrap(
            f"{number}. {text}",
            min(max(width, 80), 110),
            initial_indent="  ",
            subsequent_indent="     ",
        )
    return "\n".join(lines) + "\n"
