"""Two reports compared, as text and as JSON (data/diff.schema.json says what is in it)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from envprobe import redact
from envprobe.diff import Comparison, Difference, Kind
from envprobe.errors import EXIT_MEANINGS, Exit
from envprobe.report import pretty

_WORDS: Final = {Exit.HOLDS: "SAME", Exit.FINDING: "DIFFERENT", Exit.UNDETERMINED: "UNDETERMINED"}
_TITLES: Final = {Kind.PROCESS: "processes", Kind.VARIABLE: "variables", Kind.FINDING: "findings"}


def render(comparison: Comparison, width: int) -> str:
    """Return the comparison as text, its verdict first."""
    return redact.without_commands("\n".join(_lines(comparison, max(width, 80))) + "\n")


def document(comparison: Comparison) -> str:
    """Return the comparison as one JSON document in ASCII."""
    return pretty.dumps(
        {
            **pretty.heading(),
            "verdict": {
                "exit": int(comparison.exit),
                "meaning": EXIT_MEANINGS[comparison.exit],
                "different": sum(not one.unknown for one in comparison.differences),
                "unknown": sum(one.unknown for one in comparison.differences),
                "compared": comparison.compared,
            },
            "differences": [_difference(one) for one in comparison.differences],
            "left_out": [
                {"name": redact.show_text(name), "reason": reason}
                for name, reason in comparison.left_out.items()
            ],
        }
    )


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "subject": one.subject,
        "before": one.before,
        "after": one.after,
        "unknown": one.unknown,
        **({"reason": one.reason} if one.reason else {}),
    }


def _lines(comparison: Comparison, width: int) -> Iterator[str]:
    different = sum(not one.unknown for one in comparison.differences)
    unknown = len(comparison.differences) - different
    parts = [f"{different} differences"] if different else []
    parts += [f"{unknown} cannot be told"] if unknown else []
    counted = ", ".join([*parts, f"{comparison.compared} variables compared"])
    yield f"{_WORDS[comparison.exit]}: {counted} (exit {int(comparison.exit)})"
    for kind, title in _TITLES.items():
        those = [one for one in comparison.differences if one.kind is kind]
        if those:
            yield from ("", title)
        for one in those:
            told = f": cannot tell, {one.reason}" if one.unknown else ""
            yield from _wrapped(f"{one.subject}{told}", width, "  ")
            yield from _wrapped(f"- {one.before}", width, "    ")
            yield from _wrapped(f"+ {one.after}", width, "    ")
    if comparison.left_out:
        yield ""
    for name, reason in comparison.left_out.items():
        yield from _wrapped(f"not compared: {redact.show_text(name)} ({reason})", width, "")


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
