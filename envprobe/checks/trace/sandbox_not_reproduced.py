"""The check `sandbox-not-reproduced`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.trace.about import TraceContext, found
from envprobe.checks.who import some

_NAMED: Final = 8


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        sandbox = answer.start.sandbox if answer.start is not None else ()
        for one, paths in answer.unseen.items():
            what = f"what the unit finds at {some(paths, _NAMED)} is not known here"
            told = f"{what}: {one} changes which files it sees"
            evidence = [f"{one.place}: {one.unknown or one}"]
            yield found(CHECK, context, answer, told, evidence=evidence, undetermined=True)
        rest = [one for one in sandbox if one not in answer.unseen]
        if rest:
            named = some([str(one) for one in rest], _NAMED)
            told = f"{named} is not reproduced, and concerns no path that decides here"
            evidence = [str(one.place) for one in rest]
            severity = Severity.INFO
            yield found(CHECK, context, answer, told, severity=severity, evidence=evidence)


CHECK = Check(
    id="EP125",
    slug="sandbox-not-reproduced",
    severity=Severity.ERROR,
    summary="The unit sees other files than envprobe, at paths that decide which hooks run.",
    why="ProtectHome=, PrivateTmp=, RootDirectory=, BindPaths= and their kin give a service a file"
    " system of its own. A hook under /home or /tmp that runs in a shell, and here, may not be"
    " there for the service.",
    mend="Keep the interpreter and the hooks out of what the unit hides, such as /opt; or trace the"
    " running server with --pid, in whose root directory everything is looked at.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
