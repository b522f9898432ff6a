"""What the checks of `kernel` look at, and what an error of the driver or the compiler means.

Names of errors: CUDA Driver API, CUresult; NVRTC, nvrtcResult.
"""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.kernel.facts import Device, Failure, InClass, KernelFacts, Run, Stage
from envprobe.model import Confidence, Sentence

_UNAVAILABLE: Final = {
    "CUDA_ERROR_OUT_OF_MEMORY": "there is too little free memory on the card",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "the card is busy: it takes no further process",
    "CUDA_ERROR_NO_DEVICE": "no GPU is visible",
    "CUDA_ERROR_INVALID_DEVICE": "no GPU is visible under this number",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the driver does not fit the CUDA libraries",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": "the driver does not fit the CUDA libraries",
    "CUDA_ERROR_SYSTEM_NOT_READY": "the machine's GPUs are not ready (fabric manager, NVSwitch)",
    "CUDA_ERROR_NOT_PERMITTED": "the driver does not permit it",
    "CUDA_ERROR_MPS_CONNECTION_FAILED": "the MPS server does not answer",
    "CUDA_ERROR_MPS_SERVER_NOT_READY": "the MPS server does not answer",
    "CUDA_ERROR_STUB_LIBRARY": "libcuda is a stub without a driver",
}
_NO_IMAGE: Final = frozenset(
    {
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_INVALID_SOURCE",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    }
)
_RESOURCES: Final = frozenset(
    {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}
)
_REFUSED: Final = "CUDA_ERROR_INVALID_VALUE"
_SOURCE: Final = "NVRTC_ERROR_COMPILATION"
_RUNNING: Final = frozenset({Stage.LOAD, Stage.GRID})


class Outcome(str, enum.Enum):
    """What an error means for the kernel."""

    NOT_RUN = "not run"
    NO_IMAGE = "no image"
    OUT_OF_RESOURCES = "out of resources"
    LAUNCH_FAILED = "launch failed"
    NOT_COMPILED = "not compiled"


def outcome(failure: Failure, stage: Stage, *, driver_too_old: bool = False) -> Outcome:
    """Return what an error at a stage means; one that is not the kernel's is NOT_RUN."""
    word = failure.word
    if word in _UNAVAILABLE:
        return Outcome.NOT_RUN
    if word in _NO_IMAGE:
        # What the compiler of a newer CUDA makes no older driver loads: not the kernel's fault.
        return Outcome.NOT_RUN if driver_too_old else Outcome.NO_IMAGE
    if word in _RESOURCES or (word == _REFUSED and stage is Stage.LOAD):
        return Outcome.OUT_OF_RESOURCES
    if stage is Stage.COMPILE:
        return Outcome.NOT_COMPILED if word == _SOURCE else Outcome.NOT_RUN
    if word.startswith("CUDA_ERROR") and stage in _RUNNING:
        return Outcome.LAUNCH_FAILED
    return Outcome.NOT_RUN


def unavailable(failure: Failure) -> str:
    """Return in words what keeps a card from being used, "" if it is something else."""
    return _UNAVAILABLE.get(failure.word, "")


def driver_too_old(run: Run, device: Device) -> bool:
    """Return whether the driver is of an older CUDA than the compiler.

    Within one major version a driver usually loads what a newer compiler makes.
    """
    compiler = device.packages.get("NVRTC", "").split(".")
    if run.driver is None or len(compiler) != 2 or not all(one.isdecimal() for one in compiler):
        return False
    return (run.driver // 1000, run.driver % 1000 // 10) < (int(compiler[0]), int(compiler[1]))


def failures(facts: KernelFacts, wanted: Outcome) -> Iterator[tuple[Device, Failure]]:
    """Yield the errors that mean this, of the kernel alone and of the class's function."""
    run = facts.run
    for device in run.devices if run is not None else ():
        assert run is not None
        old = driver_too_old(run, device)
        for failure, stage in _errors(device):
            if outcome(failure, stage, driver_too_old=old) is wanted:
                yield device, failure


def _errors(device: Device) -> Iterator[tuple[Failure, Stage]]:
    """Yield the errors that may be the kernel's, and the stage that each counts for."""
    if device.failure is not None and device.stage is not Stage.TIME:
        yield device.failure, device.stage
    called = device.in_class
    if called is not None and called.problem is not None and judged_by_word(called):
        yield called.problem, Stage.GRID


def judged_by_word(called: InClass) -> bool:
    """Return whether the function in question ended with an error of the driver's."""
    problem = called.problem
    return problem is not None and called.step == "asked" and bool(problem.word)


def crashed(device: Device) -> bool:
    """Return whether a process ended, not by itself, while the kernel was loaded or ran."""
    return device.ended is not None and device.failure is None and device.stage in _RUNNING


def class_crashed(called: InClass | None) -> bool:
    """Return whether a process ended, not by itself, in the function in question."""
    return (
        called is not None
        and called.ended is not None
        and called.problem is None
        and called.calling.startswith("asked ")
    )


def ending(code: int) -> str:
    """Return in words how a process ended that ended too early."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def unread(run: Run) -> str:
    """Return in words how much of what a program told could not be read, "" if all was."""
    if not run.unread:
        return ""
    records = "1 record" if run.unread == 1 else f"{run.unread} records"
    return f"{records} of {run.python} could not be read"


def named(device: Device) -> str:
    """Return what a card is called."""
    if device.index is None:
        return "this machine"
    name = f" ({device.card.name}, {device.card.architecture})" if device.card is not None else ""
    return f"device {device.index}{name}"


def devices(facts: KernelFacts) -> tuple[Device, ...]:
    """Return the cards of the run, if there was one."""
    return facts.run.devices if facts.run is not None else ()


def found(
    check: Check,
    message: str,
    *,
    who: str = "",
    evidence: Iterable[str] = (),
    remedy: str = "",
    severity: Severity | None = None,
    undetermined: bool = False,
    confidence: Confidence = Confidence.PROVED,
) -> Finding:
    """Return a finding."""
    return Finding(
        check=check.slug,
        severity=severity or check.severity,
        message=Sentence.of(message),
        confidence=confidence,
        evidence=tuple(Sentence.of(one) for one in evidence),
        remedy=Sentence.of(remedy or check.mend),
        undetermined=undetermined,
        who=who,
    )
