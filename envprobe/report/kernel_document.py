"""The report of `kernel` as JSON: data/kernel.schema.json says what is in it."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

from envprobe import redact
from envprobe.checks.kernel.images import match
from envprobe.kernel.architecture import Architecture
from envprobe.kernel.facts import Device, InClass, KernelFacts, Run
from envprobe.kernel.library import Library
from envprobe.report import findings, pretty
from envprobe.report.kernel_model import Report


def render(report: Report, *, unmask: bool = False) -> str:
    """Return the report as one JSON document in ASCII."""
    facts = report.context
    whole = {
        **pretty.heading(),
        "verdict": {
            **findings.verdict_document(report.verdict),
            "fail_on": report.fail_on.value,
            "exit_zero": report.exit_zero,
        },
        "asked": _plain(facts.question),
        "run": _run(facts.run) if facts.run is not None else None,
        "compile_only": _run(facts.compile_only) if facts.compile_only is not None else None,
        "libraries": [_library(one, facts) for one in facts.libraries],
        **findings.documents(report.result, report.allow_unknown, unmask=unmask),
    }
    return pretty.dumps(whole)


def _run(run: Run) -> dict[str, Any]:
    shown: dict[str, Any] = _plain(run)
    shown["devices"] = [_device(one) for one in run.devices]
    return shown


def _device(device: Device) -> dict[str, Any]:
    shown: dict[str, Any] = _plain(device)
    shown["in_class"] = _in_class(device.in_class) if device.in_class is not None else None
    return shown


def _in_class(called: InClass) -> dict[str, Any]:
    shown: dict[str, Any] = _plain(called)
    return {**shown, "patched": called.patched}


def _library(library: Library, facts: KernelFacts) -> dict[str, Any]:
    return {
        "name": redact.show_text(library.name, 400),
        "units": len(library.units),
        "relocatable": library.relocatable,
        "problem": redact.show_text(library.problem) or None,
        "images": [
            {"architecture": str(one.architecture), "kind": one.kind.value, "units": number}
            for one, number in library.counts.items()
        ],
        "devices": [
            {
                "architecture": str(device),
                "as_it_is": (found := match(library, device)).as_it_is,
                "by_driver": found.by_driver,
                "missing": found.missing,
            }
            for device in facts.question.devices
        ],
    }


def _plain(value: Any) -> Any:
    """Return facts as plain collections, every text harmless; what is no number is null."""
    if isinstance(value, Architecture):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {redact.show_text(str(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return redact.show_text(value, 2000) if isinstance(value, str) else value
