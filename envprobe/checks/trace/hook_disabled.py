"""The check `hook-disabled`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Outcome
from envprobe.startup.types import MODULES


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        walk, launch = answer.startup.walk, answer.startup.launch
        for module in MODULES:
            hook = answer.startup.hook(module)
            there = walk.of(module) if walk is not None else ()
            if hook.outcome is Outcome.DISABLED and there:
                names = ", ".join(one.file.path for one in there)
                yield found(CHECK, context, answer, f"{names} never runs: {hook.reason}")
        if launch.environment.get("PYTHONPATH") and launch.ignores_variables:
            told = "PYTHONPATH is set but does not count: -E (or -I) is among the flags"
            yield found(CHECK, context, answer, told)


CHECK = Check(
    id="EP107",
    slug="hook-disabled",
    severity=Severity.WARNING,
    summary="A hook is there, but the flags or the kind of interpreter keep it from running.",
    why="With -S no hook runs at all; with -E and -I PYTHONPATH does not count; with -s, in "
    "most virtual environments and under set-user-id usercustomize does not run. "
    "multiprocessing hands these flags on to spawned children.",
    mend="Start the server without the flag, or use a way that the flag leaves open: a .pth "
    "file in site-packages still runs under -I and -E.",
    run=_run,
)
