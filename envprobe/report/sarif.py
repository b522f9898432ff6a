"""The report as SARIF 2.1.0 (OASIS, with errata 01): one run, a rule for each check.

A finding is of kind `fail`; "could not tell" is of kind `open`, whose level must be `none`. What
[ignore] or --allow-unknown accepts is suppressed. Nothing has a place in a file, so that locations
are logical: the processes, ranks and variables that a finding speaks of.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import envprobe
from envprobe.checks.explain import explain
from envprobe.checks.finding import Check, Severity, Undetermined
from envprobe.errors import EXIT_MEANINGS, Exit
from envprobe.report.outlet import Outcome, Outlet, Subject, Told

SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_PLAIN: Final = str.maketrans({"{": "{{", "}": "}}", "[": "\\[", "]": "\\]"})
_SUPPRESSED: Final = {
    Outcome.IGNORED: "",
    Outcome.ACCEPTED: "accepted by --allow-unknown or [allow-unknown]",
}


def render(outlet: Outlet) -> str:
    """Return the report as one JSON document in ASCII."""
    rules = {check.id: number for number, check in enumerate(outlet.checks)}
    run = _run(
        outlet.verdict.exit,
        executed=True,
        rules=[_rule(check) for check in outlet.checks],
        results=[
            _result(told, subject, rules) for subject in outlet.subjects for told in subject.told
        ],
        properties={"command": outlet.command, "summary": outlet.summary},
    )
    return _dumped(run)


def failure(message: str, remedy: str, code: Exit) -> str:
    """Return the document for a run that made no report: no results, and the error."""
    run = _run(code, executed=False, rules=[], results=[], properties={})
    run["invocations"][0]["toolExecutionNotifications"] = [
        {"level": "error", "message": _message(f"{message}\n{remedy}".rstrip())}
    ]
    return _dumped(run)


def _run(
    code: Exit,
    *,
    executed: bool,
    rules: list[dict[str, Any]],
    results: list[dict[str, Any]],
    properties: dict[str, Any],
) -> dict[str, Any]:
    return {
        "tool": {
            "driver": {"name": "envprobe", "version": envprobe.__version__, "rules": rules},
        },
        "invocations": [
            {
                "executionSuccessful": executed,
                "exitCode": int(code),
                "exitCodeDescription": EXIT_MEANINGS[code],
            }
        ],
        "results": results,
        "properties": properties,
    }


def _rule(check: Check) -> dict[str, Any]:
    level = _LEVELS[check.severity]
    if check.undetermined is Undetermined.ALWAYS:
        level = "none"
    documentation = [f"{title}: {text}" for title, text in explain(check).sections]
    return {
        "id": check.id,
        "name": check.slug,
        "shortDescription": {"text": check.summary},
        "fullDescription": {"text": check.why},
        "help": {"text": "\n\n".join(documentation)},
        "defaultConfiguration": {"level": level},
    }


def _result(told: Told, subject: Subject, rules: dict[str, int]) -> dict[str, Any]:
    open_one = told.outcome in (Outcome.UNKNOWN, Outcome.ACCEPTED)
    result = {
        "ruleId": told.check.id,
        "ruleIndex": rules[told.check.id],
        "kind": "open" if open_one else "fail",
        "level": "none" if open_one else _LEVELS[told.severity],
        "message": _message("\n".join(told.lines)),
        "locations": [{"logicalLocations": _logical(told, subject)}],
        "partialFingerprints": {"envprobe/v1": _fingerprint(told)},
        "properties": {
            "outcome": told.outcome.value,
            "severity": told.severity.value,
            "confidence": told.confidence,
            "pids": list(told.pids),
            **({"variable": told.variable} if told.variable else {}),
        },
    }
    if told.outcome in _SUPPRESSED:
        why = told.because or _SUPPRESSED[told.outcome]
        result["suppressions"] = [{"kind": "external", "justification": why}]
    return result


def _logical(told: Told, subject: Subject) -> list[dict[str, Any]]:
    places = [{"fullyQualifiedName": one, "kind": "process"} for one in told.whom]
    if told.variable:
        places.append({"fullyQualifiedName": told.variable, "kind": "variable"})
    return places or [{"fullyQualifiedName": subject.name, "kind": "target"}]


def _fingerprint(told: Told) -> str:
    """Return what stays the same of a finding over restarts: process numbers do not."""
    parts = json.dumps([told.check.id, told.variable, sorted(told.places)])
    return hashlib.sha256(parts.encode()).hexdigest()


def _message(text: str) -> dict[str, str]:
    """Return a message: braces are doubled (3.11.5), brackets are no links (3.11.6)."""
    return {"text": text.translate(_PLAIN)}


def _dumped(run: dict[str, Any]) -> str:
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    # Two of them begin a command to some CI systems (`redact.without_commands`).
    return json.dumps(document, indent=1, allow_nan=False).replace("##", "#\\u0023") + "\n"
