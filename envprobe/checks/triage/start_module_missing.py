"""The check `start-module-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("a module or library is missing"))


CHECK = Check(
    id="EP604",
    slug="start-module-missing",
    severity=Severity.ERROR,
    summary="A Python module or a shared library could not be loaded.",
    why="The interpreter, its environment or the library path is not the one that has the"
    " package: another virtual environment, a PYTHONPATH that did not arrive, a wheel"
    " for another CUDA.",
    mend="Install what the finding names into the environment of the interpreter that is"
    " started, or mend PYTHONPATH or LD_LIBRARY_PATH: `envprobe unit` shows what is"
    " handed over, `envprobe trace-sitecustomize` what sys.path becomes.",
    run=_run,
)
