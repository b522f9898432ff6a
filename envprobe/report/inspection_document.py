"""What `envprobe inspect` has found, as JSON."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, Final

from envprobe import redact
from envprobe.errors import Exit
from envprobe.inspection import Inspection
from envprobe.pythonfacts import Answer, Datum, files_of
from envprobe.report import pretty
from envprobe.report.inspection import (
    exit_of,
    is_masked,
    name_of,
    names_of,
    resolved,
    sentence,
    variables,
)
from envprobe.values import Value

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
            "exe": _text(subject.exe),
            "cwd": _text(subject.cwd),
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
        {"name": redact.show_name(name), "value": _value((name,), value, unmask), "ignored": off}
        for name, value, off in variables(found)
    ]
    return {
        **state,
        "version": redact.show_text(python.version),
        "build": python.build,
        "layout": redact.show_text(python.layout),
        "interpreters": python.interpreters,
        "executable": _text(python.executable),
        "prefix": _text(python.prefix),
        "base_prefix": _text(python.base_prefix),
        "flags": {redact.show_text(name): value for name, value in python.flags.items()},
        "path": [
            {"entry": redact.show_text(entry), "resolved": _text(place)}
            for entry, place in resolved(python, subject.cwd)
        ],
        "variables": found_variables,
    }


def _answer(answer: Answer, found: Inspection, unmask: bool) -> dict[str, Any]:
    one: dict[str, Any] = {
        "query": redact.show_text(answer.query),
        "state": answer.state.value,
        "kind": answer.kind.value if answer.kind else None,
        "owner": _text(answer.owner),
        "at": answer.at,
        "reason": redact.show_text(answer.reason),
        "remedy": redact.show_text(answer.remedy),
        "notes": [redact.show_text(note) for note in answer.notes],
        "files": [_file(found, path) for path in files_of(answer) if path in found.files],
    }
    for name, fact in (("module", answer.found_module), ("class", answer.type)):
        if fact is not None:
            one[name] = _plain(dataclasses.asdict(fact))
    if answer.function is not None:
        one["callable"] = _plain(dataclasses.asdict(answer.function))
    if answer.value is not None:
        one["value"] = _datum(names_of(answer.query), answer.value, unmask)
    return one


def _file(found: Inspection, path: str) -> dict[str, Any]:
    fact = found.files[path]
    said = sentence(fact, found.subject.start_time)
    return {
        "path": redact.show_text(path),
        "state": fact.state.value,
        "changed": fact.changed,
        "sentence": redact.show_text(said),
    }


def _plain(value: Any) -> Any:
    """Return facts with every text made harmless."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return redact.show_text(value) if isinstance(value, str) else value


def _text(text: str | None) -> str | None:
    return None if text is None else redact.show_text(text)


def _value(names: tuple[str, ...], value: Value, unmask: bool) -> dict[str, Any]:
    if is_masked(names, value, unmask=unmask):
        return {"masked": value.length}
    raw = value.reveal()
    try:
        return {"text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}


def _datum(names: tuple[str, ...], datum: Datum, unmask: bool) -> dict[str, Any]:
    one: dict[str, Any] = {"kind": datum.kind}
    if datum.value is not None:
        one |= _value(names, datum.value, unmask)
    if datum.kind in ("list", "tuple"):
        one["items"] = [_datum(names, item, unmask) for item in datum.items]
    if datum.kind == "dict":
        pairs = zip(datum.keys, datum.items, strict=True)
        one["items"] = [
            {
                "key": _datum(names, key, unmask),
                "value": _datum((*names, *name_of(key)), item, unmask),
            }
            for key, item in pairs
        ]
    if datum.length is not None:
        one |= {"length": datum.length, "cut": datum.cut}
    return one | ({"type": redact.show_text(datum.type_name)} if datum.type_name else {})
