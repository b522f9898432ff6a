"""The check `peers-differ`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import peerfindings
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.checks.peers import Kind

_REMEDY = (
    "If the difference is not meant, set {name} once, before the first process of the server"
    " starts; if it is, note the reason under [ignore] in envprobe.toml."
)


def _run(context: Context) -> Iterator[Finding]:
    yield from peerfindings.findings(context, Kind.OTHER, CHECK.severity, _REMEDY)


CHECK = Check(
    id="EP010",
    slug="peers-differ",
    severity=Severity.WARNING,
    summary="Workers of one peer group differ in a variable.",
    why="Workers that share one communicator are started alike; a difference between them is"
    " seldom meant. Variables that differ by design (ranks, visible devices, names of interfaces)"
    " are left out. A variable in which ranks must agree is here too if the value differs only"
    " now, after NCCL may have read it; --strict makes that undetermined (exit code 3).",
    mend="Read which workers deviate and where their value changed. If the difference is not meant,"
    " set the variable once, before the first process of the server starts.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
