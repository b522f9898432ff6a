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
from envprobe.launch import sandbox
from envprobe.launch.definition import Definition
from envprobe.launch.sandbox import Property
from envprobe.launch.types import Place
from envprobe.model import Confidence
from envprobe.runner.started import Bounds
from envprobe.startup import declared, doubts, interpreter, target
from envprobe.startup.declared import Start
from envprobe.startup.examine import Questions, examine
from envprobe.startup.result import Startup
from envprobe.startup.types import Asked, EntryState, Launch, Question

_SHEBANG: Final = b"#!"
_NAMES: Final = ("python3", "python")
_GIVE: Final = "Give the interpreter with --python PATH, or a running process with --pid PID."
_INSIDE: Final = "Run envprobe where the unit's own file system is seen."
_WARNING: Final = (
    "this runs {python} and with it its start-up hooks, which may do anything, {rights}"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What was found about one launch; it answers one question, or two with one environment.

    `blind` are paths that the process may read and its trace may not. `start` is the declared start
    that was traced; `undecided` and `unseen` say what its answer hangs on that could not be told
    and not be reproduced (`doubts`).
    """

    questions: tuple[Question, ...]
    startup: Startup
    blind: tuple[str, ...] = ()
    start: Start | None = None
    undecided: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unseen: Mapping[Property, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def unsure(self) -> bool:
        """Whether another answer would be possible: something that decides it is not known."""
        return bool(self.blind or self.undecided or self.unseen)


@dataclasses.dataclass(frozen=True, slots=True)
class Untold:
    """A command of a definition, by its place, of which nothing could be found out, and why."""

    place: Place
    reason: str
    remedy: str


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """All that one run of the command has found.

    `chosen` says how the interpreter was chosen; `own` that it is the one envprobe itself runs in,
    although nobody has named it. `untold` are the commands of a definition without an answer.
    """

    answers: tuple[Answer, ...]
    chosen: str
    own: bool = False
    target: target.Target | None = None
    definition: Definition | None = None
    untold: tuple[Untold, ...] = ()

    @property
    def several(self) -> bool:
        """Whether there is more than one start to tell apart."""
        return len(self.answers) + len(self.untold) > 1


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
    try:
        with open(path, "rb") as file:
            return file.read(len(_SHEBANG)) == _SHEBANG
    except OSError:
        return False


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


def trace_definition(
    definition: Definition, questions: Questions, tell: Callable[[str], None]
) -> Traced:
    """Examine the interpreters that a launch definition starts, each as it starts it.

    One that cannot be told (`declared.start_of`), cannot be started, or is seen otherwise by the
    unit, is among `untold`. Raises UndeterminedError, with the line, if there is no other.
    """
    declared.require_python(definition)
    answers: list[Answer] = []
    untold: list[Untold] = []
    for launch in definition.launches:
        try:
            answers.append(_declared(declared.start_of(definition, launch), questions, tell))
        except UndeterminedError as error:
            untold.append(Untold(launch.place, error.message, error.remedy))
    if not answers:
        raise UndeterminedError(untold[0].reason, untold[0].remedy)
    chosen = f"declared by {definition.subject}"
    return Traced(tuple(answers), chosen, definition=definition, untold=tuple(untold))


def _declared(start: Start, questions: Questions, tell: Callable[[str], None]) -> Answer:
    launch = start.launch
    by = sandbox.concerning(start.sandbox, launch.python)
    if by is not None:
        told = f"{by.place}: what {launch.python} is to the unit is not known here ({by})"
        raise UndeterminedError(told, _INSIDE)
    try:
        _warn(tell, launch.python, launch)
        if _is_script(launch.python):
            launch = _behind(launch, questions.seconds)
        startup = examine(launch, questions)
    except UndeterminedError as error:
        told = f"{start.declared.place}: {error.message}"
        raise UndeterminedError(told, error.remedy) from None
    question = Question(Asked.DECLARED, launch)
    if start.gaps:
        reason = "; ".join(start.gaps)
        question = Question(Asked.DECLARED, launch, Confidence.INFERRED, reason)
    return Answer(
        (question,),
        startup,
        start=start,
        undecided=doubts.undecided(start, startup),
        unseen=doubts.unseen(start, startup),
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
    """Say what is run and with which rights; UndeterminedError if envprobe cannot take them on."""
    if launch.rights is not None:
        launch.rights.require()
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
