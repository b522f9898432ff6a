"""What the renderers of `rehearse` get, and the words that they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe import redact
from envprobe.checks.finding import Severity
from envprobe.checks.registry import Result
from envprobe.checks.rehearse.about import RehearseContext
from envprobe.checks.verdict import Verdict
from envprobe.config import Config
from envprobe.errors import Exit
from envprobe.rehearsal.types import Held, Member, Rehearsal, Target
from envprobe.report import model
from envprobe.startup.result import Reached
from envprobe.startup.types import SITECUSTOMIZE

NOT_RUN = "only the interpreter and its start-up hooks were run, not the program of the definition"
"""What every report says of a rehearsal."""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    context: RehearseContext
    result: Result
    verdict: Verdict
    config: Config
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False

    @property
    def allow_unknown(self) -> frozenset[str]:
        """The checks of which the unknown is accepted."""
        return frozenset(self.config.allow_unknown)

    def scans(self) -> Iterator[tuple[model.Scan, model.Report]]:
        """Yield each reading of rehearsed processes, in the form in which `workers` shows it."""
        for one in self.context.rehearsed:
            if one.scan is not None:
                scan = model.Scan(one.scan, self.result, self.verdict)
                yield scan, model.Report((scan,), self.config, self.fail_on, self.exit_zero)


def headline(report: Report) -> str:
    """Return in one sentence what was rehearsed."""
    workers = sum(len(one.rehearsal.workers) for one in report.context.rehearsed)
    if not workers:
        return "no worker came up"
    all_of_it = "all that is asked for reaches " if report.verdict.exit is Exit.HOLDS else ""
    return f"{all_of_it}{workers} rehearsed worker{'' if workers == 1 else 's'}"


def command(one: Rehearsal) -> str:
    """Return what is started, credentials masked."""
    argv = one.start.declared.argv
    return redact.show_command(argv, 300)


def chosen(one: Rehearsal) -> Iterator[str]:
    """Yield what was chosen for a rehearsal, each with the reason, in words without an end."""
    plan, launch = one.plan, one.start.launch
    rights = f", as {launch.rights}" if launch.rights is not None else ""
    flags = " ".join(("", *launch.flags))
    yield f"interpreter {launch.python}{flags}, in {launch.cwd}{rights}"
    version = f" {one.version}" if one.version else ""
    if one.start.sandbox and not one.sandbox:
        yield f"inside the unit's sandbox: {'; '.join(map(str, one.start.sandbox))}"
    yield f"framework {plan.framework.value}{version} ({plan.framework.told_by})"
    method = plan.method.value or "not known"
    yield f"start method {method} ({plan.method.told_by})"
    if plan.shell:
        yield "each worker's interpreter is started through a shell script"
    yield f"workers: {plan.count} ({plan.workers.told_by})"


def limits(one: Rehearsal) -> Iterator[str]:
    """Yield what was not rehearsed, in words without an end."""
    yield NOT_RUN
    yield from one.plan.limits
    if one.hidden:
        yield f"GPUs were hidden by {', '.join(one.hidden)}"


def hook_of(member: Member) -> str:
    """Return which sitecustomize runs in a process, in words."""
    loaded = member.effects.loaded.get(SITECUSTOMIZE)
    if loaded is None:
        return "none"
    child = next((one for one in member.hooks if one.module == SITECUSTOMIZE), None)
    inherited = child is not None and child.reached is Reached.INHERITED
    return f"{loaded} (inherited)" if inherited else loaded


def target_of(target: Target) -> str:
    """Return whether a module can be imported, in words."""
    if target.missing:
        return f"no module {target.missing}"
    if target.error:
        return f"not known: a finder raises {target.error}"
    return f"in {target.origin or 'no file'}{', imported' if target.imported else ''}"


def held_of(held: Held) -> str:
    """Return what an attribute holds, in words."""
    found = held.attribute
    if found.error:
        return f"fails with {found.error.partition(':')[0]}"
    return f"{found.file}:{found.line}" if found.file else found.type
