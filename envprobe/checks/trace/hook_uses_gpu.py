"""The check `hook-uses-gpu`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        effects = answer.startup.effects
        if effects is not None and (effects.cuda_initialised or effects.gpu_files):
            evidence = ["torch.cuda.is_initialized() is true"] if effects.cuda_initialised else []
            evidence += [f"{path} is open" for path in effects.gpu_files]
            told = "after the hooks the interpreter uses a GPU"
            yield found(CHECK, context, answer, told, evidence=evidence)


CHECK = Check(
    id="EP116",
    slug="hook-uses-gpu",
    severity=Severity.ERROR,
    summary="A hook initialises CUDA or opens a GPU.",
    why="Once CUDA is initialised in a process, its forked children cannot use it; every "
    "interpreter that inherits the hook takes memory on the GPU, helpers included.",
    mend="Move what touches the GPU out of the hook, into code that runs when the module is "
    "first used.",
    run=_run,
)
