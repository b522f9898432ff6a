"""The check `library-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.config import LibraryExpectation
from envprobe.model import Process, Sentence
from envprobe.ncclfacts import Libraries

_NOT_ASKED = "its libraries were not looked for when the facts were saved"
_RESCAN = "Scan again with this expectation and --save-facts."


def _run(context: Context) -> Iterator[Finding]:
    workers = context.once(who.workers)
    for expected in context.config.libraries:
        without = [one for one in workers if not _has(one.libraries, expected)]
        groups = who.folded(without, lambda one: _unknown(one, expected))  # noqa: B023
        for (reason, remedy), group in groups.items():
            yield _finding(context, expected, group, reason, remedy)


def undecided(context: Context) -> tuple[str, ...]:
    """Return the patterns that nothing matches in some worker: it may still be loaded."""
    workers = context.once(who.workers)
    return tuple(
        expected.pattern
        for expected in context.config.libraries
        if not all(_has(one.libraries, expected) for one in workers)
    )


def _has(libraries: Libraries | None, expected: LibraryExpectation) -> bool:
    return libraries is not None and bool(libraries.named.get(expected.pattern))


def _unknown(process: Process, expected: LibraryExpectation) -> tuple[str, str]:
    """Return why it cannot be told whether a process lacks the library, "" if it does."""
    libraries = process.libraries
    if libraries is None or expected.pattern not in libraries.named:
        return _NOT_ASKED, _RESCAN
    return ("", "") if libraries.whole else (libraries.reason, libraries.remedy)


def _finding(
    context: Context,
    expected: LibraryExpectation,
    group: list[Process],
    reason: str,
    remedy: str,
) -> Finding:
    pids = tuple(one.pid for one in group)
    those = who.in_words(context, pids)
    if reason:
        said = f"Cannot tell whether {expected.pattern} is loaded in {those}: {reason}."
    else:
        said = f"No shared object that matches {expected.pattern} is loaded in {those}."
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(said),
        pids=pids,
        evidence=(Sentence.of(f"Expected by {expected.origin}."),),
        remedy=Sentence.of(remedy or CHECK.mend),
        undetermined=bool(reason),
    )


CHECK = Check(
    id="EP034",
    slug="library-missing",
    severity=Severity.ERROR,
    summary="A shared object that every worker must have loaded is not loaded in one.",
    why="A custom kernel whose library is missing falls back to the original code without a word,"
    " in one worker or in all; that its package can be imported elsewhere proves nothing.",
    mend="Look in that worker's log for the error of the import, and compare LD_LIBRARY_PATH and"
    " PYTHONPATH with a worker that has it. A library that is loaded at its first use is not there"
    " before the first request: send one, then look again.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
