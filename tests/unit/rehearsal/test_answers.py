"""What a rehearsed process says is taken as facts only where it makes sense."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envprobe.errors import UndeterminedError
from envprobe.launch.definition import Context, of_command
from envprobe.payload import rehearse_member, startup_probe, startup_reach
from envprobe.rehearsal import plan
from envprobe.rehearsal.answers import Answers
from envprobe.rehearsal.plan import Wanted
from envprobe.startup.declared import starts_of


def said() -> dict[str, Any]:
    """What a first process says: this one of itself, through the payloads."""
    probe, reach = vars(startup_probe), vars(startup_reach)
    told = dict(rehearse_member.about_itself(probe, reach, None), about="first", began=1.0)
    again: dict[str, Any] = json.loads(json.dumps(told))
    return again


def answers(*more: dict[str, Any], **changed: object) -> Answers:
    definition = of_command(["python3", "serve.py"], Context({"PATH": "/usr/bin"}), "/")
    (start,) = starts_of(definition)
    found = Answers(plan.make(start, Wanted(2)), start.launch)
    for one in ({**said(), **changed}, *more):
        found.take(one)
    return found


def member(**changed: object) -> dict[str, Any]:
    return {**said(), "about": "member", "node": 1, "seconds": 0.5, "targets": {}, **changed}


def test_what_makes_sense_is_taken() -> None:
    took = answers(
        member(),
        {"about": "failed", "node": 2, "why": "ended", "code": -9},
        {"about": "said", "node": 2, "text": "its last words"},
    )
    first, other = took.members("spawn", 0.5, "")
    assert (first.pid, first.seconds, other.seconds) == (said()["pid"], 0.5, 0.5)
    (failed,) = took.failed(0, "")
    assert (failed.why, failed.code, failed.said) == ("ended", -9, "its last words")


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": []},
        {"pid": True},
        {"parent": "1"},
        {"flags": {"isolated": "no"}},
        {"recorded": "words"},
        {"recorded": {"m:f": 5}},
        {"seconds": "soon"},
        {"seconds": float("nan")},
        {"seconds": 10**400},
        {"targets": {"m:f": {"origin": 5, "missing": "", "error": "", "imported": False}}},
        {"torch_after": {"initialised": "perhaps"}},
    ],
    ids=str,
)
def test_a_member_that_makes_no_sense_cannot_be_told(changed: dict[str, Any]) -> None:
    with pytest.raises(UndeterminedError, match="answers with something else"):
        answers(member(**changed)).members("spawn", 0.0, "")


@pytest.mark.parametrize(
    "told",
    [
        {"about": "said", "node": 1, "text": 5},
        {"about": "said", "node": "resource tracker", "text": []},
        {"about": "failed", "node": 1, "code": 1},
        {"about": "failed", "node": 1, "why": 5},
        {"about": "failed", "node": 1, "why": "ended", "code": "1"},
    ],
    ids=str,
)
def test_what_is_said_of_a_failure_makes_sense_or_cannot_be_told(told: dict[str, Any]) -> None:
    with pytest.raises(UndeterminedError, match="answers with something else"):
        answers(told).failed(0, "")
