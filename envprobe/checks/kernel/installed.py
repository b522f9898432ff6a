"""The check `installed-unexpected`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import devices, found
from envprobe.kernel.facts import Function, KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    expected = facts.question.installed
    seen: set[Function] = set()
    for device in devices(facts):
        called = device.in_class
        if called is None or not called.functions or called.functions[0] in seen:
            continue
        function = called.functions[0]
        seen.add(function)
        wraps = [f"it wraps {one}" for one in called.functions[1:]]
        if expected and not _is(function, expected):
            yield found(
                CHECK,
                f"The class holds {function}, not what comes from {expected}.",
                who=function.file,
                evidence=wraps,
            )
        elif not called.patched:
            yield found(
                CHECK,
                f"The class holds SGLang's own function: {function}.",
                who=function.file,
                severity=Severity.INFO,
            )


def _is(function: Function, expected: str) -> bool:
    """Return whether a function's file is this one, or its module this one or below it."""
    if "/" in expected:
        return function.file == expected or function.file.startswith(expected.rstrip("/") + "/")
    return function.module == expected or function.module.startswith(expected + ".")


CHECK = Check(
    id="EP412",
    slug="installed-unexpected",
    severity=Severity.ERROR,
    summary="The class does not hold the function that should be installed in it.",
    why="A patch that was lost on the way, by a hook that did not run or another one that came"
    " later, leaves a server that works without it. An info says that nothing is patched where"
    " nothing was expected.",
    mend="`envprobe trace-sitecustomize` says which hook this interpreter runs, and whether it ran"
    " to its end.",
    run=_run,
)
