"""The check `nccl-library-twice`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    several = [
        (one, one.libraries.nccl)
        for one in context.once(who.workers)
        if one.libraries is not None and len(one.libraries.nccl) > 1
    ]
    groups = who.folded(several, lambda pair: tuple(one.words for one in pair[1]))
    for words, group in groups.items():
        pids = tuple(process.pid for process, _ in group)
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(
                f"{len(words)} copies of NCCL are loaded in {who.in_words(context, pids)}:"
                f" {who.listed(words)}."
            ),
            pids=pids,
            remedy=Sentence.of(CHECK.mend),
        )


CHECK = Check(
    id="EP032",
    slug="nccl-library-twice",
    severity=Severity.WARNING,
    summary="A worker has more than one copy of NCCL loaded.",
    why="Each copy reads the variables on its own and at its own time, and keeps what it read: what"
    " is set after the first copy has started counts for the second one only. PyTorch's version"
    " number tells of its own copy alone.",
    mend="Let all parts of the process load one file: compare LD_PRELOAD, VLLM_NCCL_SO_PATH and"
    " SGLANG_NCCL_SO_PATH with the library that PyTorch brings.",
    run=_run,
)
