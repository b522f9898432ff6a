"""Scenarios with the verdict stated in advance: what happened, and what can be told of it."""

from __future__ import annotations

import pytest

from envprobe.model import Carries, Confidence, EdgeKind, Role, View
from envprobe.routes.types import CauseId, InTime
from tests.unit.routes.builders import (
    FORKSERVER,
    TRACKER,
    Tree,
    environment,
    excluded,
    said,
    stand_in,
    survivors,
    text,
    the_cause,
    unreadable,
    wiped,
)

A, B = {"X": "a"}, {"X": "b"}
NOTHING: dict[str, str] = {}
DASH = {"carries": Carries.BUILT_BLOCK, "launcher": "dash"}
SUDO = {"carries": Carries.BUILT_BLOCK, "launcher": "sudo"}
SYSTEMD = {"carries": Carries.BUILT_BLOCK, "launcher": "systemd"}
GONE = {"carries": Carries.UNKNOWN, "launcher": "container init"}


# --- no break ------------------------------------------------------------------------------------


def test_what_arrives_unchanged_has_no_break() -> None:
    route = Tree().add(1, exec=A).add(2, 1, exec=A).worker(3, 2, exec=A).route(3)
    assert said(route) == []
    assert route.in_time is InTime.YES


def test_a_wiped_block_between_equal_readings_is_no_break() -> None:
    route = Tree().add(1, exec=A).worker(2, 1, exec=wiped(), libc=A).route(2)
    assert said(route) == []


# --- set in the parent ---------------------------------------------------------------------------


def test_set_in_the_parent_before_the_spawn() -> None:
    route = Tree().add(1, exec={}, libc=A).worker(2, 1, exec=A).route(2)
    assert said(route) == ["appeared exec(1)>libc(1) proved: set-after-start"]
    assert route.in_time is InTime.YES


def test_set_in_the_parent_after_the_spawn_looks_like_dropped() -> None:
    """Both leave the same traces in all views, so both are told and neither is proved."""
    route = Tree().add(1, exec={}, libc=A).worker(2, 1, exec={}).route(2)
    assert said(route) == [
        "appeared exec(1)>libc(1) proved: set-after-start",
        "lost libc(1)>exec(2) inferred: set-late-in-parent + dropped-around-spawn",
    ]
    assert excluded(route) == {"rewritten-by-program"}
    assert route.in_time is InTime.NOT_APPLICABLE


def test_an_earlier_sibling_that_had_it_rules_out_set_late() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, exec=A).worker(3, 1, exec={})
    route = tree.route(3)
    assert said(route)[1] == "lost libc(1)>exec(3) proved: dropped-around-spawn"
    assert excluded(route) == {"set-late-in-parent", "rewritten-by-program"}
    against = text(*the_cause(route, CauseId.SET_LATE_IN_PARENT).evidence_against)
    assert "scheduler TP0 (PID 2), started 0.01 s before scheduler TP0 (PID 3)" in against


def test_the_resource_tracker_is_such_a_sibling_even_within_the_same_clock_tick() -> None:
    tree = Tree().add(1, exec={}, libc=A)
    tree.add(9, 1, EdgeKind.EXEC, exec=A, role=TRACKER).worker(2, 1, exec={}, ticks=tree.ticks)
    assert said(tree.route(2))[1] == "lost libc(1)>exec(2) proved: dropped-around-spawn"


def test_a_tracker_without_it_supports_set_late_and_proves_nothing() -> None:
    tree = Tree().add(1, exec={}, libc=A)
    tree.add(9, 1, EdgeKind.EXEC, exec={}, role=TRACKER).worker(2, 1, exec={})
    route = tree.route(2)
    assert said(route)[1].endswith("inferred: set-late-in-parent + dropped-around-spawn")
    late, dropped = (
        the_cause(route, one) for one in (CauseId.SET_LATE_IN_PARENT, CauseId.DROPPED_AROUND_SPAWN)
    )
    assert "resource tracker (PID 9)" in text(*late.evidence_for)
    assert "resource tracker (PID 9)" in text(*dropped.evidence_against)


def test_a_later_sibling_that_has_it_supports_set_late_and_proves_nothing() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, exec={}).worker(3, 1, exec=A)
    route = tree.route(2)
    assert said(route)[1].endswith("inferred: set-late-in-parent + dropped-around-spawn")
    late = the_cause(route, CauseId.SET_LATE_IN_PARENT)
    assert "after scheduler TP0 (PID 2), had X=a" in text(*late.evidence_for)


def test_a_sibling_within_the_same_tick_is_ordered_by_its_number() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(20, 1, exec=A)
    tree.worker(21, 1, exec={}, ticks=tree.ticks).worker(19, 1, exec={}, ticks=tree.ticks)
    assert "set-late-in-parent" in excluded(tree.route(21))
    assert "set-late-in-parent" not in excluded(tree.route(19))


def test_numbers_that_wrapped_around_within_a_tick_order_nothing() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(300, 1, exec=A)
    tree.worker(32700, 1, exec={}, ticks=tree.ticks)
    route = tree.route(32700)
    assert "set-late-in-parent" not in excluded(route)
    late = the_cause(route, CauseId.SET_LATE_IN_PARENT)
    assert "(PID 300)" not in text(*late.evidence_for, *late.evidence_against)


def test_a_sibling_from_a_program_started_with_its_own_environment_rules_out_nothing() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, EdgeKind.EXEC, exec=A).worker(3, 1, exec={})
    route = tree.route(3)
    assert said(route)[1].startswith("lost libc(1)>exec(3) inferred: ")
    assert "set-late-in-parent" not in excluded(route)
    assert "PID 2" in text(*the_cause(route, CauseId.SET_LATE_IN_PARENT).evidence_against)


def test_a_stand_in_of_a_sibling_rules_out_nothing() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, exec=stand_in(A), libc=A)
    route = tree.worker(3, 1, exec={}).route(3)
    assert "set-late-in-parent" not in excluded(route)


def test_a_parent_that_had_it_at_its_own_exec_did_not_set_it_late() -> None:
    route = Tree().add(1, exec=A, libc=A).worker(2, 1, exec={}).route(2)
    assert said(route) == ["lost libc(1)>exec(2) proved: dropped-around-spawn"]
    against = text(*the_cause(route, CauseId.SET_LATE_IN_PARENT).evidence_against)
    assert "changed and changed back" in against


def test_a_guess_at_how_the_child_was_started_proves_nothing() -> None:
    edge = {"confidence": Confidence.INFERRED}
    route = Tree().add(1, exec=A, libc=A).worker(2, 1, exec={}, edge=edge).route(2)
    assert said(route) == [
        "lost libc(1)>exec(2) inferred: dropped-around-spawn + rewritten-by-program"
    ]
    against = the_cause(route, CauseId.REWRITTEN_BY_PROGRAM).evidence_against
    assert "run the same executable" in text(*against)


def test_changed_in_the_parent_after_the_spawn() -> None:
    route = Tree().add(1, exec=A, libc=B).worker(2, 1, exec=A).route(2)
    assert said(route) == [
        "changed exec(1)>libc(1) proved: changed-in-parent",
        "changed libc(1)>exec(2) inferred: set-late-in-parent + dropped-around-spawn",
    ]


def test_removed_in_the_parent_after_the_spawn() -> None:
    route = Tree().add(1, exec=A, libc={}).worker(2, 1, exec=A).route(2)
    assert said(route) == [
        "lost exec(1)>libc(1) proved: changed-in-parent",
        "appeared libc(1)>exec(2) inferred: set-late-in-parent + dropped-around-spawn",
    ]
    assert route.in_time is InTime.YES
    sentence = text(the_cause(route, CauseId.SET_LATE_IN_PARENT).sentence)
    assert sentence.startswith("server (PID 1) removed X only after scheduler TP0 (PID 2)")


def test_removed_in_the_parent_before_the_spawn() -> None:
    route = Tree().add(1, exec=A, libc={}).worker(2, 1, exec={}).route(2)
    assert said(route) == ["lost exec(1)>libc(1) proved: changed-in-parent"]


def test_changed_in_the_parent_before_the_spawn() -> None:
    route = Tree().add(1, exec=A, libc=B).worker(2, 1, exec=B).route(2)
    assert said(route) == ["changed exec(1)>libc(1) proved: changed-in-parent"]
    cause = the_cause(route, CauseId.CHANGED_IN_PARENT)
    assert text(*cause.evidence_for) == (
        "server (PID 1) has X=a at its exec (read from: exec view)."
        "server (PID 1) has X=b in its C environ now."
    )


# --- in the worker -------------------------------------------------------------------------------


def test_set_in_the_child() -> None:
    route = Tree().add(1).worker(2, 1, exec={}, libc=A).route(2)
    assert said(route) == ["appeared exec(2)>libc(2) proved: set-after-start"]
    assert route.in_time is InTime.NO


def test_changed_in_the_child() -> None:
    route = Tree().add(1, exec=A).worker(2, 1, exec=A, libc=B).route(2)
    assert said(route) == ["changed exec(2)>libc(2) proved: changed-in-worker"]
    assert route.in_time is InTime.NO


def test_removed_in_the_child() -> None:
    route = Tree().add(1, exec=A).worker(2, 1, exec=A, libc={}).route(2)
    assert said(route) == ["lost exec(2)>libc(2) proved: changed-in-worker"]
    assert route.in_time is InTime.NOT_APPLICABLE


def test_set_in_the_childs_os_environ_only() -> None:
    route = Tree().add(1).worker(2, 1, python=A).route(2)
    assert said(route) == [
        "never_there exec(1)>libc(2) proved: never-set",
        "appeared libc(2)>python(2) proved: os-environ-edited",
    ]


def test_removed_in_a_child_whose_block_is_wiped() -> None:
    """The exec view is unknown, so it can have been lost on the way as well."""
    route = Tree().add(1, exec=A).worker(2, 1, exec=wiped(), libc={}).route(2)
    assert said(route) == [
        "lost libc(1)>libc(2) inferred: changed-in-worker + dropped-around-spawn"
    ]
    assert "set-late-in-parent" in excluded(route)


def test_a_survivor_of_a_partly_wiped_block_proves_what_was_there_at_exec() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec=survivors(A), libc=B)
    assert said(tree.route(2)) == ["changed exec(2)>libc(2) proved: changed-in-worker"]


def test_a_name_missing_in_a_partly_wiped_block_is_unread_and_not_absent() -> None:
    tree = Tree().add(1, exec=A, libc=A).worker(2, 1, exec=survivors({"NCCL_ALGO": "Ring"}), libc=B)
    route = tree.route(2)
    assert not route.final(View.EXEC).known
    assert said(route)[0].startswith("changed libc(1)>libc(2) inferred: ")
    assert {cause.id for cause in route.breaks[0].causes} == {
        CauseId.DROPPED_AROUND_SPAWN,
        CauseId.CHANGED_IN_WORKER,
    }


# --- never set -----------------------------------------------------------------------------------


def test_never_set() -> None:
    route = Tree().add(1).worker(2, 1).route(2)
    assert said(route) == ["never_there exec(1)>libc(2) proved: never-set"]
    assert text(the_cause(route, CauseId.NEVER_SET).remedy) == (
        "Set X where server (PID 1) is started: its command, container or unit."
    )


def test_never_set_where_not_all_could_be_read() -> None:
    route = Tree().add(1).worker(2, 1, exec=wiped(), libc={}).route(2)
    assert said(route) == ["never_there exec(1)>libc(2) inferred: never-set"]
    assert "overwritten" in text(*the_cause(route, CauseId.NEVER_SET).evidence_against)


def test_absent_in_the_worker_where_nothing_above_could_be_read() -> None:
    """It can have been lost unseen on every hop in front of the first reading."""
    tree = Tree().add(1, exec=unreadable(View.EXEC), libc=unreadable(View.LIBC))
    route = tree.worker(2, 1, exec=wiped(), libc={}).route(2)
    (found,) = route.breaks
    assert found.confidence is Confidence.INFERRED
    assert {cause.id for cause in found.causes} == {
        CauseId.NEVER_SET,
        CauseId.SET_LATE_IN_PARENT,
        CauseId.DROPPED_AROUND_SPAWN,
        CauseId.CHANGED_IN_PARENT,
        CauseId.CHANGED_IN_WORKER,
    }


def test_nothing_is_said_of_a_worker_of_which_nothing_could_be_read() -> None:
    tree = Tree().add(1, exec={}).worker(2, 1, exec=wiped(), libc=unreadable(View.LIBC))
    assert said(tree.route(2)) == []


def test_everything_unreadable_has_no_break_and_no_verdict() -> None:
    tree = Tree().add(1, exec=unreadable(View.EXEC), libc=unreadable(View.LIBC))
    route = tree.worker(2, 1, exec=unreadable(View.EXEC), libc=unreadable(View.LIBC)).route(2)
    assert said(route) == []
    assert route.in_time is InTime.UNKNOWN


def test_never_set_where_a_unit_starts_the_root() -> None:
    tree = Tree().add(1, edge=SYSTEMD).worker(2, 1)
    assert said(tree.route(2)) == [
        "never_there exec(1)>libc(2) inferred: never-set + built-by-launcher"
    ]


def test_never_set_where_sudo_starts_the_root() -> None:
    tree = Tree().add(1, edge=SUDO).worker(2, 1)
    (found,) = tree.route(2).breaks
    assert {cause.id for cause in found.causes} == {CauseId.NEVER_SET, CauseId.REWRITTEN_BY_PROGRAM}


# --- subprocess, wrappers, shells, sudo ----------------------------------------------------------


def test_subprocess_with_env_looks_like_a_program_that_execd_in_between() -> None:
    route = Tree().add(1, exec=A).worker(2, 1, EdgeKind.EXEC, exec={}).route(2)
    (found,) = route.breaks
    assert said(route)[0].startswith("lost libc(1)>exec(2) inferred: dropped-around-spawn")
    assert {cause.id for cause in found.causes} == {
        CauseId.DROPPED_AROUND_SPAWN,
        CauseId.REWRITTEN_BY_PROGRAM,
    }
    assert excluded(route) == {"set-late-in-parent"}


def test_env_os_environ_is_seen_in_the_parents_mapping() -> None:
    tree = Tree().add(1, exec={}, libc=A, python=B).worker(2, 1, EdgeKind.EXEC, exec=B)
    cause = the_cause(tree.route(2), CauseId.DROPPED_AROUND_SPAWN)
    assert "env=os.environ" in text(*cause.evidence_for)


def test_env_u_between_parent_and_child_that_leaves_no_process() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, EdgeKind.EXEC, exec={}, exe="/usr/bin/other")
    cause = the_cause(tree.route(2), CauseId.REWRITTEN_BY_PROGRAM)
    assert "another executable" in text(*cause.evidence_for)


def test_a_spawn_child_of_another_executable_may_have_come_through_a_wrapper() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec={}, exe="/opt/wrapped/python")
    assert CauseId.REWRITTEN_BY_PROGRAM in {one.id for one in tree.route(2).breaks[0].causes}


def test_a_spawn_child_behind_a_title_may_have_execd_itself_once_more() -> None:
    """It keeps its start time and its end of the tracker's pipe: nothing tells that apart."""
    titled = {"title": ("sglang::scheduler_TP0",)}
    tree = Tree().add(1, exec=A).worker(2, 1, exec={}, **titled)
    assert said(tree.route(2)) == [
        "lost libc(1)>exec(2) inferred: dropped-around-spawn + rewritten-by-program"
    ]
    sentence = text(the_cause(tree.route(2), CauseId.REWRITTEN_BY_PROGRAM).sentence)
    assert "or scheduler TP0 itself before it exec'd once more" in sentence
    # Its own command line would show that it runs what multiprocessing started.
    tree = Tree().add(1, exec=A).worker(2, 1, exec={})
    assert said(tree.route(2)) == ["lost libc(1)>exec(2) proved: dropped-around-spawn"]


def test_numa_binding_starts_spawn_children_through_a_shell() -> None:
    numa = {"SGLANG_NUMA_BIND_V2": "1"}
    tree = Tree().add(1, exec={**A, **numa}).worker(2, 1, exec=numa)
    cause = the_cause(tree.route(2), CauseId.REWRITTEN_BY_PROGRAM)
    assert "SGLANG_NUMA_BIND_V2" in text(*cause.evidence_for)
    assert cause in tree.route(2).breaks[0].causes


def test_a_dash_wrapper_that_exports_and_unsets_and_does_not_exec() -> None:
    """Its C environ still shows the old state; what its child got is no break of the child."""
    tree = Tree().add(1, exec={"NCCL_OLD": "1"}, libc={"NCCL_OLD": "1"})
    tree.worker(2, 1, EdgeKind.EXEC, exec={"NCCL_NEW": "2"}, edge=DASH)
    assert said(tree.route(2, "NCCL_NEW")) == [
        "appeared exec(1)>exec(2) proved: rewritten-by-program"
    ]
    assert said(tree.route(2, "NCCL_OLD")) == ["lost exec(1)>exec(2) proved: rewritten-by-program"]
    assert tree.route(2, "NCCL_NEW").in_time is InTime.YES


def test_what_dash_hands_on_unchanged_is_no_break_though_its_c_environ_is_unread() -> None:
    tree = Tree().add(1, exec=A, libc=unreadable(View.LIBC))
    assert said(tree.worker(2, 1, EdgeKind.EXEC, exec=A, edge=DASH).route(2)) == []


def test_a_subshell_of_dash_in_between_changes_nothing() -> None:
    tree = Tree().add(1, exec=A).add(2, 1, EdgeKind.FORK, exec=A)
    tree.worker(3, 2, EdgeKind.EXEC, exec={}, edge=DASH)
    assert said(tree.route(3)) == ["lost exec(1)>exec(3) proved: rewritten-by-program"]


def test_bash_changed_it_before_or_after_it_started_the_child() -> None:
    bash = {"launcher": "bash"}
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, EdgeKind.EXEC, exec={}, edge=bash)
    (_, found) = tree.route(2).breaks
    assert {cause.id for cause in found.causes} == {
        CauseId.SET_LATE_IN_PARENT,
        CauseId.REWRITTEN_BY_PROGRAM,
    }


def test_sudo_took_it_away() -> None:
    variables = {"PYTHONPATH": "/a"}
    tree = Tree().add(1, exec=variables).worker(2, 1, EdgeKind.EXEC, exec={}, edge=SUDO)
    route = tree.route(2, "PYTHONPATH")
    assert said(route) == ["lost exec(1)>exec(2) proved: rewritten-by-program"]
    cause = the_cause(route, CauseId.REWRITTEN_BY_PROGRAM)
    assert "sudoers(5)" in text(*cause.evidence_for)


@pytest.mark.parametrize("launcher", ["timeout", "container init", "exec in place"])
def test_a_program_that_changes_no_variable_is_not_blamed(launcher: str) -> None:
    edge = {"launcher": launcher}
    tree = Tree().add(1, exec=A, comm="tini", role=Role("wrapper"))
    route = tree.worker(2, 1, EdgeKind.EXEC, exec={}, edge=edge).route(2)
    assert said(route) == ["lost libc(1)>exec(2) proved: rewritten-by-program"]
    cause = the_cause(route, CauseId.REWRITTEN_BY_PROGRAM)
    assert text(cause.sentence) == (
        "A program that exec'd between wrapper (PID 1) and scheduler TP0 (PID 2) (env, a shell,"
        " sudo) removed X; tini itself changes no variable."
    )
    assert text(cause.remedy).startswith("Look at the command that wrapper (PID 1) runs")


@pytest.mark.parametrize(("name", "dropped"), [("NCCL_X", False), ("NCCL_X.Y", True)])
def test_dash_drops_only_names_that_are_no_identifiers(name: str, dropped: bool) -> None:
    tree = Tree().add(1, exec={name: "a"}).worker(2, 1, EdgeKind.EXEC, exec={}, edge=DASH)
    cause = the_cause(tree.route(2, name), CauseId.REWRITTEN_BY_PROGRAM)
    assert ("no identifiers" in text(*cause.evidence_for)) is dropped
    assert text(cause.sentence).startswith(
        "dash (server (PID 1)), or a program that it ran and that exec'd scheduler TP0 (PID 2),"
    )
    # Where dash started the root, it left out what it cannot hold, and nothing else.
    root = Tree().add(1, edge=DASH).worker(2, 1).route(2, name)
    assert (CauseId.REWRITTEN_BY_PROGRAM in {one.id for one in root.breaks[0].causes}) is dropped


def test_dash_keeps_the_last_of_duplicates() -> None:
    given = environment(View.EXEC, A, duplicates={"X": ()})
    tree = Tree().add(1, exec=given, libc=A).worker(2, 1, EdgeKind.EXEC, exec=B, edge=DASH)
    cause = the_cause(tree.route(2), CauseId.REWRITTEN_BY_PROGRAM)
    assert "more than once" in text(*cause.evidence_for)


def test_a_service_manager_above_builds_the_environment() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, EdgeKind.EXEC, exec={}, edge=SYSTEMD)
    route = tree.route(2)
    assert said(route) == ["lost exec(1)>exec(2) proved: built-by-launcher"]
    assert "the unit" in text(the_cause(route, CauseId.BUILT_BY_LAUNCHER).remedy)


def test_what_the_unit_declares_and_the_root_lacks_was_left_out_by_the_launcher() -> None:
    tree = Tree().add(1, declared=A, exec={}, edge=SYSTEMD).worker(2, 1)
    assert said(tree.route(2)) == ["lost declared(1)>exec(1) proved: built-by-launcher"]


def test_a_raylet_may_add_to_what_its_workers_get() -> None:
    raylet = {"carries": Carries.UNKNOWN, "launcher": "raylet"}
    tree = Tree().add(1, exec=A).worker(2, 1, EdgeKind.EXEC, exec={}, edge=raylet)
    assert said(tree.route(2)) == ["lost libc(1)>exec(2) inferred: built-by-launcher"]


def test_a_reparented_grandchild_leaves_open_what_stood_in_between() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, EdgeKind.UNKNOWN, exec={}, edge=GONE)
    route = tree.route(2)
    (found,) = route.breaks
    assert found.confidence is Confidence.INFERRED
    assert {cause.id for cause in found.causes} == {
        CauseId.DROPPED_AROUND_SPAWN,
        CauseId.REWRITTEN_BY_PROGRAM,
    }
    sentence = text(the_cause(route, CauseId.DROPPED_AROUND_SPAWN).sentence)
    assert sentence.startswith("A process that is gone started scheduler TP0 (PID 2) without X")


def test_never_set_below_an_orphaned_beginning_is_not_proved() -> None:
    route = Tree().worker(2, 1, EdgeKind.UNKNOWN, exec={}, edge=GONE).route(2)
    assert said(route) == ["never_there exec(2)>libc(2) inferred: never-set"]
    assert "gone" in text(*the_cause(route, CauseId.NEVER_SET).evidence_against)


# --- fork and forkserver -------------------------------------------------------------------------


def test_a_fork_child_keeps_the_memory_of_the_fork() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, EdgeKind.FORK, exec={}, libc={})
    route = tree.route(2)
    assert said(route) == [
        "appeared exec(1)>libc(1) proved: set-after-start",
        "lost libc(1)>libc(2) inferred: fork-child + changed-in-worker",
    ]
    assert "its exec block is that of server (PID 1)" in text(
        *the_cause(route, CauseId.FORK_CHILD).evidence_for
    )


def test_a_fork_child_of_a_parent_that_always_had_it_may_have_been_forked_without_it() -> None:
    """The parent can take it away around the fork: that leaves the same traces."""
    tree = Tree().add(1, exec=A).worker(2, 1, EdgeKind.FORK, exec=A, libc={})
    route = tree.route(2)
    assert said(route) == ["lost libc(1)>libc(2) inferred: changed-in-worker + fork-child"]
    cause = the_cause(route, CauseId.FORK_CHILD)
    assert "changed and changed back" in text(*cause.evidence_against)
    assert text(cause.sentence) == (
        "scheduler TP0 (PID 2) was forked while server (PID 1) had no X, which had been removed for"
        " that moment, and keeps the memory of that time."
    )
    assert text(cause.remedy) == (
        "Look in the code of server (PID 1) for what changes X around the fork."
    )


@pytest.mark.parametrize(
    ("parent", "child", "words"),
    [
        (A, NOTHING, "before server (PID 1) set X, or while server (PID 1) had no X"),
        (A, B, "or while server (PID 1) had another value of X for that moment"),
        (NOTHING, A, "removed X, or while server (PID 1) had X, which had been set for that"),
    ],
)
def test_a_fork_before_a_change_or_within_one(
    parent: dict[str, str], child: dict[str, str], words: str
) -> None:
    tree = Tree().add(1, exec={"X": "other"}, libc=parent)
    route = tree.worker(2, 1, EdgeKind.FORK, exec={}, libc=child).route(2)
    cause = the_cause(route, CauseId.FORK_CHILD)
    assert words in text(cause.sentence)
    assert "before the fork. Look in the code of server" in text(cause.remedy)


def test_a_child_of_a_forkserver_that_always_had_it_lost_it_itself() -> None:
    tree = Tree().add(1, exec=A).add(2, 1, EdgeKind.EXEC, exec=A, role=FORKSERVER)
    route = tree.worker(3, 2, EdgeKind.FORKSERVER, exec=A, libc={}).route(3)
    assert said(route) == ["lost libc(2)>libc(3) proved: changed-in-worker"]
    assert excluded(route) == {"fork-child"}


def test_what_a_parent_set_before_the_fork_is_there_but_not_at_exec() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, EdgeKind.FORK, exec={}, libc=A)
    route = tree.route(2)
    assert said(route) == ["appeared exec(1)>libc(1) proved: set-after-start"]
    assert route.in_time is InTime.NO


def test_a_fork_child_was_in_time_if_its_image_had_it_though_its_own_copy_is_wiped() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, EdgeKind.FORK, exec=wiped(), libc=A)
    assert tree.route(2).in_time is InTime.YES


def test_a_fork_child_set_it_itself_or_its_parent_removed_it_since() -> None:
    tree = Tree().add(1, exec=A, libc={}).worker(2, 1, EdgeKind.FORK, exec=A, libc=A)
    (_, found) = tree.route(2).breaks
    assert {cause.id for cause in found.causes} == {CauseId.FORK_CHILD, CauseId.SET_AFTER_START}


def test_a_root_that_was_forked_from_outside_the_scan_proves_nothing_of_its_exec() -> None:
    tree = Tree().worker(2, None, exec=A, libc={}, image_owner=77)
    route = tree.route(2)
    assert said(route) == ["lost exec(2)>libc(2) inferred: changed-in-worker"]
    assert "from which it was forked" in text(the_cause(route, CauseId.CHANGED_IN_WORKER).sentence)


def test_a_forkserver_that_started_before_the_change() -> None:
    tree = Tree().add(1, exec={}, libc=A).add(2, 1, EdgeKind.EXEC, exec={}, role=FORKSERVER)
    tree.worker(3, 2, EdgeKind.FORKSERVER, exec={}, libc={})
    route = tree.route(3)
    assert said(route) == [
        "appeared exec(1)>libc(1) proved: set-after-start",
        "lost libc(1)>exec(2) inferred: frozen-in-forkserver + dropped-around-spawn",
    ]
    assert excluded(route) == {"rewritten-by-program"}


def test_a_forkserver_known_only_by_its_child_is_one_too() -> None:
    tree = Tree().add(1, exec={}, libc=A).add(2, 1, exec={})
    tree.worker(3, 2, EdgeKind.FORKSERVER, exec={}, libc={})
    assert "frozen-in-forkserver" in said(tree.route(3))[1]


def test_a_tracker_older_than_the_forkserver_that_had_it_rules_out_freezing() -> None:
    tree = Tree().add(1, exec={}, libc=A).add(9, 1, EdgeKind.EXEC, exec=A, role=TRACKER)
    tree.add(2, 1, EdgeKind.EXEC, exec={}, role=FORKSERVER)
    tree.worker(3, 2, EdgeKind.FORKSERVER, exec={}, libc={})
    assert said(tree.route(3))[1] == "lost libc(1)>exec(2) proved: dropped-around-spawn"
    assert "frozen-in-forkserver" in excluded(tree.route(3))


# --- secure mode ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "TMPDIR", "GCONV_PATH"])
def test_the_loader_removes_names_in_secure_mode(name: str) -> None:
    tree = Tree().add(1, exec={name: "/a"})
    tree.worker(2, 1, EdgeKind.EXEC, exec={name: "/a"}, libc={}, secure=True)
    route = tree.route(2, name)
    assert said(route) == ["lost exec(2)>libc(2) proved: at-secure"]
    assert excluded(route) == {"changed-in-worker"}


def test_without_secure_mode_the_program_itself_removed_it() -> None:
    tree = Tree().add(1, exec={"LD_PRELOAD": "/a"})
    tree.worker(2, 1, exec={"LD_PRELOAD": "/a"}, libc={}, secure=False)
    route = tree.route(2, "LD_PRELOAD")
    assert said(route) == ["lost exec(2)>libc(2) proved: changed-in-worker"]
    assert excluded(route) == {"at-secure"}


def test_where_secure_mode_is_unknown_both_causes_fit() -> None:
    tree = Tree().add(1, exec={"LD_PRELOAD": "/a"})
    route = tree.worker(2, 1, exec={"LD_PRELOAD": "/a"}, libc={}).route(2, "LD_PRELOAD")
    (found,) = route.breaks
    assert {cause.id for cause in found.causes} == {CauseId.AT_SECURE, CauseId.CHANGED_IN_WORKER}
    assert found.confidence is Confidence.INFERRED


def test_what_only_some_versions_of_glibc_remove_is_not_proved() -> None:
    tree = Tree().add(1, exec={"MALLOC_ARENA_MAX": "1"})
    tree.worker(2, 1, exec={"MALLOC_ARENA_MAX": "1"}, libc={}, secure=True)
    (found,) = tree.route(2, "MALLOC_ARENA_MAX").breaks
    assert {cause.id for cause in found.causes} == {CauseId.AT_SECURE, CauseId.CHANGED_IN_WORKER}


def test_what_code_did_after_the_loader_is_not_the_loaders() -> None:
    variables = {"LD_PRELOAD": "/a"}
    tree = Tree().add(1).worker(2, 1, exec={}, libc=variables, python={}, secure=True)
    assert said(tree.route(2, "LD_PRELOAD")) == [
        "appeared exec(2)>libc(2) proved: set-after-start",
        "lost libc(2)>python(2) inferred: c-level-setenv + os-putenv",
    ]


def test_secure_mode_leaves_other_names_alone() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec=A, libc={}, secure=True)
    assert said(tree.route(2)) == ["lost exec(2)>libc(2) proved: changed-in-worker"]


# --- the resource tracker as a stand-in ----------------------------------------------------------


def test_a_tracker_older_than_a_change_is_no_break() -> None:
    """Started first, it lacks what the parent set next and the worker got."""
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, exec=stand_in({}), libc=A)
    route = tree.route(2)
    assert said(route) == ["appeared exec(1)>libc(1) proved: set-after-start"]
    assert route.in_time is InTime.UNKNOWN


def test_a_tracker_that_agrees_says_in_time() -> None:
    route = Tree().add(1, exec={}, libc=A).worker(2, 1, exec=stand_in(A), libc=A).route(2)
    assert route.in_time is InTime.YES


def test_only_the_tracker_could_be_read_and_nothing_is_proved() -> None:
    tree = Tree().add(1, exec=A, libc=unreadable(View.LIBC))
    route = tree.worker(2, 1, exec=stand_in({}), libc=unreadable(View.LIBC)).route(2)
    (found,) = route.breaks
    assert said(route)[0].startswith("lost exec(1)>exec(2) inferred: ")
    assert {cause.id for cause in found.causes} == {
        CauseId.CHANGED_IN_PARENT,
        CauseId.DROPPED_AROUND_SPAWN,
    }
    assert route.in_time is InTime.UNKNOWN


def test_lost_behind_a_stand_in_can_have_been_lost_in_front_of_it() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec=stand_in(A), libc={})
    (found,) = tree.route(2).breaks
    assert said(tree.route(2))[0].startswith("lost exec(2)>libc(2) inferred: ")
    assert {cause.id for cause in found.causes} == {
        CauseId.DROPPED_AROUND_SPAWN,
        CauseId.CHANGED_IN_WORKER,
    }


def test_lost_in_front_of_a_stand_in_can_have_been_lost_behind_it() -> None:
    tree = Tree().add(1, exec={}, libc=A).worker(2, 1, exec=stand_in({}), libc={})
    route = tree.route(2)
    assert said(route)[1] == (
        "lost libc(1)>exec(2) inferred: "
        "set-late-in-parent + changed-in-worker + dropped-around-spawn"
    )
    against = the_cause(route, CauseId.CHANGED_IN_WORKER).evidence_against
    assert "read from: resource tracker" in text(*against)


def test_a_survivor_counts_more_than_the_tracker() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec=stand_in({}, own=survivors(A)), libc={})
    assert said(tree.route(2)) == ["lost exec(2)>libc(2) proved: changed-in-worker"]


# --- in time -------------------------------------------------------------------------------------


def test_a_parent_that_always_had_it_vouches_for_a_wiped_block() -> None:
    assert Tree().add(1, exec=A).worker(2, 1, exec=wiped(), libc=A).route(2).in_time is InTime.YES


@pytest.mark.parametrize(
    ("parent_exec", "parent_libc", "kind"),
    [
        (NOTHING, A, EdgeKind.SPAWN),
        (A, NOTHING, EdgeKind.SPAWN),
        (B, B, EdgeKind.SPAWN),
        (A, A, EdgeKind.UNKNOWN),
    ],
)
def test_nothing_less_vouches_for_a_wiped_block(
    parent_exec: dict[str, str], parent_libc: dict[str, str], kind: EdgeKind
) -> None:
    tree = Tree().add(1, exec=parent_exec, libc=parent_libc)
    assert tree.worker(2, 1, kind, exec=wiped(), libc=A).route(2).in_time is InTime.UNKNOWN


def test_an_unread_c_environ_leaves_the_time_unknown() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec=A, libc=unreadable(View.LIBC))
    assert tree.route(2).in_time is InTime.UNKNOWN


# --- several hops --------------------------------------------------------------------------------


def test_a_break_crosses_what_could_not_be_read() -> None:
    tree = Tree().add(1, exec=A).add(2, 1, exec=wiped(), libc=unreadable(View.LIBC))
    route = tree.worker(3, 2, exec={}).route(3)
    (found,) = route.breaks
    assert (found.before, found.after) == (1, 4)
    assert {cause.id for cause in found.causes} == {
        CauseId.DROPPED_AROUND_SPAWN,
        CauseId.CHANGED_IN_PARENT,
    }
    assert sum(cause.id is CauseId.DROPPED_AROUND_SPAWN for cause in found.causes) == 2
    assert found.confidence is Confidence.INFERRED


def test_each_break_stands_for_itself() -> None:
    tree = Tree().add(1, exec=A, libc=B).add(2, 1, exec=B).worker(3, 2, exec=B, libc={})
    assert said(tree.route(3)) == [
        "changed exec(1)>libc(1) proved: changed-in-parent",
        "lost exec(3)>libc(3) proved: changed-in-worker",
    ]


def test_a_helper_is_judged_like_a_worker() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec=A).add(3, 1, exec=A, libc={}, role=FORKSERVER)
    assert said(tree.route(3)) == ["lost exec(3)>libc(3) proved: changed-in-worker"]
