"""The check `start-gpu-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(
        CHECK, context, saying("no GPU, or not the one that is wanted, can be used")
    )


CHECK = Check(
    id="EP616",
    slug="start-gpu-missing",
    severity=Severity.ERROR,
    summary="No GPU is visible to the server, fewer than it wants, or none is ready.",
    why="CUDA_VISIBLE_DEVICES, a container without --gpus, DevicePolicy= or PrivateDevices= of a"
    " unit, a driver that is not loaded, or a fabric manager that does not run hide GPUs that"
    " nvidia-smi of the host shows.",
    mend="Run `nvidia-smi -L` in the same container and unit, and compare CUDA_VISIBLE_DEVICES:"
    " `envprobe unit` shows what is handed over.",
    run=_run,
)
