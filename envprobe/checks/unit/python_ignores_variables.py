"""The check `python-ignores-variables`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.model import Sentence

_NAMES = ("PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER")


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, launch in context.launches():
        python = launch.python
        if python is None:
            continue
        ours = [
            one.setting.name
            for one in launch.declared.written
            if one.removed is None and not one.setting.source.given
        ]
        names = [name for name in _NAMES if name in ours]
        if python.ignores_variables and names:
            yield found(
                CHECK,
                definition,
                Sentence.of(
                    f"{launch.place}: the interpreter is started with {' '.join(python.flags)} and"
                    f" does not read {', '.join(names)}."
                ),
                place=launch.place,
                variable=names[0],
            )
        if python.isolated("S"):
            yield found(
                CHECK,
                definition,
                Sentence.of(f"{launch.place}: with -S the interpreter runs no start-up hook."),
                place=launch.place,
                severity=Severity.WARNING,
            )


CHECK = Check(
    id="EP324",
    slug="python-ignores-variables",
    severity=Severity.ERROR,
    summary="The interpreter is told to ignore the PYTHON* variables that are declared.",
    why="With -E or -I no PYTHON* variable counts, so that a hook on PYTHONPATH does not run, and"
    " multiprocessing passes the options on to each child.",
    mend="Leave -I and -E out of ExecStart=, or install the hook into site-packages.",
    run=_run,
)
