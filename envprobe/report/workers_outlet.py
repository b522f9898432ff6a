"""What `workers` found, for the formats of other programs: the tree and the table as grids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.checks import who
from envprobe.checks.registry import CHECKS
from envprobe.checks.verdict import Verdict
from envprobe.report import declared, insidetable, labels, matrix, tree
from envprobe.report.model import Presentation, Report, Scan
from envprobe.report.outlet import Cell, Grid, Outlet, Subject, Tone, subject
from envprobe.values import Value

_LETTER: Final = re.compile(r"[a-z]|#\d+")
_TONES: Final = {
    matrix.SAME: Tone.SAME,
    matrix.ABSENT: Tone.LOST,
    "?": Tone.UNKNOWN,
    "~": Tone.UNKNOWN,
    "*": Tone.UNKNOWN,
}
_MAX_NAMED: Final = 60


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    return Outlet(
        command="workers",
        checks=CHECKS,
        subjects=tuple(_subject(report, scan, presentation) for scan in report.scans),
        verdict=Verdict(report.exit, report.counts),
        fail_on=report.fail_on,
        exit_zero=report.exit_zero,
    )


def _subject(report: Report, scan: Scan, presentation: Presentation) -> Subject:
    notes = [redact.show_text(note) for note in scan.snapshot.notes]
    if not scan.snapshot.stable:
        notes.append("the processes still changed after the last attempt: the tree may lag")
    return subject(
        _name(scan),
        scan.result,
        scan.verdict,
        allow_unknown=report.config.allow_unknown,
        fail_on=report.fail_on,
        called=lambda pid: who.named(scan.context, pid),
        grids=tuple(grids(report, scan, presentation)),
        notes=tuple(notes),
        unmask=presentation.unmask,
    )


def _name(scan: Scan) -> str:
    host = redact.show_text(scan.snapshot.host, 40)
    if len(scan.routing.launches) != 1:
        return f"{len(scan.routing.launches)} launches on {host}"
    pid = scan.routing.launches[0].launcher
    process = scan.snapshot.process(pid)
    name = "" if process is None else f"{labels.process_label(process, 40)} "
    return f"{name}(PID {pid}) on {host}"


def grids(report: Report, scan: Scan, presentation: Presentation) -> Iterator[Grid]:
    """Yield the tree of one scan and its tables."""
    if scan.snapshot.unit is not None:
        rows = tuple((Cell(line),) for line in declared.lines(scan.snapshot.unit))
        yield Grid("declared", ("the unit in front of the server",), rows)
    yield _tree(scan)
    for launch in scan.routing.launches:
        focus = matrix.Focus(
            report.config, scan.result.findings, presentation.patterns, presentation.show_all
        )
        tables = (
            matrix.build(scan.routing, launch, focus),
            insidetable.build(scan.context, launch),
        )
        for table in tables:
            if table.rows:
                yield _table(table, f"launch of PID {launch.launcher}", presentation.unmask)


def _tree(scan: Scan) -> Grid:
    rows = []
    notes = []
    broken = _breaks(scan)
    for line in tree.build(scan.snapshot):
        pids = str(line.pids[0]) if len(line.pids) == 1 else f"{line.pids[0]} +{len(line.pids) - 1}"
        unread = Tone.UNKNOWN if line.libc_view in ("?", "~", "in part") else Tone.PLAIN
        cells = (Cell(line.edge), Cell(line.exec_view), Cell(line.libc_view, unread))
        names = dict.fromkeys(name for pid in line.pids for name in broken.get(pid, ()))
        here = Cell(", ".join(names), Tone.LOST if names else Tone.PLAIN)
        rows.append((Cell(f"{line.branch}{line.label}"), Cell(pids), *cells, here))
        notes += [f"{pids}: {redact.show_text(remark, 400)}" for remark in line.remarks]
    heads = ("process", "pid", "came by", "exec block", "environ", "lost or changed by here")
    return Grid("processes", heads, tuple(rows), tuple(notes))


def _breaks(scan: Scan) -> dict[int, list[str]]:
    """Return the variables that findings speak of, by the process in which a break of them ends."""
    spoken = {one.variable for one in scan.result.findings}
    found: dict[int, list[str]] = {}
    for route in scan.routing.routes.values():
        if route.name in spoken:
            for one in route.breaks:
                pid = route.stops[one.after].pid
                found.setdefault(pid, []).append(redact.show_name(route.name))
    return found


def _table(table: matrix.Matrix, title: str, unmask: bool) -> Grid:
    def value(row: matrix.Row, shown: Value | str) -> str:
        if isinstance(shown, str):
            return redact.show_text(shown)
        return redact.show(row.name, shown, unmask=unmask)

    def cells(row: matrix.Row) -> Iterator[Cell]:
        yield Cell(redact.show_name(row.name))
        lacking = "(not set)" if matrix.ABSENT in row.marks else "(not read)"
        yield Cell(lacking if row.value is None else value(row, row.value))
        others = dict(row.others)
        for mark in row.marks:
            bare = mark.rstrip(matrix.LATE)
            late = f" {matrix.LATE}" if mark != bare else ""
            other = bare in others and _LETTER.fullmatch(bare)
            text = value(row, others[bare]) if other else bare
            lost = bare == matrix.ABSENT and row.value is not None
            tone = _TONES.get(bare, Tone.OTHER) if lost or bare != matrix.ABSENT else Tone.PLAIN
            yield Cell(f"{text}{late}", tone)

    heads = (*table.title, *(labels.cut(one.label, _MAX_NAMED) for one in table.columns))
    used = {mark for row in table.rows for one in row.marks for mark in one}
    marks = [f"{mark} {meaning}" for mark, meaning in table.meanings.items() if mark in used]
    notes = ["; ".join(marks)]
    for names, what in (
        (table.same, "the same in all workers"),
        (table.unread, "not read in all workers, and the same where read"),
        (table.differing, "different between workers, as they may be"),
    ):
        if names:
            shown = ", ".join(redact.show_name(name) for name in names)
            notes.append(f"{len(names)} {what}: {shown}")
    what = f"{table.title[0]}s by worker" if table.title[0] == "variable" else "in the interpreters"
    return Grid(
        f"{what}, {title}", heads, tuple(tuple(cells(row)) for row in table.rows), tuple(notes)
    )
