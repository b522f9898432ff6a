"""The check `bytecode-suspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.types import Bytecode, Kind

_WORDS: Final = {
    Bytecode.UNCHECKED: "is never checked against its source (unchecked-hash); now they agree",
    Bytecode.UNCHECKED_STALE: "is never checked against its source, and is other code",
    Bytecode.AGREES_BUT_DIFFERS: "agrees with its source in time and size, but is other code",
    Bytecode.CORRUPT: "agrees with its source in time and size, but holds no code: it is damaged",
}


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        walk = answer.startup.walk
        for one in walk.candidates if walk is not None else ():
            if one.file.path != answer.startup.hook(one.module).path:
                continue
            if one.bytecode in _WORDS:
                agrees = one.bytecode is Bytecode.UNCHECKED
                severity = Severity.INFO if agrees else None
                told = f"{one.cached} {_WORDS[one.bytecode]}"
                yield found(CHECK, context, answer, told, severity=severity)
            if one.kind is Kind.SOURCELESS:
                told = f"{one.file.path} is bytecode without a source"
                yield found(CHECK, context, answer, told, severity=Severity.INFO)


CHECK = Check(
    id="EP110",
    slug="bytecode-suspect",
    severity=Severity.WARNING,
    summary="The hook runs from bytecode that its source does not control.",
    why="Bytecode that is never checked against its source, or that agrees with it in time "
    "and size only by chance, keeps running old code after the source was edited. "
    "Bytecode without a source cannot be read.",
    mend="Remove the .pyc file that the finding names; Python writes a new one. Compile with "
    "checked hashes or times, not with --invalidation-mode unchecked-hash.",
    run=_run,
)
