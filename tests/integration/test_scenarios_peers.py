"""Ranks that differ: found without any expectation, inside one peer group and only there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.programs import cli
from tests.programs.actions import Action, c_setenv, py_set, py_unset
from tests.programs.cli import Run
from tests.programs.trees import TitledTree


def told(run: Run, tree: TitledTree) -> set[tuple[str, str, str, frozenset[int]]]:
    """Return check, severity, variable and processes of all findings above info."""
    return {
        (one["check"], one["severity"], one["variable"], frozenset(one["pids"]))
        for one in run.loud(tree.reports)
    }


def given(name: str, value: str | None, afterwards: str | None) -> Action:
    """The parent starts one worker with another value than the rest."""

    def put(state: str | None) -> list[list[str]]:
        return [py_unset(name) if state is None else py_set(name, state)]

    return Action(parent_before=put(value), parent_after=put(afterwards))


def test_one_rank_was_given_another_value() -> None:
    actions: dict[int | str, Action] = {
        1: given("NCCL_PROTO", "LL", "Simple"),
        2: given("NCCL_BUFFSIZE", None, "8388608"),
        3: given("NCCL_DEBUG", "INFO", "WARN"),
    }
    env = {"NCCL_PROTO": "Simple", "NCCL_BUFFSIZE": "8388608", "NCCL_DEBUG": "WARN"}
    with TitledTree(workers=4, env=env, actions=actions) as tree:
        run = cli.workers("--pid", str(tree.root))
        one, two, three = (frozenset({tree.worker(number)}) for number in (1, 2, 3))
        assert run.code == 1
        assert told(run, tree) == {
            ("peers-differ-critical", "error", "NCCL_PROTO", one),
            ("peers-differ-critical", "error", "NCCL_BUFFSIZE", two),
            ("peers-differ", "warning", "NCCL_DEBUG", three),
        }
        for pid in tree.workers():
            assert {name: run.text(pid, name) for name in env} == tree.truth[pid]
        # An expectation about the same variable tells it once, with the same processes.
        run = cli.judge("--pid", str(tree.root), "--expect=NCCL_DEBUG=WARN")
        assert (run.code, run.pids("env-wrong-value", "NCCL_DEBUG")) == (1, three)
        assert run.findings("peers-differ", "NCCL_DEBUG") == []


@pytest.fixture(scope="module")
def mild() -> Iterator[TitledTree]:
    """Differences that break nothing, or not for certain; the blocks are intact."""
    actions: dict[int | str, Action] = {
        0: Action(after_title=[py_set("NCCL_PROTO", "LL")]),
        1: Action(
            parent_before=[py_set("NCCL_P2P_DISABLE", "0"), py_set("CUDA_VISIBLE_DEVICES", "1")],
            parent_after=[py_unset("NCCL_P2P_DISABLE"), py_set("CUDA_VISIBLE_DEVICES", "0")],
        ),
        2: given("NCCL_BUFFSIZE", None, "4194304"),
        3: given("NCCL_SOCKET_IFNAME", "eth1", "eth0"),
    }
    env = {
        "SPT_NOENV": "1",
        "NCCL_PROTO": "Simple",
        "NCCL_BUFFSIZE": "4194304",
        "NCCL_SOCKET_IFNAME": "eth0",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    with TitledTree(workers=4, env=env, actions=actions) as tree:
        yield tree


def test_differing_only_now_and_default_against_absent_are_warnings(mild: TitledTree) -> None:
    run = cli.judge("--pid", str(mild.root))
    zero, one, two, three = (frozenset({pid}) for pid in mild.workers())
    assert run.code == 0
    assert told(run, mild) == {
        ("peers-differ", "warning", "NCCL_PROTO", zero),
        ("peers-differ-default", "warning", "NCCL_P2P_DISABLE", one),
        ("peers-differ-default", "warning", "NCCL_BUFFSIZE", two),
        # Hosts differ in it by design, and so peers do; the way from the server is no such reason.
        ("changed-on-the-way", "warning", "NCCL_SOCKET_IFNAME", three),
    }
    (finding,) = run.findings("peers-differ", "NCCL_PROTO")
    assert "after the start" in str(finding["evidence"])


def test_differing_only_now_is_undetermined_when_strict(mild: TitledTree) -> None:
    run = cli.judge("--pid", str(mild.root), "--strict")
    unsure = [one["variable"] for one in run.findings() if one["undetermined"]]
    assert (run.code, unsure) == (3, ["NCCL_PROTO"])
    assert run.pids("peers-differ", "NCCL_PROTO") == {mild.worker(0)}


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_what_a_worker_changed_itself_is_a_warning_however_it_was_started(method: str) -> None:
    actions: dict[int | str, Action] = {
        number: Action(method=method, after_title=[py_set("NCCL_PROTO", "LL")] if number else [])
        for number in range(2)
    }
    env = {"SPT_NOENV": "1", "NCCL_PROTO": "Simple"}
    with TitledTree(workers=2, env=env, actions=actions) as tree:
        run = cli.judge("--pid", str(tree.root))
        odd = frozenset({tree.worker(1)})
        assert told(run, tree) == {("peers-differ", "warning", "NCCL_PROTO", odd)}
        assert run.code == 0
        strict = cli.judge("--pid", str(tree.root), "--strict")
        assert (strict.code, strict.pids("peers-differ", "NCCL_PROTO")) == (3, set(odd))


def test_fail_on_warning(mild: TitledTree) -> None:
    run = cli.judge("--pid", str(mild.root), "--fail-on=warning")
    assert (run.code, run.pids("peers-differ")) == (1, {mild.worker(0)})


REPLICAS = {
    0: ("DP0_TP0", "LL"),
    1: ("DP0_TP1", "LL"),
    2: ("DP1_TP0", "Simple"),
    3: ("DP1_TP1", "Simple"),
}


def test_data_parallel_replicas_may_differ() -> None:
    actions: dict[int | str, Action] = {
        number: Action(
            title=f"sglang::scheduler_{ranks}",
            parent_before=[py_set("NCCL_PROTO", value)],
            parent_after=[py_unset("NCCL_PROTO")],
        )
        for number, (ranks, value) in REPLICAS.items()
    }
    with TitledTree(workers=4, actions=actions) as tree:
        run = cli.judge("--pid", str(tree.root))
        assert [run.text(pid, "NCCL_PROTO") for pid in tree.workers()] == ["LL"] * 2 + [
            "Simple"
        ] * 2
        assert (run.code, told(run, tree)) == (0, set())
        groups = {one["replica"]: set(one["workers"]) for one in run.scan["peer_groups"]}
        assert groups == {"0": set(tree.workers()[:2]), "1": set(tree.workers()[2:])}
        # Inside one replica the same difference is an error.
        odd = tree.worker(3)
        tree.tell(odd, c_setenv("NCCL_PROTO", "LL"))
        run = cli.judge("--pid", str(tree.root))
        critical = ("peers-differ-critical", "error", "NCCL_PROTO", frozenset({odd}))
        aside = ("c-and-python-disagree", "warning", "NCCL_PROTO", frozenset({odd}))
        assert (run.code, told(run, tree)) == (1, {critical, aside})


def test_two_servers_under_one_shell_are_not_compared() -> None:
    script = 'exec 3<&0; NCCL_PROTO=LL "$@" <&3 & NCCL_PROTO=Simple "$@" <&3 & wait'
    root = Action(wrapper=["/bin/sh", "-c", script, "sh"])
    with TitledTree(
        workers=2, actions={"root": root}, names=["NCCL_PROTO", "NCCL_ALGO"], roots=2
    ) as tree:
        servers: dict[str | None, set[int]] = {}
        for pid, one in tree.reports.items():
            if one.key.startswith("root.w"):
                servers.setdefault(one.libc["NCCL_PROTO"], set()).add(pid)
        run = cli.judge("--pid", str(tree.root))
        assert (run.code, told(run, tree)) == (0, set())
        launches = [set(one["workers"]) for one in run.scan["launches"]]
        assert sorted(launches, key=min) == sorted((servers["LL"], servers["Simple"]), key=min)
        for value, pids in servers.items():
            assert [run.text(pid, "NCCL_PROTO") for pid in pids] == [value] * 2
        odd = max(servers["LL"])
        tree.tell(odd, c_setenv("NCCL_ALGO", "Ring"))
        run = cli.judge("--pid", str(tree.root))
        aside = ("c-and-python-disagree", "warning", "NCCL_ALGO", frozenset({odd}))
        (found,) = told(run, tree) - {aside}
        assert run.code == 1
        assert found[:3] == ("peers-differ-critical", "error", "NCCL_ALGO")
        assert found[3] < servers["LL"]
