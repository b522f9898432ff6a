"""The report as text: the verdict, the tree, the table, what is wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from envprobe import redact
from envprobe.errors import Exit
from envprobe.report import declared, findings, insidetable, labels, matrix, nccltable, tree
from envprobe.report.model import Presentation, Report, Scan
from envprobe.routes.types import Launch
from envprobe.values import Value

_NAME_WIDTH: Final = 34
_VALUE_WIDTH: Final = 24
_NAMES_LISTED: Final = 12


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as text of at least 80 columns, ending with a newline."""
    return redact.without_commands("\n".join(_Text(report, presentation).lines()) + "\n")


def facts(scan: Scan, report: Report, presentation: Presentation) -> Iterator[str]:
    """Yield what one scan of a report has read, without what was found wrong."""
    yield from _Text(report, presentation).facts(scan)


class _Text(findings.Prose):
    def __init__(self, report: Report, presentation: Presentation) -> None:
        super().__init__(presentation.width, color=presentation.color, unmask=presentation.unmask)
        self.report = report
        self.presentation = presentation

    def lines(self) -> Iterator[str]:
        report = self.report
        verdict = self.verdict(report.exit, self.summary(), exit_zero=report.exit_zero)
        yield from verdict
        for scan in report.scans:
            yield ""
            yield from self.scan(scan)
        yield ""
        yield from verdict

    # --- the verdict -----------------------------------------------------------------------------

    def summary(self) -> str:
        parts = list(findings.counted(self.report.counts, self.report.fail_on))
        workers = sum(len(scan.routing.workers()) for scan in self.report.scans)
        whom = self.of_what()
        if self.report.exit is Exit.TARGET_GONE:
            parts.insert(0, "the server has ended")
        if not workers:
            return ", ".join([*parts, "no worker was found"])
        if self.report.exit is not Exit.HOLDS:
            found = ", ".join(parts) or "not all that is required could be read"
            return f"{found} in {_number(workers, 'worker')}{whom}"
        # What was accepted unread was not read: then nothing is claimed of all.
        number = _number if self.report.counts["accepted"] else _all
        config = self.report.config
        stated = (*config.expectations, *config.inside, *config.nccl, *config.libraries)
        expected = len(stated)
        if expected:
            checked = _number(expected, "expectation")
            return ", ".join([*parts, f"{checked} checked in {number(workers, 'worker')}{whom}"])
        return ", ".join([*parts, f"the environment of {number(workers, 'worker')}{whom} was read"])

    def of_what(self) -> str:
        """Say which server or how many, and on which host."""
        scans = self.report.scans
        launches = [(scan, launch) for scan in scans for launch in scan.routing.launches]
        if len(launches) != 1:
            return f" of {len(launches)} launches"
        ((scan, launch),) = launches
        process = scan.snapshot.process(launch.launcher)
        name = "" if process is None else f"{labels.process_label(process, 30)} "
        host = redact.show_text(scan.snapshot.host, 40)
        return f" of {name}(PID {launch.launcher}) on {host}"

    # --- one scan --------------------------------------------------------------------------------

    def scan(self, scan: Scan) -> Iterator[str]:
        yield from self.facts(scan)
        yield from self.findings(
            scan.result, self.report.config.allow_unknown, details=self.presentation.show_all
        )

    def facts(self, scan: Scan) -> Iterator[str]:
        yield self.heading(scan)
        for line in declared.lines(scan.snapshot.unit) if scan.snapshot.unit is not None else ():
            yield from self.wrapped(line, "    ", "  ")
        yield from self.tree(scan)
        for launch in scan.routing.launches:
            focus = matrix.Focus(
                self.report.config,
                scan.result.findings,
                self.presentation.patterns,
                self.presentation.show_all,
            )
            yield from self.table(scan, matrix.build(scan.routing, launch, focus))
            yield from self.table(scan, insidetable.build(scan.context, launch))
            yield from self.nccl(scan, launch)
        yield from self.notes(scan)

    def heading(self, scan: Scan) -> str:
        snapshot = scan.snapshot
        host = redact.show_text(snapshot.host, 40)
        took = max(snapshot.ended - snapshot.started, 0)
        processes = _number(len(snapshot.processes), "process", "processes")
        return self.style(
            f"{host}, {labels.clock(snapshot.started)}: {processes} read in {took:.2f} s", "title"
        )

    # --- the table -------------------------------------------------------------------------------

    def table(self, scan: Scan, table: matrix.Matrix) -> Iterator[str]:
        if table.rows:
            yield ""
            yield from self.blocks(table)
        yield from self.left_out(table)

    def blocks(self, table: matrix.Matrix) -> Iterator[str]:
        names = [labels.cut(redact.show_name(row.name), _NAME_WIDTH) for row in table.rows]
        first, second = table.title
        left = max(len(first), *map(labels.width_of, names))
        heads, legend = _heads(table.columns)
        widths = [
            max(labels.width_of(head), *(len(row.marks[number]) for row in table.rows))
            for number, head in enumerate(heads)
        ]
        # Where all columns fit beside it, the value takes the rest of the line.
        room = max(self.width - left - sum(widths) - 2 * len(widths) - 4, _VALUE_WIDTH)
        values = [labels.cut(self.reference(row), room) for row in table.rows]
        middle = max(len(second), *map(labels.width_of, values))
        for block in _blocks(widths, self.width - left - middle - 4):
            head = "  ".join(labels.pad(heads[number], widths[number]) for number in block)
            title = f"{labels.pad(first, left)}  {labels.pad(second, middle)}  {head}"
            yield self.style(title.rstrip(), "title")
            for row, name, value in zip(table.rows, names, values, strict=True):
                marks = "  ".join(labels.pad(row.marks[one], widths[one]) for one in block)
                line = f"{labels.pad(name, left)}  {labels.pad(value, middle)}  {marks}"
                yield line.rstrip()
        yield from self.explained(table, legend, room)

    def reference(self, row: matrix.Row) -> str:
        """Return the value that `=` stands for; what nobody could read is not called absent."""
        if row.value is None:
            return "(not set)" if matrix.ABSENT in row.marks else "(not read)"
        return self.value(row, row.value)

    def value(self, row: matrix.Row, value: Value | str) -> str:
        """Return one value of a row as it is shown."""
        if isinstance(value, str):
            return redact.show_text(value)
        return redact.show(row.name, value, unmask=self.unmask)

    def explained(self, table: matrix.Matrix, legend: list[str], room: int) -> Iterator[str]:
        """Say what marks, letters and numbers of columns stand for, and values cut to `room`."""
        for line in legend:
            yield from self.wrapped(line, "    ", "  ")
        for row in table.rows:
            yield from self.full_values(row, room)
        used = {mark for row in table.rows for mark in row.marks}
        marks = [
            f"{mark} {meaning}"
            for mark, meaning in table.meanings.items()
            if any(mark in one for one in used)
        ]
        if used - {matrix.SAME}:
            yield from self.wrapped("; ".join(marks), "  ", "  ")

    def full_values(self, row: matrix.Row, room: int) -> Iterator[str]:
        name = redact.show_name(row.name)
        for letter, value in row.others:
            if any(mark.rstrip(matrix.LATE) == letter for mark in row.marks):
                shown = self.value(row, value)
                yield from self.wrapped(f"{letter}: {name} is {shown}", "     ", "  ")
        if row.value is not None:
            shown = self.value(row, row.value)
            if labels.width_of(shown) > room:
                yield from self.wrapped(f"=: {name} is {shown}", "     ", "  ")

    def left_out(self, table: matrix.Matrix) -> Iterator[str]:
        for names, what in (
            (table.same, "the same in all workers"),
            (table.unread, "not read in all workers, and the same where read"),
            (table.differing, "different between workers, as they may be"),
        ):
            if names:
                listed = ", ".join(redact.show_name(name) for name in names[:_NAMES_LISTED])
                more = len(names) - _NAMES_LISTED
                rest = f" and {more} more" if more > 0 else ""
                yield from self.wrapped(
                    f"{len(names)} {what} (--show-all): {listed}{rest}", "  ", "  "
                )

    def nccl(self, scan: Scan, launch: Launch) -> Iterator[str]:
        yield from self.table(scan, nccltable.build(scan.context, launch))
        told = list(nccltable.lines(scan.context, launch))
        if told:
            yield ""
        for line in told:
            yield from self.wrapped(line, "  ")

    # --- the tree --------------------------------------------------------------------------------

    def tree(self, scan: Scan) -> Iterator[str]:
        lines = tree.build(scan.snapshot)
        if not lines:
            return
        yield ""
        branches = [line.branch + line.label for line in lines]
        wide = min(max(map(labels.width_of, branches)), self.width - 46)
        pids = [_pids(line.pids) for line in lines]
        left = max(len("pid"), *map(len, pids))
        title = f"{'pid':>{left}}  {labels.pad('process', wide)}  {'came by':10}  "
        yield self.style(f"{title}{'exec block':11}  environ", "title")
        for line, branch, numbers in zip(lines, branches, pids, strict=True):
            cells = f"{line.edge:10}  {line.exec_view:11}  {line.libc_view}"
            yield f"{numbers:>{left}}  {labels.pad(labels.cut(branch, wide), wide)}  {cells}"
            for remark in line.remarks:
                indent = " " * (left + 4)
                yield from self.wrapped(redact.show_text(remark, 400), indent + "  ", indent)

    def notes(self, scan: Scan) -> Iterator[str]:
        notes = list(scan.snapshot.notes)
        if not scan.snapshot.stable:
            notes.append("the processes still changed after the last attempt: the tree may lag")
        if notes:
            yield ""
        for note in notes:
            yield from self.wrapped(f"note: {redact.show_text(note, 600)}", "      ")


def _heads(columns: Iterable[matrix.Column]) -> tuple[list[str], list[str]]:
    """Return a short head for each column, and a line for each whose label is too long."""
    heads: list[str] = []
    legend: list[str] = []
    for number, column in enumerate(columns, 1):
        if labels.width_of(column.label) <= 14:
            heads.append(column.label)
        else:
            heads.append(f"({number})")
            counted = f" ({len(column.pids)} workers)" if len(column.pids) > 1 else ""
            legend.append(f"({number}) {column.label}{counted}")
    return heads, legend


def _blocks(widths: list[int], room: int) -> Iterator[list[int]]:
    """Split the columns into blocks that fit the line; at least one column in each."""
    block: list[int] = []
    used = 0
    for number, width in enumerate(widths):
        if block and used + width + 2 > room:
            yield block
            block, used = [], 0
        block.append(number)
        used += width + 2
    if block:
        yield block


def _pids(pids: tuple[int, ...]) -> str:
    return str(pids[0]) if len(pids) == 1 else f"{pids[0]} +{len(pids) - 1}"


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def _all(count: int, one: str) -> str:
    return f"the only {one}" if count == 1 else f"all {count} {one}s"
