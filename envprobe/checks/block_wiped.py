"""The check `block-wiped`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import BlockState, Process, Sentence, View

_STATES: Final = {
    BlockState.WIPED: "is wiped by a new process title",
    BlockState.PARTLY_WIPED: "is partly wiped by a new process title",
    BlockState.SPILLED: "is written over by a long process title",
}


def _run(context: Context) -> Iterator[Finding]:
    touched = [one for one in who.workers(context) if _block(one) in _STATES]
    for state, group in who.folded(touched, _block).items():
        pids = tuple(process.pid for process in group)
        done = _STATES[state or BlockState.WIPED]
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(
                f"/proc/PID/environ of {who.in_words(context, pids)} {done}:"
                " tools that read it (ps e, psutil) show few or no variables there. envprobe reads"
                " the live environment instead."
            ),
            pids=pids,
            remedy=Sentence.of(
                "Nothing needs to be done. To keep the block readable, set SPT_NOENV=1 before the"
                " next start of the server."
            ),
        )


def _block(process: Process) -> BlockState | None:
    view = process.environment(View.EXEC)
    return (view.own or view).block


CHECK = Check(
    id="EP021",
    slug="block-wiped",
    severity=Severity.INFO,
    summary="/proc/PID/environ of a worker does not show its environment.",
    why="SGLang, vLLM and others change their process titles with setproctitle, which writes over"
    " the block behind /proc/PID/environ. Tools that read that file then show an empty environment"
    " for a worker that has everything.",
    mend="Nothing needs to be done: envprobe reads the live environment from memory. SPT_NOENV=1 in"
    " the environment of the server keeps the block.",
    run=_run,
)
