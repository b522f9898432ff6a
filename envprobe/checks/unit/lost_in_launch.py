"""The check `lost-in-launch`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found
from envprobe.launch.definition import Definition
from envprobe.launch.steps import Launch
from envprobe.model import Sentence, State


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, launch in context.launches():
        for name in definition.relevant:
            before = definition.declared.reading(name)
            after = launch.declared.reading(name)
            if before.state is not State.VALUE or after.state is State.VALUE:
                continue
            yield _found(definition, launch, name, after.state is not State.ABSENT)


def _found(definition: Definition, launch: Launch, name: str, unknown: bool) -> Finding:
    entry = launch.declared.entry(name)
    reading = launch.declared.reading(name)
    where = str(entry.removed) if entry is not None and entry.removed is not None else ""
    told = f"may not reach the server: {reading.reason}" if unknown else "is removed on the way"
    return found(
        CHECK,
        definition,
        Sentence.of(f"{where or launch.place}: {name} {told}."),
        place=launch.place,
        variable=name,
        undetermined=unknown,
        evidence=(
            Sentence.of(f"{hop.place}: {hop.program} {hop.told}.")
            for hop in launch.hops
            if hop.told
        ),
    )


CHECK = Check(
    id="EP323",
    slug="lost-in-launch",
    severity=Severity.ERROR,
    summary="A wrapper in the command line removes a declared variable.",
    why="sudo keeps almost nothing and never PYTHONPATH, `env -i` keeps nothing, srun --export only"
    " what it lists: the unit declares the variable and the server does not get it.",
    mend="Set it behind the wrapper: sudo NAME=VALUE CMD, env NAME=VALUE CMD; or use User= instead"
    " of sudo.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
