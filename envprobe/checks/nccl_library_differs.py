"""The check `nccl-library-differs`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Confidence, Process, Sentence
from envprobe.routes.types import PeerGroup


def _run(context: Context) -> Iterator[Finding]:
    for group in context.routing.groups:
        processes = who.processes(context, group.workers)
        loaded = [one for one in processes if one.libraries is not None and one.libraries.nccl]
        for key in (_versions, _files):
            found = who.folded(loaded, key)
            known = {what: having for what, having in found.items() if what and all(what)}
            if len(known) > 1:
                yield _finding(context, group, known, versions=key is _versions)
                break


def _versions(process: Process) -> tuple[str, ...]:
    libraries = process.libraries
    return tuple(sorted({one.version for one in libraries.nccl})) if libraries else ()


def _files(process: Process) -> tuple[object, ...]:
    """Return the files where their versions do not tell: one of them then has no version."""
    libraries = process.libraries
    if libraries is None or all(one.version for one in libraries.nccl):
        return ()
    return tuple(sorted(one.identity for one in libraries.nccl))


def _finding(
    context: Context,
    group: PeerGroup,
    found: dict[tuple[object, ...], list[Process]],
    *,
    versions: bool,
) -> Finding:
    ordered = sorted(found.values(), key=len, reverse=True)
    ways = (f"{_words(some[0])} in {who.in_words(context, _pids(some))}" for some in ordered)
    what = "versions" if versions else "files"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity if versions else Severity.WARNING,
        message=Sentence.of(
            f"Workers of {who.named(context, group.launcher)} that belong together have loaded"
            f" different {what} of NCCL: {'; '.join(ways)}."
        ),
        confidence=Confidence.PROVED if versions else Confidence.INFERRED,
        pids=tuple(pid for some in ordered[1:] for pid in _pids(some)),
        remedy=Sentence.of(CHECK.mend),
    )


def _pids(processes: list[Process]) -> tuple[int, ...]:
    return tuple(one.pid for one in processes)


def _words(process: Process) -> str:
    libraries = process.libraries
    return " and ".join(one.words for one in libraries.nccl) if libraries else ""


CHECK = Check(
    id="EP031",
    slug="nccl-library-differs",
    severity=Severity.ERROR,
    summary="Workers that belong together have loaded different versions of NCCL.",
    why="Ranks of one communicator exchange structures that differ between versions, and defaults"
    " differ too: they fail with an unrelated message, hang, or compute wrong sums. The version is"
    " the one that each library says of itself in memory, whatever its file is called.",
    mend="Start all workers from one environment: LD_PRELOAD, LD_LIBRARY_PATH, VLLM_NCCL_SO_PATH"
    " and SGLANG_NCCL_SO_PATH choose another library than PyTorch's own. After an upgrade restart"
    " all of them.",
    run=_run,
)
