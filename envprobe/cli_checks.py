"""`envprobe checks` and `envprobe explain`: what the checks say of themselves."""

from __future__ import annotations

import textwrap

from envprobe import cli_output
from envprobe.checks import registry
from envprobe.checks.explain import explain as explained
from envprobe.errors import Exit


def explain(check: str) -> Exit:
    """Print the documentation of one check. Raises UsageError if there is none of that name."""
    found = explained(registry.find(check))
    width = min(max(cli_output.width(), 80), 100)
    parts = [found.title, "", *textwrap.wrap(found.summary, width)]
    for heading, text in found.sections:
        parts += ["", heading]
        parts += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")
    cli_output.write("\n".join(parts) + "\n")
    return Exit.HOLDS


def listing() -> Exit:
    """Print one line for each check."""
    wide = max(len(check.slug) for check in registry.every())
    lines = [
        f"{check.id}  {check.slug:{wide}}  {check.severity.value:7}  {check.summary}"
        for check in registry.every()
    ]
    cli_output.write("\n".join(lines) + "\n")
    return Exit.HOLDS
