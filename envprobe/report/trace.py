"""The report of `trace-sitecustomize` as text: each start, its hooks, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.model import Sentence, Shown
from envprobe.report.findings import Prose, counted
from envprobe.report.model import Presentation
from envprobe.report.trace_model import Report, headline, title, told
from envprobe.startup.result import Change, Child, Hook, PatchState, Reached, Startup
from envprobe.startup.traced import Answer
from envprobe.startup.types import Candidate, Entry

_MAX_LISTED: Final = 12
_MAX_TEXT: Final = 120
_REACHED: Final = {
    Reached.RAN: "runs",
    Reached.INHERITED: "is inherited",
    Reached.ANOTHER_RAN: "does not run, another one does",
    Reached.NOT_RUN: "does not run",
    Reached.FAILED: "is not loaded either",
    Reached.UNKNOWN: "not known",
}
_PATCH: Final = {
    PatchState.PRESENT: "replaced",
    PatchState.ABSENT: "not replaced",
    PatchState.UNTOUCHED: "as it is without hooks",
    PatchState.UNKNOWN: "not known",
}


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as text of at least 80 columns, ending with a newline."""
    return redact.without_commands("\n".join(_Text(report, presentation).lines()) + "\n")


class _Text:
    def __init__(self, report: Report, presentation: Presentation) -> None:
        self.report = report
        self.all = presentation.show_all
        self.prose = Prose(presentation.width, color=presentation.color, unmask=presentation.unmask)

    def lines(self) -> Iterator[str]:
        report, traced = self.report, self.report.context.traced
        found = list(counted(report.verdict.counts, report.fail_on))
        found += [headline(report)]
        verdict = self.prose.verdict(
            report.verdict.exit, self.safe("; ".join(found)), exit_zero=report.exit_zero
        )
        yield from verdict
        for answer in traced.answers:
            yield ""
            yield from self.answer(answer)
        yield from self.prose.findings(report.result, report.allow_unknown, details=self.all)
        yield ""
        yield from verdict

    def safe(self, text: str) -> str:
        return redact.show_text(text)

    def said(self, text: str, below: str = "    ", first: str = "  ") -> list[str]:
        return self.prose.wrapped(self.safe(text), below, first)

    def answer(self, answer: Answer) -> Iterator[str]:
        startup = answer.startup
        yield self.prose.style(title(answer), "title")
        yield from self.interpreter(answer)
        yield "  hooks, in the order in which they run:"
        for hook in startup.hooks:
            yield from self.hook(hook)
        yield from self.candidates(startup)
        if self.all:
            yield from self.path(startup)
        yield from self.effects(startup)
        yield from self.children(startup)
        yield from self.cost(startup)

    def interpreter(self, answer: Answer) -> Iterator[str]:
        launch, walk = answer.startup.launch, answer.startup.walk
        version = ".".join(map(str, walk.version)) if walk is not None else "?"
        flags = f" {' '.join(launch.flags)}" if launch.flags else ""
        rights = f", as {launch.rights}" if answer.start is not None and launch.rights else ""
        text = f"{launch.python}{flags}, Python {version}, in {launch.cwd}{rights}"
        yield from self.said(f"{text} ({self.report.context.traced.chosen})")
        given = launch.python_path
        if given is not None:
            yield from self.said(f"PYTHONPATH={given}{_origin(answer)}")
        for hop in answer.start.declared.hops if answer.start is not None else ():
            yield from self.said(f"through {hop.program} at {hop.place}, which {hop.told}")

    def hook(self, hook: Hook) -> Iterator[str]:
        name = f"{hook.path}:{hook.line}" if hook.line else hook.name
        path = hook.path if hook.path and not hook.line else _cut(hook.text)
        about = [hook.kind.value] if hook.kind is not None else []
        about += [f"bytecode {hook.code}"] if "__pycache__" in hook.code else []
        about += [hook.agent or hook.owner] if hook.agent or hook.owner else []
        if hook.cumulative_us is not None:
            own = f"{hook.self_us / 1000:.1f} of " if hook.self_us is not None else ""
            about.append(f"{own}{hook.cumulative_us / 1000:.1f} ms")
        tail = f" ({', '.join(about)})" if about else ""
        yield from self.said(f"{name}: {told(hook)}", "        ", "    ")
        if path:
            yield from self.said(f"{path}{tail}", "        ", "      ")
        for chained in hook.chained:
            raised = hook.chained_raised.get(chained)
            end = f", which raised {raised.type}" if raised is not None else ""
            yield from self.said(f"it has run {chained} too{end}", "        ", "      ")

    def candidates(self, startup: Startup) -> Iterator[str]:
        found = startup.walk.candidates if startup.walk is not None else ()
        ran = {path for hook in startup.hooks for path in (hook.path, *hook.chained)}
        losers = [one for one in found if one.reason and one.file.path not in ran]
        if losers:
            yield "  found on sys.path, and never run:"
        for one in losers[:_MAX_LISTED]:
            yield from self.said(f"{one.file.path}{_owner(one)}: {one.reason}", "        ", "    ")
        if len(losers) > _MAX_LISTED:
            yield f"    and {len(losers) - _MAX_LISTED} more"

    def path(self, startup: Startup) -> Iterator[str]:
        yield "  sys.path when site imports sitecustomize:"
        entries = startup.walk.entries if startup.walk is not None else ()
        for number, entry in enumerate(entries, 1):
            yield from self.said(f"{number}. {_entry(entry)}", "       ", "    ")

    def effects(self, startup: Startup) -> Iterator[str]:
        found = startup.effects
        if found is None:
            return
        for change in found.changes[: None if self.all else _MAX_LISTED]:
            yield from self.prose.said(_changed(change), "    ", "  ")
        if len(found.changes) > _MAX_LISTED and not self.all:
            yield f"  and {len(found.changes) - _MAX_LISTED} more variables (--show-all)"
        for one in found.replaced[: None if self.all else _MAX_LISTED]:
            yield from self.said(f"{one.where} is replaced by {one.file}:{one.line}")
        if len(found.replaced) > _MAX_LISTED and not self.all:
            yield f"  and {len(found.replaced) - _MAX_LISTED} more attributes (--show-all)"
        for name, state in startup.patches.items():
            yield from self.said(f"{name}: {_PATCH[state]}")
        if found.torch_imported:
            yield "  torch is imported"

    def children(self, startup: Startup) -> Iterator[str]:
        if startup.children:
            yield "  in real children of a process that ran the hooks:"
        for child in startup.children:
            yield from self.said(told_of(child), "        ", "    ")

    def cost(self, startup: Startup) -> Iterator[str]:
        cost, target = startup.cost, self.report.context.traced.target
        if cost is None:
            return
        added = f"{cost.added:.1f} ms" if cost.added else "nothing that could be measured"
        text = (
            f"sitecustomize and usercustomize add {added} to each start"
            f" ({cost.with_hooks:.1f} ms against {cost.without:.1f}, median of {cost.runs})"
        )
        if target is not None:
            text += f"; interpreters of this tree with the same PYTHONPATH: {target.interpreters}"
        yield from self.said(text)


def _origin(answer: Answer) -> str:
    """Return where a definition sets PYTHONPATH."""
    if answer.start is None:
        return ""
    return f" ({answer.start.declared.declared.reading('PYTHONPATH').source})"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _owner(one: Candidate) -> str:
    return f" ({one.kind.value}, {one.file.owner})" if one.file.owner else f" ({one.kind.value})"


def _entry(entry: Entry) -> str:
    return f"{entry.path} ({entry.origin.value}, {entry.state.value})"


def _changed(change: Change) -> Sentence:
    if change.after is None:
        return Sentence.of(f"{redact.show_name(change.name)} is removed by a hook")
    what = "set" if change.before is None else "changed"
    name = redact.show_name(change.name)
    return Sentence.of(f"{name} is {what} by a hook: ", Shown(change.name, change.after))


def told_of(child: Child) -> str:
    """Return what became of the hook in one child, in words."""
    text = f"{child.method}: {child.module} {_REACHED[child.reached]}"
    text += f" ({child.origin})" if child.reached is Reached.ANOTHER_RAN else ""
    if child.error or child.reason:
        text += f": {child.error or child.reason}"
    patches = [f"{name} {_PATCH[state]}" for name, state in child.patches.items()]
    return text + (f"; {', '.join(patches)}" if patches else "")
