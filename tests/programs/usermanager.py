"""A real `systemd --user` of a test's own, with unit files, in a control group of its own.

A manager that is started in a shared control group moves every process of that group into its own
init.scope, with a limit on their number (measured with systemd 252): it is given a new group first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from envprobe.process import cgroups
from tests.programs.requirement import missing

PROGRAM = "/lib/systemd/systemd"
SECONDS = 30
_MOST_PROCESSES = "600"
_ENTER = 'for group; do echo $$ > "$group/cgroup.procs" || exit 1; done; exec "$0" --user'
_UNQUOTE = (
    'while IFS= read -r line; do eval "value=${line#*=}";'
    ' printf "%s=%s\\0" "${line%%=*}" "$value"; done'
)


_OF_JOURNAL = f"user@{os.getuid()}.service"
"""The group of a user's manager: journald tells the units of its processes by that name."""


class UserManager:
    """A running manager: `units` is where its unit files go, `systemctl` how it is asked."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder = folder
        self.pid = pid
        self.home = folder / "home"
        self.runtime = folder / "run"
        self.units = self.home / ".config" / "systemd" / "user"

    @property
    def environment(self) -> dict[str, str]:
        """What `systemctl --user` needs to find this manager and no other."""
        path = os.environ.get("PATH", os.defpath)
        return {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime), "PATH": path}

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a unit file, or a drop-in as `NAME.service.d/X.conf`."""
        path = self.units / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def systemctl(self, *arguments: str, check: bool = True) -> str:
        """Run `systemctl --user` and return what it prints."""
        ran = subprocess.run(
            ["systemctl", "--user", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert not check or ran.returncode == 0, ran.stderr
        return ran.stdout

    def main_pid(self, unit: str) -> int:
        """Return the process that a unit has started, 0 if there is none."""
        return int(self.systemctl("show", "--value", "--property=MainPID", unit))

    def variables(self) -> dict[str, str]:
        """Return what the manager hands to all units, as a shell reads what systemctl quotes."""
        read = subprocess.run(
            ["bash", "-c", _UNQUOTE],
            input=self.systemctl("show-environment"),
            env={},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        entries = read.stdout.removesuffix("\0").split("\0")
        return dict(entry.split("=", 1) for entry in entries)


@contextlib.contextmanager
def user_manager(folder: Path, within: Sequence[str] = ()) -> Iterator[UserManager]:
    """Start a manager and end it with all that it has started; skips where none can be run.

    `within` is a command that starts another one, in namespaces of its own.
    """
    if not os.access(PROGRAM, os.X_OK):
        missing("systemd", f"{PROGRAM} is not installed")
    if os.geteuid() != 0:
        missing("root", "only root may give a manager a control group of its own")
    # Without it systemctl takes the machine for one that systemd has not booted.
    Path("/run/systemd/system").mkdir(parents=True, exist_ok=True)
    manager = UserManager(folder, 0)
    manager.units.mkdir(parents=True)
    manager.runtime.mkdir(mode=0o700)
    with (
        _groups(_OF_JOURNAL if within else "") as groups,
        (folder / "manager.log").open("wb") as log,
    ):
        process = subprocess.Popen(
            [*within, "/bin/sh", "-c", _ENTER, PROGRAM, *map(str, groups)],
            env=manager.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        manager.pid = process.pid
        try:
            _wait_until_it_answers(manager, process)
            yield manager
        finally:
            _end(process, groups)


def _wait_until_it_answers(manager: UserManager, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while not (manager.runtime / "systemd" / "private").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            said = (manager.folder / "manager.log").read_text(errors="replace")
            missing("systemd", f"the manager did not start: {said[-300:]}")
        time.sleep(0.02)
    manager.systemctl("is-system-running", check=False)


@contextlib.contextmanager
def _groups(inner: str = "") -> Iterator[list[Path]]:
    """Make a group in each hierarchy, below the groups of this process, and remove them again.

    With `inner` they are slices, and what is given are the groups of that name in them.
    """
    own = cgroups.groups_of(os.getpid())
    name = f"envprobe-test-{os.getpid()}-{time.monotonic_ns()}{'.slice' if inner else ''}"
    made: list[Path] = []
    try:
        for point, hierarchy in cgroups.mounts().items():
            inside = [path for key, path in own.items() if _same(key, hierarchy)]
            for path in inside[:1]:
                made += _made(Path(point) / path.lstrip("/") / name)
        if not made:
            missing("systemd", "no control group of its own can be made for it")
        for group in made if inner else ():
            (group / inner).mkdir()
        yield [group / inner for group in made]
    finally:
        for group in made:
            _remove(group)


def _same(controllers: str, options: str) -> bool:
    if not controllers:
        return not options
    return set(controllers.split(",")) <= set(options.split(","))


def _made(group: Path) -> list[Path]:
    try:
        group.mkdir()
        # A group of cpuset can be entered only once these are filled in: that one is left out.
        if (group / "cpuset.cpus").exists() and not (group / "cgroup.type").exists():
            group.rmdir()
            return []
        if (group / "pids.max").exists():
            (group / "pids.max").write_text(_MOST_PROCESSES)
    except OSError:
        return []
    return [group]


def _remove(group: Path) -> None:
    for inside in sorted(group.rglob("*/"), key=lambda path: -len(path.parts)):
        with contextlib.suppress(OSError):
            inside.rmdir()
    with contextlib.suppress(OSError):
        group.rmdir()


def _end(process: subprocess.Popen[bytes], groups: list[Path]) -> None:
    """End the manager, then whatever is still in its groups: all of it was started by it."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS / 3)
    deadline = time.monotonic() + SECONDS / 3
    while time.monotonic() < deadline:
        if not (left := _members(groups)):
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    process.wait(SECONDS / 3)


def _members(groups: list[Path]) -> set[int]:
    found: set[int] = set()
    for group in groups:
        for file in (group / "cgroup.procs", *group.rglob("cgroup.procs")):
            with contextlib.suppress(OSError):
                found |= set(map(int, file.read_text().split()))
    return found
