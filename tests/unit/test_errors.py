from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from envprobe.errors import (
    EXIT_MEANINGS,
    EnvprobeError,
    Exit,
    TargetGoneError,
    UndeterminedError,
    UsageError,
    decide,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "exit-codes.md"

TABLE = {
    Exit.HOLDS: (0, "evidence from every worker"),
    Exit.FINDING: (1, "--fail-on"),
    Exit.USAGE: (2, "wrong usage"),
    Exit.UNDETERMINED: (3, "could not be determined"),
    Exit.TARGET_GONE: (4, "gone"),
    Exit.INTERNAL: (70, "internal error"),
    Exit.HUNG_UP: (129, "SIGHUP"),
    Exit.INTERRUPTED: (130, "SIGINT"),
    Exit.BROKEN_PIPE: (141, "SIGPIPE"),
    Exit.TERMINATED: (143, "SIGTERM"),
}


@pytest.mark.parametrize(("code", "row"), TABLE.items(), ids=lambda row: str(row))
def test_each_exit_code_has_its_number_its_meaning_and_its_row(
    code: Exit, row: tuple[int, str]
) -> None:
    number, says = row
    assert int(code) == number
    assert says in EXIT_MEANINGS[code]
    rows = re.findall(rf"^\| {number} \| .*$", DOCS.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 1
    assert EXIT_MEANINGS[code] in rows[0]


def test_no_exit_code_is_left_out() -> None:
    assert set(TABLE) == set(Exit) == set(EXIT_MEANINGS)
    rows = re.findall(r"^\| (\d+) \|", DOCS.read_text("utf-8"), re.MULTILINE)
    assert [int(row) for row in rows] == sorted(int(code) for code in Exit)


def test_of_several_outcomes_usage_then_gone_then_finding_then_unknown_wins() -> None:
    order = [Exit.USAGE, Exit.TARGET_GONE, Exit.FINDING, Exit.UNDETERMINED, Exit.HOLDS]
    for size in range(1, len(order) + 1):
        for outcomes in itertools.permutations(order, size):
            assert decide(outcomes) is min(outcomes, key=order.index)


def test_nothing_looked_at_is_no_success() -> None:
    with pytest.raises(ValueError, match="nothing was looked at"):
        decide([])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (EnvprobeError, Exit.INTERNAL),
        (UsageError, Exit.USAGE),
        (TargetGoneError, Exit.TARGET_GONE),
        (UndeterminedError, Exit.UNDETERMINED),
    ],
)
def test_each_error_has_its_code(kind: type[EnvprobeError], code: Exit) -> None:
    error = kind("what is wrong", "what to do")
    assert error.code is code
    assert (error.message, error.remedy, str(error)) == (
        "what is wrong",
        "what to do",
        "what is wrong",
    )
