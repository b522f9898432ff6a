"""Findings as text and as parts of a JSON document, the same for every command."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterable, Iterator
from typing import Any, Final

from envprobe import redact
from envprobe.checks import registry
from envprobe.checks.finding import Finding, Severity
from envprobe.checks.registry import Result
from envprobe.checks.verdict import Verdict
from envprobe.errors import EXIT_MEANINGS, Exit
from envprobe.model import Sentence

MIN_WIDTH: Final = 80
_MAX_PROSE: Final = 110
_OF_A_CAUSE: Final = ("for it: ", "against it: ")
"""How evidence begins that belongs to the cause named before it."""

WORDS: Final = {
    Exit.HOLDS: "HOLDS",
    Exit.FINDING: "FAILS",
    Exit.UNDETERMINED: "UNDETERMINED",
    Exit.TARGET_GONE: "TARGET GONE",
}
"""The word with which a report begins."""

_STYLES: Final = {
    "HOLDS": "1;32",
    "FAILS": "1;31",
    "UNDETERMINED": "1;33",
    "TARGET GONE": "1;31",
    Severity.ERROR.value: "1;31",
    Severity.WARNING.value: "1;33",
    Severity.INFO.value: "1;36",
    "unknown": "1;33",
    "title": "1",
}


class Prose:
    """Sentences and findings as lines of text; `width` is in terminal cells, at least 80."""

    def __init__(self, width: int, *, color: bool = False, unmask: bool = False) -> None:
        self.width = max(width, MIN_WIDTH)
        self.color = color
        self.unmask = unmask

    def verdict(self, code: Exit, summary: str, *, exit_zero: bool = False) -> list[str]:
        """Return the lines that tell the verdict, its exit code last."""
        word = WORDS.get(code, code.name)
        told = f"exit {int(code)}"
        if exit_zero and code:
            told = f"exit 0 by --exit-zero, would be {int(code)}"
        first, *rest = self.wrapped(f"{word}: {summary} ({told})", "")
        return [first.replace(word, self.style(word, word), 1), *rest]

    def findings(
        self, result: Result, allow_unknown: Container[str], *, details: bool = False
    ) -> Iterator[str]:
        """Yield all findings, a blank line before each; `details` tells all of an info too."""
        for finding in result.findings:
            yield ""
            yield from self.finding(finding, allow_unknown, details=details)
        for finding, reason in result.ignored:
            yield ""
            yield from self.wrapped(
                f"ignored  {finding.check}: {self.text(finding.message)}", "  ", "  "
            )
            yield from self.wrapped(f"because: {redact.show_text(reason, 200)}", "    ", "    ")

    def finding(
        self, finding: Finding, allow_unknown: Container[str], *, details: bool = False
    ) -> Iterator[str]:
        """Yield one finding: its check, what it says, its evidence, what to do."""
        check = registry.find(finding.check)
        kind = finding.severity.value
        if finding.undetermined:
            kind = "accepted" if finding.check in allow_unknown else "unknown"
        sure = "" if finding.undetermined else f", {finding.confidence.value}"
        yield f"{self.style(kind, kind)}  {check.slug} ({check.id}{sure})"
        yield from self.said(finding.message, "  ")
        if finding.severity is Severity.INFO and not details:
            return
        for one in finding.evidence:
            deeper = "  " if str(one.parts[0]).startswith(_OF_A_CAUSE) else ""
            yield from self.said(one, f"    {deeper}", f"  {deeper}- ")
        if finding.remedy.parts:
            yield from self.said(finding.remedy, "     ", "  => ")

    def text(self, sentence: Sentence) -> str:
        """Return a sentence with its values shown or masked."""
        return redact.show_sentence(sentence, unmask=self.unmask)

    def said(self, sentence: Sentence, below: str, first: str | None = None) -> list[str]:
        """Return a sentence as lines, indented by `first` and then by `below`."""
        return self.wrapped(self.text(sentence), below, below if first is None else first)

    def wrapped(self, text: str, below: str, first: str = "") -> list[str]:
        """Return text that holds no values of a target as lines of at most 110 cells."""
        return textwrap.wrap(
            text,
            min(self.width, _MAX_PROSE),
            initial_indent=first,
            subsequent_indent=below,
            break_on_hyphens=False,
        )

    def style(self, text: str, style: str) -> str:
        """Return `text` in a colour, where colours are shown."""
        code = _STYLES.get(style, "")
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code else text


def counted(counts: dict[str, int], fail_on: Severity) -> Iterator[str]:
    """Say how many findings of each kind there are, as far as they matter."""
    for severity in reversed(Severity):
        matters = severity.rank >= min(fail_on.rank, Severity.WARNING.rank)
        number = counts[severity.value]
        if number and matters:
            yield f"{number} {severity.value}{'' if number == 1 else 's'}"
    if counts["undetermined"]:
        yield f"{counts['undetermined']} could not be determined"
    if counts["accepted"]:
        yield f"{counts['accepted']} unknown but accepted"
    if counts["ignored"]:
        yield f"{counts['ignored']} ignored"


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict for a JSON document."""
    return {
        "exit": int(verdict.exit),
        "meaning": EXIT_MEANINGS[verdict.exit],
        "counts": verdict.counts,
    }


def documents(
    result: Result, allow_unknown: Container[str], *, unmask: bool = False
) -> dict[str, Any]:
    """Return the members `findings` and `ignored` of a JSON document."""
    return {
        "findings": [_document(one, allow_unknown, unmask) for one in result.findings],
        "ignored": [
            {**_document(one, allow_unknown, unmask), "ignored_because": redact.show_text(reason)}
            for one, reason in result.ignored
        ],
    }


def _document(finding: Finding, allow_unknown: Container[str], unmask: bool) -> dict[str, Any]:
    def said(sentences: Iterable[Sentence]) -> list[str]:
        return [redact.show_sentence(one, unmask=unmask) for one in sentences]

    message, remedy = said((finding.message, finding.remedy))
    return {
        "id": registry.find(finding.check).id,
        "check": finding.check,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "undetermined": finding.undetermined,
        "accepted": finding.undetermined and finding.check in allow_unknown,
        "message": message,
        "pids": list(finding.pids),
        **({"who": redact.show_text(finding.who)} if finding.who else {}),
        "variable": redact.show_name(finding.variable) if finding.variable else None,
        "evidence": said(finding.evidence),
        "remedy": remedy,
    }
