"""The check `nccl-conf-file`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.nccl.context import Context
from envprobe.model import SILENCE, Sentence
from envprobe.nccl import params
from envprobe.nccl.conf import File, Line, Oddity, State

_WHAT: Final = {
    Oddity.IGNORED: "has no = and sets nothing",
    Oddity.COMMENT: "sets a variable whose name begins with # (comments are known from 2.26.2 on)",
    Oddity.EXPORT: "sets a variable whose name begins with `export`, which nobody reads",
    Oddity.BLANK_IN_NAME: "sets a variable with a blank in its name, which nobody reads",
    Oddity.TRAILING_BLANK: "ends in a blank, which is a part of the value",
    Oddity.TRAILING_COMMENT: "has a comment after the value, which is a part of the value",
    Oddity.QUOTED: "has quotes around the value, which are a part of it",
    Oddity.CARRIAGE_RETURN: "ends in a carriage return, which is a part of the value",
    Oddity.CUT: "is longer than NCCL's buffer of 1023 bytes, and was cut",
    Oddity.AGAIN: "sets a name again that an earlier line has set, and does not count",
    Oddity.EMPTY_NAME: "has no name and sets nothing",
}
_HARMLESS_IN_NUMBERS: Final = frozenset(
    {Oddity.TRAILING_BLANK, Oddity.TRAILING_COMMENT, Oddity.CARRIAGE_RETURN}
)
"""NCCL stops reading a number at the first character that is none."""


def _run(context: Context) -> Iterator[Finding]:
    for file in context.conf:
        if file.state is State.UNREADABLE:
            yield _unreadable(file)
        for line in file.lines:
            for oddity in line.oddities:
                yield _finding(file, line, oddity)


def _finding(file: File, line: Line, oddity: Oddity) -> Finding:
    parameter = params.find(line.meant)
    number = parameter is not None and parameter.reader == "number"
    harmless = oddity in _HARMLESS_IN_NUMBERS and number
    place = f"{file.path}:{line.number}"
    named = f" ({line.meant})" if line.meant else ""
    return Finding(
        check=CHECK.slug,
        severity=Severity.INFO if harmless else CHECK.severity,
        message=Sentence.of(f"{place}{named} {_WHAT[oddity]}."),
        variable=line.meant,
        remedy=SILENCE if harmless else Sentence.of(CHECK.mend),
        who=place,
    )


def _unreadable(file: File) -> Finding:
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(f"{file.path} cannot be read: {file.reason}."),
        undetermined=True,
        remedy=Sentence.of("Run envprobe as the user of the job, or as root."),
        who=file.path,
    )


CHECK = Check(
    id="EP214",
    slug="nccl-conf-file",
    severity=Severity.WARNING,
    summary="A line of NCCL's configuration file is not read as it looks.",
    why="The file is no shell script: a line is a name, = and a value up to its end. `export`,"
    " blanks, quotes and comments become parts of the name or the value, and nothing says so.",
    mend="Write NAME=VALUE without anything else in the line.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
