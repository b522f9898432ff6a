"""The check `c-and-python-disagree`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.checks import breaks, who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Reading, Sentence, View
from envprobe.routes import variables
from envprobe.routes.types import Break, Route


@dataclasses.dataclass(frozen=True, slots=True)
class _Disagreement:
    route: Route
    found: Break
    libc: Reading
    python: Reading


def _run(context: Context) -> Iterator[Finding]:
    groups = who.folded(
        _all(context),
        lambda one: (one.route.name, one.libc.value, one.python.value, _key(one)),
    )
    yield from (_finding(context, group) for group in groups.values())


def _key(one: _Disagreement) -> tuple[object, ...]:
    return breaks.key(one.route, one.found)


def _all(context: Context) -> Iterator[_Disagreement]:
    for name in context.routing.names:
        if variables.set_by_library(name):
            continue
        for pid in context.routing.workers():
            route = context.routing.routes.get((pid, name))
            found = route.mirrored if route is not None else None
            # Where the C environ was not read, nothing is known to disagree.
            if route is not None and found is not None and route.final().known:
                yield _Disagreement(route, found, route.final(), route.final(View.PYTHON))


def _finding(context: Context, group: list[_Disagreement]) -> Finding:
    first, pids = group[0], tuple(one.route.pid for one in group)
    name, values = first.route.name, (first.libc.value, first.python.value)
    return Finding(
        check=CHECK.slug,
        severity=_severity(context, name),
        message=Sentence(
            (
                f"In {who.in_words(context, pids)} {name} is ",
                *who.distinct(name, values[:1]),
                " in the C environ, which NCCL and other libraries read, and"
                f" {who.unlike(name, values)}",
                *who.distinct(name, values[1:]),
                " in os.environ, which Python code reads.",
            )
        ),
        confidence=first.libc.confidence,
        pids=pids,
        variable=name,
        evidence=tuple(breaks.evidence(context, first.route, first.found, len(group) - 1)),
        remedy=breaks.remedy(first.found, "Assign to os.environ, which changes both."),
        breaks=tuple(one.found for one in group),
    )


def _severity(context: Context, name: str) -> Severity:
    """Return how much it matters: ranks must agree in it, or the user expects something of it."""
    expected = any(one.name == name for one in context.config.expectations)
    return CHECK.severity if expected or variables.rank_critical(name) else Severity.INFO


CHECK = Check(
    id="EP022",
    slug="c-and-python-disagree",
    severity=Severity.WARNING,
    summary="The C environ and os.environ of a worker say different things of a variable.",
    why="NCCL, CUDA and every other C library read the C environ with getenv; Python code reads"
    " os.environ, a copy that is made when the interpreter starts. setenv in a library or through"
    " ctypes, os.putenv, and NCCL's own configuration files change only the first; writing to"
    " os.environ._data changes only the second. So code that looks at os.environ reports a value"
    " that NCCL does not use, and what a worker starts with env=os.environ gets another environment"
    " than what it starts without. It is a warning for variables in which ranks must agree and for"
    " those that are expected, else a note. Expectations are judged by the C environ.",
    mend="See which of the two is right, then let the code that sets the variable assign to"
    " os.environ, which changes both, or set it before the server starts.",
    run=_run,
)
