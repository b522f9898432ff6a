"""What the renderers of `kernel` get, and the words that they share."""

from __future__ import annotations

import dataclasses

from envprobe.checks.finding import Severity
from envprobe.checks.registry import Result
from envprobe.checks.verdict import Verdict
from envprobe.kernel.facts import Device, InClass, KernelFacts


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    context: KernelFacts
    result: Result
    verdict: Verdict
    allow_unknown: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False


def headline(facts: KernelFacts) -> str:
    """Return in one sentence what was done."""
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
    name = "" if device.index is None else f" on device {device.index}"
    called = device.in_class
    if device.compared:
        number = len(device.compared)
        return f"the bundled kernel ran{name}, {number} shape{'' if number == 1 else 's'}"
    held = _held(called)
    if called is not None and called.asked:
        where = " on the CPU" if called.interpreted else name
        return f"{held}, and it ran{where}" if held else f"the patched class ran{where}"
    return f"{held}; not run{name}" if held else f"not run{name}"


def _held(called: InClass | None) -> str:
    """Return whose function is in SGLang's class, "" where that was not asked or is not known."""
    if called is None or not called.functions:
        return ""
    if not called.patched:
        return "no patch is there: the class holds SGLang's own function"
    return f"the class holds the function of {called.functions[0].module}"


def speedup(microseconds: dict[str, float], ours: str, theirs: str) -> float | None:
    """Return how many times faster ours is, None if one of them was not measured."""
    if ours not in microseconds or not microseconds.get(theirs) or not microseconds[ours]:
        return None
    return microseconds[theirs] / microseconds[ours]


def compared(faster: float) -> str:
    """Return in words how many times faster ours is; a twentieth is within what runs differ by."""
    if abs(faster - 1) < 0.05:
        return "as fast"
    return f"{faster:.1f} times faster" if faster > 1 else f"{1 / faster:.1f} times slower"


def versions(device: Device) -> str:
    """Return what was used, in words."""
    return ", ".join(f"{name} {version}" for name, version in device.packages.items())
