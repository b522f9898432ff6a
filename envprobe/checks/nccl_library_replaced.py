"""The check `nccl-library-replaced`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Sentence
from envprobe.ncclfacts import Library


def _run(context: Context) -> Iterator[Finding]:
    gone = [
        (process, one)
        for process in context.once(who.workers)
        if process.libraries is not None
        for one in process.libraries.nccl
        if one.deleted
    ]
    for group in who.folded(gone, lambda pair: (pair[1].words, pair[1].replaced)).values():
        pids = tuple(dict.fromkeys(process.pid for process, _ in group))
        library = group[0][1]
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(
                f"The file of NCCL {library.words} was deleted after it was loaded in"
                f" {who.in_words(context, pids)}{_now(library)}."
            ),
            pids=pids,
            remedy=Sentence.of(CHECK.mend),
        )


def _now(library: Library) -> str:
    if library.replaced is None:
        return ""
    return "; another file has its path now" if library.replaced else "; nothing has its path now"


CHECK = Check(
    id="EP033",
    slug="nccl-library-replaced",
    severity=Severity.WARNING,
    summary="A worker runs an NCCL whose file was deleted or replaced after it was loaded.",
    why="The worker goes on with the old library, and whatever is started from now on gets the new"
    " one, or none: a worker that restarts alone does not fit its peers any more, and the version"
    " that pip shows is not the one that runs.",
    mend="Restart the whole server after an upgrade.",
    run=_run,
)
