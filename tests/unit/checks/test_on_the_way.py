"""Variables that were lost or altered on the way, and what known code explains."""

from __future__ import annotations

import dataclasses

from envprobe.checks.finding import Severity
from envprobe.model import Confidence, EdgeKind, Role, View
from tests.unit.checks.scene import (
    ROOT,
    SERVER,
    Scene,
    evidence,
    of,
    one,
    refused,
    scheduler,
    sglang,
    slugs,
    text,
    view_of,
    wiped,
    worker,
)


def wrapped(shell: dict[str, str], server: dict[str, str]) -> Scene:
    """A shell script that starts a server of two schedulers."""
    scene = Scene().add(ROOT, role=Role("shell"), comm="sh", title=("sh", "run.sh"), exec=shell)
    scene.change(ROOT, interpreter=None, exe="/bin/dash")
    scene.add(200, ROOT, exec=server, kind=EdgeKind.EXEC, title=SERVER)
    for rank in range(2):
        scene.add(110 + rank, 200, role=scheduler(rank), exec=server)
    return scene


def test_a_variable_that_the_whole_server_lost() -> None:
    finding = one(wrapped({"NCCL_ALGO": "Ring"}, {}).run(), "lost-on-the-way")
    assert (finding.severity, finding.pids, finding.variable) == (
        Severity.WARNING,
        (110, 111),
        "NCCL_ALGO",
    )
    message = text(finding.message)
    assert "NCCL_ALGO was Ring upstream and is absent" in message
    assert "lost between" in message
    assert message.endswith(
        "the exec view of server (PID 200) (the value is proved; why it was lost is inferred)."
    )
    assert "The causes are told for scheduler TP0 (PID 110); 1 more has the same." in evidence(
        finding
    )
    (first, _) = finding.breaks
    assert all(text(cause.sentence) in evidence(finding) for cause in first.causes)
    assert text(finding.remedy)


def test_a_variable_that_was_changed_for_the_whole_server() -> None:
    result = wrapped({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}).run()
    finding = one(result, "changed-on-the-way")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (110, 111))
    assert "NCCL_ALGO was Ring upstream and is Tree" in text(finding.message)
    assert of(result, "lost-on-the-way") == []


def test_a_variable_that_arrives_or_appears_is_no_finding() -> None:
    assert slugs(wrapped({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Ring"}).run()) == set()
    assert slugs(wrapped({}, {"NCCL_ALGO": "Ring"}).run()) == set()


def test_a_value_that_comes_back_is_no_finding() -> None:
    scene = wrapped({"NCCL_ALGO": "Ring"}, {})
    for rank in range(2):
        scene = worker(scene, 110 + rank, {"NCCL_ALGO": "Ring"}, exec={"NCCL_ALGO": "Ring"})
    assert slugs(scene.run()) == set()


def test_what_the_parent_set_after_it_had_spawned_never_arrived() -> None:
    scene = sglang(2, server={"NCCL_DEBUG": "INFO"}, server_exec={})
    for rank in range(2):
        scene = worker(scene, 110 + rank, {}, exec={})
    finding = one(scene.run(), "lost-on-the-way")
    assert (finding.pids, finding.variable) == ((110, 111), "NCCL_DEBUG")
    assert "the exec view of scheduler TP0 (PID 110) (and 1 more worker)" in text(finding.message)


def test_what_a_worker_removes_itself_is_lost_too() -> None:
    scene = sglang(1, server={"NCCL_DEBUG": "INFO"})
    finding = one(worker(scene, 110, {}).run(), "lost-on-the-way")
    assert "lost in scheduler TP0 (PID 110), between its exec view" in text(finding.message)


def test_a_difference_between_peers_tells_it_instead_with_its_causes() -> None:
    """The shell lost it for all, and one worker set it again: one variable, one finding."""
    scene = wrapped({"NCCL_DEBUG": "INFO"}, {})
    scene = worker(scene, 111, {"NCCL_DEBUG": "TRACE"}, exec={})
    result = scene.run()
    finding = one(result, "peers-differ")
    assert slugs(result) == {"peers-differ"}
    told = evidence(finding)
    assert "scheduler TP1 (PID 111) changed it after the start" in told
    assert "The causes are told for scheduler TP0 (PID 110); 1 more has the same." in told
    (lost,) = scene.context().routing.routes[110, "NCCL_DEBUG"].breaks
    assert all(text(cause.sentence) in told for cause in lost.causes)
    sentences = [text(sentence) for sentence in finding.evidence]
    assert len([one for one in sentences if one.startswith("Lost between")]) == 1
    # Where that finding is ignored, the loss is told on its own.
    ignored = scene.run(ignore={"peers-differ": "known"})
    assert "lost-on-the-way" in slugs(ignored)


def test_masked_values_that_look_alike_are_said_to_differ() -> None:
    before, after = "hf_aaaaaaaaaaaaaaaaaaaa", "hf_bbbbbbbbbbbbbbbbbbbb"
    finding = one(wrapped({"HF_TOKEN": before}, {"HF_TOKEN": after}).run(), "changed-on-the-way")
    assert " upstream and is another value, hf_b" in text(finding.message)


def test_a_broken_expectation_tells_it_instead() -> None:
    assert slugs(wrapped({"NCCL_ALGO": "Ring"}, {}).run("NCCL_ALGO=Ring")) == {"env-missing"}
    # An expectation that the loss satisfies says nothing of it.
    assert slugs(wrapped({"NCCL_ALGO": "Ring"}, {}).run("!NCCL_ALGO")) == {"lost-on-the-way"}


def test_what_was_not_read_at_the_end_is_not_lost() -> None:
    scene = wrapped({"NCCL_ALGO": "Ring"}, {})
    for rank in range(2):
        scene = view_of(scene, 110 + rank, refused(View.LIBC))
    assert slugs(scene.run()) == {"worker-unreadable"}


def test_what_each_rank_is_given_on_purpose_is_not_altered() -> None:
    scene = wrapped({"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "0,1"})
    for rank in range(2):
        given = {"CUDA_VISIBLE_DEVICES": str(rank)}
        scene = worker(scene, 110 + rank, given, exec=given)
    finding = one(scene.run(), "framework-wrote")
    assert finding.pids == (110, 111)
    assert "from 0,1 to 0 or 1 on the way" in text(finding.message)
    assert slugs(scene.run()) == {"framework-wrote"}


def test_what_belongs_to_a_host_is_missed_where_it_is_lost() -> None:
    result = wrapped({"NCCL_SOCKET_IFNAME": "eth0"}, {}).run()
    assert one(result, "lost-on-the-way").variable == "NCCL_SOCKET_IFNAME"


def test_what_known_code_set_after_it_had_spawned_was_never_on_its_way() -> None:
    scene = sglang(2, server={"TOKENIZERS_PARALLELISM": "false"}, server_exec={})
    for rank in range(2):
        scene = worker(scene, 110 + rank, {}, exec={})
    assert slugs(scene.run()) == set()
    # The same loss of a value that the user had set is told.
    scene = sglang(2, server={"TOKENIZERS_PARALLELISM": "true"})
    for rank in range(2):
        scene = worker(scene, 110 + rank, {}, exec={})
    assert slugs(scene.run()) == {"lost-on-the-way"}


# --- framework-wrote -----------------------------------------------------------------------------


def test_what_known_code_writes_is_info_and_names_the_writer() -> None:
    scene = sglang(
        2,
        server={"CUDA_DEVICE_MAX_CONNECTIONS": "8"},
        server_exec={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    )
    result = scene.run()
    finding = one(result, "framework-wrote")
    assert (finding.severity, finding.pids) == (Severity.INFO, (110, 111))
    assert "CUDA_DEVICE_MAX_CONNECTIONS went from 1 to 8" in text(finding.message)
    (first, _) = finding.breaks
    assert first.writer
    assert first.writer in text(finding.message)
    assert slugs(result) == {"framework-wrote"}


def test_what_known_code_sets_where_nothing_was_is_one_info() -> None:
    scene = sglang(2, server={"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}, server_exec={})
    finding = one(scene.run(), "framework-wrote")
    assert (finding.severity, finding.pids, finding.variable) == (Severity.INFO, (110, 111), "")
    assert "Known code set 2 variables" in text(finding.message)
    assert "NCCL_CUMEM_ENABLE and NCCL_NVLS_ENABLE" in text(finding.message)
    assert evidence(finding).startswith("NCCL_CUMEM_ENABLE is 0: sglang sets")
    assert len(finding.breaks) == 4
    assert finding.confidence is Confidence.PROVED
    alone = sglang(1, server={"NCCL_CUMEM_ENABLE": "0"}, server_exec={})
    assert one(alone.run(), "framework-wrote").variable == "NCCL_CUMEM_ENABLE"


def test_what_known_code_sets_at_another_place_is_another_info() -> None:
    scene = sglang(2, server={"NCCL_CUMEM_ENABLE": "0"}, server_exec={})
    given = {"NCCL_CUMEM_ENABLE": "0", "FLASHINFER_CUDA_ARCH_LIST": "12.0f"}
    scene = worker(scene, 111, given)
    found = of(scene.run(), "framework-wrote")
    assert [(finding.variable, finding.pids) for finding in found] == [
        ("FLASHINFER_CUDA_ARCH_LIST", (111,)),
        ("NCCL_CUMEM_ENABLE", (110, 111)),
    ]


def test_what_two_programs_on_the_way_set_is_two_infos() -> None:
    outer = {"NCCL_CUMEM_ENABLE": "0"}
    both = {**outer, "NCCL_NVLS_ENABLE": "0"}
    scene = Scene().add(ROOT, exec={}, libc=outer, title=SERVER)
    scene.add(200, ROOT, exec=outer, libc=both, title=SERVER)
    scene.add(110, 200, role=scheduler(0), exec=both)
    assert [finding.variable for finding in of(scene.run(), "framework-wrote")] == [
        "NCCL_CUMEM_ENABLE",
        "NCCL_NVLS_ENABLE",
    ]


def test_what_was_written_where_no_exec_view_tells_is_inferred() -> None:
    scene = view_of(sglang(1), 110, wiped())
    scene = worker(scene, 110, {"FLASHINFER_CUDA_ARCH_LIST": "12.0f"})
    assert one(scene.run(), "framework-wrote").confidence is Confidence.INFERRED


def test_another_value_than_known_code_writes_is_not_explained() -> None:
    scene = sglang(
        2,
        server={"CUDA_DEVICE_MAX_CONNECTIONS": "3"},
        server_exec={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    )
    assert slugs(scene.run()) == {"changed-on-the-way"}


def test_known_code_of_another_framework_explains_nothing() -> None:
    scene = sglang(
        2,
        server={"CUDA_DEVICE_MAX_CONNECTIONS": "8"},
        server_exec={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    )
    for pid, process in list(scene.processes.items()):
        scene.change(pid, role=dataclasses.replace(process.role, framework="vllm"))
    assert "framework-wrote" not in slugs(scene.run())


def test_an_expectation_that_the_written_value_satisfies_leaves_it_info() -> None:
    scene = sglang(
        2,
        server={"CUDA_DEVICE_MAX_CONNECTIONS": "8"},
        server_exec={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    )
    assert slugs(scene.run("CUDA_DEVICE_MAX_CONNECTIONS=8")) == {"framework-wrote"}
