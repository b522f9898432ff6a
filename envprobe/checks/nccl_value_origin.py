"""The check `nccl-value-origin`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Confidence, Sentence, Shown


def _run(context: Context) -> Iterator[Finding]:
    workers = context.routing.workers()
    found = [
        (pid, name, hop)
        for (pid, name), route in context.routing.routes.items()
        if pid in workers
        for hop in route.nccl
        if hop.origin
    ]
    groups = who.folded(found, lambda one: (one[1], one[2].reading.value, one[2].origin))
    for (name, value, origin), group in groups.items():
        pids = tuple(dict.fromkeys(pid for pid, _, _ in group))
        shown = () if value is None else (Shown(name, value),)
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(
                f"NCCL in {who.in_words(context, pids)} read {name}=",
                *shown,
                ", which nothing shows to be from the launch environment.",
            ),
            confidence=Confidence.INFERRED,
            pids=pids,
            variable=name,
            evidence=origin,
            remedy=Sentence.of(CHECK.mend),
        )


CHECK = Check(
    id="EP039",
    slug="nccl-value-origin",
    severity=Severity.INFO,
    summary="A value that NCCL calls `set by environment` is from somewhere else.",
    why="NCCL prints the same words for values of its configuration files and of plugins, and for"
    " what a framework has set in the process: no launch environment shows them, and they may be on"
    " one node only.",
    mend="Nothing needs to be done if it is meant. The launch environment wins over the files and"
    " over most frameworks.",
    run=_run,
)
