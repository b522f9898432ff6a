"""From a pid and questions to what the running interpreter answers: facts only, with no verdicts.

All memory and every file is read in a child that can be killed (`runner.forked`). The child has the
directory of /proc/PID that was opened at the start, so that it can never read another process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from envprobe.cpython.query import Query
from envprobe.cpython.session import Reply, Session, Subject, has_ended, unreadable
from envprobe.errors import TargetGoneError, UndeterminedError
from envprobe.model import Identity
from envprobe.process import targets
from envprobe.process.codefiles import CodeFiles
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle
from envprobe.process.tree import boot_offset, start_time
from envprobe.pythonfacts import (
    HOOKS,
    Answer,
    AnswerState,
    DiskState,
    FileFact,
    PythonState,
    files_of,
)
from envprobe.runner.forked import run_each

if TYPE_CHECKING:
    from envprobe.calibration import Calibration

_TRIES: Final = 2
_STALLED: Final = (
    "Give --deadline more seconds, or look for a stalled file system that the process uses "
    "(NFS, FUSE)."
)
_CRASHED: Final = (
    "reading it ended the child that read it",
    "Run envprobe again, with more memory if its limit is tight; if it happens again, report it "
    "with the version of envprobe.",
)
_MISFIT: Final = "Report it with the version of envprobe and of this Python."


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What to ask: a pid of this pid namespace, and questions (`cpython.query`).

    `deadline` is in seconds, for the interpreter, for each question and for each file. With
    `calibrate` an unknown build is measured by running its interpreter, or that of the same build
    at the path `calibrate_with`.
    """

    pid: int
    queries: tuple[str, ...] = ()
    deadline: float = 10.0
    calibrate: bool = False
    calibrate_with: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Inspection:
    """All that was found: `hooks` answers `HOOKS`, `answers` the questions, in their order.

    `files` maps each path that an answer names (`files_of`) to what became of it. `calibration` is
    the layout that was measured for it, None where no interpreter was run.
    """

    subject: Subject
    hooks: tuple[Answer, ...]
    answers: tuple[Answer, ...]
    files: dict[str, FileFact]
    calibration: Calibration | None = None

    @property
    def complete(self) -> bool:
        """Whether the interpreter and every question could be read."""
        unread = (AnswerState.UNREADABLE, AnswerState.CHANGING)
        states = {answer.state for answer in (*self.hooks, *self.answers)}
        return self.subject.state is PythonState.READ and not states.intersection(unread)


def inspect(request: Request, tell: Callable[[str], None] = lambda line: None) -> Inspection:
    """Ask one process; `tell` gets the sentence that says which foreign code is executed, if any.

    Raises UsageError for a malformed question or a `calibrate_with` that is not there,
    TargetGoneError when the process is not or no longer there, UndeterminedError when /proc hides
    it or when it changes its program all the time.
    """
    for query in request.queries:
        Query.parse(query)
    targets.resolve(request.pid)
    try:
        with ProcessHandle.open(request.pid) as handle:
            for _ in range(_TRIES):
                found = _Inspector(handle, request).inspect()
                if found is not None and request.calibrate and _is_unknown(found):
                    found = _calibrated(handle, request, found, tell)
                if found is not None:
                    return found
    except ProcessGone:
        raise _gone(request.pid) from None
    except AccessRefused:
        raise targets.hidden(request.pid) from None
    raise UndeterminedError(
        f"process {request.pid} became another program (exec) each time it was read",
        "Run envprobe again when it has settled.",
    )


def _is_unknown(found: Inspection) -> bool:
    return found.subject.state is PythonState.UNKNOWN_BUILD


def _calibrated(
    handle: ProcessHandle, request: Request, found: Inspection, tell: Callable[[str], None]
) -> Inspection | None:
    """Measure the build and ask again; None if the process exec'd meanwhile, ProcessGone."""
    from envprobe import calibration

    before = found.subject.reason
    try:
        made = calibration.measure(handle, request.calibrate_with, request.deadline, tell)
    except UndeterminedError as failure:
        if has_ended(handle):
            raise ProcessGone(handle.pid) from None
        return _unmeasured(found, f"{before}; --calibrate: {failure.message}", failure.remedy)
    again = _Inspector(handle, request, made).inspect()
    if again is None or not _is_unknown(again):
        return again
    reason = f"{before}; what {made.program} measured of itself does not fit it either"
    return _unmeasured(again, reason, _MISFIT)


def _unmeasured(found: Inspection, reason: str, remedy: str) -> Inspection:
    """Return what was found of a build that stays unknown, which is nothing, for this reason."""
    return dataclasses.replace(
        found,
        subject=dataclasses.replace(found.subject, reason=reason, remedy=remedy),
        hooks=tuple(unreadable(one.query, reason, remedy) for one in found.hooks),
        answers=tuple(unreadable(one.query, reason, remedy) for one in found.answers),
    )


def _gone(pid: int) -> TargetGoneError:
    return TargetGoneError(
        f"process {pid} ended while it was read",
        "Look in the server's log for the reason of its end and start the server again.",
    )


class _Inspector:
    """One attempt: the subject, the hooks and the questions, then the files."""

    def __init__(
        self, handle: ProcessHandle, request: Request, calibration: Calibration | None = None
    ) -> None:
        self._handle = handle
        self._calibration = calibration
        self._deadline = request.deadline
        self._queries = (*HOOKS, *request.queries)
        self._start = start_time(handle.start_ticks, boot_offset())
        self._comm = handle.stat().comm

    def inspect(self) -> Inspection | None:
        """Return what was found, None if the process exec'd meanwhile; ProcessGone."""
        layout = self._calibration.layout if self._calibration is not None else None
        replies = run_each(
            [None, *self._queries],
            Session(self._handle, self._start, self._comm, layout).reply,
            deadline=self._deadline,
            on_timeout=lambda query: self._unread(query, *self._too_long()),
            on_crash=lambda query: self._unread(query, *_CRASHED),
        )
        subject: Subject | None = None
        answers: list[Answer] = []
        identities: set[Identity] = set()
        for _, reply in replies:
            if not reply.held:
                self._require_running()
                return None
            if reply.identity is not None:
                identities.add(reply.identity)
            if isinstance(reply.found, Answer):
                answers.append(reply.found)
            else:
                subject = reply.found
                if subject.state not in (PythonState.READ, PythonState.CHANGING):
                    break
        assert subject is not None
        self._require_running()
        if len(identities) > 1:
            return None
        for query in self._queries[len(answers) :]:
            answers.append(unreadable(query, subject.reason, subject.remedy))
        hooks, asked = answers[: len(HOOKS)], answers[len(HOOKS) :]
        files = self._files(subject, answers)
        return Inspection(subject, tuple(hooks), tuple(asked), files, self._calibration)

    def _require_running(self) -> None:
        if has_ended(self._handle):
            raise ProcessGone(self._handle.pid)

    def _too_long(self) -> tuple[str, str]:
        return f"reading it took longer than {self._deadline:g} s", _STALLED

    def _unread(self, query: str | None, reason: str, remedy: str) -> Reply:
        if query is not None:
            return Reply(unreadable(query, reason, remedy))
        return Reply(
            Subject(
                Identity(self._handle.pid, self._handle.start_ticks),
                self._start,
                self._comm,
                PythonState.UNREADABLE,
                reason=reason,
                remedy=remedy,
            )
        )

    def _files(self, subject: Subject, answers: list[Answer]) -> dict[str, FileFact]:
        paths = list(dict.fromkeys(path for answer in answers for path in files_of(answer)))
        reason, _ = self._too_long()
        found = run_each(
            paths,
            CodeFiles(self._handle, subject.start_time, subject.cwd).look,
            deadline=self._deadline,
            on_timeout=lambda path: FileFact(path, DiskState.UNREADABLE, reason=reason),
            on_crash=lambda path: FileFact(path, DiskState.UNREADABLE, reason=_CRASHED[0]),
        )
        return dict(found)
