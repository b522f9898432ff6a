"""The check `rehearsed-process-failed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext, found, quoted
from envprobe.checks.who import folded, some
from envprobe.model import Sentence
from envprobe.rehearsal.types import Failed


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        for group in folded(one.failed, _key).values():
            names = some([failed.name for failed in group], 6)
            told = f"{names[:1].upper()}{names[1:]} {_words(group[0])} before it was ready."
            yield found(CHECK, rehearsed, told, evidence=_said(group[0]))


def _key(failed: Failed) -> tuple[object, ...]:
    return failed.why, failed.code, _last(failed)


def _words(failed: Failed) -> str:
    if failed.why == "silent":
        return "did not answer in time"
    if failed.why != "ended":
        return f"could not be started ({failed.why})"
    if failed.code is None:
        return "ended"
    killed = failed.code < 0
    return f"was ended by signal {-failed.code}" if killed else f"ended with code {failed.code}"


def _last(failed: Failed) -> str:
    lines = [line for line in failed.said.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def _said(failed: Failed) -> Iterator[Sentence]:
    if last := _last(failed):
        yield Sentence.of("Its last words: ", quoted(last), ".")


CHECK = Check(
    id="EP502",
    slug="rehearsed-process-failed",
    severity=Severity.ERROR,
    summary="A process of the rehearsed server did not come up.",
    why="The interpreter, its environment and its start-up hooks are those of the real server, and"
    " nothing else was run: the real one would not come up either. A hook that raises SystemExit"
    " ends every interpreter.",
    mend="Its last words name the cause; `envprobe trace-sitecustomize` shows hook by hook what an"
    " interpreter does at its start.",
    run=_run,
)
