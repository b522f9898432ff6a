"""All checks in their order, by command, and running them."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from envprobe.checks import (
    block_wiped,
    c_and_python_disagree,
    changed_on_the_way,
    code_changed_since_start,
    declaration_not_told,
    declared_not_handed_over,
    definition_not_loaded,
    duplicate_variable,
    env_file_changed,
    env_forbidden,
    env_missing,
    env_unknown,
    env_wrong_value,
    exec_view_inferred,
    framework_wrote,
    hook_differs,
    library_missing,
    lost_on_the_way,
    module_twice,
    nccl_expectation_unknown,
    nccl_library_differs,
    nccl_library_replaced,
    nccl_library_twice,
    nccl_log_not_joined,
    nccl_not_as_expected,
    nccl_read_otherwise,
    nccl_value_origin,
    no_workers,
    node_not_joined,
    orphan_worker,
    other_interpreter,
    patch_missing,
    patch_not_imported,
    patch_unknown,
    peers_differ,
    peers_differ_critical,
    peers_differ_default,
    pythonpath_ignored,
    server_not_restarted,
    set_late_unproven,
    set_too_late,
    unstable_tree,
    worker_unreadable,
    worker_vanished,
    workers_missing,
)
from envprobe.checks.finding import Check, Context, Finding, Undetermined
from envprobe.checks.who import folded, some
from envprobe.config import did_you_mean
from envprobe.errors import UsageError
from envprobe.model import Sentence

CHECKS: Final[tuple[Check, ...]] = (
    no_workers.CHECK,
    worker_unreadable.CHECK,
    env_missing.CHECK,
    env_wrong_value.CHECK,
    env_forbidden.CHECK,
    env_unknown.CHECK,
    set_too_late.CHECK,
    set_late_unproven.CHECK,
    peers_differ_critical.CHECK,
    peers_differ.CHECK,
    peers_differ_default.CHECK,
    lost_on_the_way.CHECK,
    changed_on_the_way.CHECK,
    framework_wrote.CHECK,
    duplicate_variable.CHECK,
    orphan_worker.CHECK,
    workers_missing.CHECK,
    worker_vanished.CHECK,
    unstable_tree.CHECK,
    exec_view_inferred.CHECK,
    block_wiped.CHECK,
    c_and_python_disagree.CHECK,
    pythonpath_ignored.CHECK,
    other_interpreter.CHECK,
    patch_missing.CHECK,
    patch_not_imported.CHECK,
    hook_differs.CHECK,
    code_changed_since_start.CHECK,
    module_twice.CHECK,
    patch_unknown.CHECK,
    nccl_library_differs.CHECK,
    nccl_library_twice.CHECK,
    nccl_library_replaced.CHECK,
    library_missing.CHECK,
    nccl_read_otherwise.CHECK,
    nccl_not_as_expected.CHECK,
    nccl_expectation_unknown.CHECK,
    nccl_log_not_joined.CHECK,
    nccl_value_origin.CHECK,
    definition_not_loaded.CHECK,
    server_not_restarted.CHECK,
    env_file_changed.CHECK,
    declared_not_handed_over.CHECK,
    declaration_not_told.CHECK,
    node_not_joined.CHECK,
)
"""The checks of `workers`. A new check is added at the end: ids never change their meaning."""

_OTHERS: Final = (
    "envprobe.checks.trace.registry",
    "envprobe.checks.nccl.registry",
    "envprobe.checks.unit.registry",
    "envprobe.checks.kernel.registry",
    "envprobe.checks.rehearse.registry",
    "envprobe.checks.triage.registry",
    "envprobe.checks.gate.registry",
)
"""The modules with the checks of other commands: `workers` must not wait for their imports."""

MAX_FINDINGS: Final = 100
"""How many findings of one check and severity are told one by one."""

_NAMED: Final = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What all checks found.

    `findings` count, the worst first; `ignored` are those that [ignore] keeps apart, each with the
    reason given there. "Could not tell" is never ignored: only --allow-unknown accepts it.
    """

    findings: tuple[Finding, ...]
    ignored: tuple[tuple[Finding, str], ...] = ()


@functools.cache
def every() -> tuple[Check, ...]:
    """Return the checks of every command."""
    others = [importlib.import_module(name).CHECKS for name in _OTHERS]
    return tuple(itertools.chain(CHECKS, *others))


def find(id_or_slug: str) -> Check:
    """Return the check with this id (in any case) or slug; UsageError with a suggestion."""
    wanted = id_or_slug.lower()
    sources: tuple[Callable[[], tuple[Check, ...]], ...] = (lambda: CHECKS, every)
    for source in sources:
        for check in source():
            if wanted in (check.id.lower(), check.slug):
                return check
    known = [check.slug for check in every()]
    if id_or_slug[:2].lower() == "ep" and id_or_slug[2:].isdecimal():
        known = [check.id for check in every()]
        id_or_slug = id_or_slug.upper()
    raise UsageError(f"there is no check {id_or_slug!r}", did_you_mean(id_or_slug, known))


def accepted(given: Iterable[str], checks: Iterable[Check], command: str) -> tuple[str, ...]:
    """Return the slugs of the checks that `--allow-unknown` names; `checks` are the command's.

    Raises UsageError for a check that is another command's or that never says "could not tell".
    """
    open_ones = [one for one in checks if one.undetermined is not Undetermined.NEVER]
    found = [find(one) for one in given]
    for check in found:
        if check not in open_ones:
            raise UsageError(
                f"--allow-unknown {check.slug}: nothing would be accepted, because this check"
                f" is not of `{command}` or always can tell",
                f"Name one of {', '.join(one.slug for one in open_ones)}.",
            )
    return tuple(check.slug for check in found)


def slug_of(id_or_slug: str) -> str:
    """Return the slug of the check with this id or slug; UsageError with a suggestion."""
    return find(id_or_slug).slug


def _bounded(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the findings of one check; of very many of one kind the last ones as a single one.

    A target that sets thousands of variables must not give thousands of findings.
    """
    for group in folded(findings, lambda one: (one.severity, one.undetermined)).values():
        yield from group[: MAX_FINDINGS - 1]
        rest = group[MAX_FINDINGS - 1 :]
        yield from rest if len(rest) < 2 else [_merged(rest)]


def _merged(findings: list[Finding]) -> Finding:
    names = list(dict.fromkeys(one.variable for one in findings if one.variable))
    about = f" about {some(names, _NAMED)}" if names else ""
    return dataclasses.replace(
        findings[0],
        message=Sentence.of(f"{len(findings)} more findings of this kind{about}."),
        pids=tuple(dict.fromkeys(pid for one in findings for pid in one.pids)),
        variable="",
        evidence=(),
        breaks=(),
        remedy=Sentence.of("Mend what the other findings of this check say first, and scan again."),
    )


def run_all(context: Context) -> Result:
    """Return the findings of all checks of `workers`, those of [ignore] kept apart.

    A finding that was ignored until a day that has passed says so.
    """
    result = run_checks(CHECKS, context, context.config.ignore)
    expired = context.config.expired
    findings = (
        _no_longer_ignored(one, expired[one.check]) if one.check in expired else one
        for one in result.findings
    )
    return dataclasses.replace(result, findings=tuple(findings))


def _no_longer_ignored(finding: Finding, reason: str) -> Finding:
    if finding.undetermined:
        return finding
    said = Sentence.of(f"It is no longer ignored; [ignore] gave the reason: {reason}.")
    return dataclasses.replace(finding, evidence=(*finding.evidence, said))


def run_checks(checks: Iterable[Check], context: Any, ignore: Mapping[str, str]) -> Result:
    """Return what these checks find in `context`; `ignore` maps slugs to reasons."""
    found = [finding for check in checks for finding in _bounded(check.run(context))]
    kept = [one for one in found if one.undetermined or one.check not in ignore]
    ignored = [one for one in found if not one.undetermined and one.check in ignore]
    # The sort is stable: findings of one severity stay in the order of the checks.
    kept.sort(key=lambda one: -one.severity.rank)
    return Result(tuple(kept), tuple((one, ignore[one.check]) for one in ignored))
