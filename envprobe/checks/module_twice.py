"""The check `module-twice`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.sources import chain
from envprobe.model import Process, Sentence
from envprobe.patchexpect import normal
from envprobe.pythonfacts import HOOKS, Answer, CallableFact
from envprobe.routes.types import Launch

_MAIN: Final = ("__main__", "__mp_main__")

_Copies = dict[str, tuple[str, ...]]
"""The files that each module was loaded from, by name."""


def _run(context: Context) -> Iterator[Finding]:
    copies = {process.pid: _copies(process) for process in who.workers(context)}
    yield from _within(context, copies)
    for launch in context.routing.launches:
        yield from _between_peers(context, launch, copies)


def _copies(process: Process) -> _Copies:
    found: dict[str, dict[str, None]] = {}
    for answer in process.inside.answers if process.inside is not None else ():
        for name, file in _modules(answer):
            path = normal(file, process.cwd)
            if path is not None and name not in (*_MAIN, *HOOKS):
                found.setdefault(name, {})[path] = None
    return {name: tuple(files) for name, files in found.items()}


def _modules(answer: Answer) -> Iterator[tuple[str, str]]:
    """Yield each module that an answer shows, and the file that it was loaded from.

    A module under another name than its own (os.path is posixpath) counts under its own.
    """
    for module in (answer.module, answer.found_module):
        if module is not None and module.spec_name and module.file:
            yield module.spec_name, module.file
    for fact in chain(answer.function) if answer.function is not None else ():
        if _is_of_module(fact):
            yield str(fact.globals_module), str(fact.globals_file)


def _is_of_module(fact: CallableFact) -> bool:
    """Return whether the namespace of a function is that of the file that its code is from."""
    return bool(fact.globals_module and fact.globals_file) and fact.file == fact.globals_file


def _within(context: Context, copies: dict[int, _Copies]) -> Iterator[Finding]:
    every = [
        (pid, name, files)
        for pid, found in copies.items()
        for name, files in found.items()
        if len(files) > 1
    ]
    for (name, files), group in who.folded(every, lambda one: (one[1], one[2])).items():
        pids = tuple(pid for pid, _, _ in group)
        yield _finding(
            f"{name} was loaded more than once in {who.in_words(context, pids)}, from"
            f" {who.listed(files)}.",
            pids,
        )


def _between_peers(
    context: Context, launch: Launch, copies: dict[int, _Copies]
) -> Iterator[Finding]:
    names = dict.fromkeys(name for pid in launch.workers for name in copies.get(pid, ()))
    for name in names:
        having = [pid for pid in launch.workers if len(copies.get(pid, {}).get(name, ())) == 1]
        groups: dict[str, list[int]] = {}
        for pid in having:
            groups.setdefault(copies[pid][name][0], []).append(pid)
        if len(groups) > 1:
            usual = max(groups, key=lambda file: len(groups[file]))
            ways = (f"{file} in {who.in_words(context, pids)}" for file, pids in groups.items())
            yield _finding(
                f"{name} was loaded from different files in the workers of"
                f" {who.named(context, launch.launcher)}: {'; '.join(ways)}.",
                tuple(pid for file, pids in groups.items() if file != usual for pid in pids),
            )


def _finding(message: str, pids: tuple[int, ...]) -> Finding:
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(message),
        pids=pids,
        remedy=Sentence.of(
            "Compare sys.path of these processes (`envprobe inspect --pid PID`), remove the copy"
            " that is not meant, and restart the server."
        ),
    )


CHECK = Check(
    id="EP029",
    slug="module-twice",
    severity=Severity.WARNING,
    summary="A module was loaded from two files, in one worker or in workers of one launch.",
    why="A second copy of a package (an old checkout, an editable install beside a wheel) that"
    " comes first on sys.path in one worker makes that worker run other code; two copies in one"
    " process have two sets of classes, of which only one is patched. Only modules that were asked"
    " about, and those of the functions found there, are compared.",
    mend="Look at sys.path of these processes and at PYTHONPATH, remove the copy that is not meant,"
    " and restart the server.",
    run=_run,
)
