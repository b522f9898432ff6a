"""The check `kernel-not-compiled`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.kernel.about import Outcome, failures, found, named, unread
from envprobe.kernel.architecture import Architecture
from envprobe.kernel.facts import Failure, KernelFacts, Run

_UNKNOWN: Final = "NVRTC_ERROR_INVALID_OPTION"
_SOURCE: Final = "NVRTC_ERROR_COMPILATION"
_LEAST: Final = 80
_PACKAGES: Final = (
    "Run `pip install 'envprobe[kernel-compile]'` for that interpreter, or leave out --python."
)


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device, failure in failures(facts, Outcome.NOT_COMPILED):
        yield found(
            CHECK,
            f"The compiler refuses the kernel for {named(device)}.",
            who=named(device),
            evidence=failure.text.splitlines()[:12],
        )
    if facts.compile_only is not None:
        yield from _compile_only(facts.compile_only, facts.question.devices)


def _compile_only(run: Run, asked: tuple[Architecture, ...]) -> Iterator[Finding]:
    if run.compiler is None:
        problem = run.compiler_problem
        yield found(
            CHECK,
            f"Nothing was compiled: {run.python} {_lack(problem)}.",
            who=run.python,
            evidence=() if problem is not None else _words(run),
            remedy=_PACKAGES,
            undetermined=True,
        )
        return
    for one in run.compiled:
        if one.failure is not None:
            refused = one.failure.word == _SOURCE
            old = one.failure.word == _UNKNOWN
            version = ".".join(map(str, run.compiler))
            told = f"NVRTC {version} does not compile for {one.architecture}"
            yield found(
                CHECK,
                f"The compiler refuses the kernel for {one.architecture}."
                if refused
                else f"Not compiled for {one.architecture}: {told if old else one.failure}.",
                who=str(one.architecture),
                evidence=one.failure.text.splitlines()[:12],
                remedy=_remedy(one.architecture) if old else "",
                undetermined=not refused,
            )
    if run.problem:
        yield found(
            CHECK,
            f"The compilation has not come to its end: {run.problem}.",
            who=run.python,
            evidence=_words(run),
            undetermined=True,
        )
        return
    yield from _untold(run, asked)


def _untold(run: Run, asked: tuple[Architecture, ...]) -> Iterator[Finding]:
    """Yield what a compilation that came to its end should have told and has not."""
    told_of = {one.architecture for one in run.compiled}
    for architecture in asked:
        if architecture not in told_of:
            yield found(
                CHECK,
                f"Not compiled for {architecture}: {unread(run) or f'{run.python} told nothing'}.",
                who=str(architecture),
                evidence=_words(run),
                undetermined=True,
            )
    if run.unread and told_of.issuperset(asked):
        yield found(
            CHECK,
            f"Not all is known of the compilation: {unread(run)}.",
            who=run.python,
            undetermined=True,
        )


def _remedy(architecture: Architecture) -> str:
    if architecture.number < _LEAST:
        return f"The kernel is for sm_{_LEAST} and later."
    return "Install a newer NVRTC: pip install -U nvidia-cuda-nvrtc."


def _lack(problem: Failure | None) -> str:
    return "has not said why" if problem is None else f"lacks what that needs: {problem}"


def _words(run: Run) -> tuple[str, ...]:
    return (f"its last words: {run.said}",) if run.said else ()


CHECK = Check(
    id="EP410",
    slug="kernel-not-compiled",
    severity=Severity.ERROR,
    summary="The kernel was not compiled for an architecture.",
    why="The kernel is compiled on the machine where it runs. Where that fails, every call falls"
    " back to SGLang's own kernel. A compiler that is missing or too old says nothing of the"
    " kernel.",
    mend="Read the compiler's words in the evidence.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
