"""The check `main-guard-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.launch.entry import EntryLook, Start, StartKind
from envprobe.model import Confidence, Sentence

_WORDS = {
    StartKind.PROCESS: "starts a process",
    StartKind.RUNPY: "runs another module as the main one",
    StartKind.SERVER: "starts the server",
    StartKind.COMMAND: "starts a command",
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for number, definition in enumerate(context.definitions):
        for look in context.entries.get(number, ()):
            for start in look.starts:
                only = start.kind is StartKind.COMMAND
                yield found(
                    CHECK,
                    definition,
                    Sentence.of(_message(look, start)),
                    severity=Severity.WARNING if only else CHECK.severity,
                    evidence=_evidence(look, start),
                    confidence=Confidence.INFERRED,
                )


def _message(look: EntryLook, start: Start) -> str:
    place = f"{look.path}:{start.line}"
    told = f"{place}: {start.call} {_WORDS[start.kind]} outside of a main guard"
    if start.kind is StartKind.COMMAND:
        return f"{told}: it runs again in each spawned child."
    return f"{told}: each spawned child runs it again, and dies of it."


def _evidence(look: EntryLook, start: Start) -> Iterator[Sentence]:
    if start.inside is not None:
        yield Sentence.of(f"The statement calls a function that does so at line {start.inside}.")
    if look.guard is not None:
        yield Sentence.of(f"There is a main guard at line {look.guard}, and this is not in it.")
    else:
        yield Sentence.of('There is no `if __name__ == "__main__":` in the file.')
    if start.kind is not StartKind.COMMAND:
        yield Sentence.of(
            "multiprocessing imports the main module in each child that it spawns, and refuses to"
            " start a process meanwhile: RuntimeError, An attempt has been made to start a new"
            " process before the current process has finished its bootstrapping phase."
        )


CHECK = Check(
    id="EP325",
    slug="main-guard-missing",
    severity=Severity.ERROR,
    summary="A launch script starts something at module level, and a spawned child runs it again.",
    why="SGLang and vLLM start their workers by spawn, which imports the main module in each of"
    " them. A launch wrapper that calls runpy.run_module or launch_server at the top level kills"
    " every worker, and a patch applied there does not reach them anyway.",
    mend='Put it below `if __name__ == "__main__":`, and what is to patch the workers into a'
    " sitecustomize (`envprobe init-hook`).",
    run=_run,
)
