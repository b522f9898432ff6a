"""One break that asks for its causes, with everything a rule may look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from envprobe.model import SILENCE, Process, Reading, Sentence, Shown, State, View
from envprobe.routes.hops import Hop, HopKind, Way
from envprobe.routes.types import Cause, CauseId, Change, Stop
from envprobe.routes.witnesses import Family, same

Part = str | Shown


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of one break: a cause that fits, or one that the evidence rules out."""

    cause: Cause
    fits: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One break: what changed, between which stops, and on which hops it can have happened.

    `before` and `after` index `stops`. `hops` may reach further than those two, where one of them
    is only a stand-in. In a case of NEVER_THERE they are the hops in front of the first stop at
    which the variable is known to be absent: on them it can have been lost unseen.
    """

    name: str
    change: Change
    stops: tuple[Stop, ...]
    before: int
    after: int
    hops: tuple[Hop, ...]
    way: Way
    family: Family

    @property
    def old(self) -> Reading:
        """The reading in front of the break."""
        return self.stops[self.before].reading

    @property
    def new(self) -> Reading:
        """The reading behind the break."""
        return self.stops[self.after].reading

    def old_at(self, index: int) -> bool:
        """Return whether the state in front of the break holds, or may hold, at a stop."""
        reading = self.stops[index].reading
        if self.change is Change.NEVER_THERE:
            return not reading.known
        return same(reading, self.old)

    def own(self, process: Process) -> bool:
        """Return whether a process is the one to which the way leads."""
        return process.pid == self.way.end.pid

    def of(self, *kinds: HopKind) -> Iterator[Hop]:
        """Return the hops in question that are of these kinds."""
        return (hop for hop in self.hops if hop.kind in kinds)


Rule = Callable[[Case], Iterator[Verdict]]
"""Judges one cause of a case; says nothing where the cause does not come into question."""


# --- words ---------------------------------------------------------------------------------------


def state(name: str, reading: Reading) -> tuple[Part, ...]:
    """Return what a known reading says, as parts of a sentence: `NAME=value` or `no NAME`."""
    if reading.state is State.VALUE and reading.value is not None:
        return (f"{name}=", Shown(name, reading.value))
    return (f"no {name}",)


_WHERE = {
    View.DECLARED: "in its declaration",
    View.EXEC: "at its exec",
    View.LIBC: "in its C environ now",
    View.PYTHON: "in its os.environ now",
    View.NCCL: "in NCCL's log",
}


def had(case: Case, index: int) -> Sentence:
    """Return what was read at one stop, as a sentence."""
    stop, place = case.stops[index], case.way.places[index]
    where = _WHERE[stop.view]
    if not stop.reading.known:
        reason = stop.reading.reason or stop.reading.state.value.replace("_", " ")
        return Sentence.of(f"{place.process.named}: {case.name} {where} was not read ({reason}).")
    source = ""
    if stop.view is View.EXEC and stop.reading.source:
        source = f" (read from: {stop.reading.source})"
    return Sentence.of(
        f"{place.process.named} has ", *state(case.name, stop.reading), f" {where}{source}."
    )


def cause(
    identity: CauseId,
    sentence: str,
    evidence_for: tuple[Sentence, ...] = (),
    evidence_against: tuple[Sentence, ...] = (),
    remedy: str = "",
) -> Cause:
    """Make a cause from plain words."""
    mend = Sentence.of(remedy) if remedy else SILENCE
    return Cause(identity, Sentence.of(sentence), evidence_for, evidence_against, mend)
