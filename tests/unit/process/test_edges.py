"""Edges: pure cases of the table, then real forks, spawns, forkservers and shells."""

from __future__ import annotations

import dataclasses

import pytest

from envprobe.model import Carries, Confidence, Edge, EdgeKind
from envprobe.process.edges import Edges, launcher_of, launchers
from envprobe.process.roles import Roles
from envprobe.process.trackerpipe import holders
from envprobe.process.tree import Listing, Member, listing
from tests.programs.actions import FORK, Action
from tests.programs.interpreters import Interpreter
from tests.programs.interpreters import found as found_interpreters
from tests.programs.trees import TitledTree

PYTHON = "/usr/bin/python3.11"
SPAWN = ("python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)")
TRACKER = ("python3", "-c", "from multiprocessing.resource_tracker import main;main(6)")
SERVER = ("python3", "-m", "sglang.launch_server")
PLAIN = ("python3", "train.py")


def member(
    pid: int,
    ppid: int,
    *title: str,
    exe: str = PYTHON,
    forked: bool | None = False,
    random: str | None = None,
    session: int = 7,
) -> Member:
    image = str(pid) if random is None else random
    return Member(pid, ppid, pid, "S", "x", title, exe, forked, session, random=image)


INIT = member(1, 0, "/sbin/init", exe="/usr/lib/systemd/systemd", session=1)


def edges(*members: Member, outside: tuple[int, ...] = (1,)) -> Edges:
    found = Listing((INIT, *members))
    return Edges(found, Roles(found), frozenset(found).difference(outside))


def edge(*members: Member) -> Edge:
    """Return the edge into the last of the processes."""
    return edges(*members).edge(members[-1].pid)


def test_the_root_has_no_parent_on_the_route_and_says_whose_child_it_is() -> None:
    found = edge(member(10, 1, *SERVER))
    assert (found.kind, found.parent) == (EdgeKind.ROOT, None)
    assert (found.launcher, found.carries) == ("systemd", Carries.BUILT_BLOCK)
    assert "PID 1 (init)" in found.evidence[0]


def test_a_parent_outside_the_pid_namespace() -> None:
    found = edges(member(10, 0, *SERVER)).edge(10)
    assert (found.kind, found.parent, found.carries) == (EdgeKind.ROOT, None, Carries.UNKNOWN)


def test_a_spawn_child_by_its_command_line_is_proved() -> None:
    found = edge(member(10, 1, *PLAIN), member(11, 10, *SPAWN))
    assert (found.kind, found.confidence) == (EdgeKind.SPAWN, Confidence.PROVED)
    assert (found.parent, found.carries, found.launcher) == (10, Carries.C_ENVIRON, "python")


def test_a_titled_spawn_child_is_inferred_from_its_tracker() -> None:
    launcher, title = member(10, 1, *PLAIN), "sglang::scheduler_TP0"
    found = edge(launcher, member(11, 10, *TRACKER), member(12, 10, title))
    assert (found.kind, found.confidence) == (EdgeKind.SPAWN, Confidence.INFERRED)
    assert any("PID 11 is a resource tracker" in one for one in found.evidence)
    alone = edge(launcher, member(12, 10, title))
    assert (alone.kind, alone.carries) == (EdgeKind.EXEC, Carries.C_ENVIRON)


def test_the_tracker_of_the_launcher_speaks_for_the_children_of_its_controller() -> None:
    found = edge(
        member(10, 1, *PLAIN),
        member(11, 10, *TRACKER),
        member(12, 10, "sglang::data_parallel_controller"),
        member(13, 12, "sglang::scheduler_DP0"),
    )
    assert found.kind is EdgeKind.SPAWN
    assert any("PID 11" in one for one in found.evidence)


def test_a_framework_that_only_spawns_needs_no_tracker() -> None:
    found = edge(member(10, 1, *SERVER), member(12, 10, "sglang::scheduler_TP0"))
    assert (found.kind, found.confidence) == (EdgeKind.SPAWN, Confidence.INFERRED)


def test_the_tracker_s_pipe_tells_spawn_children_from_programs() -> None:
    members = (
        INIT,
        member(10, 1, *PLAIN),
        member(11, 10, *TRACKER),
        member(12, 10, "sglang::scheduler_TP0"),
        member(13, 10, "sglang::scheduler_TP1"),
        member(14, 10, "sglang::scheduler_TP2"),
    )
    known = Listing(members)
    given = {12: True, 13: False}
    found = Edges(known, Roles(known), frozenset({10, 11, 12, 13, 14}), given)
    assert [(found.edge(pid).kind, found.edge(pid).confidence) for pid in (12, 13, 14)] == [
        (EdgeKind.SPAWN, Confidence.PROVED),
        (EdgeKind.EXEC, Confidence.PROVED),
        (EdgeKind.SPAWN, Confidence.INFERRED),
    ]
    assert any("pipe of resource tracker PID 11" in one for one in found.edge(12).evidence)


@pytest.mark.parametrize("python", found_interpreters(), ids=str)
def test_every_python_hands_the_pipe_to_spawn_children_only(python: Interpreter) -> None:
    nested = Action(children=[Action(title="sglang::scheduler_DP0")])
    served = dataclasses.replace(nested, method="forkserver")
    actions = {0: nested, 1: Action(method="subprocess"), 2: served}
    with TitledTree(python.path, workers=3, detokenizer=False, actions=actions) as tree:
        known = listing()
        pids = known.descendants([tree.root])
        given = holders(known, Roles(known, [tree.root]), pids)
        assert given.pop(tree.worker(0)) is True
        assert given.pop(tree.pid("root.w0.0")) is True
        assert given.pop(tree.pid("root.w2.0")) is True
        assert given.pop(tree.worker(1)) is False
        assert tree.worker(2) not in given


def test_what_cannot_be_read_of_the_pipe_is_left_out() -> None:
    known = Listing([member(10, 1, *PLAIN), member(11, 10, *TRACKER), member(12, 10, "x::y")])
    # The numbers belong to no such processes here.
    assert holders(known, Roles(known), [10, 11, 12]) == {}


def test_the_tracker_itself_is_a_program_that_its_parent_started() -> None:
    found = edge(member(10, 1, *PLAIN), member(11, 10, *TRACKER))
    assert (found.kind, found.carries) == (EdgeKind.EXEC, Carries.C_ENVIRON)


def test_forks_and_forkservers() -> None:
    launcher = member(10, 1, *PLAIN)
    server = member(11, 10, "python3", "-c", "from multiprocessing.forkserver import main; main()")
    fork = member(12, 10, "w", forked=True, random="10")
    served = member(13, 11, "w", forked=True, random="11")
    found = edges(launcher, server, fork, served)
    assert [found.edge(pid).kind for pid in (12, 13)] == [EdgeKind.FORK, EdgeKind.FORKSERVER]
    assert {found.edge(pid).carries for pid in (12, 13)} == {Carries.MEMORY}
    assert {found.edge(pid).confidence for pid in (12, 13)} == {Confidence.PROVED}
    assert found.edge(13).parent == 11
    assert [found.image_owner(pid) for pid in (10, 11, 12, 13)] == [10, 11, 10, 11]


def test_a_fork_whose_image_cannot_be_compared_is_inferred() -> None:
    found = edge(member(10, 1, *PLAIN, random=""), member(11, 10, "w", forked=True, random=""))
    assert (found.kind, found.confidence) == (EdgeKind.FORK, Confidence.INFERRED)


def test_where_nothing_tells_a_titled_process_has_an_unknown_edge() -> None:
    launcher = member(10, 1, *PLAIN, random="")
    found = edge(launcher, member(11, 10, "VLLM::EngineCore", forked=None, random=""))
    assert (found.kind, found.carries) == (EdgeKind.UNKNOWN, Carries.UNKNOWN)
    other = edge(launcher, member(11, 10, "nvidia-smi", "-l", exe="/x", forked=None, random=""))
    assert (other.kind, other.confidence) == (EdgeKind.EXEC, Confidence.INFERRED)


def test_a_fork_of_a_parent_that_has_exec_d_since_is_unknown_and_its_image_found() -> None:
    first = member(10, 1, *PLAIN)
    second = member(11, 10, "w", forked=True, random="10")
    adopter = member(12, 1, *PLAIN)
    moved = member(13, 12, "w", forked=True, random="10")
    lost = member(14, 12, "w", forked=True, random="gone")
    found = edges(first, second, adopter, moved, lost)
    assert [found.edge(pid).kind for pid in (11, 13, 14)] == [
        EdgeKind.FORK,
        EdgeKind.UNKNOWN,
        EdgeKind.UNKNOWN,
    ]
    assert [found.image_owner(pid) for pid in (11, 13, 14)] == [10, 10, 0]


def test_an_adopted_worker_has_an_unknown_edge() -> None:
    orphan = member(12, 1, "sglang::scheduler_TP0")
    inside = edges(orphan, outside=()).edge(12)
    assert (inside.kind, inside.parent, inside.carries) == (EdgeKind.UNKNOWN, 1, Carries.UNKNOWN)
    outside = edges(orphan).edge(12)
    assert (outside.kind, outside.parent) == (EdgeKind.UNKNOWN, None)
    assert any("PID 1 (init) has adopted it" in one for one in outside.evidence)


def test_a_worker_of_another_session_under_a_program_of_another_kind_is_adopted() -> None:
    shell = member(10, 1, "bash", exe="/usr/bin/bash", session=10)
    other = edge(shell, member(12, 10, "sglang::scheduler_TP0", session=7))
    assert other.kind is EdgeKind.UNKNOWN
    same = edge(shell, member(12, 10, "sglang::scheduler_TP0", session=10))
    assert same.kind is EdgeKind.EXEC
    own = edge(shell, member(12, 10, "sglang::scheduler_TP0", session=12))
    assert own.kind is EdgeKind.EXEC


@pytest.mark.parametrize(
    ("exe", "title", "name", "carries"),
    [
        ("/usr/bin/dash", ("sh", "-c", "x"), "dash", Carries.BUILT_BLOCK),
        ("/usr/bin/bash", ("sh", "-c", "x"), "bash", Carries.C_ENVIRON),
        ("", ("sh", "-c", "x"), "sh", Carries.UNKNOWN),
        ("", ("-bash",), "bash", Carries.C_ENVIRON),
        ("/usr/bin/python3.12 (deleted)", ("x",), "python", Carries.C_ENVIRON),
        ("/usr/bin/sudo", ("sudo", "x"), "sudo", Carries.BUILT_BLOCK),
        ("/usr/sbin/slurmstepd", ("slurmstepd: [7.0]",), "slurmstepd", Carries.BUILT_BLOCK),
        ("", ("slurmstepd: [7.0]",), "slurmstepd", Carries.BUILT_BLOCK),
        ("/usr/bin/containerd-shim-runc-v2", ("x",), "container runtime", Carries.BUILT_BLOCK),
        ("/usr/bin/tini", ("tini", "--"), "container init", Carries.C_ENVIRON),
        ("/usr/bin/numactl", ("numactl", "x"), "exec in place", Carries.UNKNOWN),
        ("/opt/ray/raylet", ("raylet",), "raylet", Carries.UNKNOWN),
        ("/usr/bin/timeout", ("timeout", "9", "x"), "timeout", Carries.C_ENVIRON),
        ("/opt/own", ("own",), "", Carries.UNKNOWN),
    ],
)
def test_the_launcher_decides_what_a_program_is_handed(
    exe: str, title: tuple[str, ...], name: str, carries: Carries
) -> None:
    found = edge(member(10, 1, *title, exe=exe), member(11, 10, *PLAIN))
    assert (found.kind, found.launcher, found.carries) == (EdgeKind.EXEC, name, carries)


def test_every_launcher_s_row_is_reachable() -> None:
    names = [row.name for row in launchers()]
    assert len(set(names)) == len(names)
    assert launcher_of(member(10, 1, "own", exe="/opt/own")) is None


def test_no_word_of_the_target_is_in_the_evidence() -> None:
    found = edges(member(10, 1, "\x1b[31mevil::error::", exe="/x"), member(11, 10, *PLAIN))
    said = [*found.edge(10).evidence, *found.edge(11).evidence]
    assert said
    assert not any("evil" in one for one in said)


def test_real_processes() -> None:
    shell = ("dash", "-c", '"$@"; exit $?', "dash")
    actions = {
        0: Action(method="fork"),
        1: Action(method="forkserver"),
        2: Action(after_title=[FORK]),
        3: Action(method="subprocess", wrapper=shell),
        4: Action(title="", method="spawn"),
        5: Action(exits=True, children=[Action(title="sglang::scheduler_TP9")]),
    }
    with TitledTree(workers=6, actions=actions) as tree:
        known = listing()
        pids = known.descendants([tree.root])
        found = Edges(known, Roles(known, [tree.root]), frozenset(pids))
        expected = {
            tree.root: (EdgeKind.ROOT, Carries.C_ENVIRON, tree.root),
            tree.worker(0): (EdgeKind.FORK, Carries.MEMORY, tree.root),
            tree.worker(1): (EdgeKind.FORKSERVER, Carries.MEMORY, tree.forkserver),
            tree.worker(2): (EdgeKind.SPAWN, Carries.C_ENVIRON, tree.worker(2)),
            tree.pid("root.w2.fork"): (EdgeKind.FORK, Carries.MEMORY, tree.worker(2)),
            tree.worker(3): (EdgeKind.EXEC, Carries.BUILT_BLOCK, tree.worker(3)),
            tree.worker(4): (EdgeKind.SPAWN, Carries.C_ENVIRON, tree.worker(4)),
            tree.tracker: (EdgeKind.EXEC, Carries.C_ENVIRON, tree.tracker),
        }
        for pid, (kind, carries, owner) in expected.items():
            assert pid is not None
            one = found.edge(pid)
            assert (one.kind, one.carries, found.image_owner(pid)) == (kind, carries, owner), pid
        assert found.edge(tree.worker(3)).launcher == "dash"
        assert found.edge(tree.worker(4)).confidence is Confidence.PROVED
        adopted = found.edge(tree.pid("root.w5.0"))
        assert (adopted.kind, adopted.parent) == (EdgeKind.UNKNOWN, None)
