"""What the options point at, and what is said where they point at nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe.errors import Exit, TargetGoneError, UndeterminedError, UsageError
from envprobe.process import cgroups, targets
from envprobe.process.targets import resolve
from envprobe.process.tree import Listing, Member, listing
from tests.programs.actions import Action
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

PYTHON = "/usr/bin/python3.11"
WAITS = "import sys; print('ready', flush=True); sys.stdin.read()"
ID = "0123456789abcdef" * 4


@contextlib.contextmanager
def waiting(*wrapper: str) -> Iterator[int]:
    """Run a process that waits; gives its number (of the wrapper, if that forks)."""
    process = subprocess.Popen(
        [*wrapper, sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


# --- --pid


def test_a_living_process_is_the_root() -> None:
    with waiting() as pid:
        assert resolve(pid=pid).roots == (pid,)


def test_main_pid_0_is_a_dead_unit() -> None:
    with pytest.raises(TargetGoneError) as raised:
        resolve(pid=0)
    assert "MainPID=0" in raised.value.message
    assert "systemctl status" in raised.value.remedy
    assert raised.value.code is Exit.TARGET_GONE


@pytest.mark.parametrize("pid", [-1, -(1 << 40), (1 << 22) + 1, 1 << 31, 1 << 70])
def test_a_number_that_no_process_can_have_is_wrong_usage(pid: int) -> None:
    with pytest.raises(UsageError, match=str(pid)):
        resolve(pid=pid)


def test_a_process_that_has_gone() -> None:
    with waiting() as pid:
        pass
    with pytest.raises(TargetGoneError, match=f"no process {pid}") as raised:
        resolve(pid=pid)
    assert raised.value.remedy


def test_a_zombie_has_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(TargetGoneError, match="zombie"):
            resolve(pid=process.pid)
    finally:
        process.wait(10)


def test_a_thread_names_its_process() -> None:
    numbers: list[int] = []
    known, done = threading.Event(), threading.Event()

    def live() -> None:
        numbers.append(threading.get_native_id())
        known.set()
        done.wait(30)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        assert known.wait(10)
        with pytest.raises(TargetGoneError) as raised:
            resolve(pid=numbers[0])
        assert f"thread of process {os.getpid()}" in raised.value.message
        assert f"--pid {os.getpid()}" in raised.value.remedy
    finally:
        done.set()
        thread.join(10)


def test_the_number_inside_another_pid_namespace_is_translated() -> None:
    if os.geteuid():
        missing("root", "a pid namespace needs root here")
    # High enough that no process of this namespace has it.
    program = (
        "import os, sys\n"
        "open('/proc/sys/kernel/ns_last_pid', 'w').write('4100000')\n"
        "child = os.fork()\n"
        "if not child:\n"
        f"    {WAITS}\n"
        "else:\n"
        "    os.waitpid(child, 0)\n"
    )
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    process = subprocess.Popen(
        [*command, sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        if process.stdout.readline() != b"ready\n":
            missing("pid-namespace", "unshare --pid with a chosen number does not work here")
        known = listing()
        outer = known.children(known.children(process.pid)[0])[0]
        with pytest.raises(TargetGoneError) as raised:
            resolve(pid=4100001)
        assert "no process 4100001 in this pid namespace" in raised.value.message
        assert str(outer) in raised.value.message
        assert raised.value.remedy == f"Use --pid {outer}."
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()


def test_two_targets_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        resolve(pid=1, cgroup="x")


def test_patterns_alone_have_no_root() -> None:
    assert resolve(match=("ray::*",)).roots == ()


# --- --cgroup


def test_cgroup_lines_of_both_versions() -> None:
    groups = cgroups.parse("12:cpu,cpuacct:/a\n1:name=systemd:/b:c\n0::/d/e\nbroken\n")
    assert groups == {"cpu,cpuacct": "/a", "name=systemd": "/b:c", "": "/d/e"}
    assert cgroups.main_group(groups) == "/d/e"
    assert cgroups.main_group({"": "/", "cpu": "/", "memory": "/x/y"}) == "/x/y"
    assert cgroups.main_group({}) == ""


def test_mount_points_of_both_versions(tmp_path: Path) -> None:
    info = tmp_path / "mountinfo"
    info.write_text(
        "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 none rw,nsdelegate\n"
        "26 1 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "27 1 0:24 / /with\\040space rw - cgroup cgroup rw,memory\n"
        "28 1 0:25 / /tmp rw - tmpfs tmpfs rw\n"
    )
    found = cgroups.mounts(str(info))
    assert set(found) == {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/with space"}
    assert cgroups.locate("/sys/fs/cgroup/system.slice/x.service/", found) == (
        "/system.slice/x.service",
        "",
    )
    assert cgroups.locate("/sys/fs/cgroup/cpu/a", found) == ("/a", "rw,cpu,cpuacct")
    assert cgroups.locate("system.slice/x.service", found) == ("/system.slice/x.service", None)
    assert cgroups.locate("/sys/fs/cgroup", found) == ("/", "")


@pytest.mark.parametrize("path", ["/", "", "/x/..", *cgroups.mounts()])
def test_the_root_group_is_wrong_usage(path: str) -> None:
    with pytest.raises(UsageError, match="root control group"):
        resolve(cgroup=path)


def test_an_empty_or_unknown_group_has_gone() -> None:
    with pytest.raises(TargetGoneError, match="no process is in the control group /no/such"):
        resolve(cgroup="/no/such")


@contextlib.contextmanager
def group(name: str) -> Iterator[Path]:
    """Make a control group below a hierarchy that can be written."""
    if os.geteuid():
        missing("root", "control groups are made by root")
    for point in sorted(cgroups.mounts(), key=lambda one: "pids" not in one):
        place = Path(point) / name
        try:
            place.mkdir(parents=True)
        except OSError:
            continue
        if (place / "cgroup.procs").exists():
            break
        place.rmdir()
    else:
        missing("cgroup", "no hierarchy in which a group can be made")
    try:
        yield place
    finally:
        while str(place) != point:
            place.rmdir()
            place = place.parent


def test_a_group_gives_the_tops_of_its_members() -> None:
    with (
        group(f"envprobe-test-{os.getpid()}") as place,
        TitledTree(workers=2, detokenizer=False) as tree,
        waiting() as other,
    ):
        members = [tree.root, tree.tracker, *tree.workers(), other]
        for pid in members:
            (place / "cgroup.procs").write_text(str(pid))
        expected = tuple(sorted((tree.root, other)))
        assert resolve(cgroup=str(place)).roots == expected
        assert resolve(cgroup=place.name).roots == expected
        assert resolve(cgroup=f"/{place.name}/").roots == expected


# --- --container


@pytest.mark.parametrize(
    "path",
    [
        f"/docker/{ID}",
        f"/system.slice/docker-{ID}.scope",
        f"/machine.slice/libpod-{ID}.scope/container",
        f"/kubepods.slice/kubepods-burstable.slice/cri-containerd-{ID}.scope",
        f"/kubepods/burstable/pod1/crio-{ID}",
        f"/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}",
        f"/kubepods/besteffort/pod0a/{ID}",
    ],
)
def test_runtimes_name_groups_by_the_id(path: str) -> None:
    assert cgroups.container_of({"": path}) == ID


@pytest.mark.parametrize(
    "path",
    [
        f"/machine.slice/libpod-conmon-{ID}.scope",
        "/user.slice/user-0.slice/session-1.scope",
        f"/x/{ID[:-1]}",
        f"/x/{ID}0",
        "/",
    ],
)
def test_other_groups_are_no_containers(path: str) -> None:
    assert cgroups.container_of({"": path}) == ""


def test_the_innermost_container_counts() -> None:
    inner = ID[::-1]
    assert cgroups.container_of({"": f"/docker/{ID}/docker/{inner}"}) == inner


@pytest.mark.parametrize("text", ["web", "abc", "ABCDEF", "docker://", "0" * 65, "../../x", ""])
def test_a_name_is_no_id(text: str) -> None:
    with pytest.raises(UsageError, match="12 to 64 hexadecimal digits"):
        resolve(container=text)


def test_an_unknown_container_has_gone() -> None:
    with pytest.raises(TargetGoneError, match="container aaaaaaaaaaaa"):
        resolve(container="a" * 12)


def test_a_container_by_its_full_or_short_id() -> None:
    name = f"envprobe-test-{os.getpid()}"
    full = f"{os.getpid():016x}" * 4
    with group(f"{name}/docker-{full}.scope") as place, waiting() as pid:
        (place / "cgroup.procs").write_text(str(pid))
        assert resolve(container=full).roots == (pid,)
        assert resolve(container=full[:12].upper()).roots == (pid,)
        assert resolve(container=f"containerd://{full}").roots == (pid,)


# --- none: the launches found


def member(pid: int, ppid: int, *title: str, state: str = "S") -> Member:
    return Member(pid, ppid, pid, state, "x", title, PYTHON, False)


SGLANG = ("python3", "-m", "sglang.launch_server")


def machine() -> Listing:
    return Listing(
        [
            member(1, 0, "/sbin/init"),
            member(10, 1, *SGLANG),
            member(11, 10, "sglang::scheduler_TP0"),
            member(12, 10, "sglang::scheduler_TP1"),
            member(13, 10, "sglang::detokenizer"),
            member(20, 1, "python3", "/v/bin/vllm", "serve"),
            member(30, 1, "python3", "engine.py"),
            member(31, 30, "sglang::scheduler"),
            member(40, 1, "python3", "/v/bin/torchrun", "t.py"),
            member(41, 40, "python3", "t.py"),
            member(50, 1, "sglang::scheduler"),
            member(60, 1, "python3", "plain.py"),
            member(70, 1, *SGLANG, state="Z"),
        ]
    )


def test_launches_are_servers_and_whatever_has_workers() -> None:
    found = targets.launches(machine())
    assert [(one.pid, one.framework, one.workers) for one in found] == [
        (10, "sglang", 2),
        (20, "vllm", 0),
        (30, "sglang", 1),
        (40, "torchrun", 1),
    ]


def only(monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    """Let the machine hold nothing but the trees below these."""
    whole = machine()
    kept = [whole[pid] for pid in whole.descendants(pids)]
    monkeypatch.setattr(targets, "listing", lambda: Listing(kept))


def test_the_only_launch_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, 10, 60)
    assert resolve().roots == (10,)


def test_of_several_launches_the_user_must_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, 10, 20)
    with pytest.raises(UsageError, match="2 launches") as raised:
        resolve()
    assert "--pid 10  sglang, 2 workers: python3 -m sglang.launch_server" in raised.value.message
    assert "--pid 20  vllm, 0 workers" in raised.value.message


def test_no_launch_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, 60)
    with pytest.raises(UndeterminedError, match="no-workers") as raised:
        resolve()
    assert "--match" in raised.value.remedy


def test_a_title_in_the_list_of_launches_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = (*SGLANG, "--api-key", "sk-abcdefgh12345678", "\x1b[31m\n::error::")
    monkeypatch.setattr(
        targets, "listing", lambda: Listing([member(10, 1, *evil), member(20, 1, *evil)])
    )
    with pytest.raises(UsageError) as raised:
        resolve()
    assert "sk-abcdefgh" not in raised.value.message
    assert "\x1b" not in raised.value.message
    assert len(raised.value.message.splitlines()) == 3


def test_a_real_launch_is_found() -> None:
    with TitledTree(workers=2, actions={1: Action(method="fork")}) as tree:
        seen = [one for one in targets.launches() if one.pid == tree.root]
        assert [(one.framework, one.workers) for one in seen] == [("sglang", 2)]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/system.slice/sgl.service", ("sgl.service", None)),
        ("/system.slice/sgl.service/workers", ("sgl.service", None)),
        ("/system.slice/system-sgl.slice/sgl@a.service", ("sgl@a.service", None)),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/sgl.service",
            ("sgl.service", 1000),
        ),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/shell.scope", None),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", None),
        ("/user.slice/user-1000.slice/session-3.scope", None),
        (f"/system.slice/docker-{'a' * 64}.scope", None),
        ("/kubepods/besteffort/pod1", None),
        ("/", None),
    ],
)
def test_the_service_of_a_control_group(path: str, found: tuple[str, int | None] | None) -> None:
    assert cgroups.service_of({"": path}) == found
    assert cgroups.service_of({"cpu": "/", "name=systemd": path}) == found


def test_systemds_own_hierarchy_says_which_service_it_is() -> None:
    groups = {"memory": "/elsewhere/other.service", "name=systemd": "/system.slice/sgl.service"}
    assert cgroups.service_of(groups) == ("sgl.service", None)
    assert cgroups.service_of({"": "/", "memory": "/a/b.service"}) == ("b.service", None)
    assert cgroups.service_of({}) is None
