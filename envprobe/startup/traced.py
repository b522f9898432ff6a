"""From an interpreter or a pid to all that is found about its start: facts only."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from envprobe.errors import UndeterminedError, UsageError
from envprobe.runner.started import Bounds
from envprobe.startup import interpreter, target
from envprobe.startup.examine import Questions, examine
from envprobe.startup.result import Startup
from envprobe.startup.types import Asked, EntryState, Launch, Question

_SHEBANG: Final = b"#!"
_NAMES: Final = ("python3", "python")
_GIVE: Final = "Give the interpreter with --python PATH, or a running process with --pid PID."
_WARNING: Final = (
    "this runs {python} and with it its start-up hooks, which may do anything, {rights}"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What was found about one launch; it answers one question, or two with one environment.

    `blind` are paths that the process may read and its trace may not.
    """

    questions: tuple[Question, ...]
    startup: Startup
    blind: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """All that one run of the command has found.

    `chosen` says how the interpreter was chosen; `own` that it is the one envprobe itself runs in,
    although nobody has named it.
    """

    answers: tuple[Answer, ...]
    chosen: str
    own: bool = False
    target: target.Target | None = None


def trace_python(
    python: str | None,
    launch: Launch,
    questions: Questions,
    tell: Callable[[str], None],
) -> Traced:
    """Examine an interpreter, by default the first python3 on the launch's PATH.

    `launch` says all but the interpreter. `tell` gets one line before foreign code is run. Raises
    UsageError if there is no such program, UndeterminedError if it cannot be started.
    """
    path = _named(python, launch) if python is not None else _on_path(launch.environment)
    chosen = "given with --python" if python is not None else "the first on PATH"
    _warn(tell, path, launch)
    launch = dataclasses.replace(launch, python=path)
    if _is_script(path):
        chosen += f", by the script {path}"
        launch = _behind(launch, questions.seconds)
    question = Question(Asked.GIVEN, launch)
    own = python is None and os.path.abspath(launch.python) == os.path.abspath(sys.executable)
    answer = Answer((question,), examine(launch, questions))
    return Traced((answer,), chosen, own)


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_SHEBANG)) == _SHEBANG


def _behind(launch: Launch, seconds: float) -> Launch:
    """Return the launch of the interpreter that a wrapper script starts, as it starts it."""
    ended = interpreter.run(
        dataclasses.replace(launch, flags=()),
        interpreter.payload("startup_wrapped"),
        Bounds(seconds),
        options=("-I", "-S"),
    )
    try:
        told = json.loads(ended.answer)
    except ValueError:
        raise UndeterminedError(
            f"the script {launch.python} has started no Python",
            f"Its last words: {interpreter.last_words(ended)}",
        ) from None
    return dataclasses.replace(
        launch,
        python=told["python"],
        environment=told["environment"],
        flags=(*told["flags"], *launch.flags),
    )


def trace_pid(pid: int, questions: Questions, tell: Callable[[str], None]) -> Traced:
    """Examine the interpreter of a running process, under what it was given and what it has now.

    Raises TargetGoneError, UndeterminedError (see `target.questions`).
    """
    with target.questions(pid) as (found, asked):
        if not asked:
            raise UndeterminedError(
                f"no environment of process {pid} can be read",
                "Run envprobe as the user of the process, or as root.",
            )
        launch = asked[0].launch
        _warn(tell, launch.python, launch)
        answers: list[Answer] = []
        for question in asked:
            last = answers[-1] if answers else None
            if last is not None and _same(last.questions[0].launch, question.launch):
                answers[-1] = Answer((*last.questions, question), last.startup)
            else:
                answers.append(Answer((question,), examine(question.launch, questions)))
        compared = tuple(_compared(found, answer) for answer in answers)
        return Traced(compared, f"that of {found.named}", target=found)


def _compared(found: target.Target, answer: Answer) -> Answer:
    questions = (target.by_memory(found, one, answer.startup) for one in answer.questions)
    blind = tuple(_unreadable(answer.startup)) if found.overrides else ()
    return dataclasses.replace(answer, questions=tuple(questions), blind=blind)


def _unreadable(startup: Startup) -> Iterator[str]:
    walk = startup.walk
    if walk is not None:
        yield from (one.path for one in walk.entries if one.state is EntryState.UNREADABLE)
        yield from (one.file.path for one in walk.candidates if not one.file.readable)
        yield from (one.file.path for one in walk.files if one.unreadable)


def _same(one: Launch, other: Launch) -> bool:
    return dict(one.environment) == dict(other.environment)


def _warn(tell: Callable[[str], None], python: str, launch: Launch) -> None:
    rights = "with your own rights" if launch.rights is None else f"as {launch.rights}"
    tell(_WARNING.format(python=python, rights=rights))


def _named(python: str, launch: Launch) -> str:
    """Return the absolute path of what --python names: a path, or a program on PATH."""
    found = python if "/" in python else shutil.which(python, path=launch.environment.get("PATH"))
    path = os.path.join(launch.cwd, found) if found else ""
    if not path or not os.path.isfile(path):
        raise UsageError(f"there is no interpreter {python}", _GIVE)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{python} cannot be executed", _GIVE)
    return os.path.normpath(path)


def _on_path(environment: Mapping[str, str]) -> str:
    for name in _NAMES:
        found = shutil.which(name, path=environment.get("PATH", os.defpath))
        if found:
            return os.path.abspath(found)
    raise UsageError("there is no python3 on PATH", _GIVE)
