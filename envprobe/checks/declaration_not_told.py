"""The check `declaration-not-told`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import behind, who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.model import Process, Sentence, View
from envprobe.unitfacts import UnitFacts

_NAMED = 8


def _run(context: Context) -> Iterator[Finding]:
    unit, main = behind.unit_of(context), behind.main_process(context)
    if unit is None or main is None:
        return
    names = [name for name in unit.names if _open(unit, main, name)]
    if not names:
        return
    asked = "" if unit.asked else " It was not asked for: nothing hangs on it."
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"Whether {main.named} was started with what {unit.name} declares could not be told for"
            f" {who.some(names, _NAMED)}.{asked}"
        ),
        pids=(main.pid,),
        variable=names[0] if len(names) == 1 else "",
        evidence=tuple(Sentence.of(f"{one}.") for one in dict.fromkeys(_reasons(unit, names))),
        remedy=Sentence.of(CHECK.mend),
        undetermined=unit.asked,
    )


def _open(unit: UnitFacts, main: Process, name: str) -> bool:
    """Return whether a variable is declared and its first hop shows nothing: no value, or no block.

    What an overwritten block hides, the process's environment now still tells.
    """
    entries = [one for one in (unit.entry(name), unit.behind_wrappers(name)) if one is not None]
    if all(one.value is None and not one.removed for one in entries):
        return True
    return not any(main.environment(view).reading(name).known for view in (View.EXEC, View.LIBC))


def _reasons(unit: UnitFacts, names: list[str]) -> Iterator[str]:
    for name in names:
        for entry in (unit.entry(name), unit.behind_wrappers(name)):
            if entry is not None and entry.doubt:
                yield entry.doubt
    if unit.open:
        yield unit.open


CHECK = Check(
    id="EP044",
    slug="declaration-not-told",
    severity=Severity.INFO,
    summary="What the unit declares, or what its process was started with, could not be told.",
    why="An environment file that this user may not read, a wrapper whose value is made when it"
    " runs, or a process whose block is overwritten leave the first hop of the route open. The"
    " hops behind it are not concerned.",
    mend="Run envprobe as root or as the user of the service; to keep the block of the main process"
    " readable, set SPT_NOENV=1 before the next start.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
