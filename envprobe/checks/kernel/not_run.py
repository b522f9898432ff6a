"""The check `kernel-not-run`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.kernel.about import (
    Outcome,
    crashed,
    driver_too_old,
    ending,
    failures,
    found,
    named,
    unavailable,
    unread,
)
from envprobe.kernel.facts import Device, Failure, KernelFacts, Run, Stage, Stopped

_MIB: Final = 1 << 20
_PACKAGES: Final = (
    "Run `pip install 'envprobe[kernel]'` (kernel-cu12 for a driver of CUDA 12), or name an"
    " interpreter that has them with --python P."
)
_REMEDIES: Final = {
    "no-gpu": "Run it on a machine with a GPU, in a container with --gpus; `--compile-only --arch"
    " sm_120` needs none.",
    "package": _PACKAGES,
    "torch": "Install a build of torch for CUDA that the driver supports (see `nvidia-smi`).",
    "busy": "Choose another card with --device N, or wait until it is free.",
    "compiler": "Install a newer NVRTC: pip install -U nvidia-cuda-nvrtc.",
    "memory": "Free memory on the card, choose another with --device N, or give --memory less.",
    "interpreted": "Unset TRITON_INTERPRET.",
}


def _run(facts: KernelFacts) -> Iterator[Finding]:
    run = facts.run
    if run is None:
        return
    for device in run.devices:
        why, remedy = _why(facts, run, device)
        if why:
            yield found(
                CHECK,
                f"Not run on {named(device)}: {why}.",
                who=named(device),
                remedy=remedy,
                evidence=_evidence(run, device),
                undetermined=True,
            )
    for device, failure in failures(facts, Outcome.NOT_RUN):
        yield found(
            CHECK,
            f"Not run on {named(device)}: {_reason(run, device, failure)}.",
            who=named(device),
            evidence=(str(failure),),
            undetermined=True,
        )
    if not run.devices:
        yield found(
            CHECK,
            f"Not run with {run.python}: {run.problem or unread(run) or 'it has said nothing'}.",
            who=run.python,
            evidence=(f"its last words: {run.said}",) if run.said else (),
            undetermined=True,
        )
    elif run.unread and facts.question.installed is None:
        yield found(
            CHECK,
            f"Not all is known of the run: {unread(run)}.",
            who=run.python,
            undetermined=True,
        )


def _why(facts: KernelFacts, run: Run, device: Device) -> tuple[str, str]:
    """Return why nothing is known of a card, and a remedy ("": the check's own); "" if it is."""
    stopped = device.stopped
    if stopped is not None:
        told = "" if stopped.reason == "too-old" else _stopped(run, stopped)
        called = device.in_class
        if told and called is not None and called.step == "import" and called.problem is not None:
            told += f"; and SGLang's class cannot be imported: {called.problem}"
        return told, _REMEDIES.get(stopped.reason, "")
    if facts.question.installed is not None:
        return _why_not_called(run, device)
    if crashed(device) or (device.failure is not None and device.stage is not Stage.TIME):
        return "", ""
    if device.stage is Stage.TIME and device.compared:
        return "", ""
    if device.ended is not None:
        return f"the process ended with {ending(device.ended)} at the stage {_stage(device)}", ""
    if device.done:
        told = "" if device.compared else "no shape fits into the memory allowed"
        return told, _REMEDIES["memory"]
    killed_while_it_ran = device.stage is Stage.GRID and run.problem
    told = f"{run.problem or 'it did not end'}, at the stage {_stage(device)}"
    return "" if killed_while_it_ran else told, ""


def _why_not_called(run: Run, device: Device) -> tuple[str, str]:
    called = device.in_class
    if called is None:
        return run.problem or "its process has said nothing", ""
    if called.step == "import":
        return f"SGLang's class cannot be imported: {called.problem}", _IMPORT
    if called.interpreted and called.done:
        told = "Triton's interpreter ran it on the CPU, which says nothing of a GPU"
        return told, _REMEDIES["interpreted"]
    return "", ""


_IMPORT: Final = (
    "Name the interpreter of the server: --installed --python P --env K=V, or --unit NAME."
)


def _stopped(run: Run, stopped: Stopped) -> str:
    if stopped.reason == "memory" and stopped.free is not None and stopped.need is not None:
        free, need = stopped.free // _MIB, stopped.need // _MIB
        return f"the card has {free} MiB of free memory, and {need} MiB are needed"
    if stopped.reason == "package":
        return f"{run.python} lacks a package: {stopped.text}"
    return stopped.text or stopped.reason


def _reason(run: Run, device: Device, failure: Failure) -> str:
    if driver_too_old(run, device):
        assert run.driver is not None
        driver = f"CUDA {run.driver // 1000}.{run.driver % 1000 // 10}"
        compiler = device.packages["NVRTC"]
        return f"the driver supports {driver}, and the compiler is of CUDA {compiler}"
    if known := unavailable(failure):
        return known
    return f"an error at the stage {_stage(device)} that says nothing of the kernel"


def _stage(device: Device) -> str:
    return device.stage.value + (f" ({device.at})" if device.at else "")


def _evidence(run: Run, device: Device) -> tuple[str, ...]:
    gave_up = device.stopped is None and (device.ended is not None or run.problem)
    return (f"its last words: {run.said}",) if gave_up and run.said else ()


CHECK = Check(
    id="EP401",
    slug="kernel-not-run",
    severity=Severity.ERROR,
    summary="The kernel was not run, so nothing is known of it.",
    why="No GPU, a busy card, too little free memory, a missing package, a driver older than the"
    " compiler, a compiler that does not know the card: none of these says that the kernel is"
    " wrong, and none that it is right.",
    mend="Mend what the finding names and run it again. --memory SIZE says how much of the card may"
    " be used, --python P which interpreter has torch and cuda-core.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
