"""What holds for every snapshot, however broken, and for every simulated history."""

from __future__ import annotations

import dataclasses
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe.model import (
    Carries,
    Confidence,
    Edge,
    EdgeKind,
    Environment,
    EnvironmentStatus,
    Identity,
    Process,
    Role,
    Snapshot,
    State,
    View,
)
from envprobe.routes.build import build
from envprobe.routes.causes import RULES
from envprobe.routes.types import Break, CauseId, Change, InTime, Route
from envprobe.values import Value
from tests.unit.routes.builders import (
    FORKSERVER,
    TRACKER,
    Tree,
    stand_in,
    text,
    unreadable,
    wiped,
)


def test_every_cause_has_exactly_one_rule() -> None:
    """Stands here and not with the scenarios, which scripts/mutate_causes.py runs."""
    assert sorted(identity for identity, _ in RULES) == sorted(CauseId)


# --- any snapshot --------------------------------------------------------------------------------

PIDS: Final = st.integers(1, 5)
NAMES: Final = ("NCCL_ALGO", "LD_PRELOAD", "CUDA_DEVICE_MAX_CONNECTIONS", "SGLANG_X")
VALUES: Final = st.sampled_from([Value(b""), Value(b"8"), Value(b"Ring"), None])
ROLES: Final = st.sampled_from(
    [
        Role("server", "sglang"),
        Role("scheduler", "sglang", {"dp": 0, "tp": 1}, worker=True),
        Role("worker", "vllm", worker=True),
        Role("shell"),
        TRACKER,
        FORKSERVER,
        Role("raylet", "ray"),
    ]
)
LAUNCHERS: Final = st.sampled_from(["", "python", "dash", "bash", "sudo", "systemd", "raylet"])


ENTRIES: Final = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
OWN: Final = st.builds(Environment, st.just(View.EXEC), st.sampled_from(EnvironmentStatus), ENTRIES)


@st.composite
def environments(draw: st.DrawFn, view: View) -> Environment:
    return Environment(
        view,
        draw(st.sampled_from(EnvironmentStatus)),
        draw(ENTRIES),
        confidence=draw(st.sampled_from(Confidence)),
        own=draw(st.none() | OWN) if view is View.EXEC else None,
    )


@st.composite
def processes(draw: st.DrawFn, pid: int) -> Process:
    views = draw(st.sets(st.sampled_from(list(View))))
    return Process(
        pid=pid,
        identity=Identity(pid, draw(st.integers(1, 4))),
        ppid=draw(PIDS),
        state="S",
        start_time=draw(st.floats(0, 4)),
        uid=0,
        comm="c",
        title=draw(st.sampled_from([(), ("python3", "--enable-dp-attention")])),
        exe=draw(st.sampled_from([None, "/a", "/b"])),
        role=draw(ROLES),
        edge=Edge(
            draw(st.sampled_from(EdgeKind)),
            draw(st.none() | PIDS),
            draw(st.sampled_from(Carries)),
            (),
            draw(LAUNCHERS),
            draw(st.sampled_from(Confidence)),
        ),
        image_owner=draw(st.integers(0, 5)),
        secure=draw(st.none() | st.booleans()),
        run_id=draw(st.sampled_from(["", "a", "b"])),
        matched=draw(st.booleans()),
        orphan=draw(st.booleans()),
        environments={view: draw(environments(view)) for view in views},
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    pids = draw(st.sets(PIDS, max_size=5))
    found = tuple(draw(processes(pid)) for pid in sorted(pids))
    wanted = draw(st.sampled_from([(), ("*",), ("NCCL_*",), ("[",)]))
    return Snapshot("h", "b", 0.0, 1.0, (1,), found, wanted)


@settings(max_examples=100, deadline=None)
@given(snapshots(), st.sets(st.sampled_from(["NCCL_ALGO", "EXPECTED"])))
def test_any_snapshot_has_routes_that_say_no_more_than_was_read(
    snapshot: Snapshot, expected: set[str]
) -> None:
    routing = build(snapshot, expected, ("server", "shell"))
    assert routing == build(snapshot, expected, ("server", "shell"))
    workers = routing.workers()
    assert sorted(workers) == [
        one.pid for one in snapshot.processes if one.role.worker and not one.orphan
    ]
    assert sorted(pid for group in routing.groups for pid in group.workers) == sorted(workers)
    for route in routing.routes.values():
        check_stops(snapshot, route)
        for found in route.breaks:
            check_break(route, found)
        if route.in_time in (InTime.YES, InTime.NO):
            process = snapshot.process(route.pid)
            assert process is not None
            assert process.environment(View.LIBC).reading(route.name).state is State.VALUE


def check_stops(snapshot: Snapshot, route: Route) -> None:
    for stop in route.stops:
        process = snapshot.process(stop.pid)
        assert process is not None
        if stop.reading.state is not State.NOT_APPLICABLE:
            assert stop.reading == process.environment(stop.view).reading(route.name)
    assert route.stops[-1].pid == route.pid
    assert len({(stop.pid, stop.view) for stop in route.stops}) == len(route.stops)


def check_break(route: Route, found: Break) -> None:
    assert 0 <= found.before < found.after < len(route.stops)
    assert found.causes
    assert not set(found.causes) & set(found.excluded)
    before, after = (route.stops[one].reading for one in (found.before, found.after))
    if found.change is Change.NEVER_THERE:
        assert State.VALUE not in {
            stop.reading.state
            for stop in route.stops
            if stop.reading.confidence is Confidence.PROVED and stop.view is not View.PYTHON
        }
    else:
        assert before.known
        assert after.known
        assert (before.state, before.value) != (after.state, after.value)
    if found.confidence is Confidence.PROVED:
        assert len(found.causes) == 1
        known = [reading for reading in (before, after) if reading.known]
        assert {reading.confidence for reading in known} == {Confidence.PROVED}


# --- simulated histories -------------------------------------------------------------------------

STATES: Final = st.sampled_from([None, "a", "b"])
PARENT, CHILD, TRACKER_PID, SIBLING, SERVER_PID = 1, 50, 40, 45, 48


@dataclasses.dataclass(frozen=True)
class History:
    """What really happened to one variable X.

    The parent changes it at most once, between two of its starts (`change_at` counts them); the
    tracker is started first, then a sibling, then (for a forkserver) the server, then the child.
    `given` is what the child is started with if that is not the parent's own. The child may change
    it itself. `blind` views could not be read; a blind exec view of a spawn child is `stood_in`.
    """

    kind: EdgeKind
    at_start: str | None
    changed_to: str | None
    change_at: int
    given: tuple[str | None] | None
    wrapped: bool
    own: tuple[str | None] | None
    blind: frozenset[tuple[int, View]]
    stood_in: bool

    def parent_at(self, start: int) -> str | None:
        return self.changed_to if start > self.change_at else self.at_start

    @property
    def now(self) -> str | None:
        return self.changed_to

    @property
    def at_exec(self) -> str | None:
        """What the child began with: for a forkserver child what the server began with."""
        return self.parent_at(3) if self.given is None else self.given[0]

    @property
    def live(self) -> str | None:
        return self.at_exec if self.own is None else self.own[0]


def variables(state: str | None) -> dict[str, str]:
    return {} if state is None else {"X": state}


@st.composite
def histories(draw: st.DrawFn) -> History:
    kinds = (EdgeKind.SPAWN, EdgeKind.EXEC, EdgeKind.FORK, EdgeKind.FORKSERVER)
    kind = draw(st.sampled_from(kinds))
    at_start = draw(STATES)
    can_be_given = kind is not EdgeKind.FORK
    views = [(PARENT, View.EXEC), (PARENT, View.LIBC), (CHILD, View.EXEC), (CHILD, View.LIBC)]
    return History(
        kind=kind,
        at_start=at_start,
        changed_to=draw(STATES),
        change_at=draw(st.integers(0, 3)),
        given=draw(st.none() | st.tuples(STATES)) if can_be_given else None,
        wrapped=kind is EdgeKind.EXEC and draw(st.booleans()),
        own=draw(st.none() | st.tuples(STATES)),
        blind=draw(st.frozensets(st.sampled_from(views), max_size=3)),
        stood_in=kind is EdgeKind.SPAWN and draw(st.booleans()),
    )


def tree_of(history: History) -> Tree:
    """Return what a scan at the end of the history reads."""

    def seen(pid: int, view: View, state: str | None) -> Environment | dict[str, str]:
        if (pid, view) not in history.blind:
            return variables(state)
        if (pid, view) == (CHILD, View.EXEC):
            return stand_in(variables(history.parent_at(1))) if history.stood_in else wiped()
        return unreadable(view)

    tree = Tree().add(
        PARENT,
        exec=seen(PARENT, View.EXEC, history.at_start),
        libc=seen(PARENT, View.LIBC, history.now),
    )
    at = {start: variables(history.parent_at(start)) for start in (1, 2)}
    tree.add(TRACKER_PID, PARENT, EdgeKind.EXEC, exec=at[1], role=TRACKER)
    tree.worker(SIBLING, PARENT, exec=at[2])
    live = seen(CHILD, View.LIBC, history.live)
    if history.kind is EdgeKind.FORK:
        return tree.worker(CHILD, PARENT, EdgeKind.FORK, exec={}, libc=live)
    at_exec = seen(CHILD, View.EXEC, history.at_exec)
    if history.kind is EdgeKind.FORKSERVER:
        block = at_exec if isinstance(at_exec, dict) else variables(history.at_exec)
        tree.add(SERVER_PID, PARENT, EdgeKind.EXEC, exec=block, role=FORKSERVER)
        return tree.worker(CHILD, SERVER_PID, EdgeKind.FORKSERVER, exec={}, libc=live)
    return tree.worker(CHILD, PARENT, history.kind, exec=at_exec, libc=live)


def true_causes(history: History, route: Route, found: Break) -> set[CauseId]:
    """Return the causes of what really happened between the two stops of a break.

    A stand-in shows what the parent had when it started the tracker: what happened since then, up
    to the child's own reading, counts too.
    """
    order = [(pid, view) for pid in (PARENT, SERVER_PID, CHILD) for view in (View.EXEC, View.LIBC)]
    stops = [route.stops[one] for one in (found.before, found.after)]
    first, last = (order.index((stop.pid, stop.view)) for stop in stops)
    inferred = any(stop.reading.confidence is Confidence.INFERRED for stop in stops)
    begun = history.parent_at(3)
    gone = {Change.APPEARED: CauseId.SET_AFTER_START}
    late = {
        EdgeKind.FORK: CauseId.FORK_CHILD,
        EdgeKind.FORKSERVER: CauseId.FROZEN_IN_FORKSERVER,
    }.get(history.kind, CauseId.SET_LATE_IN_PARENT)
    wrapped = CauseId.REWRITTEN_BY_PROGRAM if history.wrapped else CauseId.DROPPED_AROUND_SPAWN
    happened = [
        (first == 0, history.at_start != (history.now if last == 1 else begun), "parent"),
        (inferred, history.parent_at(1) != begun, "parent"),
        (first == 1, history.now != begun, late),
        (first < 2 <= last or inferred, history.at_exec != begun, wrapped),
        (last == 5 or inferred, history.live != history.at_exec, "child"),
    ]
    own = {"parent": CauseId.CHANGED_IN_PARENT, "child": CauseId.CHANGED_IN_WORKER}
    return {
        what if isinstance(what, CauseId) else gone.get(found.change, own[what])
        for crossed, changed, what in happened
        if crossed and changed
    }


def only_the_tracker_is_older(history: History, route: Route, found: Break) -> bool:
    """Return whether a break rests on a tracker that is older than the parent's change.

    Then nothing was lost; it is told with this doubt, for the child itself could not be read.
    """
    after = route.stops[found.after]
    stood_in = after.reading.confidence is Confidence.INFERRED
    return stood_in and history.parent_at(1) != history.parent_at(3)


@settings(max_examples=400, deadline=None)
@given(histories())
def test_what_really_happened_is_among_the_causes_and_alone_if_proved(history: History) -> None:
    route = tree_of(history).route(CHILD)
    for found in route.breaks:
        if found.change is Change.NEVER_THERE:
            continue
        if only_the_tracker_is_older(history, route, found):
            told = text(*(one for cause in found.causes for one in cause.evidence_against))
            assert "may be older than the change" in told
            continue
        fitting = {cause.id for cause in found.causes}
        true = true_causes(history, route, found)
        assert true & fitting, (true, found)
        if found.confidence is Confidence.PROVED:
            assert fitting <= true


@settings(max_examples=150, deadline=None)
@given(histories())
def test_never_set_is_proved_only_of_what_never_was(history: History) -> None:
    route = tree_of(history).route(CHILD)
    for found in route.breaks:
        if found.change is Change.NEVER_THERE and found.confidence is Confidence.PROVED:
            assert history.at_start is history.now is history.at_exec is history.live is None


@settings(max_examples=150, deadline=None)
@given(histories())
def test_in_time_is_told_only_of_what_was_there(history: History) -> None:
    route = tree_of(history).route(CHILD)
    image = history.at_start if history.kind is EdgeKind.FORK else history.at_exec
    if route.in_time is InTime.NO:
        assert image != history.live
    stood_in = (CHILD, View.EXEC) in history.blind
    if route.in_time is InTime.YES and not stood_in:
        assert image == history.live
