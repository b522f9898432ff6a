"""The check `nccl-unread-name`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import expected, origins
from envprobe.checks.nccl.context import Context, usual_version
from envprobe.checks.nccl.expected import Status
from envprobe.model import Sentence
from envprobe.nccl import params
from envprobe.nccl.params import Naming, Version

_WHAT: Final = {
    Naming.NOT_YET: "is read only by later versions of NCCL",
    Naming.REMOVED: "was removed before this version of NCCL",
    Naming.DEAD: "is read by no version of NCCL from 2.17 on",
    Naming.TORCH: "is read by PyTorch and not by NCCL",
    Naming.OTHER: "is read by a plugin or tool and not by NCCL itself",
    Naming.MADE_UP: "is read by nothing in NCCL",
    Naming.UNKNOWN: "is no variable of NCCL",
}


def _run(context: Context) -> Iterator[Finding]:
    known = usual_version(context.log)
    told = set()
    for group in expected.grouped(context, (Status.UNREAD,)):
        one = group[0].expectation
        if one.name not in told:
            told.add(one.name)
            yield _finding(one.name, known, one.origin, Severity.ERROR)
    for setting in context.once(origins.settings).values():
        nccl = setting.name.startswith(("NCCL_", "TORCH_NCCL_"))
        if nccl and setting.name not in told and params.naming(setting.name, known) in _WHAT:
            place = f"{setting.path}:{setting.line}"
            yield _finding(setting.name, known, place, CHECK.severity)


def _finding(name: str, version: Version | None, origin: str, severity: Severity) -> Finding:
    naming = params.naming(name, version)
    parameter = params.find(name)
    near = params.suggestions(name, version)
    meant = f" Perhaps {' or '.join(near)} is meant." if near else ""
    numbers = "" if version is None else f" (this is {'.'.join(str(one) for one in version)})"
    evidence = [Sentence.of(f"Named in {origin}.")]
    if parameter is not None and parameter.source:
        evidence.append(Sentence.of(f"Source: nccl {parameter.source}."))
    return Finding(
        check=CHECK.slug,
        severity=severity,
        message=Sentence.of(f"{name} {_WHAT.get(naming, 'is not read')}{numbers}.{meant}"),
        variable=name,
        evidence=tuple(evidence),
        remedy=Sentence.of(CHECK.mend),
        who=origin,
    )


CHECK = Check(
    id="EP211",
    slug="nccl-unread-name",
    severity=Severity.WARNING,
    summary="A variable is set or expected whose name this version of NCCL does not read.",
    why="NCCL ignores names that it does not know, without a word: a misspelt, removed or invented"
    " name looks set and does nothing. It is an error where such a name is expected.",
    mend="Use the name that this version reads, and take the other one out.",
    run=_run,
)
