"""How a break is told: its place, every cause with its evidence, and what to do."""

from __future__ import annotations

import pytest

from envprobe.checks import breaks
from envprobe.model import Confidence, Sentence
from envprobe.routes.types import Break, Cause, CauseId, Change
from tests.unit.checks.scene import sglang, text, worker

SCENE = worker(sglang(4, server={"NCCL_ALGO": "Ring"}), 111, {}, exec={})
CONTEXT = SCENE.context()
ROUTE = CONTEXT.routing.routes[111, "NCCL_ALGO"]


def cause(identity: CauseId, remedy: str = "") -> Cause:
    return Cause(
        identity,
        Sentence.of(f"It is {identity.value}."),
        (Sentence.of("One thing speaks for it."),),
        (Sentence.of("Another speaks against it."),),
        Sentence.of(remedy) if remedy else Sentence(()),
    )


def made(*causes: Cause, **fields: object) -> Break:
    values = {"confidence": Confidence.INFERRED, **fields}
    return Break(1, 2, Change.LOST, causes, **values)  # type: ignore[arg-type]


def told(found: Break, others: int = 0) -> list[str]:
    return [text(one) for one in breaks.evidence(CONTEXT, ROUTE, found, others)]


def test_one_cause_that_is_proved_is_the_cause() -> None:
    assert told(made(cause(CauseId.NEVER_SET), confidence=Confidence.PROVED)) == [
        "cause: It is never-set.",
        "for it: One thing speaks for it.",
        "against it: Another speaks against it.",
    ]


def test_several_causes_are_possible_and_not_told_apart() -> None:
    lines = told(made(cause(CauseId.NEVER_SET), cause(CauseId.AT_SECURE)))
    assert lines[0] == "possible cause: It is never-set."
    assert lines[3] == "possible cause: It is at-secure."
    assert lines[-1] == "What can be read now does not tell these causes apart."


def test_one_cause_that_is_not_proved_is_possible() -> None:
    lines = told(made(cause(CauseId.NEVER_SET)))
    assert lines[0] == "possible cause: It is never-set."
    assert len(lines) == 3


@pytest.mark.parametrize(("others", "says"), [(1, "1 more has the same."), (2, "2 more have the")])
def test_others_with_the_same_causes_are_counted(others: int, says: str) -> None:
    first = told(made(cause(CauseId.NEVER_SET)), others)[0]
    assert first.startswith("The causes are told for scheduler TP1 (PID 111); ")
    assert says in first


def test_a_known_writer_comes_first_and_decides_the_remedy() -> None:
    found = made(cause(CauseId.CHANGED_IN_PARENT, "Look there."), writer="sglang sets it")
    assert told(found)[0] == "known writer: sglang sets it."
    assert text(breaks.remedy(found, "otherwise")).startswith("The framework writes it: use")


@pytest.mark.parametrize(
    ("remedies", "says"),
    [
        ((), "Otherwise."),
        (("",), "Otherwise."),
        (("Do a.",), "Do a."),
        (("Do a.", ""), "Do a."),
        (("Do a.", "Do b."), "Do a. Or: Do b."),
        (("Do a.", "Do a."), "Do a."),
    ],
)
def test_the_remedies_of_all_causes_are_offered(remedies: tuple[str, ...], says: str) -> None:
    found = made(*(cause(CauseId.NEVER_SET, one) for one in remedies))
    assert text(breaks.remedy(found, "Otherwise.")) == says


def test_without_a_break_there_is_the_usual_remedy() -> None:
    assert text(breaks.remedy(None, "Otherwise.")) == "Otherwise."


@pytest.mark.parametrize(
    ("others", "says"), [(0, "(PID 111)"), (1, "(and 1 more worker)"), (2, "(and 2 more workers)")]
)
def test_the_place_counts_the_workers_that_share_it(others: int, says: str) -> None:
    (found,) = ROUTE.breaks
    where = breaks.where(CONTEXT, ROUTE, found, others)
    assert where.startswith("lost between the libc view of server (PID 100) and the exec view of")
    assert where.endswith(says)
