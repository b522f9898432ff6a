"""A server under a real manager, and what is changed in its definition before it is restarted.

with stage(folder) as here:
    with here.changed(Change(unit=(("NCCL_ALGO=", "NCCL_ALGO = "),))):
        ...the unit on disk and in the manager is another one, the server is the same
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.programs import patchhooks
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.requirement import missing
from tests.programs.usermanager import UserManager, user_manager

NAME = "sgl.service"
WORKERS = 8
SERVED = Path(__file__).with_name("served.py")
SIX = {
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_DEBUG_FILE": "/tmp/nccl.%h.%p.log",
    "NCCL_DEBUG": "INFO",
    "NCCL_PROTO": "Simple",
}
IN_FILE = ("NCCL_DEBUG", "NCCL_PROTO")
"""Those of the six that stand in the environment file; the others are in the unit."""

MEASURED = 252
"""The version of systemd whose `systemd-analyze verify` the documentation speaks of."""

Words = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Change:
    """What is edited: pairs of old and new words, the text of a drop-in, other files by name.

    In every text `{folder}` is the stage's folder, `{hooks}` that of the hook, `{python}` the
    interpreter. `files` are written below the folder; `venv` makes a virtual environment there that
    has the hook in its site-packages; `loaded` is whether the manager reads all of it.
    """

    unit: Words = ()
    env_file: Words = ()
    config: Words = ()
    drop_in: str = ""
    hook: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    venv: bool = False
    loaded: bool = True


@dataclasses.dataclass(frozen=True)
class Judged:
    """The exit code and the JSON report of one command."""

    code: int
    report: Any
    stderr: str

    def found(self, *severities: str) -> set[tuple[str, str | None]]:
        """Return check and variable of the findings of these severities."""
        return {
            (one["check"], one["variable"])
            for one in self.report["findings"]
            if one["severity"] in severities
        }

    def of(self, check: str) -> list[Any]:
        """Return the findings of one check."""
        return [one for one in self.report["findings"] if one["check"] == check]


class Stage:
    """The running server, its files, and the commands that look at them."""

    def __init__(self, manager: UserManager, folder: Path) -> None:
        self.manager = manager
        self.folder = folder
        self.hooks = patchhooks.written(folder, patchhooks.lazy("engine"))
        self.env_file = folder / "nccl.env"
        self.config = folder / "envprobe.toml"
        self.unit = manager.units / NAME
        self.words = {
            "{folder}": str(folder),
            "{hooks}": str(self.hooks.hook.parent),
            "{path}": self.hooks.path,
            "{python}": sys.executable,
            "{served}": str(SERVED),
            "{unit}": str(self.unit),
        }
        self.env_file.write_text("".join(f"{name}={SIX[name]}\n" for name in IN_FILE))
        self.config.write_text(self._config())
        self.unit.write_text(self._unit())
        manager.systemctl("daemon-reload")
        self.pid = 0

    def start(self) -> None:
        """Start the server; systemctl returns when it has said that all workers are ready."""
        self.manager.systemctl("start", NAME)
        self.pid = self.manager.main_pid(NAME)

    def _unit(self) -> str:
        lines = ["[Unit]", "Description=A server of the tests", "", "[Service]", "Type=notify"]
        for name, value in SIX.items():
            if name not in IN_FILE:
                lines.append(f"Environment={name}={value.replace('%', '%%')}")
        lines += [
            f"Environment=PYTHONPATH={self.hooks.path}",
            f"EnvironmentFile={self.env_file}",
            f"ExecStart={sys.executable} {SERVED} --workers {WORKERS}",
        ]
        return "\n".join([*lines, ""])

    def _config(self) -> str:
        lines = ["[expect.env]", *(f'{name} = "{value}"' for name, value in SIX.items())]
        lines.append(f'PYTHONPATH = {{contains = "{self.hooks.hook.parent}"}}')
        lines += ["[expect.workers]", f"scheduler = {WORKERS}"]
        lines += ["[expect.patch]", '"engine:Backend.plain" = "my_kernels"']
        lines += ["[expect.sitecustomize]", f'from = "{self.hooks.hook.parent}"', ""]
        return "\n".join(lines)

    def filled(self, text: str) -> str:
        """Return a text with the names of this stage's places put in."""
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text

    def identity(self) -> tuple[int, float, frozenset[int]]:
        """Return what a server that was not touched keeps: its pid, its start, its children."""
        process = psutil.Process(self.manager.main_pid(NAME))
        children = frozenset(one.pid for one in process.children(recursive=True))
        return process.pid, process.create_time(), children

    @contextlib.contextmanager
    def changed(self, change: Change) -> Iterator[None]:
        """Edit files as `change` says, and put all of it back afterwards, times included."""
        drop_in = self.unit.with_name(f"{NAME}.d") / "50-change.conf"
        edited = (self.unit, self.env_file, self.config, self.hooks.hook)
        added = [self.folder / name for name in change.files]
        there = [path for path in (*edited, *added) if path.exists()]
        kept = {path: (path.read_bytes(), path.stat()) for path in there}
        try:
            for name, text in change.files.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.filled(text))
            self._edit(self.unit, change.unit)
            self._edit(self.env_file, change.env_file)
            self._edit(self.config, change.config)
            if change.venv:
                self._make_venv(self.folder / "venv")
            if change.hook:
                self.hooks.hook.write_text(self.filled(change.hook))
            if change.drop_in:
                drop_in.parent.mkdir(exist_ok=True)
                drop_in.write_text(self.filled(change.drop_in))
            if change.loaded:
                self.manager.systemctl("daemon-reload")
            yield
        finally:
            shutil.rmtree(drop_in.parent, ignore_errors=True)
            for path, (content, status) in kept.items():
                if path.read_bytes() != content:
                    path.write_bytes(content)
                    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            for path in added:
                if path not in kept:
                    path.unlink()
            self.manager.systemctl("daemon-reload")

    def _make_venv(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        shutil.copytree(self.hooks.hook.parent, packages, dirs_exist_ok=True)

    def _edit(self, path: Path, words: Words) -> None:
        text = path.read_text()
        for old, new in words:
            assert self.filled(old) in text, (path, old)
            text = text.replace(self.filled(old), self.filled(new))
        if words:
            path.write_text(text)

    def judged(self, *arguments: str) -> Judged:
        """Run envprobe with JSON as its output, as the user whose manager this is."""
        ran = envprobe(*arguments, "--format", "json", env=environment(**self.manager.environment))
        assert ran.stdout.startswith("{"), (ran.returncode, ran.stdout, ran.stderr)
        return Judged(ran.returncode, json.loads(ran.stdout), ran.stderr)

    def live(self, *arguments: str) -> Judged:
        """Run the gate on the running server."""
        given = ("gate", "-c", str(self.config), "--user", "--unit", NAME, "--live")
        return self.judged(*given, "--wait", str(WORKERS), *arguments)

    def verify(self) -> str:
        """Return what `systemd-analyze verify` makes of the unit: silent, warns or fails."""
        return verified(self.unit, self.manager.environment)


def verified(unit: Path, variables: Mapping[str, str]) -> str:
    """Return what `systemd-analyze --user verify` makes of a unit: silent, warns or fails."""
    program = shutil.which("systemd-analyze")
    if program is None:
        missing("systemd", "systemd-analyze is not installed")
    done = subprocess.run(
        [program, "--user", "--man=no", "verify", str(unit)],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        return "fails"
    return "warns" if done.stderr.strip() else "silent"


@contextlib.contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Start a manager and the server in it; both are ended with the block."""
    with user_manager(folder / "manager") as manager:
        here = Stage(manager, folder)
        here.start()
        yield here
        manager.systemctl("stop", NAME, check=False)
