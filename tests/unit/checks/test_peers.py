"""The checks that compare workers with each other, with no expectation given."""

from __future__ import annotations

import pytest

from envprobe.checks.finding import Severity
from envprobe.model import Confidence, EdgeKind, Environment, EnvironmentStatus, Role, View
from envprobe.routes.variables import rank_critical
from tests.unit.checks.scene import (
    BASE,
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
    wiped,
    worker,
)

QUIET = ("block-wiped", "framework-wrote", "lost-on-the-way", "changed-on-the-way")
CRITICAL = (
    "NCCL_PROTO",
    "NCCL_ALGO",
    "NCCL_NTHREADS",
    "NCCL_BUFFSIZE",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_P2P_DISABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_SHM_DISABLE",
)


def without(name: str, value: str, size: int = 4) -> Scene:
    """A server whose last scheduler was started without the variable."""
    return worker(sglang(size, server={name: value}), 110 + size - 1, {}, exec={})


def test_equal_workers_give_nothing() -> None:
    assert (
        slugs(sglang(4, server={"NCCL_PROTO": "Simple", "NCCL_BUFFSIZE": "8388608"}).run()) == set()
    )


@pytest.mark.parametrize("name", CRITICAL)
def test_a_rank_that_differs_in_a_critical_variable_is_an_error(name: str) -> None:
    finding = one(without(name, "17").run(), "peers-differ-critical")
    assert (finding.severity, finding.pids, finding.variable) == (Severity.ERROR, (113,), name)
    assert finding.confidence is Confidence.PROVED
    assert not finding.undetermined
    message = text(finding.message)
    assert f"{name} differs inside one peer group (scheduler of server (PID 100))" in message
    assert "17 in scheduler TP0 (PID 110), scheduler TP1 (PID 111) and scheduler TP2" in message
    assert "absent in scheduler TP3 (PID 113)" in message
    told = evidence(finding)
    assert rank_critical(name) in told
    assert "had at the exec was not read" not in told
    assert "Not known in" not in told
    assert "changed it after the start" not in told
    assert "Absent means" not in told
    assert "Lost between the libc view of server (PID 100)" in told
    assert text(finding.remedy)


def test_a_difference_is_told_once_not_again_as_lost_on_the_way() -> None:
    assert slugs(without("NCCL_PROTO", "Simple").run()) == {"peers-differ-critical"}


def test_a_wiped_block_does_not_hide_a_critical_difference() -> None:
    scene = sglang(2, server={"NCCL_BUFFSIZE": "8388608"}, wipe=True)
    finding = one(worker(scene, 111, {}).run(), "peers-differ-critical")
    assert finding.pids == (111,)
    assert finding.confidence is Confidence.INFERRED


def test_a_stand_in_for_a_wiped_block_is_no_proof_that_the_value_changed_later() -> None:
    scene = sglang(2, server={"NCCL_BUFFSIZE": "8388608"}, wipe=True)
    scene = worker(scene, 111, {})
    stand_in = scene.processes[101].environment(View.EXEC)
    inferred = Environment(
        View.EXEC,
        EnvironmentStatus.COMPLETE,
        stand_in.entries,
        source="resource tracker (PID 101)",
        confidence=Confidence.INFERRED,
        own=scene.processes[111].environment(View.EXEC),
    )
    scene = view_of(view_of(scene, 110, inferred), 111, inferred)
    assert one(scene.run(), "peers-differ-critical").pids == (111,)


def test_a_value_that_differs_only_now_is_a_warning() -> None:
    scene = sglang(2, server={"NCCL_PROTO": "Simple"})
    finding = one(worker(scene, 111, {}).run(), "peers-differ")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (111,))
    assert "scheduler TP1 (PID 111) changed it after the start" in evidence(finding)
    assert "hangs without any message" in evidence(finding)
    assert of(worker(scene, 111, {}).run(), "peers-differ-critical") == []


def test_two_that_differ_since_their_start_stay_critical_beside_one_that_changed() -> None:
    scene = without("NCCL_PROTO", "Simple", size=3)
    scene = worker(scene, 111, {"NCCL_PROTO": "LL"})
    assert one(scene.run(), "peers-differ-critical").severity is Severity.ERROR


def test_another_variable_that_differs_is_a_warning() -> None:
    finding = one(without("CUDA_MODULE_LOADING", "LAZY").run(), "peers-differ")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (113,))
    assert "When ranks differ" not in evidence(finding)


@pytest.mark.parametrize(
    ("size", "ends"), [(4, "v3 in scheduler TP3 (PID 113)."), (6, "; 2 other values.")]
)
def test_of_many_different_values_four_are_named(size: int, ends: str) -> None:
    scene = sglang(size)
    for rank in range(size):
        given = {"CUDA_MODULE_LOADING": f"v{rank}"}
        scene = worker(scene, 110 + rank, given, exec=given)
    message = text(one(scene.run(), "peers-differ").message)
    assert "v0 in scheduler TP0 (PID 110); v1 in scheduler TP1" in message
    assert message.endswith(ends)


def test_several_that_lost_it_at_one_place_are_told_by_the_first() -> None:
    scene = worker(
        worker(sglang(5, server={"NCCL_PROTO": "LL"}), 113, {}, exec={}), 114, {}, exec={}
    )
    told = evidence(one(scene.run(), "peers-differ-critical"))
    assert "the exec view of scheduler TP3 (PID 113) (and 1 more worker)" in told
    assert "The causes are told for scheduler TP3 (PID 113); 1 more has the same." in told


@pytest.mark.parametrize(
    "name",
    [
        "RANK",
        "LOCAL_RANK",
        "CUDA_VISIBLE_DEVICES",
        "MASTER_PORT",
        "NCCL_SOCKET_IFNAME",
        "NCCL_IB_HCA",
    ],
)
def test_what_differs_by_design_is_no_finding(name: str) -> None:
    scene = sglang(2)
    for rank in range(2):
        scene = worker(scene, 110 + rank, {name: str(rank)}, exec={name: str(rank)})
    assert slugs(scene.run(), "framework-wrote") == set()


@pytest.mark.parametrize(
    ("name", "value"), [("NCCL_P2P_DISABLE", "0"), ("NCCL_BUFFSIZE", "4194304")]
)
def test_absent_against_the_default_is_a_warning(name: str, value: str) -> None:
    result = without(name, value).run()
    finding = one(result, "peers-differ-default")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (113,))
    assert f"Absent means the default, {value}" in evidence(finding)
    assert "When ranks differ" not in evidence(finding)
    assert slugs(result) == {"peers-differ-default"}


def test_absent_the_default_and_another_value_are_an_error() -> None:
    scene = without("NCCL_P2P_DISABLE", "0", size=3)
    scene = worker(scene, 111, {"NCCL_P2P_DISABLE": "1"}, exec={"NCCL_P2P_DISABLE": "1"})
    result = scene.run()
    assert one(result, "peers-differ-critical").variable == "NCCL_P2P_DISABLE"
    assert of(result, "peers-differ-default") == []


def test_a_worker_that_cannot_be_read_is_never_taken_for_one_that_lacks_the_variable() -> None:
    scene = view_of(sglang(3, server={"NCCL_PROTO": "Simple"}), 112, refused(View.LIBC))
    assert slugs(scene.run()) == {"worker-unreadable"}
    scene = view_of(sglang(3, server={}), 112, refused(View.LIBC))
    assert slugs(scene.run()) == {"worker-unreadable"}


def test_a_changing_worker_takes_no_part() -> None:
    changing = Environment(View.LIBC, EnvironmentStatus.CHANGING, reason="it changed")
    scene = view_of(sglang(2, server={"NCCL_PROTO": "Simple"}), 111, changing)
    assert slugs(scene.run()) == {"worker-unreadable"}


def test_what_the_others_show_is_found_although_one_cannot_be_read() -> None:
    scene = view_of(without("NCCL_PROTO", "Simple"), 110, refused(View.LIBC))
    finding = one(scene.run(), "peers-differ-critical")
    assert finding.pids == (113,)
    assert "Not known in scheduler TP0 (PID 110)" in evidence(finding)


def test_a_partly_read_worker_that_shows_no_value_takes_no_part() -> None:
    partial = libc_view(BASE, status=EnvironmentStatus.PARTIAL, reason="too long")
    scene = view_of(sglang(2, server={"NCCL_PROTO": "Simple"}), 111, partial)
    assert slugs(scene.run()) == {"worker-unreadable"}


def test_two_replicas_that_differ_are_no_finding() -> None:
    scene = Scene().add(ROOT)
    for dp in range(2):
        given = {"NCCL_PROTO": f"v{dp}"}
        for tp in range(2):
            scene.add(110 + 2 * dp + tp, ROOT, role=scheduler(tp, dp=dp), exec=given)
    assert of(scene.run(), "peers-differ-critical") == []
    # With attention data parallelism the same four share one communicator.
    scene.change(ROOT, title=(*SERVER, "--enable-dp-attention"))
    assert one(scene.run(), "peers-differ-critical").variable == "NCCL_PROTO"


def test_two_servers_that_differ_are_no_finding() -> None:
    scene = Scene().add(ROOT, role=Role("shell"))
    for server in (200, 300):
        given = {"NCCL_PROTO": f"v{server}"}
        scene.add(server, ROOT, exec=given, role=Role("server", "sglang"))
        scene.add(server + 1, server, role=scheduler(0), exec=given)
        scene.add(server + 2, server, role=scheduler(1), exec=given)
    assert of(scene.run(), "peers-differ-critical") == []
    worker(scene, 302, {}, exec={})
    assert one(scene.run(), "peers-differ-critical").pids == (302,)


def test_a_helper_that_differs_is_no_finding() -> None:
    scene = sglang(2, server={"NCCL_PROTO": "Simple"})
    scene.add(120, ROOT, role=Role("detokenizer", "sglang"), exec={})
    assert slugs(scene.run()) == set()


def test_what_known_code_writes_into_single_workers_is_explained() -> None:
    scene = worker(sglang(2), 111, {"FLASHINFER_CUDA_ARCH_LIST": "12.0f"})
    result = scene.run()
    assert of(result, "peers-differ") == []
    assert one(result, "framework-wrote").severity is Severity.INFO


def test_what_known_code_wrote_into_the_first_of_two_is_explained_too() -> None:
    scene = worker(sglang(2), 110, {"FLASHINFER_CUDA_ARCH_LIST": "12.0f"})
    assert slugs(scene.run()) == {"framework-wrote"}


def test_two_states_that_no_known_code_wrote_are_not_explained_by_a_third_that_it_did() -> None:
    scene = worker(sglang(3), 110, {"FLASHINFER_CUDA_ARCH_LIST": "12.0f"})
    scene = worker(
        scene, 111, {"FLASHINFER_CUDA_ARCH_LIST": ""}, exec={"FLASHINFER_CUDA_ARCH_LIST": ""}
    )
    assert one(scene.run(), "peers-differ").variable == "FLASHINFER_CUDA_ARCH_LIST"


def test_of_two_equally_frequent_states_the_absent_one_deviates() -> None:
    given = {"NCCL_PROTO": "Simple"}
    scene = worker(sglang(2, server=given), 110, {}, exec={})
    assert one(scene.run(), "peers-differ-critical").pids == (110,)


def test_a_critical_difference_stays_an_error_though_known_code_wrote_it() -> None:
    scene = worker(
        sglang(2, server={"NCCL_CUMEM_ENABLE": "0"}),
        111,
        {"NCCL_CUMEM_ENABLE": "1"},
        exec={"NCCL_CUMEM_ENABLE": "1"},
    )
    assert one(scene.run(), "peers-differ-critical").variable == "NCCL_CUMEM_ENABLE"


def test_a_difference_that_an_expectation_tells_is_not_told_again_as_a_warning() -> None:
    scene = without("CUDA_MODULE_LOADING", "LAZY")
    assert slugs(scene.run("CUDA_MODULE_LOADING=LAZY")) == {"env-missing"}
    # What happens when ranks of one job disagree is told there too.
    scene = without("NCCL_PROTO", "Simple")
    result = scene.run("NCCL_PROTO=Simple")
    assert slugs(result) == {"env-missing"}
    assert evidence(one(result, "env-missing")).count(rank_critical("NCCL_PROTO")) == 1
    whole = sglang(2).run("NCCL_PROTO=Simple")
    assert "When ranks differ" not in evidence(one(whole, "env-missing"))


def test_an_expectation_that_tells_of_some_or_is_ignored_hides_no_difference() -> None:
    three = worker(without("NCCL_PROTO", "Simple"), 112, {}, exec={"NCCL_PROTO": "LL"})
    three = worker(three, 112, {"NCCL_PROTO": "LL"}, exec={"NCCL_PROTO": "LL"})
    assert "peers-differ-critical" in slugs(three.run("!NCCL_IB_DISABLE"))
    assert "peers-differ-critical" not in slugs(three.run("NCCL_PROTO=Simple"))
    ignored = without("NCCL_PROTO", "Simple").run(
        "NCCL_PROTO=Simple", ignore={"env-missing": "known"}
    )
    assert slugs(ignored) == {"peers-differ-critical"}


def test_strict_makes_a_difference_of_now_undetermined() -> None:
    scene = worker(sglang(2, server={"NCCL_PROTO": "Simple"}), 111, {})
    assert not one(scene.run(), "peers-differ").undetermined
    finding = one(scene.run(strict=True), "peers-differ")
    assert (finding.undetermined, finding.pids) == (True, (111,))
    assert "With --strict this counts as undetermined" in evidence(finding)
    other = without("CUDA_MODULE_LOADING", "LAZY")
    assert not one(other.run(strict=True), "peers-differ").undetermined


@pytest.mark.parametrize("kind", [EdgeKind.FORK, EdgeKind.FORKSERVER])
def test_a_fork_child_that_differs_from_its_image_differs_only_now(kind: EdgeKind) -> None:
    given = {"NCCL_PROTO": "Simple"}
    scene = Scene().add(ROOT, exec=given, title=SERVER)
    for rank, now in enumerate((given, {})):
        fields = {"kind": kind, "image_owner": ROOT}
        scene.add(110 + rank, ROOT, role=scheduler(rank), exec=given, libc=now, **fields)
    finding = one(scene.run(), "peers-differ")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (111,))
    assert "at their exec: it was changed after the start" in evidence(finding)
    assert one(scene.run(strict=True), "peers-differ").undetermined
    # The owner's block gone, the child's own copy still tells; both gone, nothing does.
    scene = view_of(scene, ROOT, wiped())
    assert one(scene.run(), "peers-differ").pids == (111,)
    scene = view_of(view_of(scene, 110, wiped()), 111, wiped())
    finding = one(scene.run(), "peers-differ-critical")
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.INFERRED)
    assert "had at the exec was not read" in evidence(finding)


def test_a_name_that_nobody_asked_for_is_not_compared() -> None:
    scene = without("SOME_TOKEN_OF_MINE", "x")
    assert slugs(scene.run()) == set()
