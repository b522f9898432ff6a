"""The check `declared-unexpected`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found
from envprobe.config import Expectation, Rule
from envprobe.launch.declared import Declared
from envprobe.launch.definition import Definition
from envprobe.model import Reading, Sentence, Shown, State
from envprobe.values import Value


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        for declared in definition.final:
            for expectation in context.expectations:
                reading = declared.reading(expectation.name)
                if not reading.known:
                    yield _told(definition, expectation, reading, "cannot be told", unknown=True)
                elif not holds(expectation, reading):
                    yield _told(definition, expectation, reading, _wrong(declared, reading))


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


def _wrong(declared: Declared, reading: Reading) -> str:
    return "is not handed over" if reading.state is State.ABSENT else "has another value"


def _told(
    definition: Definition,
    expectation: Expectation,
    reading: Reading,
    what: str,
    *,
    unknown: bool = False,
) -> Finding:
    name = expectation.name
    evidence: list[Sentence] = []
    if reading.value is not None:
        evidence.append(Sentence.of(f"{reading.source}: {name}=", Shown(name, reading.value)))
    elif reading.reason or reading.source:
        evidence.append(Sentence.of(reading.reason or f"{reading.source} removes it."))
    return found(
        CHECK,
        definition,
        Sentence.of(f"{name} {what}, against {expectation.origin}."),
        variable=name,
        evidence=evidence,
        undetermined=unknown,
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
