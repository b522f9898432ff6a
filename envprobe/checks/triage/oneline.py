"""The cause of a unit's failure in one sentence, for reports on other things."""

from __future__ import annotations

from envprobe.checks.triage.about import TriageContext
from envprobe.checks.triage.judgement import judge
from envprobe.checks.triage.registry import CHECKS
from envprobe.launch.manager import Manager
from envprobe.model import Sentence
from envprobe.triage import unit


def of_unit(manager: Manager, name: str) -> Sentence | None:
    """Return the cause of a failed unit in one sentence; None where it has not failed.

    Reads the journal and the log files of its last start. Raises UsageError if there is no such
    unit, UndeterminedError if its manager cannot be asked.
    """
    facts = unit.look(manager, name)
    if facts.unit is None or not facts.unit.live.failed:
        return None
    return of_context(TriageContext(facts, judge(facts)))


def of_context(context: TriageContext) -> Sentence:
    """Return the cause in one sentence, or that it is not recognised."""
    for check in CHECKS:
        for finding in check.run(context):
            return finding.message
    return Sentence.of("Nothing failed.")
