"""The check `start-hook-failed`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, evidence, of_cause, told, where
from envprobe.checks.triage.judgement import Sign
from envprobe.model import Sentence


def _run(context: TriageContext) -> Iterator[Finding]:
    judgement = context.judgement
    yield from of_cause(CHECK, context, _say)
    if judgement.root in judgement.hooks or not judgement.hooks:
        return
    first = judgement.hooks[0]
    alone = dataclasses.replace(context, judgement=dataclasses.replace(judgement, follows=()))
    yield Finding(
        check=CHECK.slug,
        severity=Severity.WARNING,
        message=Sentence.of(
            f"{where(first.log, first.line)}: {_say(first)}; the process went on without it."
        ),
        evidence=tuple(map(Sentence.of, evidence(alone, first))),
        remedy=Sentence.of(CHECK.mend),
        who=where(first.log, first.line),
    )


def _say(sign: Sign) -> str:
    if sign.fatal:
        return f"a start-up hook ended the interpreter before its first line: {told(sign)}"
    return f"the start-up hook {told(sign)} raised"


CHECK = Check(
    id="EP602",
    slug="start-hook-failed",
    severity=Severity.ERROR,
    summary="A sitecustomize, usercustomize, .pth or .start file raised, or ended the interpreter.",
    why="An exception in a hook is one line on stderr: the interpreter goes on, without what the"
    " hook was to set or patch. SystemExit and KeyboardInterrupt in it end every interpreter that"
    " is started with the same environment, before any program runs.",
    mend="Run `envprobe trace-sitecustomize` with the server's interpreter and environment: it"
    " names the file and the line.",
    run=_run,
)
