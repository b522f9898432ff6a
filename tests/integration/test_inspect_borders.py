"""`inspect` across users, user namespaces and roots: right answers, or a refusal that says why.

What cannot be read is never "not imported".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_inspect import HOOK, VICTIM, Ran, ask, ask_as, patched
from tests.programs.envprobe_cli import envprobe, script
from tests.programs.pytarget import sid_tree
from tests.programs.requirement import missing

NOBODY = 65534
AS_NOBODY = ("--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "env")
SYSTEM = Path("/usr/bin/python3")
QUERIES = ("sitecustomize", "victim:Backend.forward", "victim.later")

pytestmark = pytest.mark.root


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder with the hook that every user can read."""
    if os.geteuid():
        missing("root", "only root can become another user")
    if not SYSTEM.exists():
        missing("debian-python", f"no {SYSTEM}, which every user can run")
    with tempfile.TemporaryDirectory(prefix="envprobe-hook-") as folder:
        yield write(Path(folder))


def write(folder: Path) -> Path:
    folder.chmod(0o755)
    (folder / "victim.py").write_text(VICTIM)
    (folder / "sitecustomize.py").write_text(HOOK)
    return folder


def right(ran: Ran, hook: str, state: str = "unchanged") -> None:
    """Check that the hook and the patch were read, and what became of their file."""
    assert (ran.code, ran.stderr) == (0, ""), ran.stdout
    site, patch, later = ran.document["answers"]
    assert site["module"]["file"] == f"{hook}/sitecustomize.py"
    line = 1 + HOOK.splitlines().index("def forward(self):")
    found = patch["callable"]
    assert (found["file"], found["line"]) == (f"{hook}/sitecustomize.py", line)
    assert {one["path"]: one["state"] for one in site["files"]} == {
        f"{hook}/sitecustomize.py": state
    }
    assert later["state"] == "not_imported"


def refused(document: Any, reason: str, remedy: str) -> None:
    """Check that nothing is known, with the same reason and a remedy that fits `inspect`."""
    assert document["verdict"]["exit"] == 3
    assert document["interpreter"]["state"] == "unreadable"
    answers = (*document["hooks"], *document["answers"])
    assert {one["state"] for one in answers} == {"unreadable"}
    for one in (document["interpreter"], *answers):
        assert one["reason"].startswith("the memory of the interpreter cannot be read: ")
        assert reason in one["reason"]
        assert remedy in one["remedy"]
        assert "SPT_NOENV" not in one["remedy"]


def test_another_users_process(shared: Path) -> None:
    with patched(shared, "setpriv", *AS_NOBODY, str(SYSTEM)) as pid:
        by_root, by_its_user = ask(pid, *QUERIES), ask_as(NOBODY, pid, *QUERIES)
    for ran in (by_root, by_its_user):
        right(ran, str(shared))
    with patched(shared, str(SYSTEM)) as pid:
        of_root = ask_as(NOBODY, pid, *QUERIES)
    assert of_root.code == 3
    refused(of_root.document, "the process runs as uid 0, gid 0", "Run envprobe as root")


def test_another_user_namespace(shared: Path) -> None:
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False).returncode:
        missing("userns", "this kernel does not let us make a user namespace")
    with patched(shared, "unshare", "-Ur", str(SYSTEM)) as pid:
        from_outside = ask(pid, *QUERIES)
    right(from_outside, str(shared))
    with patched(shared, str(SYSTEM)) as pid:
        command = ["unshare", "-Ur", *script()]
        done = envprobe("inspect", f"--pid={pid}", "--format=json", *QUERIES, command=command)
    assert (done.returncode, done.stderr) == (3, "")
    refused(
        json.loads(done.stdout), "another user namespace", "as root on the host, outside this user"
    )


def test_a_root_whose_files_exist_only_there(shared: Path) -> None:
    tree = sid_tree()
    if tree is None:
        missing("sid", "no tree of Debian sid can be made here (root, debootstrap, a mirror)")
    inside = Path(tempfile.mkdtemp(dir=tree / "tmp"))
    hook = f"/tmp/{inside.name}"
    try:
        write(inside)
        assert not Path(hook).exists()
        with patched(Path(hook), "chroot", str(tree), "/usr/bin/python3.14") as pid:
            before = ask(pid, *QUERIES)
            (inside / "sitecustomize.py").unlink()
            after = ask(pid, *QUERIES)
    finally:
        shutil.rmtree(inside)
    right(before, hook)
    right(after, hook, "missing")


def test_a_program_that_was_deleted(shared: Path, tmp_path: Path) -> None:
    copy = tmp_path / "python3"
    shutil.copy2(SYSTEM.resolve(), copy)
    with patched(shared, str(copy)) as pid:
        copy.unlink()
        ran = ask(pid, *QUERIES)
    right(ran, str(shared))
    assert ran.document["process"]["exe"] == f"{copy} (deleted)"
