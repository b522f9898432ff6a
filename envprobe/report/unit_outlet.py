"""What `unit` found, for the formats of other programs: what is handed over, and each start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.checks.unit.registry import CHECKS
from envprobe.launch.definition import Definition
from envprobe.launch.entry import EntryLook
from envprobe.launch.steps import Launch
from envprobe.launch.types import Entry, Place, Setting, Source
from envprobe.report.model import Presentation
from envprobe.report.outlet import Cell, Grid, Outlet, Tone, subject
from envprobe.report.unit_model import Report, command, program

_LIMIT: Final = 400
_HEADS: Final = ("variable", "handed over", "from", "overrides")
_AT_END: Final = "at the interpreter"
_IN_CONTAINER: Final = "in the container"


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    definitions = report.context.definitions
    several = len(definitions) > 1
    name = f"{len(definitions)} definitions" if several else definitions[0].subject
    shown = _Shown(presentation)
    found = subject(
        redact.show_text(name, _LIMIT),
        report.result,
        report.verdict,
        allow_unknown=report.allow_unknown,
        fail_on=report.fail_on,
        grids=tuple(
            grid
            for number, one in enumerate(definitions)
            for grid in shown.grids(one, report.context.entries.get(number, ()))
        ),
        unmask=presentation.unmask,
    )
    return Outlet("unit", CHECKS, (found,), report.verdict, report.fail_on, report.exit_zero)


def _text(text: str) -> str:
    return redact.show_text(text, _LIMIT)


class _Shown:
    def __init__(self, presentation: Presentation) -> None:
        self.all = presentation.show_all
        self.unmask = presentation.unmask

    def grids(self, definition: Definition, looks: tuple[EntryLook, ...]) -> Iterator[Grid]:
        yield self.entries(definition)
        for number, launch in enumerate(definition.launches):
            yield self.launch(definition, launch, looks if number == 0 else ())

    # --- what is handed over, and what becomes of it ---------------------------------------------

    def entries(self, definition: Definition) -> Grid:
        launches = definition.launches
        ends = [_IN_CONTAINER if one.container is not None else _AT_END for one in launches]
        if len(launches) > 1:
            ends = [f"{end} ({one.place})" for end, one in zip(ends, launches, strict=True)]
        rows = [
            (*self.declared(entry), *(self.arrived(entry, one) for one in launches))
            for entry in self.shown(definition)
        ]
        rows += self.added(definition)
        notes = [f"read: {_text(path)}" for path in definition.files]
        if definition.live is not None:
            live = definition.live
            main = f", main process {live.main_pid}" if live.running else ""
            notes.append(_text(f"manager: {live.load_state}, {live.active} ({live.sub}){main}"))
        if definition.declared.open:
            notes.append(_text(f"other names may be handed over: {definition.declared.open}"))
        notes += [
            f"changes which files are seen: {_text(str(one))} ({_text(str(one.place))})"
            for one in definition.sandbox
        ]
        heads = (*_HEADS, *map(_text, ends))
        return Grid(_text(definition.subject), heads, tuple(rows), tuple(notes))

    def shown(self, definition: Definition) -> tuple[Entry, ...]:
        return definition.declared.entries if self.all else definition.relevant_entries

    def declared(self, entry: Entry) -> tuple[Cell, ...]:
        setting = entry.setting
        before = [self.origin(one) for one in reversed(entry.overridden) if not one.source.given]
        told = self.told(entry)
        return (
            Cell(redact.show_name(setting.name)),
            told,
            Cell(_place(setting)),
            Cell("; ".join(before), Tone.OTHER if before else Tone.PLAIN),
        )

    def origin(self, setting: Setting) -> str:
        value = "" if setting.value is None else f"{self.value(setting)} of "
        return f"{value}{_place(setting)}"

    def value(self, setting: Setting) -> str:
        assert setting.value is not None
        return redact.show(setting.name, setting.value, unmask=self.unmask, limit=_LIMIT)

    def told(self, entry: Entry) -> Cell:
        setting = entry.setting
        if entry.removed is not None:
            return Cell(f"removed by {_text(str(entry.removed))}", Tone.LOST)
        if setting.value is None:
            reason = _text(setting.reason)
            return Cell(f"not known: {reason}" if reason else "not set here", Tone.UNKNOWN)
        if entry.doubt:
            return Cell(f"{self.value(setting)}, unless {_text(entry.doubt)}", Tone.UNKNOWN)
        return Cell(self.value(setting))

    def arrived(self, entry: Entry, launch: Launch) -> Cell:
        """Return what becomes of an entry on the way to what a launch ends in."""
        name = entry.setting.name
        if launch.container is not None:
            passed = [one for one in launch.container.passed if one.name == name]
            if not passed:
                return Cell(f"stops at {_text(str(launch.container.place))}", Tone.LOST)
            return self.told(Entry(passed[-1]))
        if launch.opaque:
            return Cell(f"not known from {_text(str(launch.opaque_at))} on", Tone.UNKNOWN)
        there = launch.declared.entry(name)
        if there is None or there == entry:
            return Cell("the same", Tone.SAME)
        told = self.told(there)
        if told.tone is not Tone.PLAIN:
            return told
        if there.setting.value == entry.setting.value:
            return Cell("the same", Tone.SAME)
        return Cell(f"{told.text} ({_place(there.setting)})", Tone.OTHER)

    def added(self, definition: Definition) -> Iterator[tuple[Cell, ...]]:
        """Yield a row for each variable that only the way to an interpreter sets."""
        ends = [
            {
                one.setting.name: one
                for one in launch.declared.entries
                if one.setting.source is Source.COMMAND and (self.all or one.known)
            }
            for launch in definition.launches
        ]
        for name in dict.fromkeys(name for found in ends for name in found):
            if definition.declared.entry(name) is not None:
                continue
            entries = [found.get(name) for found in ends]
            first = next(one for one in entries if one is not None)
            tone = Tone.OTHER
            cells = [
                Cell("") if one is None else Cell(self.told(one).text, tone) for one in entries
            ]
            begin = (Cell(redact.show_name(name)), Cell("not declared"))
            yield (*begin, Cell(_place(first.setting)), Cell(""), *cells)

    # --- what is started -------------------------------------------------------------------------

    def launch(self, definition: Definition, launch: Launch, looks: tuple[EntryLook, ...]) -> Grid:
        rows = [_row(hop.place, hop.program, hop.told) for hop in launch.hops]
        if launch.container is not None:
            rows.append(_row(launch.container.place, "image", launch.container.image))
        python = launch.python
        if python is not None:
            gone = f"{launch.missing}; " if launch.missing else ""
            flags = f"{' '.join(python.flags)}, " if python.flags else ""
            told = f"{gone}{flags}{program(python)}"
            rows.append(_row(launch.place, python.interpreter, told))
        if launch.opaque:
            told = f"could not tell: {launch.opaque}"
            rows.append(_row(launch.opaque_at, "?", told, Tone.UNKNOWN))
        where = f" at {_text(str(launch.place))}" if str(launch.place) else ""
        title = f"what {_text(definition.subject)} starts{where}"
        as_whom = f", as {_text(launch.user)}" if launch.user else ""
        cwd = _text(launch.cwd) or "a directory that is not known"
        notes = [f"{command(launch.argv, _LIMIT)} (in {cwd}{as_whom})"]
        notes += filter(None, map(_look, looks))
        return Grid(title, ("at", "program", "what it does"), tuple(rows), tuple(notes))


def _place(setting: Setting) -> str:
    return _text(str(setting.place) or setting.source.value)


def _row(place: Place, program: str, told: str, tone: Tone = Tone.PLAIN) -> tuple[Cell, ...]:
    return Cell(_text(str(place))), Cell(_text(program), tone), Cell(_text(told), tone)


def _look(look: EntryLook) -> str:
    """Return what the program's first file starts outside of a main guard."""
    if look.reason:
        return f"{_text(look.path)} was not looked into: {_text(look.reason)}"
    guard = f"a main guard at line {look.guard}" if look.guard else "no main guard"
    calls = ", ".join(f"{one.call} at line {one.line}" for one in look.starts)
    told = f"{guard}; outside of it {_text(calls) or 'nothing'} starts something"
    return f"{_text(look.path)}: {told}"
