"""The check `not-reproduced`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed, found
from envprobe.launch import sandbox
from envprobe.model import Confidence
from envprobe.rehearsal.types import Rehearsal

_PATHS: Final = 8
_GPU: Final = "Add --with-gpu, which hides no GPU from the hooks."


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        yield from _sandbox(rehearsed, one)
        for name, reason in one.start.undecided.items():
            told = f"{name} could not be given to the rehearsal as it will be: {reason}."
            yield found(CHECK, rehearsed, told, variable=name, undetermined=True)
        rest = [gap for gap in one.start.gaps if gap.partition(":")[0] not in one.start.undecided]
        if rest:
            yield found(
                CHECK,
                rehearsed,
                f"The environment is not known as a whole: {rest[0]}.",
                severity=Severity.INFO,
                evidence=[f"{gap}." for gap in rest[1:]],
                confidence=Confidence.INFERRED,
            )
        expected = (
            {one.name for one in rehearsed.scan.config.expectations} if rehearsed.scan else ()
        )
        for name in one.hidden:
            if name in expected:
                told = f"{name} was changed to hide the GPUs: what a worker would have is not known"
                yield found(
                    CHECK, rehearsed, f"{told}.", variable=name, remedy=_GPU, undetermined=True
                )


def _sandbox(rehearsed: Rehearsed, one: Rehearsal) -> Iterator[Finding]:
    if not one.sandbox:
        return
    listed = "; ".join(f"{each} ({each.place})" for each in one.sandbox)
    concerned = {
        path: found_at
        for path in _paths(one)
        if (found_at := sandbox.concerning(one.sandbox, path)) is not None
    }
    if not concerned:
        told = f"Not reproduced ({one.unconfined}), and of no path that matters here: {listed}."
        yield found(CHECK, rehearsed, told, severity=Severity.INFO)
        return
    yield found(
        CHECK,
        rehearsed,
        f"The sandbox of the unit is not reproduced, and what is at {len(concerned)} of its paths"
        f" is not known: {listed}.",
        evidence=[
            f"Why not: {one.unconfined}.",
            *(f"{path}: {why}." for path, why in list(concerned.items())[:_PATHS]),
        ],
        undetermined=True,
    )


def _paths(one: Rehearsal) -> list[str]:
    """Return the paths on which the start hangs."""
    launch = one.start.launch
    entries = (launch.environment.get("PYTHONPATH") or "").split(":")
    hooks = [path for each in one.members for path in each.effects.loaded.values()]
    targets = [each.origin for member in one.members for each in member.targets.values()]
    every = [launch.python, launch.cwd, *entries, *hooks, *targets]
    return list(dict.fromkeys(path for path in every if path.startswith("/")))


CHECK = Check(
    id="EP513",
    slug="not-reproduced",
    severity=Severity.WARNING,
    summary="Something that the definition says of the start could not be rehearsed.",
    why="A unit may hide or replace directories for what it starts (ProtectHome=, PrivateTmp=,"
    " RootDirectory=, BindPaths=), and some values are known only once it is started. A rehearsal"
    " without them sees other files: that a hook was found here does not mean that the server finds"
    " it.",
    mend="Rehearse on the machine that the unit is for, as root, where its manager runs; or keep"
    " interpreter, hooks and packages out of the directories that the unit hides.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
