"""Nodes of one job compared: which differ, on which node it is told, and what cannot be told."""

from __future__ import annotations

import pytest

from envprobe.checks.finding import Severity
from envprobe.factsfile import MaskedValue
from envprobe.model import Confidence, View
from envprobe.ncclfacts import Membership
from envprobe.values import Value
from tests.unit.checks import nccls, nodes
from tests.unit.checks.scene import (
    ROOT,
    SERVER,
    Scene,
    evidence,
    libc_view,
    of,
    one,
    refused,
    scheduler,
    sglang,
    slugs,
    text,
    view_of,
    worker,
)

RING = {"NCCL_ALGO": "Ring"}
TREE = {"NCCL_ALGO": "Tree"}
DIFFER = ("peers-differ-critical", "peers-differ", "peers-differ-default")


def logged(scene: Scene, *communicators: str, **fields: object) -> Scene:
    """Give each worker a log that shows these communicators."""
    members = tuple(Membership(one, 0, 4) for one in communicators)
    count = sum(process.role.worker for process in scene.processes.values())
    return nccls.put(scene, *(nccls.log(members=members, **fields) for _ in range(count)))


def two_servers(first: dict[str, str], second: dict[str, str]) -> Scene:
    """A node with two servers of one worker each: PIDs 110 and 210."""
    scene = sglang(1, server=first)
    scene.add(200, None, exec=second)
    scene.change(200, title=SERVER, role=scene.processes[ROOT].role)
    return scene.add(210, 200, role=scheduler(0), exec=second)


def test_equal_nodes_give_nothing() -> None:
    for result in nodes.run(*(sglang(2, server=RING) for _ in range(3))):
        assert result.findings == ()


def test_one_node_alone_is_as_it_was() -> None:
    (result,) = nodes.run(sglang(2, server=RING))
    assert result.findings == ()


def test_the_node_that_deviates_is_named_with_those_that_it_deviates_from() -> None:
    results = nodes.run(sglang(2, server=RING), sglang(2, server=TREE), sglang(2, server=RING))
    assert [slugs(result) for result in results] == [set(), {"peers-differ-critical"}, set()]
    finding = one(results[1], "peers-differ-critical")
    assert (finding.severity, finding.pids) == (Severity.ERROR, (110, 111))
    assert (finding.variable, finding.confidence) == ("NCCL_ALGO", Confidence.INFERRED)
    said = text(finding.message)
    assert said.startswith("NCCL_ALGO differs between n1 and other nodes (scheduler of server")
    assert "Ring in 2 workers on n0 and 2 workers on n2; Tree in " in said
    assert "on every node" in text(finding.remedy)
    assert "given as those of one job" in evidence(finding)


def test_of_two_equal_halves_the_absent_one_is_looked_into() -> None:
    for order in (1, -1):
        scenes = (sglang(2), sglang(2, server=RING))[::order]
        results = nodes.run(*scenes)[::order]
        assert [slugs(result) for result in results] == [{"peers-differ-critical"}, set()]
        assert "; absent in " in text(one(results[0], "peers-differ-critical").message)


def test_the_larger_part_of_the_job_is_right() -> None:
    results = nodes.run(sglang(2, server=RING), sglang(4, server=TREE))
    assert one(results[0], "peers-differ-critical").pids == (110, 111)
    assert slugs(results[1]) == set()


def test_a_default_that_is_set_on_one_node_only() -> None:
    results = nodes.run(sglang(2, server={"NCCL_P2P_DISABLE": "0"}), sglang(2))
    assert (slugs(results[0]), slugs(results[1])) == (set(), {"peers-differ-default"})


def test_a_variable_in_which_ranks_need_not_agree() -> None:
    results = nodes.run(sglang(2, server={"NCCL_DEBUG": "INFO"}), sglang(2))
    assert one(results[1], "peers-differ").severity is Severity.WARNING


@pytest.mark.parametrize("name", ["NCCL_SOCKET_IFNAME", "SGLANG_HOST_IP", "SLURM_NODEID"])
def test_what_differs_between_hosts_by_design_is_left_out(name: str) -> None:
    for result in nodes.run(sglang(2, server={name: "a"}), sglang(2, server={name: "b"})):
        assert slugs(result) == set()


def test_who_deviates_inside_a_node_is_that_nodes_own_difference() -> None:
    inner = worker(sglang(3, server=RING), 112, TREE, exec=TREE)
    results = nodes.run(inner, sglang(3, server=RING))
    finding = one(results[0], "peers-differ-critical")
    assert finding.pids == (112,)
    assert "inside one peer group" in text(finding.message)
    assert slugs(results[1]) == set()


def test_what_an_expectation_tells_is_not_told_twice() -> None:
    results = nodes.run(sglang(2, server=RING), sglang(2, server=TREE), expect=("NCCL_ALGO=Ring",))
    assert slugs(results[0]) == set()
    assert slugs(results[1]) == {"env-wrong-value"}


def test_a_value_that_was_not_read_is_no_absent_one() -> None:
    unread = view_of(sglang(1, server=RING), 110, refused(View.LIBC))
    results = nodes.run(sglang(1, server=RING), unread)
    assert not any(of(result, slug) for result in results for slug in DIFFER)
    assert one(results[1], "worker-unreadable").pids == (110,)


def masked(length: int, salt: bytes) -> Scene:
    view = libc_view({})
    view.entries["NCCL_DEBUG"] = MaskedValue(length, salt.hex(), salt)
    return view_of(sglang(1), 110, view)


def test_values_masked_in_two_files_are_told_apart_by_their_length_only() -> None:
    for first, second, found in ((9, 9, set()), (9, 8, {"peers-differ"})):
        results = nodes.run(masked(first, b"a"), masked(second, b"b"))
        differ = {slug for result in results for slug in DIFFER if of(result, slug)}
        assert differ == found


def test_a_long_value_is_compared_by_its_digest() -> None:
    cut = Value(b"x", length=9, digest="0" * 64)
    view = libc_view({})
    view.entries["NCCL_DEBUG"] = cut
    scenes = (view_of(sglang(1), 110, view), sglang(1, server={"NCCL_DEBUG": "xxxxxxxxx"}))
    assert any(of(result, "peers-differ") for result in nodes.run(*scenes))


# --- which workers belong together ---------------------------------------------------------------


def test_a_communicator_of_both_nodes_proves_it() -> None:
    results = nodes.run(
        logged(sglang(1, server=RING), "0xa", "0xjob"),
        logged(sglang(1, server=TREE), "0xb", "0xjob"),
    )
    finding = one(results[1], "peers-differ-critical")
    assert finding.confidence is Confidence.PROVED
    assert "the communicator 0xjob has ranks on both" in evidence(finding)


def test_a_communicator_tells_which_of_several_servers_it_is() -> None:
    there = two_servers(TREE, RING)
    for pid, communicator in ((110, "0xother"), (210, "0xjob")):
        there.change(pid, nccl=nccls.log(members=(Membership(communicator, 1, 2),)))
    results = nodes.run(logged(sglang(1, server=RING), "0xjob"), there)
    assert not any(of(result, slug) for result in results for slug in DIFFER)
    assert not any(of(result, "node-not-joined") for result in results)


def test_several_servers_without_a_log_cannot_be_told_apart() -> None:
    results = nodes.run(sglang(1, server=RING), two_servers(TREE, RING))
    for result, node, other in ((results[0], "n0", "n1"), (results[1], "n1", "n0")):
        finding = one(result, "node-not-joined")
        assert finding.undetermined
        assert text(finding.message) == (
            f"No worker of {node} could be compared with one of {other}."
        )
    assert one(results[1], "node-not-joined").pids == (110, 210)
    assert not any(of(result, slug) for result in results for slug in DIFFER)


def test_logs_that_name_every_communicator_and_none_of_both() -> None:
    scenes = (logged(sglang(1, server=RING), "0xa"), logged(sglang(1, server=TREE), "0xb"))
    results = nodes.run(*scenes)
    assert [bool(of(result, "node-not-joined")) for result in results] == [True, True]
    assert not any(of(result, slug) for result in results for slug in DIFFER)


def test_a_damaged_log_does_not_prove_that_they_are_apart() -> None:
    results = nodes.run(
        logged(sglang(1, server=RING), "0xa", damaged=True),
        logged(sglang(1, server=TREE), "0xb"),
    )
    assert one(results[1], "peers-differ-critical").confidence is Confidence.INFERRED


def test_replicas_are_compared_with_the_same_replica() -> None:
    def node(first: dict[str, str], second: dict[str, str]) -> Scene:
        scene = sglang(0)
        scene.add(110, ROOT, role=scheduler(0, dp=0), exec=first)
        return scene.add(111, ROOT, role=scheduler(0, dp=1), exec=second)

    results = nodes.run(node(RING, TREE), node(RING, RING))
    differ = [(found.pids, found.variable) for found in of(results[0], "peers-differ-critical")]
    differ += [(found.pids, found.variable) for found in of(results[1], "peers-differ-critical")]
    # Of two equal halves that of the node whose name is later is looked into.
    assert differ == [((111,), "NCCL_ALGO")]
    assert of(results[1], "peers-differ-critical")


def test_nodes_of_one_name_are_told_apart_by_their_boot() -> None:
    scenes = (sglang(1, server=RING), sglang(1, server=TREE))
    for scene in scenes:
        scene.fields["host"] = "vm"
    said = text(one(nodes.run(*scenes)[1], "peers-differ-critical").message)
    assert "differs between vm (boot boot1-01) and other nodes" in said
    assert "1 worker on vm (boot boot0-01)" in said
