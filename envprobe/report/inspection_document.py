"""What `envprobe inspect` has found, as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from envprobe import redact
from envprobe.errors import Exit
from envprobe.inspection import Inspection
from envprobe.pythonfacts import Answer
from envprobe.report import pretty, values
from envprobe.report.answers import (
    answer_document,
    python_document,
    shown_text,
)
from envprobe.report.inspection import exit_of, variables

_MEANINGS: Final = {
    Exit.HOLDS: "every question was answered",
    Exit.UNDETERMINED: "something could not be read",
}


def render(found: Inspection, *, unmask: bool = False) -> str:
    """Return what was found as one JSON document in ASCII."""
    code = exit_of(found)
    subject = found.subject
    whole = {
        **pretty.heading(),
        "verdict": {"exit": int(code), "meaning": _MEANINGS[code]},
        "process": {
            "pid": subject.identity.pid,
            "identity": dataclasses.asdict(subject.identity),
            "start_time": subject.start_time,
            "comm": redact.show_text(subject.comm),
            "command": redact.show_command(subject.title, 4096),
            "exe": shown_text(subject.exe),
            "cwd": shown_text(subject.cwd),
        },
        "interpreter": _interpreter(found, unmask),
        "hooks": [_answer(one, found, unmask) for one in found.hooks],
        "answers": [_answer(one, found, unmask) for one in found.answers],
    }
    return pretty.dumps(whole)


def _interpreter(found: Inspection, unmask: bool) -> dict[str, Any]:
    subject, python = found.subject, found.subject.python
    state = {"state": subject.state.value, "reason": redact.show_text(subject.reason)}
    state["remedy"] = redact.show_text(subject.remedy)
    if python is None:
        return state
    found_variables = [
        {
            "name": redact.show_name(name),
            "value": values.document((name,), value, unmask=unmask),
            "ignored": off,
        }
        for name, value, off in variables(found)
    ]
    return {
        **state,
        **python_document(python, subject.cwd),
        "calibration": _calibration(found),
        "variables": found_variables,
    }


def _calibration(found: Inspection) -> dict[str, Any] | None:
    made = found.calibration
    if made is None:
        return None
    rights = {"uid": made.rights.uid, "gid": made.rights.gid, "groups": list(made.rights.groups)}
    return {"program": redact.show_text(made.program), **rights}


def _answer(answer: Answer, found: Inspection, unmask: bool) -> dict[str, Any]:
    return answer_document(answer, found.files, found.subject.start_time, unmask=unmask)
