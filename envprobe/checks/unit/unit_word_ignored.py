"""The check `unit-word-ignored`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.checks.who import folded
from envprobe.launch.types import Kind

_KINDS: Final = (
    Kind.WORD_WITHOUT_EQUALS,
    Kind.WORD_BAD_NAME,
    Kind.WORD_BAD_VALUE,
    Kind.WORDS_BROKEN,
    Kind.SPECIFIER_REFUSED,
)


def _run(context: UnitContext) -> Iterator[Finding]:
    lines = folded(context.remarks(_KINDS), lambda one: one[1].place)
    for (definition, first), *others in lines.values():
        told = [of_remark(CHECK, definition, remark) for _, remark in others]
        yield dataclasses.replace(
            of_remark(CHECK, definition, first),
            variable=next((one.name for _, one in [(0, first), *others] if one.name), ""),
            evidence=tuple(one.message for one in told),
        )


CHECK = Check(
    id="EP302",
    slug="unit-word-ignored",
    severity=Severity.ERROR,
    summary="A word of Environment= or its kin is dropped.",
    why="The line is split into words as a shell would, and each word has to be NAME=VALUE: "
    "blanks around the equals sign, `export`, a value with blanks and no quotes, or a "
    "percent sign that is no specifier leave a word without a meaning, and only the "
    "journal says so.",
    mend='Write Environment="NAME=VALUE", the whole assignment in quotes if the value has '
    "blanks, and %% for a percent sign.",
    run=_run,
)
