"""The check `unit-failed`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.checks.who import moment
from envprobe.launch.live import Live
from envprobe.model import Sentence

_RESULTS = {
    "exit-code": "its main process ended with an error",
    "signal": "its main process was ended by a signal",
    "core-dump": "its main process crashed",
    "timeout": "it did not start or stop in time",
    "watchdog": "it did not answer its watchdog",
    "oom-kill": "the kernel ended it for lack of memory",
    "start-limit-hit": "it was started too often in a short time",
    "resources": "systemd could not prepare the start: an environment file or directory is missing",
    "protocol": "it did not tell systemd that it was ready",
    "exec-condition": "its ExecCondition= refused the start",
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for number, definition in enumerate(context.definitions):
        cause = context.causes.get(number)
        live = definition.live
        if live is None or not live.failed:
            continue
        user = " --user" if definition.user_manager else ""
        reset = f"systemctl{user} reset-failed {live.name}"
        yield found(
            CHECK,
            definition,
            Sentence.of(f"{live.name} has failed: {result(live)}."),
            evidence=[] if cause is None else [cause],
            remedy=f"Mend the cause, then run `{reset}`: without it systemd may refuse to start the"
            f" unit {_until(live.refused_until)}, as there were too many starts."
            if live.refused_until is not None
            else f"Mend the cause, then start the unit; `{reset}` clears the count of its starts.",
        )


def _until(at: float) -> str:
    return f"until {moment(at)}" if math.isfinite(at) else "at all"


def result(live: Live) -> str:
    """Return in one line how a unit has failed."""
    told = _RESULTS.get(live.result, f"the result is {live.result}")
    told += f" ({live.result}{f', {live.code}' if live.code else ''})"
    if live.restarts:
        told += f", after {live.restarts} restart{'' if live.restarts == 1 else 's'}"
    return told


CHECK = Check(
    id="EP318",
    slug="unit-failed",
    severity=Severity.ERROR,
    summary="The unit is in the state `failed`.",
    why="Nothing of it runs. After too many starts systemd refuses further ones until the state is"
    " reset, and a correct unit then looks as broken as before.",
    mend="Mend the cause and run `systemctl reset-failed UNIT` before you start it again.",
    run=_run,
)
