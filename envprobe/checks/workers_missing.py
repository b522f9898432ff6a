"""The check `workers-missing`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks import ranks, who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.model import Confidence, Process, Sentence
from envprobe.routes.types import Launch

_NAMED: Final = 16
"""How many absent ranks a message names."""


def found(context: Context, role: str) -> tuple[Process, ...]:
    """Return the processes that count for an expected number: those whose role is final."""
    return tuple(one for one in who.of_role(context, role) if one.role.final and not one.ended)


def _run(context: Context) -> Iterator[Finding]:
    fewer = False
    for role, number in context.config.workers.items():
        have = found(context, role)
        if len(have) < number:
            fewer = True
            yield _fewer(context, role, number, have)
    if not fewer:
        for launch in context.routing.launches:
            yield from _absent(context, launch)


def _untitled(context: Context) -> tuple[int, ...]:
    return tuple(one.pid for one in context.routing.snapshot.processes if not one.role.final)


def _fewer(context: Context, role: str, number: int, have: tuple[Process, ...]) -> Finding:
    untitled = _untitled(context)
    undecided = len(have) + len(untitled) >= number
    names = [
        name for launch in context.routing.launches for name in _shortfall(context, launch).names
    ]
    what = f"{role or 'worker'}{'' if number == 1 else 's'}"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"{len(have)} of {number} expected {what}"
            f" {'is' if len(have) == 1 else 'are'} there{_absent_words(names)}."
        ),
        pids=tuple(process.pid for process in have),
        evidence=tuple(_untitled_words(context, untitled)),
        remedy=_remedy(undecided),
        undetermined=undecided,
    )


def _absent(context: Context, launch: Launch) -> Iterator[Finding]:
    short = _shortfall(context, launch)
    # A child without a title may be the rank that seems absent.
    if not short.names or short.wanted <= short.have + len(_untitled(context)):
        return
    whose = who.named(context, launch.launcher)
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"{short.have} of {short.wanted} workers of {whose} are there"
            f"{_absent_words(short.names)}."
        ),
        confidence=Confidence.INFERRED,
        pids=(launch.launcher,),
        evidence=(Sentence.of(short.source),),
        remedy=_remedy(undecided=False),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Shortfall:
    """The absent ranks of a launch in words, what tells so, and how many workers are there."""

    names: list[str]
    source: str
    have: int
    wanted: int


def _shortfall(context: Context, launch: Launch) -> _Shortfall:
    members = who.processes(context, launch.workers)
    launcher = who.process_of(context, launch.launcher)
    if launcher is not None:
        asked = ranks.from_command(launcher.title, members[0].role.framework)
        if asked is not None:
            return _asked_for(asked, [one for one in members if one.role.name == asked.role])
    return _between_titles(
        [one.role.ranks for one in members if one.role.name == members[0].role.name]
    )


def _between_titles(titles: list[dict[str, int]]) -> _Shortfall:
    gaps = ranks.gaps(titles)
    every = gaps | {ranks.rank_of(one) for one in titles}
    source = "A rank between those in the titles is missing."
    return _Shortfall(ranks.labels(gaps, every), source, len(titles), len(titles) + len(gaps))


def _asked_for(asked: ranks.Expected, have: list[Process]) -> _Shortfall:
    source = f"The launcher's command line says {asked.source}."
    wanted = len(asked.ranks)
    if asked.role == "rank":
        # Titles of torchrun's ranks name none: their number is all that can be told.
        absent = wanted - len(have)
        names = [f"{absent} of {wanted} ranks"] if absent > 0 else []
    else:
        there = {ranks.rank_of(one.role.ranks, replicas=asked.replicas) for one in have}
        names = ranks.labels(asked.ranks - there, asked.ranks)
    return _Shortfall(names, source, len(have), wanted)


def _absent_words(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"; absent: {', '.join(names[:_NAMED])}{more}"


def _untitled_words(context: Context, untitled: tuple[int, ...]) -> Iterator[Sentence]:
    if untitled:
        yield Sentence.of(
            f"{who.in_words(context, untitled)}: without a title yet, so not counted."
        )


def _remedy(undecided: bool) -> Sentence:
    if undecided:
        return Sentence.of("Wait until all processes have their titles: --wait N --timeout 600.")
    return Sentence.of(
        "Read the server's log for the rank that did not start or has ended; --wait N waits for"
        " workers that are still starting."
    )


CHECK = Check(
    id="EP017",
    slug="workers-missing",
    severity=Severity.ERROR,
    summary="Fewer workers are there than expected.",
    why="A rank that did not start, or died, leaves the others waiting at their first collective."
    " The expected number comes from [expect.workers] or --wait, else from the launcher's"
    " --tp/--pp/--dp, else from a gap in the ranks of the titles.",
    mend="Read the server's log for the absent rank. If the server is still starting, use --wait N."
    " If the expected number is wrong, correct [expect.workers].",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
