"""Names that are read because they are expected or declared: none of them is a pattern."""

from __future__ import annotations

import dataclasses

import pytest

from envprobe import cli_workers, expectations, redact, unitscan
from envprobe.config import Config
from envprobe.launch.definition import Context, of_command

NAMES = ("*", "?", "[", "[!X]*", "A*", "A]")


@pytest.mark.parametrize("name", NAMES)
def test_the_pattern_of_a_name_matches_that_name_only(name: str) -> None:
    pattern = redact.pattern_of(name)
    assert redact.is_wanted(name, [pattern])
    assert not redact.is_wanted("SECRET_OF_OTHERS", [pattern])
    assert not redact.is_wanted("A", [pattern])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_or_declared_has_no_other_name_read(name: str) -> None:
    expectation = dataclasses.replace(expectations.parse("A=1"), name=name)
    wanted = cli_workers.wanted(Config(expectations=(expectation,)), ())
    assert redact.is_wanted(name, wanted)
    assert not redact.is_wanted("SOMETHING_OF_OTHERS", wanted)
    context = Context({"PATH": "/usr/bin"})
    definition = of_command(["env", f"{name}=1", "python3", "x.py"], context, "/")
    wanted = unitscan.wanted_with(definition, ())
    assert redact.is_wanted(name, wanted)
    assert not redact.is_wanted("SOMETHING_OF_OTHERS", wanted)
