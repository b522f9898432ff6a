"""The check `patch-would-not-be-applied`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed, found, groups, names
from envprobe.rehearsal.types import Member, Rehearsal

_WAITING = "waiting"
_IMPORT = "Add --import-target, which imports the module in the workers, with the GPU hidden."


def _run(context: RehearseContext) -> Iterator[Finding]:
    from_somewhere = {one.query for one in context.sources}
    for rehearsed, one in context.told():
        for patch in dict.fromkeys((*context.patches, *from_somewhere)):
            if one.imported:
                yield from _held(rehearsed, one, patch)
            elif one.workers:
                yield from _not_imported(rehearsed, one, patch, patch in from_somewhere)


def told_of(one: Rehearsal, patch: str, *, surely: bool) -> frozenset[int]:
    """Return the workers of which this check, or that of the module, tells about a patch.

    `surely`: without those of which it only tells that it could not tell.
    """
    told = (_why_not, _missing) if surely else (_why_not, _missing, _untold, _unfound)
    return frozenset(
        each.pid
        for each in one.workers
        if one.imported and any(reason(each, patch) for reason in told)
    )


def _missing(member: Member, patch: str) -> str:
    target = member.targets.get(patch)
    return "" if target is None else target.missing


def _unfound(member: Member, patch: str) -> str:
    target = member.targets.get(patch)
    return "" if target is None else target.error


def _held(rehearsed: Rehearsed, one: Rehearsal, patch: str) -> Iterator[Finding]:
    for reason, group in groups(one.workers, lambda each: _why_not(each, patch)):
        told = f"{patch} is not patched in {names(group)}: {reason}."
        yield found(CHECK, rehearsed, told, members=group)
    for reason, group in groups(one.workers, lambda each: _untold(each, patch)):
        told = f"Whether {patch} is patched in {names(group)} could not be told: {reason}."
        yield found(CHECK, rehearsed, told, members=group, undetermined=True)


def _why_not(member: Member, patch: str) -> str | None:
    held = member.held.get(patch)
    if held is None or member.targets[patch].missing:
        return None
    said = f" (the hook says: {held.recorded})" if held.recorded else ""
    if held.attribute.error:
        return f"its import, or the look at it, fails with {_type(held.attribute.error)}{said}"
    if held.attribute.file and held.attribute.file == held.own:
        return f"after the import of its module it still holds the code of {held.own}{said}"
    return None


def _type(error: str) -> str:
    return error.partition(":")[0]


def _untold(member: Member, patch: str) -> str | None:
    held = member.held.get(patch)
    if held is None or held.attribute.error or held.attribute.file:
        return None
    return f"it is {held.attribute.type}, which has no code of its own in a file"


def _not_imported(
    rehearsed: Rehearsed, one: Rehearsal, patch: str, sourced: bool
) -> Iterator[Finding]:
    def open_question(member: Member) -> str | None:
        target = member.targets.get(patch)
        if target is None or target.missing or target.imported:
            return None
        waits = member.recorded.get(patch, "") == _WAITING
        if waits and not sourced:
            return None
        return "a hook waits for the import" if waits else "no hook says that it waits for it"

    for reason, group in groups(one.workers, open_question):
        told = f"Whether {patch} would be patched in {names(group)} is not known: its module is not"
        told += f" imported at their start, and {reason}."
        yield found(CHECK, rehearsed, told, members=group, remedy=_IMPORT, undetermined=True)


CHECK = Check(
    id="EP509",
    slug="patch-would-not-be-applied",
    severity=Severity.ERROR,
    summary="A patched attribute holds its own code in the workers of the rehearsed server.",
    why="The module was really imported in a worker of the declared interpreter under the declared"
    " environment, and no hook has replaced the attribute: after the restart none would either.",
    mend="Check that the hook runs in the workers, and that the name of the attribute is that of"
    " the installed version. `envprobe init-hook` writes a hook that says what became of each"
    " patch.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
