"""The check `hook-silent`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Outcome
from envprobe.startup.types import Kind

_EXTENSION: Final = (
    "Import it by hand with the same interpreter, as `python -c 'import sitecustomize'`: the error"
    " names what the loader misses. Build it for this interpreter and machine."
)


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer, hook in context.hooks():
        if hook.outcome is Outcome.SILENT:
            told = f"{hook.path} failed in silence: {hook.reason}"
            remedy = _EXTENSION if hook.kind is Kind.EXTENSION else ""
            yield found(CHECK, context, answer, told, remedy=remedy)


CHECK = Check(
    id="EP104",
    slug="hook-silent",
    severity=Severity.ERROR,
    summary="A hook failed in the one way that nothing reports.",
    why="site takes an ImportError that names sitecustomize itself for the absence of the "
    "hook and prints nothing. A hook that imports a submodule of its own name, or is "
    "bytecode of another Python, fails like this.",
    mend="Rename what the hook imports so that it does not begin with the name of the hook; "
    "compile sourceless bytecode with the version of Python that runs it.",
    run=_run,
)
