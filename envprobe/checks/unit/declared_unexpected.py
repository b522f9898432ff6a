"""The check `declared-unexpected`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.expected import demand
from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found
from envprobe.config import Expectation, Rule
from envprobe.launch.definition import Definition
from envprobe.model import Reading, Sentence, Shown, State
from envprobe.values import Value


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        for declared in definition.final:
            for expectation in context.expectations:
                reading = declared.reading(expectation.name)
                if not reading.known:
                    yield _told(definition, expectation, reading, unknown=True)
                elif not holds(expectation, reading):
                    yield _told(definition, expectation, reading)


def holds(expectation: Expectation, reading: Reading) -> bool:
    """Return whether what is handed over is what is expected."""
    if reading.state is State.ABSENT:
        return expectation.rule in (Rule.ABSENT, Rule.SAME)
    value = reading.value or Value(b"")
    if expectation.rule is Rule.ABSENT:
        return False
    if expectation.rule is Rule.CONTAINS:
        items = value.reveal().replace(b",", b":").split(b":")
        return all(one.reveal() in items for one in expectation.values)
    if expectation.rule in (Rule.EXACT, Rule.ONE_OF):
        return value in expectation.values
    return True


def _told(
    definition: Definition,
    expectation: Expectation,
    reading: Reading,
    *,
    unknown: bool = False,
) -> Finding:
    name = expectation.name
    what = "is not handed over" if reading.state is State.ABSENT else "is handed over otherwise"
    if unknown:
        what = "cannot be told"
    elif expectation.rule is Rule.ABSENT:
        what = "is handed over"
    evidence: list[Sentence] = []
    if reading.value is not None:
        evidence.append(Sentence.of(f"{reading.source}: {name}=", Shown(name, reading.value)))
    elif reading.reason or reading.source:
        evidence.append(Sentence.of(reading.reason or f"{reading.source} leaves it out."))
    return found(
        CHECK,
        definition,
        Sentence(
            (f"{name} {what}, against {expectation.origin}: expected ", *demand(expectation), ".")
        ),
        variable=name,
        evidence=evidence,
        remedy=_TELL if unknown else "",
        undetermined=unknown,
    )


_TELL: Final = (
    "Give what is not known: a unit by its name, on its own machine; an image with --image-inspect;"
    " a ConfigMap or Secret with --kube."
)

CHECK = Check(
    id="EP329",
    slug="declared-unexpected",
    severity=Severity.ERROR,
    summary="What is expected of a variable is not what would be handed over.",
    why="The next start would bring the server up without it, or with another value.",
    mend="Mend the definition, load it again, and check once more before the restart.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
