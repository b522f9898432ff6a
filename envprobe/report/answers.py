"""What was read inside a Python process, as JSON: answers, and the interpreter itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from envprobe import redact
from envprobe.model import Process
from envprobe.pythonfacts import (
    Answer,
    Datum,
    FileFact,
    Inside,
    Kind,
    PythonFact,
    files_of,
    names_of,
)
from envprobe.report import values
from envprobe.report.insidewords import resolved, sentence


def inside_document(process: Process, inside: Inside, *, unmask: bool) -> dict[str, Any]:
    """Return what one scan read inside one process."""

    def documents(answers: tuple[Answer, ...]) -> list[dict[str, Any]]:
        return [
            answer_document(one, inside.files, process.start_time, unmask=unmask) for one in answers
        ]

    python = inside.python
    return {
        "state": inside.state.value,
        "reason": redact.show_text(inside.reason),
        "remedy": redact.show_text(inside.remedy),
        "at": inside.at,
        "python": None if python is None else python_document(python, process.cwd),
        "hooks": documents(inside.hooks),
        "answers": documents(inside.answers),
    }


def python_document(python: PythonFact, cwd: str | None) -> dict[str, Any]:
    """Return an interpreter; relative entries of sys.path are resolved against `cwd`."""
    return {
        "version": redact.show_text(python.version),
        "build": python.build,
        "layout": redact.show_text(python.layout),
        "interpreters": python.interpreters,
        "executable": shown_text(python.executable),
        "prefix": shown_text(python.prefix),
        "base_prefix": shown_text(python.base_prefix),
        "flags": {redact.show_text(name): value for name, value in python.flags.items()},
        "path": [
            {"entry": redact.show_text(entry), "resolved": shown_text(place)}
            for entry, place in resolved(python, cwd)
        ],
    }


def answer_document(
    answer: Answer, files: Mapping[str, FileFact], start: float, *, unmask: bool
) -> dict[str, Any]:
    """Return one answer; `files` are those of its process, which started at `start`."""
    one: dict[str, Any] = {
        "query": redact.show_text(answer.query),
        "state": answer.state.value,
        "kind": answer.kind.value if answer.kind else None,
        "owner": shown_text(answer.owner),
        "at": answer.at,
        "reason": redact.show_text(answer.reason),
        "remedy": redact.show_text(answer.remedy),
        "notes": [redact.show_text(note) for note in answer.notes],
        "files": [_file(files[path], start) for path in files_of(answer) if path in files],
    }
    facts = {
        Kind.MODULE: ("module", answer.found_module),
        Kind.CLASS: ("class", answer.type),
        Kind.CALLABLE: ("callable", answer.function),
    }
    name, fact = facts.get(answer.kind, ("", None)) if answer.kind else ("", None)
    if fact is not None:
        one[name] = _plain(dataclasses.asdict(fact))
    if answer.value is not None:
        one["value"] = _datum(names_of(answer.query), answer.value, unmask)
    return one


def _file(fact: FileFact, start: float) -> dict[str, Any]:
    return {
        "path": redact.show_text(fact.path),
        "state": fact.state.value,
        "changed": fact.changed,
        "sentence": redact.show_text(sentence(fact, start)),
    }


def _plain(value: Any) -> Any:
    """Return facts with every text made harmless."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return redact.show_text(value) if isinstance(value, str) else value


def shown_text(text: str | None) -> str | None:
    """Return a text made harmless; None stays None."""
    return None if text is None else redact.show_text(text)


def _datum(names: tuple[str, ...], datum: Datum, unmask: bool) -> dict[str, Any]:
    one: dict[str, Any] = {"kind": datum.kind}
    members = [_datum(inner, item, unmask) for inner, item in redact.members_of(datum, names)]
    if datum.value is not None:
        one |= values.document(names, datum.value, unmask=unmask)
    if datum.kind in ("list", "tuple"):
        one["items"] = members
    if datum.kind == "dict":
        keys = (_datum(names, key, unmask) for key in datum.keys)
        one["items"] = [
            {"key": key, "value": value} for key, value in zip(keys, members, strict=True)
        ]
    if datum.length is not None:
        one |= {"length": datum.length, "cut": datum.cut}
    return one | ({"type": redact.show_text(datum.type_name)} if datum.type_name else {})
