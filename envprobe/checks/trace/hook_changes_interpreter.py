"""The check `hook-changes-interpreter`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.traced import Answer


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        if changes := list(_changes(answer)):
            yield found(CHECK, context, answer, f"the hooks {', and '.join(changes)}")


def _changes(answer: Answer) -> Iterator[str]:
    run, effects = answer.startup.run, answer.startup.effects
    if run.printed:
        more = "at least " if run.cut else ""
        yield f"print {more}{run.printed} bytes on stdout"
    if effects is not None and effects.streams:
        yield f"replace {', '.join('sys.' + name for name in effects.streams)}"
    if effects is not None and not any(effects.path or ()):
        yield "leave no usable sys.path"


CHECK = Check(
    id="EP118",
    slug="hook-changes-interpreter",
    severity=Severity.WARNING,
    summary="A hook prints, replaces a standard stream, or takes sys.path away.",
    why="What a hook prints on stdout comes before the output of every program: JSON that "
    "another program reads is broken. A replaced stream loses messages, and without "
    "sys.path nothing can be imported.",
    mend="Let a hook write to a log file or to stderr, and leave the streams and sys.path as "
    "they are.",
    run=_run,
)
