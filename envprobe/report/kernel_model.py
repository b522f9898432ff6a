"""What the renderers of `kernel` get, and the words that they share."""

from __future__ import annotations

import dataclasses

from envprobe.checks.finding import Severity
from envprobe.checks.registry import Result
from envprobe.checks.verdict import Verdict
from envprobe.kernel.facts import Device, KernelFacts


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    context: KernelFacts
    result: Result
    verdict: Verdict
    allow_unknown: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False


def headline(report: Report) -> str:
    """Return in one sentence what was done."""
    facts = report.context
    told = [_device(one) for one in (facts.run.devices if facts.run is not None else ())]
    if facts.run is not None and not told:
        told.append("not run")
    if facts.compile_only is not None:
        made = [str(one.architecture) for one in facts.compile_only.compiled if not one.failure]
        told.append(f"compiled, not run: {', '.join(made)}" if made else "nothing was compiled")
    if facts.libraries:
        number = len(facts.libraries)
        told.append(f"{number} librar{'y' if number == 1 else 'ies'} looked into")
    return "; ".join(told)


def _device(device: Device) -> str:
    name = "no device" if device.index is None else f"device {device.index}"
    called = device.in_class
    if device.compared:
        return f"{len(device.compared)} shapes run on {name}"
    if called is not None and called.asked:
        where = "on the CPU" if called.interpreted else f"on {name}"
        return f"the class's function run {where}"
    return "not run" if device.index is None else f"not run on {name}"


def speedup(microseconds: dict[str, float], ours: str, theirs: str) -> float | None:
    """Return how many times faster ours is, None if one of them was not measured."""
    if ours not in microseconds or not microseconds.get(theirs) or not microseconds[ours]:
        return None
    return microseconds[theirs] / microseconds[ours]


def versions(device: Device) -> str:
    """Return what was used, in words."""
    return ", ".join(f"{name} {version}" for name, version in device.packages.items())
