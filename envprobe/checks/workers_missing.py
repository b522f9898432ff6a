"""The check `workers-missing`."""

from __future__ import annotations

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
    names = [name for launch in context.routing.launches for name in _missing(context, launch)[0]]
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
    names, source, number = _missing(context, launch)
    if not names or number <= len(launch.workers) + len(_untitled(context)):
        return
    whose = who.named(context, launch.launcher)
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"{len(launch.workers)} of {number} workers of {whose} are there{_absent_words(names)}."
        ),
        confidence=Confidence.INFERRED,
        pids=(launch.launcher,),
        evidence=(Sentence.of(source),),
        remedy=_remedy(undecided=False),
    )


def _missing(context: Context, launch: Launch) -> tuple[list[str], str, int]:
    """Return the absent ranks of a launch in words, what tells so, and how many there should be."""
    members = [one for pid in launch.workers if (one := who.process_of(context, pid)) is not None]
    launcher = who.process_of(context, launch.launcher)
    framework = members[0].role.framework if members else ""
    if launcher is not None:
        framework = framework or launcher.role.framework
        asked = ranks.from_command(launcher.title, framework)
        if asked is not None:
            return _asked_for(asked, members)
    titles = [one.role.ranks for one in members if one.role.name == members[0].role.name]
    if not any(titles):
        return [], "", 0
    gaps = ranks.gaps(titles)
    every = gaps | {ranks.rank_of(one) for one in titles}
    source = "A rank between those in the titles is missing."
    return ranks.labels(gaps, every), source, len(titles) + len(gaps)


def _asked_for(asked: ranks.Expected, members: list[Process]) -> tuple[list[str], str, int]:
    have = [one for one in members if one.role.name == asked.role]
    source = f"The launcher's command line says {asked.source}."
    if asked.role == "rank":
        # Titles of torchrun's ranks name none: their number is all that can be told.
        absent = max(len(asked.ranks) - len(have), 0)
        names = [f"{absent} of {len(asked.ranks)} ranks"] if absent else []
        return names, source, len(asked.ranks)
    there = {ranks.rank_of(one.role.ranks, replicas=asked.replicas) for one in have}
    return ranks.labels(asked.ranks - there, asked.ranks), source, len(asked.ranks)


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
