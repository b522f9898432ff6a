"""The report of `trace-sitecustomize` as JSON: data/trace.schema.json says what is in it."""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Mapping
from typing import Any

from envprobe import redact
from envprobe.launch.definition import Definition
from envprobe.launch.types import Place
from envprobe.report import findings, pretty, values
from envprobe.report.trace_model import Report, title
from envprobe.startup import lines
from envprobe.startup.declared import Start
from envprobe.startup.result import Change, Child, Effects, Hook, Startup
from envprobe.startup.target import Target
from envprobe.startup.traced import Answer
from envprobe.startup.types import Launch, Walk
from envprobe.values import Value


def render(report: Report, *, unmask: bool = False) -> str:
    """Return the report as one JSON document in ASCII."""
    traced, expected = report.context.traced, report.context.expected
    whole = {
        **pretty.heading(),
        "verdict": {
            **findings.verdict_document(report.verdict),
            "fail_on": report.fail_on.value,
            "exit_zero": report.exit_zero,
        },
        "expected": _plain(dataclasses.asdict(expected)),
        "chosen": redact.show_text(traced.chosen),
        "process": _target(traced.target) if traced.target is not None else None,
        "definition": _definition(traced.definition) if traced.definition is not None else None,
        "starts": [_answer(one, unmask) for one in traced.answers],
        "untold": [
            {"place": _place(one.place), "reason": redact.show_text(one.reason)}
            for one in traced.untold
        ],
        **findings.documents(report.result, report.allow_unknown, unmask=unmask),
    }
    return pretty.dumps(whole)


def _answer(answer: Answer, unmask: bool) -> dict[str, Any]:
    startup = answer.startup
    return {
        "title": title(answer),
        "questions": [
            {
                "asked": one.asked.value,
                "confidence": one.confidence.value,
                "reason": redact.show_text(one.reason),
            }
            for one in answer.questions
        ],
        "launch": _launch(startup.launch, unmask),
        "run": _plain(dataclasses.asdict(startup.run)),
        "problems": _plain(startup.problems),
        "hooks": [_hook(one) for one in startup.hooks],
        "interpreter": _walk(startup.walk),
        "effects": _effects(startup.effects, unmask),
        "patches": _patches(startup),
        "children": [_child(one) for one in startup.children],
        "declared": _start(answer, answer.start) if answer.start is not None else None,
        "cost_ms": _plain(dataclasses.asdict(startup.cost)) if startup.cost is not None else None,
    }


def _target(target: Target) -> dict[str, Any]:
    return {
        "pid": target.pid,
        "named": redact.show_text(target.named),
        "started": target.started,
        "loaded": _plain(target.loaded),
        "unread": redact.show_text(target.unread),
        "interpreters": target.interpreters,
    }


def _definition(definition: Definition) -> dict[str, Any]:
    return {
        "subject": redact.show_text(definition.subject),
        "origin": definition.origin.value,
        "files": list(_plain(definition.files)),
    }


def _start(answer: Answer, start: Start) -> dict[str, Any]:
    return {
        "place": _place(start.declared.place),
        "hops": [
            {
                "program": redact.show_text(hop.program),
                "place": _place(hop.place),
                "does": redact.show_text(hop.told),
            }
            for hop in start.declared.hops
        ],
        "gaps": list(_plain(start.gaps)),
        "undecided": [
            {"name": redact.show_name(name), "reason": redact.show_text(reason)}
            for name, reason in answer.undecided.items()
        ],
        "sandbox": [
            {
                "property": redact.show_text(str(one)),
                "place": _place(one.place),
                "unseen": list(_plain(answer.unseen.get(one, ()))),
            }
            for one in start.sandbox
        ],
    }


def _place(place: Place) -> dict[str, Any]:
    return {"file": redact.show_text(place.file), "line": place.line}


def _launch(launch: Launch, unmask: bool) -> dict[str, Any]:
    shown = {name: text for name, text in launch.environment.items() if name.startswith("PYTHON")}
    return {
        "python": redact.show_text(launch.python),
        "flags": list(_plain(launch.flags)),
        "cwd": redact.show_text(launch.cwd),
        "other_root": launch.root is not None,
        "rights": str(launch.rights) if launch.rights is not None else None,
        "variables": [
            {
                "name": redact.show_name(name),
                "value": values.document((name,), _bytes(text), unmask=unmask),
            }
            for name, text in sorted(shown.items())
        ],
    }


def _hook(hook: Hook) -> dict[str, Any]:
    one: dict[str, Any] = _plain(dataclasses.asdict(hook))
    return one


def _walk(walk: Walk | None) -> dict[str, Any] | None:
    if walk is None:
        return None
    one: dict[str, Any] = _plain(dataclasses.asdict(walk))
    for file, shown in zip(walk.files, one["files"], strict=True):
        shown["lines"] = [
            [number, redact.show_text(lines.outline(text))] for number, text in file.lines
        ]
    return one


def _effects(effects: Effects | None, unmask: bool) -> dict[str, Any] | None:
    if effects is None:
        return None
    plain = {
        field.name: _plain(_simple(getattr(effects, field.name)))
        for field in dataclasses.fields(effects)
        if field.name not in ("changes", "python_path")
    }
    changes = [
        {
            "name": redact.show_name(change.name),
            "before": _side(change, change.before, unmask),
            "after": _side(change, change.after, unmask),
        }
        for change in effects.changes
    ]
    return {**plain, "changes": changes}


def _side(change: Change, value: Value | None, unmask: bool) -> dict[str, Any] | None:
    return None if value is None else values.document((change.name,), value, unmask=unmask)


def _child(child: Child) -> dict[str, Any]:
    one: dict[str, Any] = _plain(dataclasses.asdict(child))
    one["patches"] = _states(child.patches)
    return one


def _patches(startup: Startup) -> list[dict[str, str]]:
    return _states(startup.patches)


def _states(patches: Mapping[str, enum.Enum]) -> list[dict[str, str]]:
    return [
        {"attribute": redact.show_text(name), "state": str(state.value)}
        for name, state in patches.items()
    ]


def _simple(value: Any) -> Any:
    """Return a fact or a collection of facts as plain collections."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple):
        return [_simple(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _simple(one) for name, one in value.items()}
    return value


def _plain(value: Any) -> Any:
    """Return collections with every text made harmless and every enumeration as its word."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {redact.show_text(str(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return redact.show_text(value) if isinstance(value, str) else value


def _bytes(text: str) -> Value:
    return Value(os.fsencode(text))
