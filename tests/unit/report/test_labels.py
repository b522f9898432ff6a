"""Many workers under one short name."""

from __future__ import annotations

import pytest

from envprobe.report import labels


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["TP0"], "TP0"),
        (["TP0", "TP1"], "TP0, TP1"),
        (["TP0", "TP1", "TP2"], "TP0-TP2"),
        ([f"TP{n}" for n in range(12)], "TP0-TP11"),
        (["TP5", "TP0", "TP2", "TP1"], "TP0-TP2, TP5"),
        (["DP0 TP0", "DP0 TP1", "DP0 TP2", "DP1 TP0"], "DP0 TP0-DP0 TP2, DP1 TP0"),
        (["scheduler", "scheduler"], "scheduler (2)"),
        (["TP0", "TP1", "TP1", "TP2"], "TP0, TP1 (2), TP2"),
        (["a", "b"], "a, b"),
        ([], ""),
    ],
)
def test_labels_are_folded_only_where_no_rank_is_skipped(given: list[str], shown: str) -> None:
    assert labels.together(given) == shown


def test_wide_letters_take_two_cells_and_are_cut_by_cells() -> None:
    assert labels.width_of("ab\u6f22") == 4
    assert labels.pad("\u6f22", 4) == "\u6f22  "
    assert labels.cut("\u6f22\u6f22\u6f22\u6f22", 7) == "\u6f22\u6f22..."
    assert labels.cut("abc", 3) == "abc"
