"""What a scan knows of the unit behind its server: plain facts that its file carries.

Times are Unix seconds. Names of variables are `str` made with `os.fsdecode`.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from envprobe.values import Value

START_TOLERANCE: Final = 0.05
"""Seconds by which a file has to be newer than a process: start times are in clock ticks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What a definition says of one variable.

    `source` is a word of systemd.exec(5), such as `Environment=`; `given` is true for what the
    manager itself hands over. `place` is the line that counts, in `file`. `removed` is the line
    that takes it out again; `doubt` says why it may still be another one in the end. `value` is
    None where it cannot be told.
    """

    name: str
    value: Value | None
    source: str
    given: bool = False
    file: str = ""
    place: str = ""
    removed: str = ""
    doubt: str = ""

    @property
    def known(self) -> bool:
        """Whether it is certain what is handed over: this value, or nothing."""
        return bool(self.removed) or (self.value is not None and not self.doubt)

    @property
    def final(self) -> Value | None:
        """What is handed over where it is known; None: nothing."""
        return None if self.removed else self.value


@dataclasses.dataclass(frozen=True, slots=True)
class Hop:
    """One program of ExecStart= before the server's own, and what it does to an environment.

    `child` says that it stays, and starts the next program as its child.
    """

    program: str
    place: str
    told: str
    child: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class UnitFacts:
    """A unit as its manager has loaded it, as its files say now, and what it has started.

    `asked` is true if the user named the unit; `load_error` is why the manager refuses it. `loaded`
    is Environment= as it is loaded, `on_disk` as the files say it (None: not known). `declared` is
    what the first program of ExecStart= is handed, `handed` what the main process is handed behind
    the wrappers. `opaque` says what of ExecStart= could not be followed, and where. `drop_ins` are
    those that are loaded, `files` those that are there now, the unit's own first, `scripts` those
    that ExecStart= goes through. `modified` says when each of them, and each of `env_files`, was
    changed, `touched` when it was written here, whatever that time was set to (st_mtime and
    st_ctime). `started` is the start of the main process, `active_since` when the unit became
    active, `state_changed` the last change of its state. `job` is true while a start, stop or
    restart waits or runs. `pam` is true if PAM modules may change variables.
    """

    name: str
    user_manager: bool = False
    asked: bool = False
    active: str = ""
    sub: str = ""
    result: str = ""
    code: str = ""
    load_state: str = ""
    load_error: str = ""
    restarts: int = 0
    job: bool = False
    need_reload: bool = False
    main_pid: int = 0
    started: float | None = None
    active_since: float | None = None
    state_changed: float | None = None
    files: tuple[str, ...] = ()
    drop_ins: tuple[str, ...] = ()
    env_files: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    modified: dict[str, float] = dataclasses.field(default_factory=dict)
    touched: dict[str, float] = dataclasses.field(default_factory=dict)
    loaded: dict[str, Value] = dataclasses.field(default_factory=dict)
    on_disk: dict[str, Value | None] = dataclasses.field(default_factory=dict)
    declared: tuple[Entry, ...] = ()
    handed: tuple[Entry, ...] = ()
    open: str = ""
    hops: tuple[Hop, ...] = ()
    program: str = ""
    opaque: str = ""
    pam: bool = False

    @property
    def manager(self) -> str:
        """The manager in words."""
        return "the user's service manager" if self.user_manager else "the system's service manager"

    @property
    def systemctl(self) -> str:
        """How its manager is asked."""
        return "systemctl --user" if self.user_manager else "systemctl"

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the unit or a wrapper of its ExecStart= speaks of."""
        return tuple(
            dict.fromkeys(one.name for one in (*self.declared, *self.handed) if not one.given)
        )

    @property
    def unloaded(self) -> tuple[str, ...]:
        """The drop-ins that are there now and were not loaded, and those that are gone.

        NeedDaemonReload= does not see a drop-in whose directory is new (measured with systemd 252).
        """
        return tuple(sorted(set(self.files[1:]).symmetric_difference(self.drop_ins)))

    @property
    def stale(self) -> bool:
        """Whether the manager would start the unit by an older definition."""
        return self.need_reload or bool(self.unloaded)

    def newer(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Return those files that were changed after the main process was started."""
        return self._after_start(paths, self.modified)

    def replaced(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Return those files that were changed, or written with an older time, after the start."""
        written = {*self.newer(paths), *self._after_start(paths, self.touched)}
        return tuple(path for path in paths if path in written)

    def _after_start(self, paths: tuple[str, ...], times: dict[str, float]) -> tuple[str, ...]:
        since = self.started
        if since is None:
            return ()
        return tuple(path for path in paths if times.get(path, since) > since + START_TOLERANCE)

    def entry(self, name: str) -> Entry | None:
        """Return what the unit says of a variable, None if nothing."""
        return next((one for one in self.declared if one.name == name), None)

    def behind_wrappers(self, name: str) -> Entry | None:
        """Return what the wrappers hand on of a variable, None if it is not known to be set."""
        return next((one for one in self.handed if one.name == name), None)
