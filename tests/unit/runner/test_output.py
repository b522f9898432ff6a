"""The lines of an output that is still coming in, and its bound."""

from __future__ import annotations

import time

from envprobe.runner.output import Output


def test_lines_are_given_once_however_they_come_in() -> None:
    output = Output(100)
    found = []
    for received in (b"a", b"b\n\nc", b"", b"\nd"):
        output.take(received)
        while (line := output.line()) is not None:
            found.append(line)
    assert found == [b"ab", b"", b"c"]
    assert (output.kept, output.cut) == (b"ab\n\nc\nd", False)


def test_what_is_beyond_the_bound_makes_no_line() -> None:
    output = Output(3)
    output.take(b"a\nb")
    output.take(b"c\n")
    assert (output.line(), output.line(), output.kept, output.cut) == (b"a", None, b"a\nb", True)


def test_a_million_empty_lines_cost_little() -> None:
    output = Output(1 << 20)
    output.take(b"\n" * (1 << 20))
    before = time.process_time()
    assert sum(1 for _ in iter(output.line, None)) == 1 << 20
    # Copied for each line, they would take minutes.
    assert time.process_time() - before < 10
