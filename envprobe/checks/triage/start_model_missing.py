"""The check `start-model-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("the model could not be found or read"))


CHECK = Check(
    id="EP617",
    slug="start-model-missing",
    severity=Severity.ERROR,
    summary="The model or its weights are not there, not permitted, or not reachable.",
    why="A path that does not exist is taken for a name on the Hub. A gated model needs a token"
    " whose account was granted access, in the environment of the server: the one of your"
    " shell does not reach a unit.",
    mend="See that the path exists for the server's user, and that HF_TOKEN, HF_HOME and"
    " HF_HUB_OFFLINE reach it: `envprobe unit` shows what is handed over.",
    run=_run,
)
