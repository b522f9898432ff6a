"""The check `nccl-read-otherwise`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Reading, Sentence, Shown, View
from envprobe.routes.types import Cause, Change, NcclHop, Route


class _Otherwise(NamedTuple):
    route: Route
    hop: NcclHop

    @property
    def key(self) -> object:
        """What must be equal in processes that are told of together."""
        causes = tuple(one.id for one in self.hop.causes)
        live = self.route.final(View.LIBC)
        return (self.route.name, self.hop.reading.value, live.state, live.value, causes)


def _run(context: Context) -> Iterator[Finding]:
    workers = context.routing.workers()
    found = [
        _Otherwise(route, hop)
        for (pid, _), route in context.routing.routes.items()
        if pid in workers
        for hop in route.nccl
        if hop.change is not None
    ]
    for group in who.folded(found, lambda one: one.key).values():
        yield _finding(context, group)


def _finding(context: Context, group: list[_Otherwise]) -> Finding:
    route, hop = group[0]
    pids = tuple(dict.fromkeys(one.route.pid for one in group))
    name = route.name
    live = route.final(View.LIBC)
    read: list[str | Shown] = [f"NCCL in {who.in_words(context, pids)} read {name}="]
    if hop.reading.value is not None:
        read.append(Shown(name, hop.reading.value))
    read.append(_communicators(group))
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity if hop.change is Change.CHANGED else Severity.INFO,
        message=Sentence.of(*read, ", and the C environ says ", *_now(name, live), " now."),
        confidence=hop.confidence,
        pids=pids,
        variable=name,
        evidence=tuple(_evidence(hop)),
        remedy=hop.causes[0].remedy if hop.causes else Sentence.of(CHECK.mend),
    )


def _communicators(group: list[_Otherwise]) -> str:
    named = dict.fromkeys(one.hop.communicator for one in group if one.hop.communicator)
    if not named:
        return ""
    word = "communicator" if len(named) == 1 else "communicators"
    return f" for {word} {who.some(named, who.NAMED)}"


def _now(name: str, live: Reading) -> tuple[str | Shown, ...]:
    if live.value is None:
        return (f"no {name}",)
    return (who.unlike(name, [live.value]) + f"{name}=", Shown(name, live.value))


def _evidence(hop: NcclHop) -> Iterator[Sentence]:
    yield Sentence.of(f"Shown in {hop.reading.source.removeprefix(_PREFIX)}.")
    only = len(hop.causes) == 1
    for cause in hop.causes:
        yield from _cause(cause, "The cause that fits: " if only else "It may be: ")
    for cause in hop.excluded:
        yield from _cause(cause, "Ruled out: ")


def _cause(cause: Cause, head: str) -> Iterator[Sentence]:
    yield Sentence((head, *cause.sentence.parts))
    yield from cause.evidence_for
    yield from cause.evidence_against


_PREFIX = "NCCL's log, "

CHECK = Check(
    id="EP035",
    slug="nccl-read-otherwise",
    severity=Severity.WARNING,
    summary="NCCL has read another value than a worker's C environ holds now.",
    why="NCCL keeps most of what it reads from its first use on. What the environment says now is"
    " later: a value that was set or changed after that is not in use, whatever a look at the"
    " environment shows.",
    mend="Set the variable before NCCL starts, at best in the launch environment, and restart.",
    run=_run,
)
