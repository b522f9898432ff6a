"""`envprobe workers` joins real logs of the real NCCL to real processes, and reads its version.

No GPU is needed: `ncclGetUniqueId` makes the library read its settings and say so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scripts.nccl_env import default_directory, library
from tests.integration.test_namespaces import need_admin
from tests.programs import cli
from tests.programs.actions import Action, Step, load, py_set, py_unset
from tests.programs.cli import Run
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

OLD, NEW = "2.21.5", "2.28.9"
HOST = os.uname().nodename.split(".")[0]
WORKER = Path(__file__).parents[1] / "programs" / "nccl_worker.py"
NOBODY = 65534
CONF = "NCCL_GDRCOPY_ENABLE=7\nexport NCCL_IB_DISABLE=1\nSECRET_TOKEN=hunter2hunter2\n"


def real(version: str) -> str:
    path = library(default_directory(), version)
    if not path.exists():
        missing("nccl", f"no NCCL {version} in {path.parent}: run scripts/nccl_env.py")
    return str(path)


def starts(
    *paths: str, before: list[Step] | None = None, after: list[Step] | None = None
) -> Action:
    """Return a worker that loads these files, one after another, and lets NCCL start."""
    steps = [py_set("TEST_NCCL", ":".join(paths)), load("nccl_load")]
    return Action(after_title=[*(before or []), *steps, *(after or [])])


def settings(folder: Path) -> dict[str, str]:
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_FILE": f"{folder}/log.%h.%p",
        "NCCL_SOCKET_IFNAME": "lo",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nccl")


@pytest.fixture(scope="module")
def tree(folder: Path) -> Iterator[TitledTree]:
    conf = folder / "nccl.conf"
    conf.write_text(CONF)
    actions: dict[int | str, Action] = {
        0: starts(real(NEW)),
        1: starts(real(NEW), after=[py_set("NCCL_SOCKET_IFNAME", "eth9")]),
        2: starts(real(NEW), before=[py_set("NCCL_CONF_FILE", str(conf))]),
        3: starts(real(NEW), before=[py_unset("NCCL_DEBUG"), py_set("NCCL_LL_THRESHOLD", "0")]),
        4: Action(),
    }
    with TitledTree(workers=5, env=settings(folder), actions=actions) as running:
        yield running


@pytest.fixture(scope="module")
def run(tree: TitledTree) -> Run:
    return cli.judge("--pid", str(tree.root))


def joined(run: Run, pid: int) -> Any:
    return run.process(pid)["nccl_log"]


def hop(run: Run, pid: int, name: str) -> Any:
    """Return the only hop of a variable into a process's NCCL."""
    (route,) = (one for one in run.scan["routes"] if (one["pid"], one["name"]) == (pid, name))
    (found,) = route["nccl"]
    return found


def log_of(folder: Path, pid: int) -> Path:
    return folder / f"log.{HOST}.{pid}"


# --- a log of its own -----------------------------------------------------------------------------


def test_the_log_of_each_worker_is_found_and_joined_to_it(
    tree: TitledTree, run: Run, folder: Path
) -> None:
    for number in (0, 1, 2):
        pid = tree.worker(number)
        found = joined(run, pid)
        assert (found["state"], found["asked"]) == ("joined", False)
        assert found["files"] == [str(log_of(folder, pid))]
        assert (found["host"], found["pid"], found["confidence"]) == (HOST, pid, "proved")
        reading = hop(run, pid, "NCCL_SOCKET_IFNAME")["reading"]
        assert (reading["state"], reading["value"]) == ("value", {"text": "lo"})
        assert reading["source"].startswith(f"NCCL's log, {log_of(folder, pid)}:")
    assert "nccl_log" not in run.process(tree.root)


def test_what_is_not_shown_is_unreadable_and_never_absent(tree: TitledTree, run: Run) -> None:
    for name, why in (
        ("NCCL_DEBUG_FILE", "reads it without printing anything"),
        ("NCCL_GDRCOPY_ENABLE", "does not prove"),
    ):
        reading = hop(run, tree.worker(0), name)["reading"]
        assert (reading["state"], reading.get("value")) == ("unreadable", None)
        assert why in reading["reason"]


def test_a_value_that_came_after_nccl_had_read_it(tree: TitledTree, run: Run) -> None:
    pid = tree.worker(1)
    found = hop(run, pid, "NCCL_SOCKET_IFNAME")
    assert (found["change"], found["reading"]["value"]) == ("changed", {"text": "lo"})
    assert [one["id"] for one in found["causes"]] == ["changed-after-nccl-read"]
    assert [one["id"] for one in found["excluded"]] == ["nccl-env-plugin"]
    (told,) = run.findings("nccl-read-otherwise")
    assert (told["pids"], told["severity"]) == ([pid], "warning")
    assert "later than what NCCL read: NCCL_SOCKET_IFNAME=eth9" in " ".join(told["evidence"])
    assert "change" not in hop(run, tree.worker(0), "NCCL_SOCKET_IFNAME")


def test_a_configuration_file_is_named_as_the_origin(
    tree: TitledTree, run: Run, folder: Path
) -> None:
    pid = tree.worker(2)
    found = hop(run, pid, "NCCL_GDRCOPY_ENABLE")
    assert found["reading"]["value"] == {"text": "7"}
    assert found["origin"] == [
        f"{folder}/nccl.conf:1 says NCCL_GDRCOPY_ENABLE=7, and NCCL puts into the environment what"
        " that file says and nothing else has set."
    ]
    (told,) = run.findings("nccl-value-origin")
    assert (told["pids"], told["variable"]) == ([pid], "NCCL_GDRCOPY_ENABLE")
    assert "hunter2" not in run.stdout


def test_without_a_log_it_says_what_would_be_read_and_how_to_get_one(
    tree: TitledTree, run: Run
) -> None:
    found = joined(run, tree.worker(3))
    assert (found["state"], found["reason"]) == ("no_log", "NCCL_DEBUG is not set in it")
    assert set(found["would_read"]) == {"NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME"}
    (dead,) = found["would_not_read"]
    assert dead["name"] == "NCCL_LL_THRESHOLD"
    assert found["to_log"] == {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV",
        "NCCL_DEBUG_FILE": "/tmp/nccl.%h.%p",
        "NCCL_DEBUG_TIMESTAMP_LEVELS": "ALL",
    }
    text = cli.judge("--pid", str(tree.root), "--format=text").stdout
    assert "NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV" in " ".join(text.split())


def test_logs_that_were_named_say_the_same(tree: TitledTree, run: Run, folder: Path) -> None:
    named = cli.judge("--pid", str(tree.root), "--nccl-log", f"{folder}/log.*")
    for number in (0, 1, 2):
        pid = tree.worker(number)
        assert (joined(named, pid)["state"], joined(named, pid)["asked"]) == ("joined", True)
        name = "NCCL_SOCKET_IFNAME"
        assert hop(named, pid, name)["reading"] == hop(run, pid, name)["reading"]
    # Those named logs have no line of the other two, which is not the same as nothing read.
    assert named.pids("nccl-log-not-joined") == {tree.worker(3), tree.worker(4)}
    assert (named.code, joined(named, tree.worker(4))["state"]) == (3, "not_in_log")


# --- logs that are not the worker's ---------------------------------------------------------------


def with_log(tree: TitledTree, text: str, path: Path, *, age: float = 0) -> Run:
    """Judge with a log of this text, last written `age` seconds before the workers started."""
    path.write_text(text)
    if age:
        start = min(psutil.Process(pid).create_time() for pid in tree.workers())
        os.utime(path, (start - age, start - age))
    return cli.judge("--pid", str(tree.root), "--nccl-log", str(path))


def test_a_log_that_is_older_than_the_process_is_refused(
    tree: TitledTree, folder: Path, tmp_path: Path
) -> None:
    pid = tree.worker(0)
    text = log_of(folder, pid).read_text()
    old = with_log(tree, text, tmp_path / "a", age=60)
    assert (old.code, joined(old, pid)["state"]) == (3, "older")
    assert pid in old.pids("nccl-log-not-joined")
    assert "nccl" not in str([one for one in old.scan["routes"] if "nccl" in one])
    assert joined(with_log(tree, text, tmp_path / "b"), pid)["state"] == "joined"


def test_of_several_processes_that_fit_none_is_chosen(
    tree: TitledTree, folder: Path, tmp_path: Path
) -> None:
    """A container that starts again has the numbers of its predecessor."""
    pid = tree.worker(0)
    text = log_of(folder, pid).read_text()
    version = f"{HOST}:{pid}:{pid} [0] NCCL INFO NCCL version 2.28.9+cuda12.9\n"
    found = with_log(tree, version + text + version + text, tmp_path / "log")
    assert (found.code, joined(found, pid)["state"]) == (3, "ambiguous")
    assert len(joined(found, pid)["candidates"]) == 2
    assert pid in found.pids("nccl-log-not-joined")


def test_the_same_number_on_another_host_is_another_process(
    tree: TitledTree, folder: Path, tmp_path: Path
) -> None:
    pid = tree.worker(0)
    text = log_of(folder, pid).read_text()
    foreign = text.replace(f"{HOST}:", "elsewhere:").replace("to lo", "to eth7")
    found = with_log(tree, foreign + text, tmp_path / "log")
    assert joined(found, pid)["state"] == "joined"
    assert hop(found, pid, "NCCL_SOCKET_IFNAME")["reading"]["value"] == {"text": "lo"}
    alone = with_log(tree, foreign, tmp_path / "other")
    assert joined(alone, pid)["state"] == "not_in_log"
    assert f"elsewhere:{pid}, and not {HOST}:{pid}" in joined(alone, pid)["reason"]


# --- what is expected -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "check", "code"),
    [
        ('NCCL_SOCKET_IFNAME = "lo"', "", 3),
        ('NCCL_SOCKET_IFNAME = "eth9"', "nccl-not-as-expected", 1),
        ("NCCL_SOCKET_IFNAME = {absent = true}", "nccl-not-as-expected", 1),
        ('NCCL_BUFFSIZE = "8388608"', "nccl-expectation-unknown", 3),
        ("NCCL_BUFFSIZE = {absent = true}", "nccl-expectation-unknown", 3),
    ],
)
def test_what_nccl_is_expected_to_have_read(
    tree: TitledTree, stated: str, check: str, code: int, tmp_path: Path
) -> None:
    config = tmp_path / "envprobe.toml"
    config.write_text(f"[expect.nccl]\n{stated}\n")
    run = cli.judge("--pid", str(tree.root), "--config", str(config))
    assert run.code == code
    logged = {tree.worker(number) for number in (0, 1, 2)}
    unlogged = set(tree.workers()) - logged
    assert run.pids("nccl-not-as-expected") == (logged if code == 1 else set())
    unknown = logged if check == "nccl-expectation-unknown" else set()
    assert run.pids("nccl-expectation-unknown") == unlogged | unknown


def test_a_shared_object_that_every_worker_must_have_loaded(tree: TitledTree) -> None:
    run = cli.judge(
        "--pid", str(tree.root), "--expect-lib=libnccl.so.2", "--expect-lib=*/libc.so.*"
    )
    (found,) = run.findings("library-missing")
    assert (run.code, found["pids"], found["undetermined"]) == (1, [tree.worker(4)], False)
    assert "libnccl.so.2" in found["message"]


@pytest.mark.root
def test_a_library_that_cannot_be_looked_for_is_not_missing(tree: TitledTree) -> None:
    need_admin()
    run = cli.judge_as(NOBODY, "--pid", str(tree.root), "--expect-lib=libnccl.so.2")
    (found,) = run.findings("library-missing")
    assert (run.code, found["undetermined"]) == (3, True)
    assert set(found["pids"]) == set(tree.workers())


def test_a_saved_scan_tells_the_same(tree: TitledTree, run: Run, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    pattern = "--expect-lib=libnccl.so.2"
    live = cli.judge("--pid", str(tree.root), pattern, "--save-facts", str(facts))
    saved = cli.judge("--from-facts", str(facts), pattern)
    assert saved.code == live.code == 1
    for part in ("findings", "routes", "processes"):
        assert saved.scan[part] == live.scan[part]
    assert "hunter2" not in facts.read_text()
    other = cli.judge("--from-facts", str(facts), "--expect-lib=*/other.so")
    assert (other.code, other.findings("library-missing")[0]["undetermined"]) == (3, True)


# --- versions -------------------------------------------------------------------------------------


def copies(run: Run, pid: int) -> list[Any]:
    found: list[Any] = run.process(pid)["libraries"]["nccl"]
    return found


def test_each_library_says_its_own_version_whatever_becomes_of_its_file(folder: Path) -> None:
    # A hard link is a file of its own for the kernel's list of mappings, and costs nothing.
    with tempfile.TemporaryDirectory(dir=default_directory()) as place:
        gone, replaced = Path(place) / "gone.d" / "libnccl.so.2", Path(place) / "libnccl.so.2"
        gone.parent.mkdir()
        os.link(real(NEW), gone)
        os.link(real(NEW), replaced)
        actions: dict[int | str, Action] = {
            0: starts(real(OLD)),
            1: starts(real(NEW)),
            2: starts(real(OLD), real(NEW)),
            3: starts(str(gone)),
            4: starts(str(replaced)),
        }
        with TitledTree(workers=5, env=settings(folder), actions=actions) as tree:
            gone.unlink()
            replaced.unlink()
            replaced.write_bytes(b"another")
            run = cli.judge("--pid", str(tree.root))
    pids = tree.workers()
    old, new = f"{OLD}+cuda12.4", f"{NEW}+cuda12.9"
    versions = [[one["version"] for one in copies(run, pid)] for pid in pids]
    assert versions == [[old], [new], [old, new], [new], [new]]
    deleted = [[(one["deleted"], one.get("replaced")) for one in copies(run, p)] for p in pids[3:]]
    assert deleted == [[(True, False)], [(True, True)]]
    (differs,) = run.findings("nccl-library-differs")
    assert (differs["severity"], set(differs["pids"])) == ("error", {pids[0], pids[2]})
    assert run.pids("nccl-library-twice") == {pids[2]}
    assert run.pids("nccl-library-replaced") == {pids[3], pids[4]}
    assert run.code == 1


# --- standard output, and namespaces --------------------------------------------------------------


@contextlib.contextmanager
def alone(
    *wrapper: str, stdout: Any = subprocess.DEVNULL, **env: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start one process with NCCL, behind a wrapper, and end it."""
    process = subprocess.Popen(
        [*wrapper, sys.executable, str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "INFO", **env},
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == b"ready\n"
        yield process
    finally:
        process.communicate(timeout=20)


def the_worker(run: Run) -> Any:
    """Return the one worker of a scan that a pattern has found."""
    (found,) = (one for one in run.scan["processes"] if one["role"]["worker"])
    return found


MATCH = f"--match={sys.executable} {WORKER}"


def test_the_file_behind_standard_output_is_its_log(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with path.open("wb") as file, alone(stdout=file, TEST_NCCL=real(NEW)):
        found = the_worker(cli.judge(MATCH))["nccl_log"]
    assert (found["state"], found["files"]) == ("joined", [str(path)])


def test_standard_output_that_is_no_file_is_not_read() -> None:
    with alone(stdout=subprocess.DEVNULL, TEST_NCCL=real(NEW)):
        found = the_worker(cli.judge(MATCH))["nccl_log"]
    assert (found["state"], found["reason"]) == (
        "no_log",
        "NCCL writes to /dev/null, which is no file",
    )


@pytest.mark.root
def test_a_process_of_another_pid_and_uts_namespace(tmp_path: Path) -> None:
    """Its log is named, and joined, by the number and the host name that it has itself."""
    need_admin()
    for program in ("unshare", "hostname"):
        if shutil.which(program) is None:
            missing("root", f"no {program}")
    pattern = str(tmp_path / "log.%h.%p")
    script = 'hostname box.example.org; exec "$0" "$@"'
    wrapper = ("unshare", "--pid", "--fork", "--uts", "--kill-child", "sh", "-c", script)
    with alone(*wrapper, TEST_NCCL=real(NEW), NCCL_DEBUG_FILE=pattern):
        worker = the_worker(cli.judge(MATCH))
        named = the_worker(cli.judge(MATCH, "--nccl-log", str(tmp_path / "log.box.1")))
    assert worker["inner_pid"] == 1 != worker["pid"]
    for found in (worker["nccl_log"], named["nccl_log"]):
        assert (found["state"], found["host"], found["pid"]) == ("joined", "box", 1)
        assert found["files"] == [str(tmp_path / "log.box.1")]
        assert found["confidence"] == "proved"


def test_a_named_log_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    run = cli.judge("--pid", str(os.getpid()), "--nccl-log", str(tmp_path / "none"))
    assert run.code == 2
    assert "there is no file" in run.document["error"]["message"]
