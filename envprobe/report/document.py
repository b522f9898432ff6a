"""The report as JSON: data/report.schema.json says what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from envprobe import redact
from envprobe.checks.verdict import Verdict
from envprobe.config import Expectation
from envprobe.model import Sentence, State
from envprobe.report import declared, findings, patch_document, pretty, process_document
from envprobe.report.model import Presentation, Report, Scan
from envprobe.report.process_document import given, named
from envprobe.routes.types import Break, Cause, InTime, Launch, NcclHop, PeerGroup, Route, Stop


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
        self.read = process_document.Facts(unmask=presentation.unmask)
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
            "snapshot": process_document.snapshot(scan.snapshot),
            **given(unit=declared.document(unit) if (unit := scan.snapshot.unit) else None),
            "launches": [_launch(one) for one in routing.launches],
            "peer_groups": [_group(one) for one in routing.groups],
            "processes": [self.read.process(one) for one in scan.snapshot.processes],
            "vanished": [process_document.vanished(one) for one in scan.snapshot.vanished],
            "variables": [self.variable(scan, name) for name in routing.names],
            "routes": [self.route(one) for one in routes],
        }

    def said(self, sentence: Sentence) -> str:
        return redact.show_sentence(sentence, unmask=self.unmask)

    def all_said(self, sentences: Iterable[Sentence]) -> list[str]:
        return [self.said(sentence) for sentence in sentences]

    # --- what was found --------------------------------------------------------------------------

    def expectation(self, one: Expectation) -> dict[str, Any]:
        return {
            **named(one.name),
            "rule": one.rule.value,
            "values": [self.read.value(one.name, value) for value in one.values],
            "role": redact.show_text(one.role),
            "origin": redact.show_text(one.origin),
        }

    def variable(self, scan: Scan, name: str) -> dict[str, Any]:
        return {**named(name), "readings": list(self.readings(scan, name))}

    def readings(self, scan: Scan, name: str) -> Iterator[dict[str, Any]]:
        launchers = {launch.launcher for launch in scan.routing.launches}
        for process in scan.snapshot.processes:
            route = scan.routing.routes.get((process.pid, name))
            if route is None and process.pid not in launchers:
                continue
            found = {view: one.reading(name) for view, one in process.environments.items()}
            views = {
                view.value: self.read.reading(name, reading)
                for view, reading in found.items()
                if reading.state is not State.NOT_ASKED
            }
            timing = {}
            if route is not None and route.in_time is not InTime.NOT_APPLICABLE:
                timing = {"in_time": route.in_time.value, "read_time": route.read_time.value}
            yield {"pid": process.pid, "views": views, **timing}

    def route(self, route: Route) -> dict[str, Any]:
        return {
            **named(route.name),
            "pid": route.pid,
            "in_time": route.in_time.value,
            "read_time": route.read_time.value,
            "stops": [self.stop(route.name, stop) for stop in route.stops],
            "breaks": [self.broken(one) for one in route.breaks],
            **given(nccl=[self.hop(route.name, one) for one in route.nccl]),
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
            "reading": self.read.reading(one.printed_as or name, one.reading),
            **given(
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
            "reading": self.read.reading(name, stop.reading),
        }

    def broken(self, one: Break) -> dict[str, Any]:
        return {
            "before": one.before,
            "after": one.after,
            "change": one.change.value,
            "confidence": one.confidence.value,
            "causes": [self.cause(cause) for cause in one.causes],
            "excluded": [self.cause(cause) for cause in one.excluded],
            **given(writer=redact.show_text(one.writer)),
        }

    def cause(self, cause: Cause) -> dict[str, Any]:
        return {
            "id": cause.id.value,
            "sentence": self.said(cause.sentence),
            "for": self.all_said(cause.evidence_for),
            "against": self.all_said(cause.evidence_against),
            "remedy": self.said(cause.remedy),
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
