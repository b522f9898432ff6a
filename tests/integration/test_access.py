"""What a reader without every right sees: all that the kernel allows, and what it could not see.

envprobe runs here as another user, from a copy that this user can read, with its own command line.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import envprobe as package
from envprobe.process.handle import AccessRefused, ProcessHandle
from envprobe.process.memory import Memory
from tests.integration.test_healthy_tree import EXPECTED, SET, agrees
from tests.programs import cli, trees
from tests.programs.actions import Action, prctl
from tests.programs.cli import Run
from tests.programs.envprobe_cli import envprobe, script
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

NOBODY = 65534
# setpriv itself keeps its capabilities for the program that it runs to be found; `env` has none.
AS_NOBODY = (
    *("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"),
    "env",
)
WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
HIDING = ("unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc; exec "$@"', "sh")
PR_SET_DUMPABLE = 4

pytestmark = pytest.mark.root


def need_root() -> None:
    if os.geteuid():
        missing("root", "only root can become another user")


def files_of(distribution: str) -> Iterator[Path]:
    """Yield the top-level files and folders of an installed package and all that it needs."""
    found = importlib.metadata.distribution(distribution)
    tops = {Path(str(file)).parts[0] for file in found.files or ()}
    for top in tops:
        place = Path(str(found.locate_file(top)))
        if place.exists() and place.suffix not in (".pth", ".dist-info") and top != "..":
            yield place
    for text in found.requires or ():
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            yield from files_of(needed.name)


class Elsewhere:
    """envprobe and the target program in a folder that every user can read, and a Python for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = self._python()
        assert package.__file__ is not None
        places = {Path(package.__file__).parent, trees.PROGRAM, *files_of("envprobe")}
        for place in places:
            if place.is_dir():
                unread = shutil.ignore_patterns("__pycache__")
                shutil.copytree(place, folder / place.name, ignore=unread, dirs_exist_ok=True)
            else:
                shutil.copy(place, folder)
        for place in (folder, *folder.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)

    @staticmethod
    def _python() -> str:
        """Return an interpreter for the same extension modules that nobody can run."""
        minor = "{}.{}".format(*sys.version_info[:2])
        tag = "import sys; print(sys.implementation.cache_tag)"
        for path in (os.path.realpath(sys.executable), f"/usr/bin/python{minor}"):
            asked = subprocess.run(
                [*AS_NOBODY, path, "-I", "-c", tag], capture_output=True, text=True, check=False
            )
            if asked.stdout.strip() == sys.implementation.cache_tag:
                break
        else:
            missing("debian-python", f"no Python {minor} can be run by another user")
        return path

    def workers(self, *arguments: str, wrapper: Sequence[str] = AS_NOBODY) -> Run:
        command = [*wrapper, self.python, str(self.folder / "envprobe" / "__main__.py")]
        done = envprobe("workers", "--format=json", *arguments, command=command)
        return Run(done.returncode, done.stdout, done.stderr)

    def tree(self, wrapper: Sequence[str] = (), **fields: Any) -> TitledTree:
        """Return a tree whose program the other user can read."""
        root = Action(wrapper=wrapper)
        return TitledTree(self.python, workers=2, actions={"root": root}, titler="own", **fields)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    need_root()
    # Not below pytest's own folder, which is closed to others.
    with tempfile.TemporaryDirectory(prefix="envprobe-elsewhere-") as folder:
        made = Elsewhere(Path(folder))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trees, "PROGRAM", made.folder / trees.PROGRAM.name)
            yield made


@pytest.fixture(scope="module")
def of_nobody(elsewhere: Elsewhere) -> Iterator[TitledTree]:
    with elsewhere.tree(AS_NOBODY, env=SET) as tree:
        yield tree


@pytest.fixture(scope="module")
def of_root(elsewhere: Elsewhere) -> Iterator[TitledTree]:
    with elsewhere.tree(env=SET) as tree:
        yield tree


def refusals(run: Run, pids: Sequence[int]) -> None:
    """Check that nothing of these workers is known, and that no reading looks like an absence."""
    assert run.code == 3
    assert run.workers() == run.pids("worker-unreadable") == set(pids)
    found = run.loud(pids)
    assert {one["check"] for one in found} == {"worker-unreadable", "env-unknown"}
    assert all(one["undetermined"] and set(one["pids"]) == set(pids) for one in found)
    for pid in pids:
        for name in SET:
            for view in ("exec", "libc"):
                reading = run.reading(pid, name, view)
                assert reading["state"] == "unreadable"
                assert reading["reason"]
                assert reading["remedy"]


def timeless(found: Any) -> Any:
    """Return a part of a report without the times."""
    if isinstance(found, dict):
        return {key: timeless(one) for key, one in found.items() if key != "at"}
    return [timeless(one) for one in found] if isinstance(found, list) else found


# --- as the user of the server --------------------------------------------------------------------


def test_the_servers_own_user_needs_no_rights(of_nobody: TitledTree, elsewhere: Elsewhere) -> None:
    run = elsewhere.workers("--pid", str(of_nobody.root), *EXPECTED)
    agrees(run, of_nobody)
    assert (run.code, run.loud(of_nobody.reports), run.stderr) == (0, [], "")
    assert {run.process(pid)["uid"] for pid in of_nobody.reports} == {NOBODY}
    for pid in of_nobody.workers():
        assert run.process(pid)["environments"]["libc"]["confidence"] == "proved"
        assert run.reading(pid, "NCCL_ALGO", "exec")["confidence"] == "inferred"


def test_what_the_servers_user_reads_is_what_root_reads(
    of_nobody: TitledTree, elsewhere: Elsewhere
) -> None:
    as_root = cli.workers("--pid", str(of_nobody.root), *EXPECTED)
    agrees(as_root, of_nobody)
    as_nobody = elsewhere.workers("--pid", str(of_nobody.root), *EXPECTED)
    assert timeless(as_root.scan["variables"]) == timeless(as_nobody.scan["variables"])
    found = [
        [
            (one["check"], one["pids"], one["confidence"])
            for one in run.findings()
            if set(one["pids"]) <= set(of_nobody.reports)
        ]
        for run in (as_root, as_nobody)
    ]
    assert found[0] == found[1] != []


def test_a_reader_that_refuses_everything_would_not_pass(
    of_nobody: TitledTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The floor of a healthy tree proves something only if it fails when nothing is read."""

    def refuse(handle: ProcessHandle) -> Memory:
        raise AccessRefused(13, "mem")

    monkeypatch.setattr(Memory, "open", refuse)
    run = cli.judge("--pid", str(of_nobody.root), *EXPECTED)
    with pytest.raises(AssertionError):
        agrees(run, of_nobody)
    assert run.code == 3
    assert run.pids("worker-unreadable") == run.pids("env-unknown") == set(of_nobody.workers())


# --- as another user ------------------------------------------------------------------------------


def test_another_user_is_told_what_could_not_be_seen(
    of_root: TitledTree, elsewhere: Elsewhere
) -> None:
    run = elsewhere.workers("--pid", str(of_root.root), *EXPECTED)
    refusals(run, of_root.workers())
    (finding,) = run.findings("worker-unreadable")
    for pid in of_root.workers():
        assert f"(PID {pid})" in finding["message"]
    assert "the process runs as uid 0, gid 0, envprobe as uid 65534" in finding["message"]
    assert finding["remedy"].startswith("Run envprobe as root; or run it as the server's own user")
    # Nor may another user read the tracker's block, so that nothing stands in for theirs.
    assert run.pids("exec-view-inferred") == set()


def test_unknowns_are_accepted_only_by_name(of_root: TitledTree, elsewhere: Elsewhere) -> None:
    pid = ("--pid", str(of_root.root))
    one = elsewhere.workers(*pid, *EXPECTED, "--allow-unknown", "worker-unreadable")
    refusals(one, of_root.workers())
    both = elsewhere.workers(
        *pid, *EXPECTED, "--allow-unknown=worker-unreadable", "--allow-unknown=env-unknown"
    )
    assert both.code == 0
    assert both.document["verdict"]["counts"]["accepted"] == 2
    assert both.pids("worker-unreadable") == set(of_root.workers())


def test_a_worker_that_is_not_dumpable(elsewhere: Elsewhere) -> None:
    with elsewhere.tree(AS_NOBODY, env=SET) as tree:
        shut, open_ = tree.workers()
        tree.tell(shut, prctl(PR_SET_DUMPABLE, 0))
        run = elsewhere.workers("--pid", str(tree.root), *EXPECTED)
        as_root = cli.workers("--pid", str(tree.root), *EXPECTED)
        agrees(as_root, tree)
    assert run.code == 3
    (finding,) = run.findings("worker-unreadable")
    assert finding["pids"] == [shut]
    assert "not dumpable" in finding["message"]
    assert finding["remedy"].startswith("Run envprobe as root")
    assert run.pids("env-unknown") == {shut}
    assert run.pids("exec-view-inferred") == {shut, open_}
    for name, value in SET.items():
        assert run.reading(shut, name)["state"] == "unreadable"
        assert run.text(open_, name) == value
        witness = run.reading(shut, name, "exec")
        assert (witness["state"], witness["confidence"]) == ("value", "inferred")
        assert f"resource tracker {tree.tracker}" in witness["source"]
        assert witness["value"] == {"text": value}
    assert (as_root.code, as_root.loud(tree.reports)) == (0, [])


def test_a_root_without_capabilities(of_root: TitledTree, elsewhere: Elsewhere) -> None:
    done = envprobe(
        "workers",
        "--format=json",
        f"--pid={of_root.root}",
        *EXPECTED,
        command=[*WITHOUT_CAPABILITIES, *script()],
    )
    run = Run(done.returncode, done.stdout, done.stderr)
    refusals(run, of_root.workers())
    (finding,) = run.findings("worker-unreadable")
    assert "holds capabilities that envprobe lacks" in finding["message"]
    assert finding["remedy"].startswith("Grant envprobe CAP_SYS_PTRACE"), "it already is root"
    with elsewhere.tree(WITHOUT_CAPABILITIES, env=SET) as tree:
        own = elsewhere.workers(f"--pid={tree.root}", *EXPECTED, wrapper=WITHOUT_CAPABILITIES)
        agrees(own, tree)
        assert (own.code, own.loud(tree.reports)) == (0, [])


def test_a_proc_that_hides_other_users(
    of_root: TitledTree, of_nobody: TitledTree, elsewhere: Elsewhere
) -> None:
    wrapper = (*HIDING, *AS_NOBODY)
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        missing("root", "a /proc with hidepid cannot be mounted here")
    own = elsewhere.workers("--pid", str(of_nobody.root), *EXPECTED, wrapper=wrapper)
    agrees(own, of_nobody)
    assert (own.code, own.loud(of_nobody.reports)) == (0, [])
    hidden = elsewhere.workers("--pid", str(of_root.root), *EXPECTED, wrapper=wrapper)
    assert hidden.code == 3, "the process is there, and not said to be gone"
    error = hidden.document["error"]
    assert f"process {of_root.root} exists, but this /proc hides it" in error["message"]
    assert error["remedy"].startswith("Run envprobe as root")


# --- through sudo ---------------------------------------------------------------------------------


def need_sudo() -> None:
    command = ["sudo", "-n", "-u", f"#{NOBODY}", "NCCL_ALGO=Ring", "true"]
    if (
        shutil.which("sudo") is None
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        missing("sudo", "sudo does not let us become another user and set variables")


def test_a_server_that_sudo_started(elsewhere: Elsewhere) -> None:
    need_sudo()
    given = [f"{name}={value}" for name, value in SET.items()]
    with elsewhere.tree(["sudo", "-n", "-u", f"#{NOBODY}", *given], env=SET) as tree:
        server = tree.pid("root")
        assert server != tree.root, "sudo itself is the root"
        for pid in (tree.root, server):
            run = elsewhere.workers("--pid", str(pid), *EXPECTED)
            assert (run.code, run.loud(tree.reports)) == (0, [])
            assert run.workers() == set(tree.workers())
            for worker in tree.workers():
                assert {name: run.text(worker, name) for name in SET} == tree.truth[worker] == SET
        sudo = elsewhere.workers("--pid", str(tree.root), *EXPECTED).process(tree.root)
        assert sudo["environments"]["libc"]["status"] == "unreadable", "it belongs to root"


def test_envprobe_through_sudo(of_nobody: TitledTree) -> None:
    need_sudo()
    done = envprobe(
        "workers",
        "--format=json",
        f"--pid={of_nobody.root}",
        *EXPECTED,
        command=["sudo", "-n", *script()],
    )
    run = Run(done.returncode, done.stdout, done.stderr)
    agrees(run, of_nobody)
    assert (run.code, run.loud(of_nobody.reports)) == (0, [])
