"""The check `nccl-set-elsewhere`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import origins
from envprobe.checks.nccl.context import Context, process_words
from envprobe.model import Confidence, Sentence, Shown
from envprobe.nccl.facts import Process
from envprobe.values import Value


def _run(context: Context) -> Iterator[Finding]:
    found: dict[tuple[str, Value | None, str, Confidence], list[Process]] = {}
    for process in context.log.processes:
        for key in _origins(context, process):
            found.setdefault(key, []).append(process)
    for (name, value, origin, confidence), processes in found.items():
        shown: tuple[str | Shown, ...] = () if value is None else ("=", Shown(name, value))
        those = process_words(processes[0])
        if len(processes) > 1:
            those += f" and {len(processes) - 1} more"
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(name or "Every variable", *shown, f" {origin} in {those}."),
            confidence=confidence,
            pids=tuple(one.pid for one in processes if one.pid is not None),
            variable=name,
            remedy=Sentence.of(CHECK.mend),
            who=those,
        )


def _origins(
    context: Context, process: Process
) -> Iterator[tuple[str, Value | None, str, Confidence]]:
    plugin = origins.foreign_environment(process)
    if plugin:
        yield "", None, f"was answered by the environment plugin {plugin}", Confidence.PROVED
    for one in process.variables:
        writer = origins.from_plugin(process, one.name)
        setting = origins.from_files(context, one.name, one.value)
        if writer:
            yield one.name, one.value, f"was written by {writer}", Confidence.PROVED
        elif setting is not None:
            place = f"equals {setting.path}:{setting.line}, which NCCL reads"
            yield one.name, one.value, place, Confidence.INFERRED


CHECK = Check(
    id="EP215",
    slug="nccl-set-elsewhere",
    severity=Severity.INFO,
    summary="A value that NCCL calls `set by environment` comes from somewhere else.",
    why="NCCL prints the same words for values of its configuration files and of plugins. They are"
    " in no environment that can be listed, and may be on one node only.",
    mend="Look for the value there when a launcher did not set it; the environment wins over the"
    " files.",
    run=_run,
)
