"""The check `installed-not-driven`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.kernel.about import found, judged_by_word, named, unread
from envprobe.checks.kernel.driven import undriven
from envprobe.kernel.facts import KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    if facts.question.installed is None or facts.run is None:
        return
    for device in facts.run.devices:
        called = device.in_class
        if called is None or judged_by_word(called):
            continue
        why = undriven(facts.run, device)
        if why:
            function = f"{called.functions[0]}" if called.functions else "The function"
            yield found(
                CHECK,
                f"{function} could not be driven outside a server on {named(device)}: {why}.",
                who=named(device),
                undetermined=True,
            )
    if facts.run.unread and facts.run.devices:
        yield found(
            CHECK,
            f"Not all is known of the run: {unread(facts.run)}.",
            who=facts.run.python,
            undetermined=True,
        )


CHECK = Check(
    id="EP413",
    slug="installed-not-driven",
    severity=Severity.ERROR,
    summary="The installed function could not be called outside a server.",
    why="What a function needs of a running server is not made up here. SGLang's own function is"
    " called with the same arguments first; where that fails, the other is not judged.",
    mend="Test it in a running server: ENVPROBE_KERNEL=validate for the bundled kernel; for another"
    " one compare tensors, since tokens of random weights show nothing.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
