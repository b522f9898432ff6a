"""Roles, by title alone and by the tree around it."""

from __future__ import annotations

import dataclasses
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envprobe.model import Role
from envprobe.process.roles import Roles
from envprobe.process.roletable import row_of, rows
from envprobe.process.tree import Listing, Member

PYTHON = "/usr/bin/python3.11"
SPAWN = (
    "python3",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=9)",
    "--multiprocessing-fork",
)
TRACKER = ("python3", "-c", "from multiprocessing.resource_tracker import main;main(6)")
FORKSERVER = ("python3", "-c", "from multiprocessing.forkserver import main; main(4, 6, ['a'])")
SERVER = ("python3", "-m", "sglang.launch_server", "--tp", "2")
VLLM = ("/venv/bin/python", "/venv/bin/vllm", "serve", "m")
PLAIN = ("python3", "train.py")

_ticks = count(1)


def member(
    pid: int,
    ppid: int,
    title: tuple[str, ...] | str = (),
    *,
    forked: bool | None = False,
    random: str | None = None,
    comm: str = "python3",
    exe: str | None = PYTHON,
    run_id: str = "",
) -> Member:
    words = (title,) if isinstance(title, str) else title
    return Member(
        pid,
        ppid,
        next(_ticks),
        "S",
        comm,
        words,
        exe,
        forked,
        f"{pid:032x}" if random is None else random,
        run_id=run_id,
    )


def fork(pid: int, parent: Member, title: tuple[str, ...] | str | None = None) -> Member:
    words = parent.title if title is None else title
    return member(pid, parent.pid, words, forked=True, random=parent.random)


INIT = member(1, 0, "/sbin/init", comm="systemd", exe="/usr/lib/systemd/systemd")


def roles(*members: Member, roots: tuple[int, ...] = ()) -> Roles:
    return Roles(Listing((INIT, *members)), roots)


def alone(title: tuple[str, ...] | str, **more: str) -> Role:
    one = member(10, 1, title, **more)
    return Roles(Listing([one]))[10]


@pytest.mark.parametrize(
    ("title", "framework", "name", "ranks", "worker"),
    [
        ("sglang::scheduler", "sglang", "scheduler", {}, True),
        ("sglang::scheduler_TP0", "sglang", "scheduler", {"tp": 0}, True),
        (
            "sglang::scheduler_DP1_TP3_EP3",
            "sglang",
            "scheduler",
            {"dp": 1, "tp": 3, "ep": 3},
            True,
        ),
        (
            "sglang::scheduler_DP0_PP1_ATTN_CP2_MOE_DP3_TP12_EP5",
            "sglang",
            "scheduler",
            {"dp": 0, "pp": 1, "attn_cp": 2, "moe_dp": 3, "tp": 12, "ep": 5},
            True,
        ),
        ("sglang::scheduler_EP2_TP1", "sglang", "scheduler", {"ep": 2, "tp": 1}, True),
        ("sglang::detokenizer", "sglang", "detokenizer", {}, False),
        ("sglang::detokenizer_router", "sglang", "detokenizer router", {}, False),
        ("sglang::data_parallel_controller", "sglang", "data parallel controller", {}, False),
        ("sglang::tokenizer_worker:4711", "sglang", "tokenizer worker", {}, False),
        ("sglang::something_new", "sglang", "helper", {}, False),
        ("VLLM::EngineCore", "vllm", "engine core", {}, True),
        ("VLLM::EngineCore_DP1", "vllm", "engine core", {"dp": 1}, True),
        ("VLLM::Worker", "vllm", "worker", {}, True),
        (
            "VLLM::Worker_DP0_PP1_PCP0_TP3_DCP1_EP2",
            "vllm",
            "worker",
            {"dp": 0, "pp": 1, "pcp": 0, "tp": 3, "dcp": 1, "ep": 2},
            True,
        ),
        ("prod-a::Worker_TP0", "vllm", "worker", {"tp": 0}, True),
        ("prod-a::EngineCore", "vllm", "engine core", {}, True),
        ("VLLM::APIServer_1", "vllm", "api server", {}, False),
        ("VLLM::DPCoordinator", "vllm", "coordinator", {}, False),
        ("ray::RayWorkerWrapper", "ray", "actor", {}, True),
        ("ray::Worker", "ray", "actor", {}, True),
        ("ray::Trainer.step", "ray", "actor", {}, True),
        ("ray::IDLE", "ray", "idle worker", {}, False),
        ("ray::IDLE_SpillWorker", "ray", "idle worker", {}, False),
        ("ray::DashboardAgent", "ray", "agent", {}, False),
        ("ray::ServeController", "ray", "serve controller", {}, False),
        ("slurmstepd: [77.0]", "slurm", "launcher", {}, False),
    ],
)
def test_a_title_names_role_and_ranks(
    title: str, framework: str, name: str, ranks: dict[str, int], worker: bool
) -> None:
    role = alone(title)
    assert (role.framework, role.name, role.ranks) == (framework, name, ranks)
    assert role.worker is worker
    assert role.final


@pytest.mark.parametrize(
    ("title", "framework", "name"),
    [
        (SERVER, "sglang", "server"),
        (("/v/bin/python", "/v/bin/sglang", "serve", "--model-path", "m"), "sglang", "server"),
        (("python3.12", "-u", "-m", "sglang.launch_server"), "sglang", "server"),
        (VLLM, "vllm", "server"),
        (("python", "-m", "vllm.entrypoints.openai.api_server"), "vllm", "server"),
        (
            ("/v/bin/python", "/v/bin/torchrun", "--nproc-per-node=8", "t.py"),
            "torchrun",
            "launcher",
        ),
        (("python", "-m", "torch.distributed.run", "t.py"), "torchrun", "launcher"),
        (("/ray/core/src/ray/raylet/raylet", "--x"), "ray", "raylet"),
        (TRACKER, "", "resource tracker"),
        (("llm-run", *TRACKER[1:]), "", "resource tracker"),
        (FORKSERVER, "", "forkserver"),
        (("python", "-m", "torch._inductor.compile_worker.__main__"), "", "compile worker"),
        (("python", "/s/torch/_inductor/compile_worker/__main__.py", "--x"), "", "compile worker"),
        (("/bin/sh", "-c", "python -m sglang.launch_server"), "", "shell"),
        (("-bash",), "", "shell"),
        (("dash", "run.sh"), "", "shell"),
        (("sudo", "python3", "-m", "sglang.launch_server"), "", "wrapper"),
        (
            ("docker", "run", "image", "python3", "-m", "sglang.launch_server"),
            "",
            "container client",
        ),
        (("nsys", "profile", "python3", "-m", "sglang.launch_server"), "", "wrapper"),
        (("/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "-x"), "", "compiler"),
        (PLAIN, "", "python"),
    ],
)
def test_a_command_line_names_the_role(title: tuple[str, ...], framework: str, name: str) -> None:
    role = alone(title, exe="/opt/anything")
    assert (role.framework, role.name, role.worker) == (framework, name, False)


@pytest.mark.parametrize(
    "title",
    [
        ("vim", "sglang::scheduler_TP0"),
        ("grep", "-r", "-m", "sglang.launch_server"),
        ("less", "/venv/bin/vllm serve"),
        ("xsglang::scheduler_TP0",),
        ("sglang::schedulers",),
        ("sglang::scheduler_TP",),
        ("sglang::scheduler_TP0x",),
    ],
)
def test_a_word_in_an_argument_makes_no_worker(title: tuple[str, ...]) -> None:
    assert not alone(title, exe="/bin/x").worker


def test_an_unknown_rank_part_is_kept_and_said() -> None:
    role = alone("sglang::scheduler_TP1_NEW7")
    assert role.ranks == {"tp": 1, "new": 7}
    assert "NEW" in role.evidence


def test_a_process_without_title_is_known_by_its_cut_comm() -> None:
    assert alone((), comm="sglang::schedul").name == "scheduler"
    assert alone((), comm="VLLM::Worker_TP").worker
    assert alone((), comm="sglang::detoken").name == "detokenizer"


def test_the_comm_of_a_titled_process_does_not_count() -> None:
    assert alone(PLAIN, comm="sglang::schedul").name == "python"


def test_every_row_has_a_source_and_can_match() -> None:
    for row in rows():
        assert row.source
        patterns = (row.title, row.program, row.arguments, row.comm)
        assert any(pattern.pattern != "(?!)" for pattern in patterns)


def test_a_sglang_tree() -> None:
    server = member(10, 1, SERVER)
    found = roles(
        server,
        member(11, 10, TRACKER),
        member(12, 10, "sglang::scheduler_TP0"),
        member(13, 10, SPAWN),
        member(14, 12, ("python3", "-m", "torch._inductor.compile_worker")),
    )
    assert found[10].name == "server"
    assert found[11].name == "resource tracker"
    assert found[12].worker
    # It may become the detokenizer.
    assert (found[13].name, found[13].framework) == ("spawn child", "sglang")
    assert (found[13].worker, found[13].final) == (False, False)
    assert not found[14].worker


def test_a_controller_starts_workers_and_so_does_one_without_title_yet() -> None:
    found = roles(
        member(10, 1, SERVER),
        member(11, 10, "sglang::data_parallel_controller"),
        member(12, 11, SPAWN),
        member(13, 10, SPAWN),
        member(14, 13, SPAWN),
    )
    for pid in (12, 13, 14):
        assert (found[pid].name, found[pid].final) == ("spawn child", False)


def test_spawn_children_of_a_plain_launcher_are_workers() -> None:
    found = roles(member(10, 1, PLAIN), member(11, 10, TRACKER), member(12, 10, SPAWN))
    assert (found[10].name, found[11].name) == ("launcher", "resource tracker")
    assert (found[12].name, found[12].worker, found[12].final) == ("worker", True, True)


def test_a_titled_sibling_tells_the_framework_of_a_plain_launcher() -> None:
    found = roles(
        member(10, 1, PLAIN), member(11, 10, "sglang::scheduler_TP0"), member(12, 10, SPAWN)
    )
    assert (found[10].name, found[10].framework) == ("launcher", "sglang")
    assert (found[12].name, found[12].framework, found[12].final) == (
        "spawn child",
        "sglang",
        False,
    )


def test_a_run_id_tells_sglang_before_any_title() -> None:
    found = roles(member(10, 1, PLAIN), member(11, 10, SPAWN, run_id="r1"))
    assert (found[11].name, found[11].framework, found[11].final) == (
        "spawn child",
        "sglang",
        False,
    )


def test_spawn_children_of_a_worker_are_its_helpers() -> None:
    found = roles(
        member(10, 1, PLAIN),
        member(11, 10, SPAWN),
        member(12, 11, SPAWN),
        member(13, 12, ("python3", "tool.py")),
        member(20, 1, SERVER),
        member(21, 20, "sglang::scheduler_TP0"),
        member(22, 21, SPAWN),
        member(23, 20, ("bash", "-c", "x")),
        member(24, 23, ("python3", "x.py")),
        member(25, 24, SPAWN),
    )
    assert (found[12].name, found[12].worker) == ("child of worker", False)
    assert (found[13].name, found[13].worker) == ("child of worker", False)
    assert (found[22].name, found[22].worker) == ("child of scheduler TP0", False)
    assert (found[25].name, found[25].worker) == ("child of server", False)


def test_a_fork_of_a_titled_worker_is_no_second_rank() -> None:
    scheduler = member(11, 10, "sglang::scheduler_TP0")
    child = fork(12, scheduler)
    found = roles(member(10, 1, SERVER), scheduler, child, fork(13, child))
    assert [found[pid].name for pid in (11, 12, 13)] == [
        "scheduler",
        "fork of scheduler TP0",
        "fork of scheduler TP0",
    ]
    assert [found[pid].worker for pid in (11, 12, 13)] == [True, False, False]
    assert found[12].ranks == {}


@pytest.mark.parametrize("forked", [True, None])
def test_a_fork_is_known_by_its_title_where_nothing_else_can_be_read(forked: bool | None) -> None:
    scheduler = member(11, 10, "sglang::scheduler_TP0", random="")
    child = member(12, 11, "sglang::scheduler_TP0", forked=forked, random="")
    found = roles(member(10, 1, SERVER), scheduler, child)
    assert (found[12].name, found[12].worker) == ("fork of scheduler TP0", False)


def test_a_titled_spawn_child_of_its_like_is_a_worker() -> None:
    scheduler = member(11, 10, "sglang::scheduler")
    found = roles(member(10, 1, SERVER), scheduler, member(12, 11, "sglang::scheduler"))
    assert found[12].worker


def test_vllm_by_fork() -> None:
    server = member(10, 1, VLLM)
    core = fork(11, server, "VLLM::EngineCore")
    early = roles(server, fork(11, server))
    assert (early[11].name, early[11].framework) == ("fork of server", "vllm")
    assert (early[11].worker, early[11].final) == (False, False)
    starting = roles(server, core, fork(12, core))
    assert (starting[12].name, starting[12].final) == ("fork of engine core", False)
    assert (starting[11].worker, starting[11].final) == (False, False)
    ready = roles(server, core, fork(12, core, "VLLM::Worker_TP0"))
    assert ready[12].worker
    assert (ready[11].worker, ready[11].final) == (False, True)
    uniproc = roles(server, core)
    assert uniproc[11].worker


def test_plain_fork_workers_with_and_without_a_title() -> None:
    launcher = member(10, 1, PLAIN)
    found = roles(launcher, fork(11, launcher), fork(12, launcher, "myrun rank 1"))
    assert [found[pid].name for pid in (10, 11, 12)] == ["launcher", "worker", "worker"]
    assert found[11].worker
    assert found[12].worker


def test_what_a_launcher_of_a_framework_forks_without_its_title_is_no_rank() -> None:
    launcher = member(10, 1, PLAIN)
    server = member(12, 10, FORKSERVER)
    found = roles(
        launcher,
        member(11, 10, "sglang::scheduler_TP0"),
        server,
        fork(13, launcher),
        fork(14, launcher, "a title of its own"),
        fork(15, server),
        member(16, 10, TRACKER),
        member(17, 10, "spawned, with a title of its own"),
    )
    assert [found[pid].name for pid in (13, 14, 15, 17)] == [
        "fork of launcher",
        "python",
        "forkserver child",
        "python",
    ]
    assert not any(found[pid].worker for pid in (10, 12, 13, 14, 15, 17))


def test_a_retitled_spawn_worker_of_a_plain_launcher() -> None:
    launcher, tracker = member(10, 1, PLAIN), member(11, 10, TRACKER)
    found = roles(launcher, tracker, member(12, 10, "myrun rank 0"))
    assert (found[12].name, found[12].worker) == ("worker", True)
    without = roles(launcher, member(12, 10, "myrun rank 0"))
    assert (without[12].name, without[12].worker) == ("python", False)


def test_forkserver_children() -> None:
    plain, server = member(10, 1, PLAIN), member(11, 10, FORKSERVER)
    found = roles(plain, server, fork(12, server), fork(13, server, "myrun 3"))
    assert [found[pid].name for pid in (11, 12, 13)] == ["forkserver", "worker", "worker"]
    engine, vllm = member(20, 1, VLLM), member(21, 20, FORKSERVER)
    found = roles(engine, vllm, fork(22, vllm), fork(23, vllm, "VLLM::Worker_TP1"))
    assert (found[22].name, found[22].final, found[22].worker) == (
        "forkserver child",
        False,
        False,
    )
    assert found[23].label == "worker TP1"


def test_torchrun_ranks_and_their_forks() -> None:
    launcher = member(10, 1, ("python3", "/v/bin/torchrun", "t.py"))
    rank = member(11, 10, ("python3", "-u", "t.py"))
    loader = fork(12, rank)
    found = roles(
        launcher, rank, loader, member(13, 10, ("nvidia-smi",), exe="/usr/bin/nvidia-smi")
    )
    assert (found[11].name, found[11].framework, found[11].worker) == ("rank", "torchrun", True)
    assert (found[12].name, found[12].worker) == ("fork of rank", False)
    assert not found[13].worker


def test_a_root_is_the_launcher_whatever_started_it() -> None:
    outer = member(10, 1, PLAIN)
    root = member(11, 10, SPAWN)
    worker = member(12, 11, SPAWN)
    assert roles(outer, root, worker)[12].name == "child of worker"
    named = roles(outer, root, worker, roots=(11,))
    assert (named[11].name, named[12].name) == ("launcher", "worker")
    # A root without Python children is what its parent makes of it.
    assert roles(outer, root, roots=(11,))[11].worker


def test_kernel_threads_and_unknown_programs() -> None:
    found = roles(
        dataclasses.replace(member(7, 3, (), comm="sh", exe=None), kernel_thread=True),
        member(8, 1, ("/opt/tool", "-x"), exe="/opt/tool"),
    )
    assert [found[pid].name for pid in (7, 8)] == ["kernel thread", "other"]


def test_number_2_is_any_program_in_a_container() -> None:
    found = roles(member(2, 1, SERVER), member(7, 2, "sglang::scheduler_TP0"))
    assert [found[pid].label for pid in (2, 7)] == ["server", "scheduler TP0"]


def test_a_worker_under_init_is_adopted_and_one_under_its_server_is_not() -> None:
    found = roles(
        member(10, 1, SERVER),
        member(11, 10, "sglang::scheduler_TP0"),
        member(12, 1, "sglang::scheduler_TP1"),
        member(13, 1, SPAWN),
        member(14, 0, "sglang::scheduler_TP2"),
    )
    assert [found.adopted(pid) for pid in (10, 11, 12, 13, 14)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    assert [found.launch_of(pid) for pid in (11, 12)] == [10, None]


def test_the_launch_of_an_engine_in_a_script_is_that_script() -> None:
    found = roles(
        member(9, 1, ("python3", "-m", "pytest")),
        member(10, 9, PLAIN),
        member(11, 10, "sglang::data_parallel_controller"),
        member(12, 11, "sglang::scheduler_DP0"),
    )
    assert found.launch_of(12) == 10


WORDS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(title=st.lists(WORDS, max_size=6), comm=WORDS, exe=st.none() | WORDS)
def test_any_title_gets_a_role_or_none(title: list[str], comm: str, exe: str | None) -> None:
    one = Member(10, 1, 0, "S", comm, tuple(title), exe)
    row = row_of(one)
    role = Roles(Listing([one]))[10]
    assert role.name
    assert row is None or row in rows()


def test_a_huge_title_costs_little() -> None:
    huge = ("sglang::scheduler" + "_TP1" * 100_000, *("x" * 1000 for _ in range(1000)))
    one = Member(10, 1, 0, "S", "python3", huge, PYTHON)
    assert not Roles(Listing([one]))[10].ranks


def test_a_loop_of_parents_ends() -> None:
    one, two = member(10, 11, PLAIN), member(11, 10, PLAIN)
    found = Roles(Listing([one, two]))
    assert (found[10].name, found[11].name) == ("python", "python")


def zombie(pid: int, ppid: int, comm: str = "python3", *, forked: bool = False) -> Member:
    one = member(pid, ppid, comm=comm, exe=None, forked=forked, random="")
    return dataclasses.replace(one, state="Z")


@pytest.mark.parametrize("command", [PLAIN, SERVER, ("torchrun", "x.py")])
@pytest.mark.parametrize(
    ("comm", "was"),
    [
        ("python3.11", None),
        ("pt_main_thread", None),
        ("sh", False),
        ("ptxas", False),
        ("sglang::schedul", True),
        ("sglang::detoken", False),
    ],
)
def test_what_a_dead_child_of_a_launcher_was(
    command: tuple[str, ...], comm: str, was: bool | None
) -> None:
    launcher = member(10, 1, command)
    found = roles(launcher, member(11, 10, SPAWN), zombie(12, 10, comm))
    assert found.was_worker(12) is was


def test_a_dead_child_is_called_what_its_siblings_are_called() -> None:
    launcher, sibling = member(10, 1, PLAIN), member(11, 10, SPAWN, comm="engine")
    found = roles(launcher, sibling, zombie(12, 10, "engine"), zombie(13, 10, "other"))
    assert (found.was_worker(12), found.was_worker(13)) == (None, False)


def test_a_dead_fork_may_have_been_a_worker_only_where_forks_are() -> None:
    for command, was in ((PLAIN, None), (VLLM, None), (SERVER, False)):
        found = roles(member(10, 1, command), zombie(12, 10, "any", forked=True))
        assert found.was_worker(12) is was


def test_a_dead_child_of_a_forkserver_may_have_been_a_worker_where_those_are() -> None:
    for command, was in ((PLAIN, None), (VLLM, None), (SERVER, False)):
        launcher, server = member(10, 1, command), member(11, 10, FORKSERVER)
        found = roles(launcher, server, zombie(12, 11, forked=True))
        assert found.was_worker(12) is was


def test_a_dead_child_of_a_worker_or_of_no_launcher_was_none() -> None:
    launcher = member(10, 1, SERVER)
    worker = member(11, 10, "sglang::scheduler_TP0", comm="sglang::schedul")
    found = roles(launcher, worker, zombie(12, 11), zombie(13, 1))
    assert (found.was_worker(12), found.was_worker(13)) == (False, False)
    shell = member(20, 1, ("bash",), comm="bash", exe="/bin/bash")
    above = member(21, 1, ("python3", "manage.py"))
    server = member(22, 21, SERVER)
    found = roles(shell, zombie(23, 20), above, server, zombie(24, 21))
    assert (found.was_worker(23), found.was_worker(24)) == (False, False)


def test_what_died_after_it_was_listed_was_what_its_title_says() -> None:
    launcher = member(10, 1, SERVER)
    titled = dataclasses.replace(zombie(11, 10), title=("sglang::scheduler_TP1",))
    untitled = dataclasses.replace(zombie(12, 10), title=SPAWN)
    tracker = dataclasses.replace(zombie(13, 10), title=TRACKER)
    found = roles(launcher, titled, untitled, tracker)
    assert [found.was_worker(pid) for pid in (11, 12, 13)] == [True, None, False]
