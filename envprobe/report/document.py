"""The report as JSON: data/report.schema.json says what is in it."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator
from typing import Any

from envprobe import redact
from envprobe.checks.verdict import Verdict
from envprobe.config import Expectation
from envprobe.model import (
    Environment,
    Identity,
    Process,
    Reading,
    Role,
    Sentence,
    Snapshot,
    State,
    Vanished,
)
from envprobe.report import declared, findings, nccljoin_document, patch_document, pretty
from envprobe.report.answers import inside_document
from envprobe.report.model import Presentation, Report, Scan
from envprobe.routes.types import Break, Cause, InTime, Launch, NcclHop, PeerGroup, Route, Stop
from envprobe.values import Value


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as one JSON document in ASCII, one process or variable a line."""
    document = _Document(presentation).report(report)
    return pretty.dumps(document)


def facts(scan: Scan, presentation: Presentation) -> dict[str, Any]:
    """Return what one scan has read, without what was found wrong."""
    return _Document(presentation).facts(scan)


class _Document:
    def __init__(self, presentation: Presentation) -> None:
        self.unmask = presentation.unmask
        self.every_route = presentation.show_all

    def report(self, report: Report) -> dict[str, Any]:
        verdict = Verdict(report.exit, report.counts)
        return {
            **pretty.heading(),
            "verdict": {
                **findings.verdict_document(verdict),
                "fail_on": report.fail_on.value,
                "exit_zero": report.exit_zero,
            },
            "expectations": [self.expectation(one) for one in report.config.expectations],
            "nccl_expectations": [self.expectation(one) for one in report.config.nccl],
            "libraries_expected": [
                {"pattern": redact.show_text(one.pattern), "origin": redact.show_text(one.origin)}
                for one in report.config.libraries
            ],
            "scans": [self.scan(scan) for scan in report.scans],
        }

    def scan(self, scan: Scan) -> dict[str, Any]:
        return {
            "verdict": findings.verdict_document(scan.verdict),
            **self.facts(scan),
            **patch_document.documents(scan.context),
            **findings.documents(
                scan.result, scan.context.config.allow_unknown, unmask=self.unmask
            ),
        }

    def facts(self, scan: Scan) -> dict[str, Any]:
        routing = scan.routing
        routes = (
            one for one in routing.routes.values() if one.breaks or one.nccl or self.every_route
        )
        return {
            "snapshot": _snapshot(scan.snapshot),
            **_given(unit=declared.document(unit) if (unit := scan.snapshot.unit) else None),
            "launches": [_launch(one) for one in routing.launches],
            "peer_groups": [_group(one) for one in routing.groups],
            "processes": [self.process(one) for one in scan.snapshot.processes],
            "vanished": [_vanished(one) for one in scan.snapshot.vanished],
            "variables": [self.variable(scan, name) for name in routing.names],
            "routes": [self.route(one) for one in routes],
        }

    # --- values ----------------------------------------------------------------------------------

    def value(self, name: str, value: Value) -> dict[str, Any]:
        """Return text, or base64 of what is no UTF-8, or only the length of a credential."""
        if value.hidden or (not self.unmask and redact.holds_secret(name, value)):
            return {"masked": value.length}
        raw = value.reveal()
        shown: dict[str, Any]
        try:
            shown = {"text": raw.decode("utf-8")}
        except UnicodeDecodeError:
            shown = {"base64": base64.b64encode(raw).decode("ascii")}
        if value.truncated:
            shown |= {"length": value.length, "truncated": True}
        return shown

    def reading(self, name: str, reading: Reading) -> dict[str, Any]:
        shown: dict[str, Any] = {"state": reading.state.value}
        if reading.value is not None:
            shown["value"] = self.value(name, reading.value)
        shown |= _given(
            source=redact.show_text(reading.source),
            at=reading.at,
            reason=redact.show_text(reading.reason),
            remedy=redact.show_text(reading.remedy),
        )
        if reading.known:
            shown["confidence"] = reading.confidence.value
        return shown

    def said(self, sentence: Sentence) -> str:
        return redact.show_sentence(sentence, unmask=self.unmask)

    def all_said(self, sentences: Iterable[Sentence]) -> list[str]:
        return [self.said(sentence) for sentence in sentences]

    # --- what was found --------------------------------------------------------------------------

    def expectation(self, one: Expectation) -> dict[str, Any]:
        return {
            **_name(one.name),
            "rule": one.rule.value,
            "values": [self.value(one.name, value) for value in one.values],
            "role": redact.show_text(one.role),
            "origin": redact.show_text(one.origin),
        }

    def process(self, process: Process) -> dict[str, Any]:
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
            **_given(
                exe=_shown(process.exe),
                cwd=_shown(process.cwd),
                run_id=redact.show_text(process.run_id),
                cgroup=redact.show_text(process.cgroup),
                inner_pid=process.inner_pid,
                secure=process.secure,
                interpreter=_shown(_interpreter(process)),
                notes=[redact.show_text(one) for one in process.notes],
            ),
            "image_owner": process.image_owner,
            "exe_deleted": process.exe_deleted,
            "matched": process.matched,
            "orphan": process.orphan,
            "ended": process.ended,
            "environments": {
                view.value: self.environment(environment)
                for view, environment in process.environments.items()
            },
            **_given(inside=self.inside(process)),
            **nccljoin_document.of_process(process),
        }

    def inside(self, process: Process) -> dict[str, Any] | None:
        if process.inside is None:
            return None
        return inside_document(process, process.inside, unmask=self.unmask)

    def environment(self, environment: Environment) -> dict[str, Any]:
        return {
            "status": environment.status.value,
            "variables": len(environment.entries),
            "confidence": environment.confidence.value,
            **_given(
                block=environment.block.value if environment.block else None,
                source=redact.show_text(environment.source),
                at=environment.at,
                reason=redact.show_text(environment.reason),
                remedy=redact.show_text(environment.remedy),
                duplicates=[redact.show_name(name) for name in environment.duplicates],
                oddities=[self.value("", odd) for odd in environment.oddities],
            ),
        }

    def variable(self, scan: Scan, name: str) -> dict[str, Any]:
        return {**_name(name), "readings": list(self.readings(scan, name))}

    def readings(self, scan: Scan, name: str) -> Iterator[dict[str, Any]]:
        launchers = {launch.launcher for launch in scan.routing.launches}
        for process in scan.snapshot.processes:
            route = scan.routing.routes.get((process.pid, name))
            if route is None and process.pid not in launchers:
                continue
            found = {view: one.reading(name) for view, one in process.environments.items()}
            views = {
                view.value: self.reading(name, reading)
                for view, reading in found.items()
                if reading.state is not State.NOT_ASKED
            }
            timing = {}
            if route is not None and route.in_time is not InTime.NOT_APPLICABLE:
                timing = {"in_time": route.in_time.value, "read_time": route.read_time.value}
            yield {"pid": process.pid, "views": views, **timing}

    def route(self, route: Route) -> dict[str, Any]:
        return {
            **_name(route.name),
            "pid": route.pid,
            "in_time": route.in_time.value,
            "read_time": route.read_time.value,
            "stops": [self.stop(route.name, stop) for stop in route.stops],
            "breaks": [self.broken(one) for one in route.breaks],
            **_given(nccl=[self.hop(route.name, one) for one in route.nccl]),
        }

    def hop(self, name: str, one: NcclHop) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        if one.change is not None:
            changed = {
                "change": one.change.value,
                "confidence": one.confidence.value,
                "causes": [self.cause(cause) for cause in one.causes],
                "excluded": [self.cause(cause) for cause in one.excluded],
            }
        return {
            "communicator": redact.show_text(one.communicator),
            "rank": one.rank,
            "reading": self.reading(one.printed_as or name, one.reading),
            **_given(
                printed_as=one.printed_as,
                origin=self.all_said(one.origin),
                writer=redact.show_text(one.writer),
            ),
            **changed,
        }

    def stop(self, name: str, stop: Stop) -> dict[str, Any]:
        return {
            "pid": stop.pid,
            "view": stop.view.value,
            "reading": self.reading(name, stop.reading),
        }

    def broken(self, one: Break) -> dict[str, Any]:
        return {
            "before": one.before,
            "after": one.after,
            "change": one.change.value,
            "confidence": one.confidence.value,
            "causes": [self.cause(cause) for cause in one.causes],
            "excluded": [self.cause(cause) for cause in one.excluded],
            **_given(writer=redact.show_text(one.writer)),
        }

    def cause(self, cause: Cause) -> dict[str, Any]:
        return {
            "id": cause.id.value,
            "sentence": self.said(cause.sentence),
            "for": self.all_said(cause.evidence_for),
            "against": self.all_said(cause.evidence_against),
            "remedy": self.said(cause.remedy),
        }


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
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


def _launch(launch: Launch) -> dict[str, Any]:
    return {
        "launcher": launch.launcher,
        "run_id": redact.show_text(launch.run_id),
        "workers": list(launch.workers),
    }


def _group(group: PeerGroup) -> dict[str, Any]:
    return {
        "launcher": group.launcher,
        "role": redact.show_text(group.role),
        "replica": redact.show_text(group.replica),
        "workers": list(group.workers),
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


def _vanished(one: Vanished) -> dict[str, Any]:
    return {
        "pid": one.pid,
        "role": _role(one.role),
        "command": redact.show_command(one.title, 4096),
    }


def _interpreter(process: Process) -> str | None:
    found = process.interpreter
    return None if found is None else f"{found.kind} {found.version}".strip()


def _shown(text: str | None) -> str | None:
    return None if text is None else redact.show_text(text)


def _name(name: str) -> dict[str, Any]:
    """Return a variable's name; its bytes too where the name itself cannot be shown."""
    shown = redact.show_name(name)
    if shown == name:
        return {"name": name}
    return {"name": shown, "name_base64": base64.b64encode(os.fsencode(name)).decode("ascii")}


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
