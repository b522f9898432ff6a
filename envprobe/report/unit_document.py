"""The report of `unit` as JSON: data/unit.schema.json says what is in it."""

from __future__ import annotations

from typing import Any

from envprobe import redact
from envprobe.launch.definition import Definition
from envprobe.launch.entry import EntryLook
from envprobe.launch.live import Live
from envprobe.launch.steps import Launch, Python
from envprobe.launch.types import Entry, Place, Remark, Setting
from envprobe.report import findings, pretty, values
from envprobe.report.unit_model import Report
from envprobe.values import Value


def render(report: Report, *, unmask: bool = False) -> str:
    """Return the report as one JSON document in ASCII."""
    document = _Document(unmask)
    context = report.context
    whole = {
        **pretty.heading(),
        "verdict": {
            **findings.verdict_document(report.verdict),
            "fail_on": report.fail_on.value,
            "exit_zero": report.exit_zero,
        },
        "definitions": [
            {
                **document.definition(one),
                "entry_files": [_entry_file(look) for look in context.entries.get(number, ())],
            }
            for number, one in enumerate(context.definitions)
        ],
        **findings.documents(report.result, report.allow_unknown, unmask=unmask),
    }
    return pretty.dumps(whole)


class _Document:
    def __init__(self, unmask: bool) -> None:
        self.unmask = unmask

    def definition(self, one: Definition) -> dict[str, Any]:
        return {
            "subject": redact.show_text(one.subject),
            "origin": one.origin.value,
            "user_manager": one.user_manager,
            "files": [redact.show_text(path) for path in one.files],
            "live": _live(one.live) if one.live is not None else None,
            "open": redact.show_text(one.declared.open),
            "entries": [self.entry(entry) for entry in one.declared.entries],
            "sandbox": [
                {"property": redact.show_text(str(prop)), "place": _place(prop.place)}
                for prop in one.sandbox
            ],
            "remarks": [self.remark(remark) for remark in one.remarks],
            "launches": [self.launch(launch) for launch in one.launches],
        }

    def entry(self, entry: Entry) -> dict[str, Any]:
        return {
            **self.setting(entry.setting),
            "known": entry.known,
            "removed_by": _place(entry.removed) if entry.removed is not None else None,
            "doubt": redact.show_text(entry.doubt),
            "overrides": [self.setting(one) for one in reversed(entry.overridden)],
        }

    def setting(self, setting: Setting) -> dict[str, Any]:
        value = setting.value
        return {
            "name": redact.show_name(setting.name),
            "value": self.value(setting.name, value) if value is not None else None,
            "source": setting.source.value,
            "place": _place(setting.place),
            "reason": redact.show_text(setting.reason),
            "confidence": setting.confidence.value,
        }

    def value(self, name: str, value: Value) -> dict[str, Any]:
        return values.document((name,), value, unmask=self.unmask)

    def remark(self, remark: Remark) -> dict[str, Any]:
        return {
            "kind": remark.kind.value,
            "place": _place(remark.place),
            "name": redact.show_name(remark.name) if remark.name else None,
            "about": redact.show_text(remark.about),
        }

    def launch(self, launch: Launch) -> dict[str, Any]:
        container = launch.container
        return {
            "words": [redact.show_text(one) for one in redact.mask_words(launch.argv)],
            "place": _place(launch.place),
            "cwd": redact.show_text(launch.cwd) or None,
            "user": redact.show_text(launch.user) or None,
            "hops": [
                {
                    "program": redact.show_text(hop.program),
                    "place": _place(hop.place),
                    "told": redact.show_text(hop.told),
                    "child": hop.child,
                }
                for hop in launch.hops
            ],
            "python": _python(launch.python) if launch.python is not None else None,
            "missing": launch.missing or None,
            "opaque": redact.show_text(launch.opaque) or None,
            "opaque_at": _place(launch.opaque_at) if launch.opaque else None,
            "container": {
                "runtime": container.runtime,
                "image": redact.show_text(container.image),
                "image_known": container.image_known,
                "passed": [self.setting(one) for one in container.passed],
            }
            if container is not None
            else None,
            "entries": [self.entry(entry) for entry in launch.declared.entries],
        }


def _place(place: Place) -> dict[str, Any] | None:
    if not place.file:
        return None
    return {"file": redact.show_text(place.file), "line": place.line or None}


def _live(live: Live) -> dict[str, Any]:
    return {
        "name": redact.show_text(live.name),
        "load_state": redact.show_text(live.load_state),
        "active": redact.show_text(live.active),
        "sub": redact.show_text(live.sub),
        "result": redact.show_text(live.result),
        "need_daemon_reload": live.need_reload,
        "main_pid": live.main_pid,
        "control_group": redact.show_text(live.cgroup),
        "started": live.started,
        "restarts": live.restarts,
    }


def _python(python: Python) -> dict[str, Any]:
    return {
        "interpreter": redact.show_text(python.interpreter),
        "flags": [redact.show_text(one) for one in python.flags],
        "mode": python.mode.value,
        "target": redact.show_text(python.target, 400),
        "arguments": [redact.show_text(one) for one in redact.mask_words(python.arguments)],
    }


def _entry_file(look: EntryLook) -> dict[str, Any]:
    return {
        "path": redact.show_text(look.path),
        "guard": look.guard,
        "starts": [
            {
                "line": one.line,
                "kind": one.kind.value,
                "call": redact.show_text(one.call),
                "inside": one.inside,
            }
            for one in look.starts
        ],
        "reason": redact.show_text(look.reason) or None,
        "version": list(look.version) if look.version is not None else None,
        "own_grammar": look.own,
    }
