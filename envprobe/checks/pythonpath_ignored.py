"""The check `pythonpath-ignored`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Confidence, Process, Reading, Sentence, Shown, State, View
from envprobe.pythonfacts import PythonFact
from envprobe.redact import holds_secret

_NAME: Final = "PYTHONPATH"
_FLAGS: Final = {"isolated": "-I", "ignore_environment": "-E"}
_ENTRIES: Final = 8


def _run(context: Context) -> Iterator[Finding]:
    ignoring = [one for one in who.workers(context) if _is_ignored(context, one)]
    groups = who.folded(ignoring, lambda one: (_at_start(context, one).value, _option(one)))
    for group in groups.values():
        yield _finding(context, group)


def _is_ignored(context: Context, process: Process) -> bool:
    value = _at_start(context, process).value
    # An empty PYTHONPATH is the same as none (Python/initconfig.c, config_get_env).
    return bool(_option(process)) and value is not None and bool(value.reveal())


def _option(process: Process) -> str:
    """Return the option that makes the interpreter ignore PYTHON* variables, "" for none."""
    python = process.inside.python if process.inside is not None else None
    flags = python.flags if python is not None else {}
    return next((option for flag, option in _FLAGS.items() if flags.get(flag, 0) > 0), "")


def _at_start(context: Context, process: Process) -> Reading:
    """Return what the process's image was given; where that is lost, what it has now."""
    owner = who.process_of(context, process.image_owner) or process
    for one, view in ((owner, View.EXEC), (process, View.LIBC)):
        reading = one.environment(view).reading(_NAME)
        if reading.known:
            return reading
    return Reading(State.NOT_ASKED)


def _finding(context: Context, group: list[Process]) -> Finding:
    first, reading = group[0], _at_start(context, group[0])
    assert reading.value is not None
    proved = all(_is_proved(context, one) for one in group)
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence(
            (
                f"{_NAME}=",
                Shown(_NAME, reading.value),
                f" has no effect in {who.in_words(context, [one.pid for one in group])}: the"
                f" interpreter was started with {_option(first)} and ignores it.",
            )
        ),
        confidence=Confidence.PROVED if proved else Confidence.INFERRED,
        pids=tuple(one.pid for one in group),
        variable=_NAME,
        evidence=tuple(_evidence(first, reading)),
        remedy=Sentence.of(
            f"Start the worker without {_option(first)}, or put these folders on sys.path with a"
            " .pth file in the site-packages of its interpreter."
        ),
    )


def _is_proved(context: Context, process: Process) -> bool:
    owner = who.process_of(context, process.image_owner) or process
    reading = owner.environment(View.EXEC).reading(_NAME)
    return reading.state is State.VALUE and reading.confidence is Confidence.PROVED


def _evidence(process: Process, reading: Reading) -> Iterator[Sentence]:
    """Say of each element where it leads, and whether it is on sys.path nevertheless."""
    python = process.inside.python if process.inside is not None else None
    if python is None or reading.value is None:
        return
    flags = ", ".join(f"{name}={python.flags[name]}" for name in _FLAGS if name in python.flags)
    yield Sentence.of(f"sys.flags of {process.named}: {flags}.")
    if reading.value.truncated or holds_secret(_NAME, reading.value):
        return
    entries = os.fsdecode(reading.value.reveal()).split(":")
    for entry in entries[:_ENTRIES]:
        yield Sentence.of(f"{_leads(entry, process.cwd)} {_is_on(entry, python, process.cwd)}.")


def _leads(entry: str, cwd: str | None) -> str:
    if entry.startswith("/"):
        return entry
    place = resolved(entry, cwd) or "not known where"
    return f"{entry or 'An empty element'} (relative, in its working directory: {place})"


def _is_on(entry: str, python: PythonFact, cwd: str | None) -> str:
    place = resolved(entry, cwd)
    places = {resolved(one, cwd) for one in python.path}
    return "is on sys.path all the same" if place in places else "is not on sys.path"


def resolved(entry: str, cwd: str | None) -> str | None:
    """Return where an entry of PYTHONPATH or sys.path leads; None where the cwd is not known."""
    if entry.startswith("/"):
        return os.path.normpath(entry)
    return os.path.normpath(os.path.join(cwd, entry)) if cwd is not None else None


CHECK = Check(
    id="EP023",
    slug="pythonpath-ignored",
    severity=Severity.WARNING,
    summary="PYTHONPATH is there, but the interpreter of a worker ignores it.",
    why="python -I and python -E ignore every PYTHON* variable. The variable is in the environment,"
    " each tool shows it, and yet neither the modules nor the sitecustomize.py in these folders are"
    " found. multiprocessing passes the options of the parent on to the children that it spawns.",
    mend="Start the server without -I or -E, or put the folders on sys.path with a .pth file in"
    " site-packages.",
    run=_run,
)
