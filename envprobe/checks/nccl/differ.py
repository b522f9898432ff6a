"""Ranks of one communicator that differ in a variable, and what is known to come of it."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
from collections.abc import Iterator
from typing import Final

from envprobe import tables
from envprobe.checks.finding import Finding, Severity
from envprobe.checks.nccl import cells, used
from envprobe.checks.nccl.cells import Cell, Shown
from envprobe.checks.nccl.context import (
    Context,
    communicator_words,
    numbers,
    pids,
    process_words,
    rank_words,
    version,
)
from envprobe.model import SILENCE, Confidence, Sentence
from envprobe.model import Shown as ShownValue
from envprobe.nccl import params
from envprobe.nccl.facts import Communicator
from envprobe.values import Value

MEND: Final = (
    "Give the variable the same value in all ranks: set it once, before the first process of the"
    " job starts, on every node, and look in each node's /etc/nccl.conf and ~/.nccl.conf; then"
    " start the job again."
)
_NAMED: Final = 8
_WITHIN_A_NODE: Final = frozenset(
    {"NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_CUMEM_ENABLE"}
)
"""What decides how ranks of one node reach each other; measured: no effect over sockets."""


class Kind(str, enum.Enum):
    """CRITICAL: it is known what comes of it. DEFAULT: absent where the rest has the default."""

    CRITICAL = "critical"
    PLAIN = "plain"
    DEFAULT = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One variable in one communicator: the ranks by value; None are those that lack it."""

    communicator: Communicator
    name: str
    kind: Kind
    states: dict[Value | None, tuple[Cell, ...]]
    consequence: str


def differences(context: Context) -> tuple[Difference, ...]:
    """Return all differences; variables that differ by design are left out."""
    return tuple(
        one
        for communicator in context.log.communicators
        for name in cells.names(communicator, context)
        if name not in _by_design()
        for one in _difference(context, communicator, name)
    )


def _difference(context: Context, communicator: Communicator, name: str) -> Iterator[Difference]:
    states: dict[Value | None, list[Cell]] = {}
    for rank in communicator.ranks:
        cell = cells.cell(context, communicator, rank, name)
        if cell.shown is not Shown.NOT_SHOWN:
            states.setdefault(cell.value, []).append(cell)
    if len(states) < 2:
        return
    kept = {value: tuple(found) for value, found in states.items()}
    consequence = "" if _has_no_object(communicator, name) else cells.consequence(name)
    kind = Kind.CRITICAL if consequence else Kind.PLAIN
    if _is_default(context, name, kept):
        kind = Kind.DEFAULT
    yield Difference(communicator, name, kind, kept, consequence)


def _has_no_object(communicator: Communicator, name: str) -> bool:
    """Return whether the variable is about ranks of one node, and no two of these are on one."""
    return name in _WITHIN_A_NODE and all(one.local_ranks == 1 for one in communicator.ranks)


def _is_default(context: Context, name: str, states: dict[Value | None, tuple[Cell, ...]]) -> bool:
    """Return whether the values that are set are the default, which the other ranks have too."""
    parameter = params.find(name)
    values = [value for value in states if value is not None]
    if parameter is None or None not in states or len(values) != 1:
        return False
    process = context.process(states[values[0]][0].rank)
    number = parameter.default(version(process))
    default = str(number) if number is not None else _constant_defaults().get(name)
    return default is not None and values[0].reveal() == default.encode()


@functools.cache
def _by_design() -> frozenset[str]:
    rows = tables.load("by-design")["rows"]
    return frozenset(row["name"] for row in rows if row["scope"] in ("rank", "host"))


@functools.cache
def _constant_defaults() -> dict[str, str]:
    return {row["name"]: row["default"] for row in tables.load("known-defaults")["rows"]}


# --- in words ------------------------------------------------------------------------------------


def findings(context: Context, kind: Kind, check: str, severity: Severity) -> Iterator[Finding]:
    """Yield a finding for each difference of one kind; equal ones of several communicators once."""
    together: dict[object, list[Difference]] = {}
    for one in context.once(differences):
        if one.kind is kind:
            together.setdefault(_key(context, one), []).append(one)
    for group in together.values():
        yield _finding(context, group, check, severity)


def _key(context: Context, one: Difference) -> object:
    return (
        one.name,
        one.communicator.nranks,
        tuple(
            (value, tuple((cell.rank.rank, cell.rank.process) for cell in found))
            for value, found in one.states.items()
        ),
    )


def _finding(context: Context, group: list[Difference], check: str, severity: Severity) -> Finding:
    one = group[0]
    proved = None not in one.states
    evidence = [*_evidence(context, one)]
    if len(group) > 1:
        evidence.append(Sentence.of(f"So it is in {len(group)} communicators of these processes."))
    members = [cell.rank for found in one.states.values() for cell in found]
    return Finding(
        check=check,
        severity=severity,
        message=Sentence.of(*_message(one)),
        confidence=Confidence.PROVED if proved else Confidence.INFERRED,
        pids=pids(context.process(rank) for rank in members),
        variable=one.name,
        evidence=tuple(evidence),
        remedy=SILENCE if one.kind is Kind.DEFAULT else Sentence.of(MEND),
        who=communicator_words(one.communicator),
    )


def _message(one: Difference) -> Iterator[str | ShownValue]:
    yield f"{one.name} differs in {communicator_words(one.communicator)}: "
    for number, (value, found) in enumerate(one.states.items()):
        yield "; " if number else ""
        yield "not read" if value is None else ShownValue(one.name, value)
        yield f" in {rank_words(cell.rank.rank for cell in found)}"
    yield "."


def _evidence(context: Context, one: Difference) -> Iterator[Sentence]:
    if one.kind is Kind.DEFAULT:
        yield Sentence.of("The value is the default, so that all ranks have the same.")
    elif one.consequence:
        yield Sentence.of(f"Known to come of it: {one.consequence}.")
    elif _has_no_object(one.communicator, one.name):
        yield Sentence.of("No two of these ranks are on one node, so that it changes nothing here.")
    for value, found in one.states.items():
        if value is None:
            yield from _of_lacking(context, one, found)
        else:
            line = found[0].reads[0].place
            where = f"{os.path.basename(line.file)}:{line.line}"
            yield Sentence.of(f"Rank {found[0].rank.rank} shows it in {where}.")
    unlike = {used.used(one.communicator, cell.rank, one.name) for cell in _all(one)} - {""}
    if len(unlike) > 1:
        yield Sentence.of(f"The ranks used different things: {' against '.join(sorted(unlike))}.")
    elif one.kind is not Kind.DEFAULT:
        yield Sentence.of(
            "No line of what was set up shows the difference: only the lines of what was read do."
        )
    rest = _not_known(one)
    if rest:
        yield Sentence.of(f"Not known: {rest}.")


def _of_lacking(context: Context, one: Difference, found: tuple[Cell, ...]) -> Iterator[Sentence]:
    lacking = [cell.rank for cell in found]
    processes = list(dict.fromkeys(rank.process for rank in lacking))
    named = [process_words(context.log.processes[index]) for index in processes[:_NAMED]]
    more = len(processes) - _NAMED
    those = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    numbered = numbers(rank.rank for rank in lacking)
    yield Sentence.of(
        f"Rank {numbered} ({those}) logged other variables and what it set up, and not this one,"
        " which every rank would have read on that way."
    )


def _all(one: Difference) -> list[Cell]:
    return [cell for found in one.states.values() for cell in found]


def _not_known(one: Difference) -> str:
    known = {cell.rank.rank for cell in _all(one)}
    rest = [number for number in range(one.communicator.nranks) if number not in known]
    return rank_words(rest) if rest else ""
