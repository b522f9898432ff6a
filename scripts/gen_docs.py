"""Write docs/checks.md and docs/exit-codes.md from the code; `--check` fails if they are stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from envprobe.checks.explain import explain
from envprobe.checks.finding import Undetermined
from envprobe.checks.registry import every
from envprobe.errors import EXIT_MEANINGS

_UNDETERMINED = {
    Undetermined.NEVER: "",
    Undetermined.SOMETIMES: ", or could not tell",
    Undetermined.ALWAYS: ": could not tell",
}
ROOT = Path(__file__).resolve().parents[1]
NOTE = "<!-- Written by scripts/gen_docs.py; edit the code, not this file. -->"


def checks_page() -> str:
    """Return docs/checks.md."""
    return "\n".join(_checks_lines())


def _checks_lines() -> Iterator[str]:
    yield from ("# Checks", "", NOTE, "")
    yield "`envprobe checks` prints this list, `envprobe explain ID` one entry of it."
    yield from ("", "| id | check | severity | what it finds |", "| --- | --- | --- | --- |")
    for check in every():
        severity = check.severity.value + _UNDETERMINED[check.undetermined]
        link = f"[{check.slug}](#{check.id.lower()}-{check.slug})"
        yield f"| {check.id} | {link} | {severity} | {_cell(check.summary)} |"
    for check in every():
        told = explain(check)
        yield from ("", f"## {told.title}", "", told.summary)
        for heading, text in told.sections:
            yield from ("", f"**{heading}.** {text}")
    yield ""


def exit_codes_page() -> str:
    """Return docs/exit-codes.md."""
    return "\n".join(_exit_codes_lines())


def _exit_codes_lines() -> Iterator[str]:
    yield from ("# Exit codes", "", NOTE, "")
    yield from ("| code | meaning |", "| --- | --- |")
    for code in sorted(EXIT_MEANINGS):
        yield f"| {int(code)} | {_cell(EXIT_MEANINGS[code])} |"
    yield from (
        "",
        "If several apply, the first of 2, 4, 1, 3, 0 counts; the JSON report has the number of"
        " findings of each kind.",
        "",
        "* 0 needs evidence: at least one worker was found, and every required fact was read in"
        " each. Without expectations the required facts are the live environments of all workers.",
        "* What could not be read gives 3, never 0 and never 1. Only `--allow-unknown CHECK`"
        " accepts it.",
        "* 4 concerns the target itself. A worker that ends during the scan is a finding.",
        "* `--fail-on warning` or `info` lowers the bar for 1; `--exit-zero` only reports.",
        "* `envprobe run` exits with the code of the command that it ran (128 + N if signal N ended"
        " it), whatever its report says; with 2 or 3 if nothing was started.",
        "",
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"docs/checks.md": checks_page, "docs/exit-codes.md": exit_codes_page}


def main() -> int:
    """Write the pages, or with --check name those that are stale and return 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is stale"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="directory that holds docs/")
    options = parser.parse_args()
    stale = []
    for name, make in PAGES.items():
        path = options.root / name
        if path.exists() and path.read_text("utf-8") == make():
            continue
        stale.append(name)
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(make(), "utf-8")
    for name in stale:
        print(f"{name} {'is stale: run scripts/gen_docs.py' if options.check else 'written'}")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
