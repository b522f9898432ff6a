"""The check `hook-initialised-cuda`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext, found, groups, names
from envprobe.rehearsal.types import Member


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        for told, group in groups(one.members, _initialised):
            text = f"{told} in {names(group)}."
            text = text[:1].upper() + text[1:]
            mere = not any(each.effects.cuda_initialised for each in group)
            severity = Severity.WARNING if mere else CHECK.severity
            yield found(CHECK, rehearsed, text, members=group, severity=severity)


def _initialised(member: Member) -> str | None:
    if member.effects.cuda_initialised:
        return "a start-up hook has initialised CUDA"
    if member.effects.gpu_files:
        return "a start-up hook has opened a GPU's device file"
    if member.cuda_after:
        return "the import of what is to be patched has initialised CUDA"
    return None


CHECK = Check(
    id="EP510",
    slug="hook-initialised-cuda",
    severity=Severity.ERROR,
    summary="A start-up hook initialises CUDA.",
    why="The hook runs in every interpreter that inherits the environment: the launcher, trackers,"
    " compile workers. Each takes memory of the GPU, and children forked from a process in which"
    " CUDA is initialised cannot use it.",
    mend="Do not call torch.cuda in a hook. Patch when the module is imported (`envprobe"
    " init-hook`), not before.",
    run=_run,
)
