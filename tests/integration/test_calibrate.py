"""`inspect --calibrate` on builds that envprobe has no layout for, and where it must not run them.

envprobe is run from a copy of it whose layouts are all wrong: every build is unknown to it. The
interpreters, the namespaces and the users are real.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from tests.integration.test_access import AS_NOBODY, NOBODY, Elsewhere, need_root
from tests.programs import interpreters
from tests.programs.envprobe_cli import envprobe
from tests.programs.pytarget import PyTarget, clean_environment, sid_tree
from tests.programs.requirement import missing

QUERY = "json:loads"
SYSTEM = Path("/usr/bin/python3")
EXECUTES = "--calibrate executes foreign code"
ELSEWHERE = "--calibrate-with /path/to/python"

pytestmark = pytest.mark.root


class Ran:
    """What one run has said, valid against the schema."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        assert done.stdout.startswith("{"), done.stderr
        self.code = done.returncode
        self.stderr = done.stderr
        self.document: Any = json.loads(done.stdout)
        jsonschema.validate(self.document, tables.load("inspection.schema"))
        assert "error" not in self.document, self.document
        self.interpreter = self.document["interpreter"]
        (self.answer,) = self.document["answers"]

    def measured(self, target: PyTarget, program: str, uid: int = 0) -> None:
        """Check that the answer is the process's own, and who measured it."""
        assert (self.code, self.interpreter["state"]) == (0, "read"), self.interpreter
        assert self.interpreter["layout"].startswith("calibration (")
        found = self.interpreter["calibration"]
        assert (found["program"], found["uid"], found["gid"]) == (program, uid, uid)
        truth, said = target.truth[QUERY]["callable"], self.answer["callable"]
        assert (said["file"], said["line"]) == (truth["file"], truth["line"])
        assert self.stderr.startswith(f"envprobe: {EXECUTES}: {program} -I -S -B, as uid {uid}, ")
        assert self.stderr.count("\n") == 1

    def unknown(self, reason: str, remedy: str, *, executed: bool = False) -> None:
        """Check that the build stays unknown, that nothing looks like an answer, and why."""
        assert (self.code, self.interpreter["state"]) == (3, "unknown_build")
        answers = (self.answer, *self.document["hooks"])
        assert {one["state"] for one in answers} == {"unreadable"}
        for one in (self.interpreter, *answers):
            assert reason in one["reason"]
            assert remedy in one["remedy"]
        assert (EXECUTES in self.stderr) == executed


class Unaware(Elsewhere):
    """A copy of envprobe that knows no build."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for path in (folder / "envprobe" / "data" / "layouts").iterdir():
            contents = json.loads(path.read_text())
            for build in contents["builds"].values():
                build.update({"function_code": 24, "type_mro": 24})
            path.write_text(json.dumps(contents))

    def inspect(self, pid: int, *arguments: str, wrapper: Sequence[str] = ()) -> Ran:
        """Ask one process for `QUERY`."""
        return Ran(self.run(pid, *arguments, wrapper=wrapper))

    def run(
        self, pid: int, *arguments: str, wrapper: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Ask one process for `QUERY`, whatever comes of it."""
        command = [*wrapper, self.python, str(self.folder / "envprobe" / "__main__.py"), "inspect"]
        asked = ("--pid", str(pid), "--format=json", QUERY, *arguments)
        return envprobe(*asked, command=command)


@pytest.fixture(scope="module")
def unaware() -> Iterator[Unaware]:
    need_root()
    with tempfile.TemporaryDirectory(prefix="envprobe-unaware-") as folder:
        yield Unaware(Path(folder))


def system() -> str:
    """Return the distribution's interpreter, which every user can run."""
    if not SYSTEM.exists():
        missing("debian-python", f"no {SYSTEM}")
    return os.path.realpath(SYSTEM)


@contextlib.contextmanager
def running(*command: str) -> Iterator[PyTarget]:
    with PyTarget(command, {"queries": [QUERY]}, clean_environment()) as target:
        yield target


# --- where it is measured -------------------------------------------------------------------------


@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_an_unknown_build_is_measured_by_its_own_interpreter(
    python: interpreters.Interpreter, unaware: Unaware
) -> None:
    with running(python.path) as target:
        unaware.inspect(target.pid, "--calibrate").measured(target, python.path)


def test_a_debug_build(unaware: Unaware) -> None:
    found = sorted(Path("/usr/bin").glob("python3.*d"))
    if not found:
        missing("debug-python", "no debug build in /usr/bin (Debian's package python3-dbg)")
    with running(str(found[-1])) as target:
        ran = unaware.inspect(target.pid, "--calibrate")
    ran.measured(target, str(found[-1]))
    assert ran.interpreter["build"] == "debug"


def test_it_is_done_only_if_asked_for(unaware: Unaware) -> None:
    with running(system()) as target:
        ran = unaware.inspect(target.pid)
    ran.unknown("unknown build of CPython", "`envprobe inspect --calibrate`")
    assert ran.stderr == ""


def test_it_runs_with_the_rights_of_the_process(unaware: Unaware) -> None:
    with running(*AS_NOBODY, system()) as target:
        by_root = unaware.inspect(target.pid, "--calibrate")
        by_itself = unaware.inspect(target.pid, "--calibrate", wrapper=AS_NOBODY)
        for ran in (by_root, by_itself):
            ran.measured(target, system(), NOBODY)


# --- where nothing is run -------------------------------------------------------------------------


def test_not_across_a_mount_namespace(unaware: Unaware) -> None:
    with running("unshare", "-m", system()) as target:
        ran = unaware.inspect(target.pid, "--calibrate")
        ran.unknown("in another mount namespace", ELSEWHERE)
        copied = unaware.inspect(target.pid, "--calibrate-with", str(SYSTEM))
        copied.measured(target, system())


def test_not_across_a_user_namespace(unaware: Unaware) -> None:
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False).returncode:
        missing("userns", "this kernel does not let us make a user namespace")
    with running("unshare", "-Ur", system()) as target:
        ran = unaware.inspect(target.pid, "--calibrate")
    ran.unknown("in another user namespace", ELSEWHERE)


def test_not_outside_of_its_root(unaware: Unaware) -> None:
    tree = sid_tree()
    if tree is None:
        missing("sid", "no tree of Debian sid can be made here (root, debootstrap, a mirror)")
    with running("chroot", str(tree), "/usr/bin/python3.14") as target:
        ran = unaware.inspect(target.pid, "--calibrate")
    ran.unknown("a root directory of its own", ELSEWHERE)


def test_not_what_has_taken_its_place(unaware: Unaware, tmp_path: Path) -> None:
    copy = tmp_path / "python3"
    shutil.copy2(system(), copy)
    with running(str(copy), "-I") as target:
        copy.unlink()
        gone = unaware.inspect(target.pid, "--calibrate")
        copy.symlink_to("/bin/false")
        replaced = unaware.inspect(target.pid, "--calibrate")
        for ran in (gone, replaced):
            ran.unknown("is not the file any more", ELSEWHERE)
        copied = unaware.inspect(target.pid, "--calibrate-with", str(SYSTEM))
        copied.measured(target, system())


def test_not_a_program_that_may_only_embed_python(unaware: Unaware, tmp_path: Path) -> None:
    program = tmp_path / "inference-worker"
    shutil.copy2(system(), program)
    with running(str(program), "-I") as target:
        ran = unaware.inspect(target.pid, "--calibrate")
    ran.unknown("is not named python", ELSEWHERE)


def test_not_as_a_mixture_of_users(unaware: Unaware) -> None:
    with running("setpriv", "--ruid", "1", "--euid", "0", system()) as target:
        ran = unaware.inspect(target.pid, "--calibrate")
    ran.unknown("ids that differ", "runs as a single user")


# --- what is not believed -------------------------------------------------------------------------


def test_another_build_is_no_copy(unaware: Unaware) -> None:
    others = [one for one in interpreters.found() if one.path != system()]
    if not others:
        missing("pythons", "only one interpreter here")
    with running(system()) as target:
        ran = unaware.inspect(target.pid, "--calibrate-with", others[0].path)
        ran.unknown("--calibrate: ", "an exact copy of it", executed=True)
        nothing = unaware.inspect(target.pid, "--calibrate-with", "/etc/passwd")
        nothing.unknown("/etc/passwd is no program", "an interpreter")
        absent = unaware.run(target.pid, "--calibrate-with", "/no/such/python")
        assert (absent.returncode, EXECUTES in absent.stderr) == (2, False)
        assert "--calibrate-with: /no/such/python is not there" in absent.stderr
        other = unaware.inspect(target.pid, "--calibrate-with", "/bin/true")
        other.unknown("ended before it was ready", "", executed=True)


def test_a_layout_that_does_not_fit_is_refused(unaware: Unaware, tmp_path: Path) -> None:
    """Programs that lie about what they are."""
    source = (unaware.folder / "envprobe" / "payload" / "calibrate.py").read_text()
    asked = [system(), "-I", "-S", "-c", source]
    said = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
    wrong = {**said["offsets"], "type_dict": said["offsets"]["type_dict"] + 8}
    liar = tmp_path / "liar"
    with running(system()) as target:
        # Its file passes for one of the process's own: only what it says is forged.
        said["image"] = library_of(target.pid)
        other = tmp_path / Path(said["image"]).name
        content = bytearray(Path(said["image"]).read_bytes())
        content[-1] ^= 1
        other.write_bytes(content)
        for changes, reason, remedy in (
            ({"offsets": wrong}, "does not fit it either", "Report it"),
            ({"offsets": {}}, "gave no layout", "--calibrate-with"),
            ({"image": "/etc/passwd"}, "has no passwd mapped", "exact copy"),
            ({"image": str(other)}, "is another build", "exact copy"),
            ({"version": "[" * 5000}, "nothing that can be used", "--calibrate"),
        ):
            line = json.dumps({**said, **changes})
            liar.write_text(f"#!/bin/sh\ncat <<'END'\n{line}\nEND\n")
            liar.chmod(0o755)
            ran = unaware.inspect(target.pid, "--calibrate-with", str(liar))
            ran.unknown(reason, remedy, executed=True)


def library_of(pid: int) -> str:
    """Return the path of a library that a process has mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line)


def test_a_version_that_is_too_old(unaware: Unaware) -> None:
    found = sorted((Path.home() / ".pyenv" / "versions").glob("3.8.*/bin/python3.8"))
    if not found:
        missing("old-python", "no CPython 3.8 below ~/.pyenv")
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [str(found[0]), "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        ran = unaware.inspect(process.pid, "--calibrate")
    finally:
        process.communicate()
    ran.unknown("CPython 3.8 is older than 3.9", "CPython 3.9 to 3.15", executed=True)
