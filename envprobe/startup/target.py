"""From a running process to the launches that its start-up is asked about.

Two questions: under the exec environment, what this process ran; under its live C environment, what
the next child that it spawns will run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

from envprobe import collect, inspection
from envprobe.errors import UndeterminedError
from envprobe.model import Confidence, Environment, EnvironmentStatus, Process, Snapshot, View
from envprobe.process import access, rootfs, targets
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle, Unsupported
from envprobe.process.program import rights_of
from envprobe.pythonfacts import AnswerState, PythonFact, PythonState
from envprobe.runner.rights import Rights
from envprobe.startup import walk
from envprobe.startup.result import Startup
from envprobe.startup.types import MODULES, Asked, Launch, Question

_FLAGS: Final = {
    "isolated": "-I",
    "ignore_environment": "-E",
    "no_user_site": "-s",
    "no_site": "-S",
    "safe_path": "-P",
}
"""sys.flags and the options that set them; -I sets three of the others."""

_WITH_VALUE: Final = ("-X", "-W", "--check-hash-based-pycs")
_OTHER_ROOT: Final = (
    "Run envprobe as root, which may enter that root directory, or inside the container."
)
_READ_ANY: Final = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (capabilities(7))."""

_MOVED: Final = "{0}, by which it was started, does not lead to its program any more"
_OTHER_DIRECTORY: Final = (
    "PYTHONPATH has a relative or empty entry, and in which directory the process was started is"
    " not known"
)
_OTHER_HOOKS: Final = "the memory of the process holds other hooks than a start today would load"
_AS_ITS_USER: Final = "Run envprobe as the user of the process, or as root."
_OTHER_USERS: Final = (
    "Run envprobe inside the container, or give the interpreter and its environment with --python"
    " and --env."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A running process, with what its memory says of its hooks.

    `loaded` maps each hook that the process has loaded to its file; None where that could not be
    read, `unread` says why. `interpreters` counts the Python programs of its tree that were started
    with the same PYTHONPATH: each of them has run the hooks. `started` is in Unix seconds.
    `overrides`: it may read any file by its capabilities, which the trace gives up.
    """

    pid: int
    named: str
    started: float
    loaded: Mapping[str, str] | None
    unread: str
    interpreters: int
    overrides: bool = False


@contextlib.contextmanager
def questions(pid: int) -> Iterator[tuple[Target, tuple[Question, ...]]]:
    """Yield a process and its questions; the root directory stays open meanwhile.

    Raises TargetGoneError if there is no such process, UndeterminedError if envprobe may not start
    its interpreter (another user, a user namespace) or cannot find out how it was started.
    """
    targets.resolve(pid)
    snapshot = collect.collect(
        collect.Request(roots=(pid,), wanted=("*",), orphans=False, python=False)
    )
    process = snapshot.process(pid)
    assert process is not None
    found = inspection.inspect(inspection.Request(pid), lambda line: None)
    python = found.subject.python
    if found.subject.state is PythonState.NO_PYTHON:
        raise UndeterminedError(
            f"process {pid} holds no Python", "Give the pid of a Python process."
        )
    try:
        with ProcessHandle.open(pid) as handle, contextlib.ExitStack() as stack:
            try:
                rights = rights_of(handle)
                root = _root(handle)
                if root is not None:
                    stack.callback(os.close, root)
                program, moved = _program(handle, python, root is not None)
                launch = _launch(process, python, program, handle, root, rights)
                asked = tuple(_inferred(one, moved) for one in _questions(process, launch))
                overrides = int(handle.status().get("CapEff", "0"), 16) & _READ_ANY != 0
            except AccessRefused as refused:
                what = f"how process {pid} was started"
                told = access.explain(handle, refused, what, environment=False)
                raise UndeterminedError(*told) from None
            made = dataclasses.replace(_target(snapshot, process, found), overrides=overrides)
            yield made, asked
    except ProcessGone as gone:
        raise UndeterminedError(str(gone), "Run envprobe on a process that lives.") from None


def _questions(process: Process, launch: Launch) -> Iterator[Question]:
    live, handed = process.environment(View.LIBC), process.environment(View.EXEC)
    if handed.status is EnvironmentStatus.COMPLETE:
        ran = dataclasses.replace(launch, environment=_texts(handed))
        yield Question(Asked.RAN, ran, handed.confidence, handed.reason)
    else:
        known = {**_texts(live), **_texts(handed)}
        reason = handed.reason or "the environment that it was started with cannot be read"
        if known:
            ran = dataclasses.replace(launch, environment=known)
            yield Question(Asked.RAN, ran, Confidence.INFERRED, reason)
    if live.status in (EnvironmentStatus.COMPLETE, EnvironmentStatus.PARTIAL):
        after = dataclasses.replace(launch, environment=_texts(live))
        yield Question(Asked.NEXT, after, live.confidence, live.reason)


def _inferred(question: Question, reason: str) -> Question:
    """Return a question whose answer is inferred for one more reason, the same for ""."""
    if not reason:
        return question
    reasons = "; ".join(one for one in (question.reason, reason) if one)
    return dataclasses.replace(question, confidence=Confidence.INFERRED, reason=reasons)


def by_memory(target: Target, question: Question, startup: Startup) -> Question:
    """Return the question that a trace answers, once the process's memory is compared with it.

    Memory that holds other hooks shows that RAN is not answered: the question is AGAIN. Where it
    cannot be read, what depends on the directory of the start is inferred: only the present one is
    known.
    """
    if question.asked is not Asked.RAN:
        return question
    if target.loaded is None:
        relative = any(one.oddity is not None for one in walk.elements(question.launch))
        return _inferred(question, _OTHER_DIRECTORY if relative else "")
    effects = startup.effects
    if effects is None or all(
        target.loaded.get(one, "") == effects.loaded.get(one, "") for one in MODULES
    ):
        return question
    return dataclasses.replace(_inferred(question, _OTHER_HOOKS), asked=Asked.AGAIN)


def _texts(environment: Environment) -> dict[str, str]:
    return {
        name: os.fsdecode(value.reveal())
        for name, value in environment.entries.items()
        if value is not None and not value.truncated
    }


# --- how it was started --------------------------------------------------------------------------


def _root(handle: ProcessHandle) -> int | None:
    """Return a descriptor of the process's root directory, None if envprobe has the same."""
    if handle.readlink("ns/user") != os.readlink("/proc/self/ns/user"):
        raise UndeterminedError(
            "the process is in another user namespace, and nothing is run across that", _OTHER_USERS
        )
    root = handle.open_file("root", os.O_PATH | os.O_DIRECTORY)
    here, there = os.stat("/"), os.fstat(root)
    same_mounts = handle.readlink("ns/mnt") == os.readlink("/proc/self/ns/mnt")
    if same_mounts and (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
        os.close(root)
        return None
    if os.geteuid() != 0:
        os.close(root)
        raise UndeterminedError("the process has a root directory of its own", _OTHER_ROOT)
    return root


def _program(handle: ProcessHandle, python: PythonFact | None, other_root: bool) -> tuple[str, str]:
    """Return the path to start the interpreter by, and why it is not the one of its start, or "".

    It must lead to the file that is running.

    sys.executable tells a virtual environment from its base, /proc/PID/exe does not.
    """
    exe = handle.readlink("exe")
    named = python.executable if python is not None else None
    for path in (named, exe):
        if path and _is_same(handle, path, other_root):
            return path, _MOVED.format(named) if named and path != named else ""
    raise UndeterminedError(
        f"{exe} is not the file any more that the process was started from",
        "Restart the process, or give the interpreter with --python.",
    )


def _is_same(handle: ProcessHandle, path: str, other_root: bool) -> bool:
    running = handle.open_file("exe", os.O_PATH)
    try:
        own = os.fstat(running)
        there = _stat_in_root(handle, path) if other_root else os.stat(path)
    except (OSError, AccessRefused, Unsupported):
        return False
    finally:
        os.close(running)
    return (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)


def _stat_in_root(handle: ProcessHandle, path: str) -> os.stat_result:
    descriptor = rootfs.open_regular(handle, path)
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _launch(
    process: Process,
    python: PythonFact | None,
    program: str,
    handle: ProcessHandle,
    root: int | None,
    rights: Rights,
) -> Launch:
    flags = python.flags if python is not None else {}
    words = (python.orig_argv if python is not None else ()) or process.title
    if not flags and not words:
        raise UndeterminedError(
            "with which options the interpreter was started cannot be read", _AS_ITS_USER
        )
    cwd = _inside(process.cwd or "/", handle.readlink("root"))
    options, rest = options_of(words)
    if flags:
        options = tuple(option for name, option in _FLAGS.items() if flags.get(name))
    return Launch(
        python=program,
        environment={},
        flags=options,
        cwd=cwd,
        path0=path0_of(rest, cwd),
        root=root,
        rights=rights,
    )


def _inside(cwd: str, root: str) -> str:
    """Return a directory as seen below the process's root."""
    if root != "/" and (cwd == root or cwd.startswith(root + "/")):
        return cwd[len(root) :] or "/"
    return cwd


def options_of(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a command line of Python into the interpreter's options and what it is to run."""
    options: list[str] = []
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "-c", "-m"):
        word = rest.pop(0)
        if word in _WITH_VALUE and rest:
            rest.pop(0)
        elif word[1:2] not in "XW-":
            options.append(word)
    return tuple(options), tuple(rest)


def path0_of(rest: tuple[str, ...], cwd: str) -> str | None:
    """Return what a program puts first on sys.path: its directory; "" and `cwd` for -c and -m."""
    if not rest or rest[0] in ("-", "-c"):
        return ""
    if rest[0] == "-m":
        return cwd
    return posixpath.dirname(posixpath.normpath(posixpath.join(cwd, rest[0])))


# --- what is known of it besides -----------------------------------------------------------------


def _target(snapshot: Snapshot, process: Process, found: inspection.Inspection) -> Target:
    loaded: dict[str, str] | None = {}
    unread = ""
    for answer in found.hooks:
        if answer.state is AnswerState.VALUE and answer.found_module is not None:
            module = answer.found_module
            if loaded is not None:
                loaded[answer.query] = module.origin or module.file or ""
        elif answer.state not in (AnswerState.NOT_IMPORTED, AnswerState.ABSENT):
            loaded, unread = None, answer.reason
    return Target(
        pid=process.pid,
        named=process.named,
        started=process.start_time,
        loaded=loaded,
        unread=unread,
        interpreters=sum(_shares(one, process) for one in snapshot.processes),
    )


def _shares(one: Process, process: Process) -> bool:
    """Return whether a process is an interpreter of its own with the same PYTHONPATH."""
    if one.interpreter is None or one.image_owner != one.pid:
        return False
    mine, its = (each.environment(View.EXEC).reading("PYTHONPATH") for each in (process, one))
    return mine.known and its.known and mine.value == its.value
