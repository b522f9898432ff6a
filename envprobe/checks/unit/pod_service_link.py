"""The check `pod-service-link`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.SERVICE_LINK: Severity.WARNING,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP328",
    slug="pod-service-link",
    severity=Severity.WARNING,
    summary="A service link sets a variable that the server takes for a setting.",
    why="For each service of the namespace Kubernetes sets NAME_PORT=tcp://... and its kin, "
    "unless enableServiceLinks is false: a service called vllm sets VLLM_PORT.",
    mend="Set enableServiceLinks: false in the pod's spec, or give the service another name.",
    run=_run,
)
