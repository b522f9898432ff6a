"""Starting the first process inside the sandbox of a unit: as a transient service of its manager.

systemd-run(1) starts it with the unit's own properties. The service connects to a socket in the
rehearsal's directory, which is bound into its file system; all of it ends when its unit is stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.errors import UndeterminedError
from envprobe.launch.manager import Manager
from envprobe.launch.sandbox import Property
from envprobe.process import cgroups
from envprobe.runner import supervised
from envprobe.runner.output import Output
from envprobe.runner.started import Bounds
from envprobe.runner.supervised import Command, Ended
from envprobe.runner.taskgroup import TaskGroup

_BOUNDS: Final = Bounds(seconds=20.0, processes=16)
_NEEDED: Final = ("HOME", "PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_ELSEWHERE: Final = ("RootDirectory", "RootImage", "MountImages")
_LAYERS: Final = ("ExtensionImages", "ExtensionDirectories")
"""With another root the rehearsal's own directory would have to be made in it."""

_NOT_EXECUTED: Final = 203
"""EXIT_EXEC, systemd.exec(5), "PROCESS EXIT CODES": the file is not there, or not executable."""

_HIDDEN: Final = b"the interpreter cannot be executed in the sandbox of the unit"
_POLL_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 15.0
_READ_BYTES: Final = 1 << 16
_CREDENTIALS: Final = struct.Struct("3i")
"""struct ucred of SO_PEERCRED, unix(7)."""


class NotConfinedError(Exception):
    """The sandbox could not be reproduced, and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sandbox:
    """The properties of a unit, its manager, and the rehearsal's own directory."""

    properties: tuple[Property, ...]
    manager: Manager
    folder: str

    @property
    def obstacle(self) -> str:
        """Why the manager cannot be asked for it, "" if it can."""
        for one in self.properties:
            if one.unknown:
                return f"{one} is not known as a whole"
            if one.key in (*_ELSEWHERE, *_LAYERS):
                return f"{one.key}= is another file system"
            if any(character.isspace() or character in "\"'\\%" for character in one.text):
                return f"{one} would have to be quoted"
        return ""


class Confined:
    """The first process as a service; it is asked and ended as a `supervised.Running` is."""

    def __init__(self, sandbox: Sandbox, unit: str, bounds: Bounds) -> None:
        self._sandbox = sandbox
        self._unit = unit
        self._bounds = bounds
        self._began = time.monotonic()
        self._connection: socket.socket | None = None
        self._answer = Output(bounds.output_bytes)
        self._looked = 0.0
        self._peer = 0
        self._code = 0
        self._stopped = ""

    @property
    def pid(self) -> int:
        """The number of the first process."""
        return self._peer

    def connect(self, server: socket.socket, command: Command, uid: int) -> None:
        """Wait for the service to connect, and have it become the command; NotConfinedError.

        Others may reach the socket as well: only a process of the service is told anything.
        """
        deadline = time.monotonic() + _CONNECT_SECONDS
        server.settimeout(_POLL_SECONDS)
        while self._connection is None:
            if time.monotonic() > deadline:
                raise NotConfinedError("the service did not answer")
            try:
                connection = server.accept()[0]
            except TimeoutError:
                if self._has_ended():
                    return
                continue
            told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            peer, peer_uid, _ = _CREDENTIALS.unpack(told)
            if uid in (-1, peer_uid) and self._is_of_service(peer):
                self._connection, self._peer = connection, peer
            else:
                connection.close()
        self._require_own_files()
        asked = {"words": list(command.words), "environment": dict(command.environment)}
        self.tell(json.dumps(asked).encode() + b"\n")

    def _is_of_service(self, pid: int) -> bool:
        """Return whether a process is one of the service's."""
        if cgroups.members(self._group, (pid,)):
            return True
        # Where the groups are mounted as another namespace sees them, their paths do not compare.
        shown = self._sandbox.manager.properties(self._unit, ("MainPID",))
        return pid > 0 and shown.get("MainPID") == [str(pid)]

    def _has_ended(self) -> bool:
        """Return whether the sandbox hides the interpreter; NotConfinedError if it failed else."""
        shown = self._sandbox.manager.properties(self._unit, ("ActiveState", "ExecMainStatus"))
        if shown.get("ActiveState") in (["active"], ["activating"]):
            return False
        (status,) = shown.get("ExecMainStatus") or ["?"]
        if status == str(_NOT_EXECUTED):
            self._code = _NOT_EXECUTED
            return True
        raise NotConfinedError(f"the service failed with status {status} (systemd.exec(5))")

    def _require_own_files(self) -> None:
        """Raise NotConfinedError unless the service has a mount namespace of its own."""
        try:
            same = os.readlink(f"/proc/{self._peer}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
        except OSError:
            same = True
        if same:
            raise NotConfinedError("the manager left the sandbox out, as it does without rights")

    def read_line(self) -> bytes | None:
        """Return the next whole line of the answer without its newline; None if none comes."""
        if self._is_over():
            return None
        while (line := self._answer.line()) is None:
            if self._connection is None or not self._receive(self._connection):
                return None
        return line

    def _receive(self, connection: socket.socket) -> bool:
        """Take in what comes next; False if nothing can come, or a bound has been reached."""
        connection.settimeout(_POLL_SECONDS)
        while not self._answer.cut and not self._is_over():
            try:
                received = connection.recv(_READ_BYTES)
            except TimeoutError:
                continue
            except OSError:
                return False
            self._answer.take(received)
            return bool(received)
        return False

    def _is_over(self) -> bool:
        """Return whether a bound has been reached; that is looked at only now and then."""
        if self._connection is None or self._stopped:
            return bool(self._stopped)
        if (now := time.monotonic()) >= self._looked + _POLL_SECONDS:
            self._looked = now
            self._stopped = self._reached()
        return bool(self._stopped)

    def _reached(self) -> str:
        """Return which bound the service has reached, "" for none.

        A manager without the controller of tasks does not keep the bound on them.
        """
        if time.monotonic() > self._began + self._bounds.seconds:
            return "time"
        groups = [f"{point}{self._group}" for point in cgroups.mounts()]
        full = any(TaskGroup(one).was_full() for one in groups)
        there = max(map(_count, groups), default=0)
        return "processes" if full or there > self._bounds.processes else ""

    @functools.cached_property
    def _group(self) -> str:
        """The control group of the service."""
        shown = self._sandbox.manager.properties(self._unit, ("ControlGroup",))
        return "".join(shown.get("ControlGroup", ())[:1]) or "/nothing"

    def tell(self, text: bytes) -> bool:
        """Tell the process something; return whether it takes all of it."""
        if self._connection is None:
            return False
        self._connection.settimeout(self._bounds.seconds)
        try:
            self._connection.sendall(text)
        except OSError:
            return False
        return True

    def end(self) -> Ended:
        """Tell the process nothing more and return how it ended."""
        stopped = self._stopped or (self._reached() if self._connection else "")
        if self._connection is not None:
            shown = self._sandbox.manager.properties(self._unit, ("ActiveState", "ExecMainStatus"))
            if shown.get("ActiveState") != ["active"]:
                (status,) = shown.get("ExecMainStatus") or ["0"]
                self._code = int(status) if status.isdecimal() else 1
        self.close()
        said = _HIDDEN if self._code == _NOT_EXECUTED else b""
        seconds = time.monotonic() - self._began
        return Ended(self._code, stopped, b"", said, b"", self._answer.cut, seconds)

    def close(self) -> None:
        """Tell the process nothing more."""
        if self._connection is not None:
            self._connection.close()


@contextlib.contextmanager
def confined(sandbox: Sandbox, command: Command, bounds: Bounds) -> Iterator[Confined]:
    """Start a command as a service with these properties; the service is ended afterwards.

    Raises NotConfinedError if the manager cannot be asked, or does not apply them.
    """
    if sandbox.obstacle:
        raise NotConfinedError(sandbox.obstacle)
    unit = f"envprobe-rehearsal-{os.getpid()}-{time.monotonic_ns()}.service"
    path = f"{sandbox.folder}/socket"
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        server.bind(path)
        os.chmod(path, 0o666)
        server.listen(1)
        made = Confined(sandbox, unit, bounds)
        stack.callback(_stop, sandbox.manager, unit)
        stack.callback(made.close)
        _run(sandbox, unit, command, bounds)
        dynamic = any(one.key == "DynamicUser" for one in sandbox.properties)
        own = os.geteuid() if command.rights is None else command.rights.uid
        try:
            made.connect(server, command, -1 if dynamic else own)
        except UndeterminedError as error:
            raise NotConfinedError(error.message) from None
        yield made


def _count(group: str) -> int:
    """Return how many processes are in a control group."""
    try:
        with open(f"{group}/cgroup.procs", encoding="ascii") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def _run(sandbox: Sandbox, unit: str, command: Command, bounds: Bounds) -> None:
    variables = sandbox.manager.variables
    program = shutil.which("systemd-run", path=variables.get("PATH", os.defpath))
    if program is None:
        raise NotConfinedError("there is no systemd-run on PATH")
    kind = "--user" if sandbox.manager.user else "--system"
    words = [program, kind, "--quiet", f"--unit={unit}"]
    words += [f"--property={one}" for one in _properties(sandbox, command, bounds)]
    words += ["--", command.path, "-I", "-S", "-B", f"{sandbox.folder}/rehearse_enter.py"]
    given = {name: variables[name] for name in _NEEDED if name in variables}
    try:
        ended = supervised.run(
            Command(program, (*words, f"{sandbox.folder}/socket"), given),
            _BOUNDS,
            name="systemd-run",
        )
    except UndeterminedError as error:
        raise NotConfinedError(error.message) from None
    if ended.code:
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NotConfinedError(f"systemd-run fails: {said[-1][:200] if said else ended.code}")


def _properties(sandbox: Sandbox, command: Command, bounds: Bounds) -> Iterable[str]:
    """Yield what the service is started with: what of the unit counts, and the bounds."""
    yield from map(str, sandbox.properties)
    yield f"BindReadOnlyPaths={sandbox.folder}"
    yield f"WorkingDirectory={command.cwd}"
    yield f"TasksMax={2 * bounds.processes}"
    yield f"MemoryMax={bounds.memory_bytes}"
    yield f"RuntimeMaxSec={bounds.seconds + bounds.grace_seconds:.0f}"
    yield from ("KillSignal=SIGKILL", "NoNewPrivileges=yes", "LimitCORE=0")
    yield from (f"Standard{name}=null" for name in ("Input", "Output", "Error"))
    rights = command.rights
    if rights is not None and not any(one.key == "DynamicUser" for one in sandbox.properties):
        yield f"User={rights.uid}"
        yield f"Group={rights.gid}"
        yield f"SupplementaryGroups={' '.join(map(str, rights.groups))}"


def _stop(manager: Manager, unit: str) -> None:
    """End the service with all that it has started, and forget it."""
    with contextlib.suppress(UndeterminedError):
        manager.ask("stop", "--", unit)
        manager.ask("reset-failed", "--", unit)
