"""The check `hook-shadowed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup import advice, owners
from envprobe.startup.traced import Answer
from envprobe.startup.types import Candidate, Kind, Walk


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        walk = answer.startup.walk
        for one in walk.candidates if walk is not None else ():
            hook = answer.startup.hook(one.module)
            runs = {hook.path, *hook.chained}.intersection((one.file.path, one.file.real))
            if walk is not None and one.reason and one.kind is not Kind.NAMESPACE and not runs:
                yield _finding(context, answer, walk, one)


def _finding(context: TraceContext, answer: Answer, walk: Walk, one: Candidate) -> Finding:
    hook = answer.startup.hook(one.module)
    # What a package has brought is nobody's own hook: that it is hidden is rarely a loss.
    foreign = bool(one.file.owner)
    ways = () if foreign else advice.mends(walk, answer.startup.launch, one.file.path)
    evidence = [f"{hook.path} runs"] if hook.path else []
    if hook.owner or hook.agent:
        hides = ", which does not run the one it hides" if owners.hides_others(hook.path) else ""
        evidence.append(f"that belongs to {hook.agent or hook.owner}{hides}")
    evidence += [f"a way that works here: {way.text}" for way in ways]
    return found(
        CHECK,
        context,
        answer,
        f"{one.file.path} never runs: {one.reason}",
        severity=Severity.INFO if foreign else None,
        evidence=evidence,
        remedy="Use one of these ways, then run this command again with --expect-winner."
        if ways
        else "Nothing needs to be done unless it should run.",
    )


CHECK = Check(
    id="EP106",
    slug="hook-shadowed",
    severity=Severity.WARNING,
    summary="A sitecustomize or usercustomize never runs because another one is found first.",
    why="Only the first hit in the order of sys.path runs: PYTHONPATH, then the directory of "
    "the standard library, then site-packages. Debian and Ubuntu ship one with the "
    "standard library, which beats every virtual environment.",
    mend="Put the directory of your hook into PYTHONPATH; or give the module another name and "
    "let a .pth file import it; or let a hook in PYTHONPATH run the one that it hides "
    "(`envprobe init-hook DIR`).",
    run=_run,
)
