"""The check `other-interpreter`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Sentence
from envprobe.routes.types import Launch


@dataclasses.dataclass(frozen=True, slots=True)
class _Python:
    """An interpreter: its version, its program as the kernel names it, and the environment."""

    version: str
    program: str | None
    prefix: str | None

    def __str__(self) -> str:
        place = f", prefix {self.prefix}" if self.prefix else ""
        return f"CPython {self.version}, {self.program or 'an unknown program'}{place}"


def _run(context: Context) -> Iterator[Finding]:
    for launch in context.routing.launches:
        workers = _interpreters(context, launch.workers)
        if len(workers) > 1:
            yield _among_workers(context, workers)
        elif workers:
            yield from _unlike_the_launcher(context, launch, *workers)


def _unlike_the_launcher(context: Context, launch: Launch, python: _Python) -> Iterator[Finding]:
    for other in _interpreters(context, [launch.launcher]):
        if other != python:
            workers = who.in_words(context, launch.workers)
            yield _finding(
                launch.workers,
                f"{workers} and {who.named(context, launch.launcher)}, which started what belongs"
                " to the launch, run different interpreters.",
                [f"{who.named(context, launch.launcher)}: {other}.", f"{workers}: {python}."],
            )


def _among_workers(context: Context, found: dict[_Python, tuple[int, ...]]) -> Finding:
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    odd = tuple(pid for _, pids in ordered[1:] for pid in pids)
    return _finding(
        odd,
        f"Workers of one launch run {len(found)} different interpreters:"
        f" {who.in_words(context, odd)} another one than most.",
        [f"{who.in_words(context, pids)}: {python}." for python, pids in ordered],
    )


def _finding(pids: tuple[int, ...], message: str, evidence: Iterable[str]) -> Finding:
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(message),
        pids=pids,
        evidence=tuple(Sentence.of(one) for one in evidence),
        remedy=Sentence.of(
            "Start all of the server with one interpreter of one virtual environment: look at what"
            " the launcher executes (sys.executable, multiprocessing.set_executable, a wrapper, a"
            " PATH that finds another python)."
        ),
    )


def _interpreters(context: Context, pids: Iterable[int]) -> dict[_Python, tuple[int, ...]]:
    """Return who runs which interpreter; of those of whom it was not read nothing is said."""
    found: dict[_Python, tuple[int, ...]] = {}
    for process in who.processes(context, pids):
        python = process.inside.python if process.inside is not None else None
        if python is not None:
            made = _Python(python.version, process.exe, python.prefix)
            found[made] = (*found.get(made, ()), process.pid)
    return found


CHECK = Check(
    id="EP024",
    slug="other-interpreter",
    severity=Severity.WARNING,
    summary="Workers of one launch run different interpreters, or another one than the launcher.",
    why="Another version, program or virtual environment means other packages and other start-up"
    " hooks: what was installed or patched for the server is not what this worker runs. Version,"
    " program and sys.prefix are compared: sys.executable may differ and mean the same.",
    mend="Start all of the server with one interpreter of one virtual environment.",
    run=_run,
)
