"""The report on a log of NCCL as text: the verdict, a table for each communicator, the findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.checks.nccl import origins, used
from envprobe.checks.nccl.cells import Cell, Shown
from envprobe.checks.nccl.context import numbers, process_words
from envprobe.errors import Exit
from envprobe.nccl.conf import State
from envprobe.nccl.facts import Communicator, Rank
from envprobe.report import findings, labels, nccl_table
from envprobe.report.model import Presentation
from envprobe.report.nccl_model import Report
from envprobe.report.nccl_table import Row, Table

_LACKING: Final = "-"
NOT_SHOWN: Final = "?"
REFUSED: Final = "!"
HEADS: Final = ("variable", "rank", "read", "used")
MEANINGS: Final = {
    _LACKING: "not read there: it would have been shown",
    NOT_SHOWN: "not shown, which does not prove that it is not set",
    "->": "read as something else",
    REFUSED: "not used, or the communicator fails",
}
"""What each mark in the table says."""

_RANKS_NAMED: Final = 8
_VALUE_WIDTH: Final = 40
_RANKS_WIDTH: Final = 24
_GROUPS_SHOWN: Final = 8
_COMMUNICATORS_NAMED: Final = 4


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as text of at least 80 columns, ending with a newline."""
    return redact.without_commands("\n".join(_Text(report, presentation).lines()) + "\n")


def tables(
    report: Report, presentation: Presentation
) -> Iterator[tuple[str, tuple[tuple[str, str, str, str], ...]]]:
    """Yield the title of each table and its lines, of the cells that `HEADS` names."""
    text = _Text(report, presentation)
    for table in nccl_table.build(report.context):
        lines = tuple(line for row in table.rows for line in text.lines_of(row, table))
        yield text.title(table), lines


class _Text(findings.Prose):
    def __init__(self, report: Report, presentation: Presentation) -> None:
        super().__init__(presentation.width, color=presentation.color, unmask=presentation.unmask)
        self.report = report
        self.context = report.context
        self.presentation = presentation

    def lines(self) -> Iterator[str]:
        report = self.report
        code = report.verdict.exit
        verdict = self.verdict(code, self.summary(), exit_zero=report.exit_zero)
        yield from verdict
        yield ""
        yield from self.sources()
        for table in nccl_table.build(self.context):
            yield ""
            yield from self.table(table)
        yield from self.findings(
            report.result,
            self.context.config.allow_unknown,
            details=self.presentation.show_all,
        )
        yield ""
        yield from verdict

    # --- what was read ---------------------------------------------------------------------------

    def summary(self) -> str:
        log = self.context.log
        parts = list(findings.counted(self.report.verdict.counts, self.report.fail_on))
        ranks = sum(len(one.ranks) for one in log.communicators)
        what = (
            f"{_number(ranks, 'rank')} of {_number(len(log.communicators), 'communicator')}"
            f" in {_number(len(log.processes), 'process', 'processes')}"
        )
        if not log.communicators:
            return ", ".join([*parts, "the log shows no communicator"])
        if self.report.verdict.exit is not Exit.HOLDS:
            return f"{', '.join(parts)} in {what}" if parts else what
        expected = len(self.context.config.expectations)
        told = f"{_number(expected, 'expectation')} checked in " if expected else "no fault in "
        return ", ".join([*parts, told + what])

    def sources(self) -> Iterator[str]:
        log = self.context.log
        versions = dict.fromkeys(one for process in log.processes for one in process.versions)
        version = f", NCCL {' and '.join(versions)}" if versions else ""
        for file in log.files:
            name = redact.show_text(file.name, 200)
            packed = f" ({file.compression})" if file.compression else ""
            said = f"{name}{packed}: {_number(file.lines, 'line')}, {file.messages} of NCCL"
            if file.broken:
                said += f"; not read to its end: {redact.show_text(file.broken)}"
            yield from self.wrapped(said, "  ")
        yield from self.wrapped(
            f"{_number(len(log.processes), 'process', 'processes')}{redact.show_text(version)}", ""
        )
        for one in self.context.conf:
            if one.state is State.READ:
                lines = _number(len(one.lines), "line")
                yield from self.wrapped(f"{redact.show_text(one.path, 200)}: {lines} read", "  ")

    # --- one table -------------------------------------------------------------------------------

    def table(self, table: Table) -> Iterator[str]:
        yield from self.heading(table)
        if not table.rows:
            yield "  no variable is shown"
        else:
            yield from self.rows(table)
            yield from self.legend(table)
        yield from self.outcome(table)

    def heading(self, table: Table) -> Iterator[str]:
        first, *others = table.communicators
        yield self.style(self.title(table), "title")
        if others:
            named = ", ".join(self.called(one) for one in others[:_COMMUNICATORS_NAMED])
            more = len(others) - _COMMUNICATORS_NAMED
            rest = f" and {more} more" if more > 0 else ""
            yield from self.wrapped(f"and alike: {named}{rest}", "    ", "  ")
        yield from self.wrapped(self.members(first), "    ", "  ")

    def title(self, table: Table) -> str:
        """Return which communicator a table is about."""
        first = table.communicators[0]
        title = f"communicator {self.called(first)} of {_number(first.nranks, 'rank')}"
        return f"{title}, {redact.show_text(first.function, 60)}" if first.function else title

    def called(self, communicator: Communicator) -> str:
        """Return the id of a communicator, or of the one that it was split from."""
        if communicator.comm_id or communicator.parent is None:
            return redact.show_text(communicator.comm_id, 40) or "without an id"
        parent = self.context.log.communicators[communicator.parent]
        return f"split from {self.called(parent)}"

    def members(self, communicator: Communicator) -> str:
        """Say which processes the ranks are; of many only on which hosts they are."""
        if len(communicator.ranks) <= _RANKS_NAMED:
            said = "; ".join(self.member(rank) for rank in communicator.ranks)
        else:
            hosts: dict[str, list[int]] = {}
            for rank in communicator.ranks:
                hosts.setdefault(self.context.process(rank).host, []).append(rank.rank)
            said = "; ".join(
                f"ranks {numbers(ranks)} on {redact.show_text(host, 60)}"
                for host, ranks in hosts.items()
            )
        if communicator.missing:
            said += f"; no line of rank {numbers(communicator.missing)}"
        return said

    def member(self, rank: Rank) -> str:
        process = redact.show_text(process_words(self.context.process(rank)), 60)
        device = "" if rank.device is None else f" GPU {rank.device}"
        bus = f" ({redact.show_text(rank.bus_id, 20)})" if rank.bus_id else ""
        return f"rank {rank.rank} {process}{device}{bus}"

    def rows(self, table: Table) -> Iterator[str]:
        lines = [line for row in table.rows for line in self.lines_of(row, table)]
        widths = [max(map(labels.width_of, column)) for column in zip(HEADS, *lines, strict=True)]
        for number, line in enumerate((HEADS, *lines)):
            text = "  ".join(
                labels.pad(one, width) for one, width in zip(line, widths, strict=True)
            )
            text = labels.cut(text.rstrip(), self.width)
            yield text if number else self.style(text, "title")

    def lines_of(self, row: Row, table: Table) -> Iterator[tuple[str, str, str, str]]:
        """Yield a line of cells for each group of ranks that are alike in one variable."""
        name = redact.show_name(row.name)
        total = table.communicators[0].nranks
        most = len(row.groups) if self.presentation.show_all else _GROUPS_SHOWN
        for group in row.groups[:most]:
            ranks = f"all {total}" if len(group.ranks) == total > 1 else numbers(group.numbers)
            told = redact.show_text(group.used) or "(no line shows it)"
            yield name, labels.cut(ranks, _RANKS_WIDTH), self.cell(group.cell), told
            name = ""
        rest = [number for group in row.groups[most:] for number in group.numbers]
        if rest:
            others = f"{len(row.groups) - most} other values (--show-all)"
            yield name, labels.cut(numbers(rest), _RANKS_WIDTH), others, ""

    def cell(self, cell: Cell) -> str:
        if cell.value is None:
            return _LACKING if cell.shown is Shown.LACKING else NOT_SHOWN
        shown = redact.show(cell.name, cell.value, unmask=self.unmask)
        text = labels.cut(shown, _VALUE_WIDTH) or "(empty)"
        if cell.shown is Shown.READ_AS:
            text = f"{text} -> {labels.cut(redact.show_text(cell.meaning), _VALUE_WIDTH)}"
        if cell.shown is Shown.REFUSED:
            text = f"{text} {REFUSED}"
        return f"{text} (and {len(cell.others)} other)" if cell.others else text

    def legend(self, table: Table) -> Iterator[str]:
        """Say what the marks mean, and where a value may come from that nobody set."""
        every = [group.cell for row in table.rows for group in row.groups]
        found = {one.shown for one in every}
        marks = {
            Shown.LACKING: _LACKING,
            Shown.NOT_SHOWN: NOT_SHOWN,
            Shown.READ_AS: "->",
            Shown.REFUSED: REFUSED,
        }
        told = [f"{mark} {MEANINGS[mark]}" for shown, mark in marks.items() if shown in found]
        if told:
            yield from self.wrapped("; ".join(told), "  ", "  ")
        shown = dict.fromkeys((one.name, one.value) for one in every)
        written = [
            f"{name} ({', '.join(dict.fromkeys(one.split(',')[0] for one in writers))})"
            for name, value in shown
            if value is not None and (writers := origins.writers(name, value))
        ]
        if written:
            yield from self.wrapped(
                f"frameworks write these values by themselves: {', '.join(written)}", "    ", "  "
            )

    def outcome(self, table: Table) -> Iterator[str]:
        communicator = table.communicators[0]
        groups: dict[tuple[str, ...], list[int]] = {}
        for rank in communicator.ranks:
            groups.setdefault(used.summary(communicator, rank), []).append(rank.rank)
        for told, ranks in groups.items():
            whose = "" if len(groups) == 1 else f"rank {numbers(ranks)} "
            said = ", ".join(told) or "no line shows what was set up"
            yield from self.wrapped(f"{whose}used: {redact.show_text(said)}", "    ", "  ")


def _number(count: int, what: str, several: str = "") -> str:
    return f"{count} {what if count == 1 else several or f'{what}s'}"
