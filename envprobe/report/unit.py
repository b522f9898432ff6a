"""The report of `unit` as text: what is handed over, with its lines, and what it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.launch.definition import Definition
from envprobe.launch.entry import EntryLook
from envprobe.launch.live import Live
from envprobe.launch.steps import Launch
from envprobe.launch.types import Entry, Setting, Source
from envprobe.report.findings import Prose, counted
from envprobe.report.model import Presentation
from envprobe.report.unit_model import Report, command, program

_VALUE_LIMIT: Final = 120


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as text of at least 80 columns, ending with a newline."""
    return redact.without_commands("\n".join(_Text(report, presentation).lines()) + "\n")


class _Text(Prose):
    def __init__(self, report: Report, presentation: Presentation) -> None:
        super().__init__(presentation.width, color=presentation.color, unmask=presentation.unmask)
        self.report = report
        self.all = presentation.show_all

    def lines(self) -> Iterator[str]:
        report = self.report
        found = list(counted(report.verdict.counts, report.fail_on))
        found.append(self.summary())
        verdict = self.verdict(report.verdict.exit, "; ".join(found), exit_zero=report.exit_zero)
        yield from verdict
        for number, definition in enumerate(report.context.definitions):
            yield ""
            yield from self.definition(definition)
            for look in report.context.entries.get(number, ()):
                yield from self.entry_file(look)
        yield from self.findings(report.result, report.allow_unknown, details=self.all)
        yield ""
        yield from verdict

    def summary(self) -> str:
        definitions = self.report.context.definitions
        names = sum(len(self.shown(one)) for one in definitions)
        where = redact.show_text(definitions[0].subject, 60)
        if len(definitions) > 1:
            where = f"{len(definitions)} definitions"
        return f"{names} variable{'' if names == 1 else 's'} declared by {where}"

    def plain(self, text: str, below: str = "    ", first: str = "  ") -> list[str]:
        return self.wrapped(redact.show_text(text), below, first)

    def definition(self, definition: Definition) -> Iterator[str]:
        yield self.style(redact.show_text(definition.subject, 80), "title")
        for path in definition.files:
            yield from self.plain(f"read: {path}")
        if definition.live is not None:
            yield from self.live(definition.live)
        shown = self.shown(definition)
        yield "  handed over, in the order in which it is set:"
        if not shown:
            yield "    nothing of its own"
        for entry in shown:
            yield from self.entry(entry)
        if definition.declared.open:
            yield from self.plain(f"other names may be handed over: {definition.declared.open}")
        for one in definition.sandbox:
            yield from self.plain(f"changes which files are seen: {one} ({one.place})")
        for launch in definition.launches:
            yield from self.launch(launch)

    def shown(self, definition: Definition) -> tuple[Entry, ...]:
        return definition.declared.entries if self.all else definition.relevant_entries

    def live(self, live: Live) -> Iterator[str]:
        state = f"{live.load_state}, {live.active} ({live.sub})"
        main = f", main process {live.main_pid}" if live.running else ""
        reload = "; edited since it was loaded" if live.need_reload else ""
        yield from self.plain(f"manager: {state}{main}{reload}")

    def entry(self, entry: Entry) -> Iterator[str]:
        setting = entry.setting
        place = f"{setting.place} ({setting.source.value})".strip()
        name = redact.show_name(setting.name)
        told = self.value(setting)
        if entry.removed is not None:
            told = f"removed by {redact.show_text(str(entry.removed))}"
        elif entry.doubt:
            told += f", unless {redact.show_text(entry.doubt)}"
        yield from self.wrapped(f"{name}={told}", "        ", "    ")
        yield from self.plain(place, "          ", "        ")
        for one in reversed(entry.overridden):
            if self.all or not one.source.given:
                where = redact.show_text(str(one.place) or one.source.value)
                line = f"overrides {self.value(one)} of {where}"
                yield from self.wrapped(line, "          ", "        ")

    def value(self, setting: Setting) -> str:
        if setting.value is None:
            reason = redact.show_text(setting.reason)
            return f"(not known: {reason})" if reason else "(not set here)"
        return redact.show(setting.name, setting.value, unmask=self.unmask, limit=_VALUE_LIMIT)

    def launch(self, launch: Launch) -> Iterator[str]:
        where = f" ({launch.place})" if str(launch.place) else ""
        words = command(launch.argv, 300)
        yield from self.wrapped(f"starts{redact.show_text(where)}: {words}", "      ", "  ")
        for hop in launch.hops:
            yield from self.plain(f"{hop.place}: {hop.program} {hop.told}", "        ", "    ")
        if launch.container is not None:
            yield from self.plain(f"image {launch.container.image}", "        ", "    ")
            for one in launch.container.passed:
                line = f"passes {redact.show_name(one.name)}={self.value(one)}"
                yield from self.wrapped(line, "        ", "    ")
        python = launch.python
        if python is not None:
            flags = f" {' '.join(python.flags)}" if python.flags else ""
            gone = f" ({launch.missing})" if launch.missing else ""
            told = f"interpreter {python.interpreter}{flags}{gone}, {program(python)}"
            yield from self.plain(told, "        ", "    ")
            yield from self.changed(launch)
        if launch.opaque:
            told = f"could not tell from {launch.opaque_at} on: {launch.opaque}"
            yield from self.plain(told, "        ", "    ")

    def changed(self, launch: Launch) -> Iterator[str]:
        """Say what the hops have set themselves."""
        for entry in launch.declared.entries:
            told = self.all or entry.setting.value is not None
            if told and entry.setting.source is Source.COMMAND and entry.removed is None:
                name = redact.show_name(entry.setting.name)
                where = redact.show_text(str(entry.setting.place))
                line = f"{name}={self.value(entry.setting)} ({where})"
                yield from self.wrapped(line, "        ", "    ")

    def entry_file(self, look: EntryLook) -> Iterator[str]:
        if look.reason:
            return
        guard = f"a main guard at line {look.guard}" if look.guard else "no main guard"
        number = len(look.starts)
        outside = "1 statement outside of it starts something"
        if number != 1:
            outside = f"{number} statements outside of it start something"
        if not number:
            outside = "nothing outside of it starts anything"
        own = ", by envprobe's own grammar" if look.own else ""
        yield from self.plain(f"{look.path}: {guard}; {outside}{own}")
