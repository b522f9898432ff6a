"""The check `patch-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import hooked, patched, who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.patched import Patched, Status
from envprobe.checks.sources import chain
from envprobe.model import Sentence
from envprobe.patchexpect import is_within
from envprobe.pythonfacts import HOOKS


def _run(context: Context) -> Iterator[Finding]:
    broken = [one for one in context.once(patched.outcomes) if one.status is Status.BROKEN]
    for group in who.folded(broken, lambda one: (one.expectation, _held(one))).values():
        yield _finding(context, group)


def _held(outcome: Patched) -> str:
    """Return what the attribute holds in words."""
    if outcome.found is None:
        return f"nothing, {outcome.reason}"
    original = "the original, " if _is_original(outcome) else ""
    return original + outcome.found.said


def _is_original(outcome: Patched) -> bool:
    module = outcome.answer.module if outcome.answer is not None else None
    found = outcome.found
    if module is None or found is None or ":" not in outcome.expectation.query:
        return False
    return module.name in found.modules or (module.file is not None and module.file in found.files)


def _finding(context: Context, group: list[Patched]) -> Finding:
    first = group[0]
    pids = tuple(one.pid for one in group)
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"{first.expectation.query} is not patched in {who.in_words(context, pids)}: it holds"
            f" {_held(first).rstrip('.')}; expected: from {first.expectation.source}."
        ),
        pids=pids,
        evidence=tuple(_evidence(context, first, pids)),
        remedy=Sentence.of(_remedy(context, first)),
    )


def _remedy(context: Context, outcome: Patched) -> str:
    """Return what to do; a name that other processes have need not be corrected."""
    if outcome.found is not None:
        return _REMEDY
    others = context.once(patched.outcomes)
    elsewhere = any(one.found and one.expectation == outcome.expectation for one in others)
    return _ONLY_HERE if elsewhere else _NO_NAME


def _evidence(context: Context, outcome: Patched, pids: tuple[int, ...]) -> Iterator[Sentence]:
    yield Sentence.of(f"Expected by {outcome.expectation.origin}.")
    function = outcome.answer.function if outcome.answer is not None else None
    if function is not None and outcome.found is not None:
        for one in chain(function):
            named = one.module is not None and is_within(one.module, outcome.expectation.source)
            if named and one.module not in outcome.found.modules:
                yield Sentence.of(
                    f"Its __module__ says {one.module}, which is only a name: functools.wraps"
                    " copies it, and the code is of another file."
                )
                break
    for name in HOOKS:
        yield from _hook(context, name, pids)
    same = outcome.expectation
    holds = [
        one.pid
        for one in context.once(patched.outcomes)
        if one.expectation == same and one.status is Status.HOLDS
    ]
    if holds:
        yield Sentence.of(f"It is patched in {who.in_words(context, holds)}.")


def _hook(context: Context, name: str, pids: tuple[int, ...]) -> Iterator[Sentence]:
    """Say what these processes have loaded as a hook, if that is one thing."""
    processes = who.processes(context, pids)
    answers = (one.inside.answer(name) if one.inside is not None else None for one in processes)
    found = {hooked.loaded(answer) for answer in answers}
    if found == {hooked.NOT_LOADED} and name == HOOKS[0]:
        yield Sentence.of(f"No {name} is loaded there: it was not found, or it failed.")
    elif len(found) == 1 and not found & {"", hooked.NOT_LOADED}:
        yield Sentence.of(f"The {name} loaded there: {found.pop()}.")


_REMEDY = (
    "See in the row sitecustomize of the table whether the hook was loaded there, and from where;"
    " if it was, see whether it patches this module and name, and whether other code sets them"
    " again afterwards. Restart the server."
)
_ONLY_HERE = (
    "Other processes have it: see whether these have loaded the same version of the module, and"
    " what takes the attribute away. Restart the server."
)
_NO_NAME = (
    "Correct the name in the expectation; `envprobe inspect --pid PID MODULE:CLASS` shows what a"
    " worker has."
)

CHECK = Check(
    id="EP025",
    slug="patch-missing",
    severity=Severity.ERROR,
    summary="An attribute that should be patched holds the original, or what others put there.",
    why="A start-up hook that patches a class works in each process for itself: where it was not"
    " loaded, failed half-way, or patched a module that was imported again, the worker silently"
    " runs the original. What an attribute holds is told by the file and the namespace of the code,"
    " along all wrappers; __module__ is not asked, since functools.wraps copies it.",
    mend="See whether the worker has loaded the hook at all (the row sitecustomize of the table,"
    " hook-differs), whether the hook patches the module and class that the server really uses, and"
    " whether other code (another hook, a plug-in) sets the attribute afterwards. A hook should"
    " patch when the module is imported, and leave a mark if it fails.",
    run=_run,
)
