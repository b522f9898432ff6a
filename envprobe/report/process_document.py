"""What a scan has read, as parts of the JSON report: the snapshot and its processes."""

from __future__ import annotations

import base64
import os
from typing import Any

from envprobe import redact
from envprobe.model import Environment, Identity, Process, Reading, Role, Snapshot, Vanished
from envprobe.report import nccljoin_document, values
from envprobe.report.answers import inside_document, shown_text
from envprobe.values import Value


class Facts:
    """Facts as parts of a document, credentials by their length only unless `unmask` is given."""

    def __init__(self, *, unmask: bool) -> None:
        self.unmask = unmask

    def value(self, name: str, value: Value) -> dict[str, Any]:
        """Return a value, and whether all of it is here."""
        shown = values.document((name,), value, unmask=self.unmask)
        if value.truncated and "masked" not in shown:
            shown |= {"length": value.length, "truncated": True}
        return shown

    def reading(self, name: str, reading: Reading) -> dict[str, Any]:
        """Return what one view says of a variable."""
        shown: dict[str, Any] = {"state": reading.state.value}
        if reading.value is not None:
            shown["value"] = self.value(name, reading.value)
        shown |= given(
            source=redact.show_text(reading.source),
            at=reading.at,
            reason=redact.show_text(reading.reason),
            remedy=redact.show_text(reading.remedy),
        )
        if reading.known:
            shown["confidence"] = reading.confidence.value
        return shown

    def process(self, process: Process) -> dict[str, Any]:
        """Return a process with all that was read of it, its variables apart."""
        return {
            "pid": process.pid,
            "identity": _identity(process.identity),
            "role": _role(process.role),
            "edge": {
                "kind": process.edge.kind.value,
                "parent": process.edge.parent,
                "carries": process.edge.carries.value,
                "launcher": redact.show_text(process.edge.launcher),
                "confidence": process.edge.confidence.value,
                "evidence": [redact.show_text(one) for one in process.edge.evidence],
            },
            "ppid": process.ppid,
            "state": redact.show_text(process.state),
            "start_time": process.start_time,
            "uid": process.uid,
            "comm": redact.show_text(process.comm),
            "command": redact.show_command(process.title, 4096),
            **given(
                exe=shown_text(process.exe),
                cwd=shown_text(process.cwd),
                run_id=redact.show_text(process.run_id),
                cgroup=redact.show_text(process.cgroup),
                inner_pid=process.inner_pid,
                secure=process.secure,
                interpreter=shown_text(_interpreter(process)),
                notes=[redact.show_text(one) for one in process.notes],
            ),
            "image_owner": process.image_owner,
            "exe_deleted": process.exe_deleted,
            "matched": process.matched,
            "orphan": process.orphan,
            "ended": process.ended,
            "environments": {
                view.value: self._environment(environment)
                for view, environment in process.environments.items()
            },
            **given(inside=self._inside(process)),
            **nccljoin_document.of_process(process),
        }

    def _inside(self, process: Process) -> dict[str, Any] | None:
        if process.inside is None:
            return None
        return inside_document(process, process.inside, unmask=self.unmask)

    def _environment(self, environment: Environment) -> dict[str, Any]:
        return {
            "status": environment.status.value,
            "variables": len(environment.entries),
            "confidence": environment.confidence.value,
            **given(
                block=environment.block.value if environment.block else None,
                source=redact.show_text(environment.source),
                at=environment.at,
                reason=redact.show_text(environment.reason),
                remedy=redact.show_text(environment.remedy),
                duplicates=[redact.show_name(name) for name in environment.duplicates],
                oddities=[self.value("", odd) for odd in environment.oddities],
            ),
        }


def snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return what holds for a whole scan."""
    return {
        "host": redact.show_text(snapshot.host),
        "boot_id": redact.show_text(snapshot.boot_id),
        "started": snapshot.started,
        "ended": snapshot.ended,
        "roots": list(snapshot.roots),
        "stable": snapshot.stable,
        "scans": snapshot.scans,
        "yama_scope": snapshot.yama_scope,
        "reader_uid": snapshot.reader_uid,
        "notes": [redact.show_text(note) for note in snapshot.notes],
        "tool_version": redact.show_text(snapshot.tool_version),
        "schema_version": snapshot.schema_version,
    }


def _identity(identity: Identity) -> dict[str, Any]:
    return {
        "pid": identity.pid,
        "start_ticks": identity.start_ticks,
        "boot_id": redact.show_text(identity.boot_id),
        "pid_namespace": identity.pid_namespace,
        "random": redact.show_text(identity.random),
    }


def _role(role: Role) -> dict[str, Any]:
    return {
        "name": redact.show_text(role.name),
        "label": redact.show_text(role.label),
        "framework": redact.show_text(role.framework),
        "ranks": {redact.show_text(kind): rank for kind, rank in role.ranks.items()},
        "worker": role.worker,
        "final": role.final,
        "evidence": redact.show_text(role.evidence),
    }


def vanished(one: Vanished) -> dict[str, Any]:
    """Return a process that was gone before it could be read."""
    return {
        "pid": one.pid,
        "role": _role(one.role),
        "command": redact.show_command(one.title, 4096),
    }


def _interpreter(process: Process) -> str | None:
    found = process.interpreter
    return None if found is None else f"{found.kind} {found.version}".strip()


def named(name: str) -> dict[str, Any]:
    """Return a variable's name; its bytes too where the name itself cannot be shown."""
    shown = redact.show_name(name)
    if shown == name:
        return {"name": name}
    return {"name": shown, "name_base64": base64.b64encode(os.fsencode(name)).decode("ascii")}


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
