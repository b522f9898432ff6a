"""What NCCL read by workers, as its joined logs show it, and lines on libraries and logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from envprobe import redact
from envprobe.checks import who
from envprobe.checks.finding import Context
from envprobe.model import Process, State, View
from envprobe.ncclfacts import LogState, NcclLog
from envprobe.report import labels, matrix
from envprobe.report.matrix import SAME, Matrix, Row
from envprobe.routes.types import Launch, NcclHop
from envprobe.values import Value

if TYPE_CHECKING:
    from envprobe.nccl.advice import Advice

LATER: Final = matrix.LATE
_NOT_SHOWN: Final = "?"
_NO_LOG: Final = "."
_SEVERAL: Final = "*"
MEANINGS: Final = {
    SAME: "read with the value in the second column",
    _NOT_SHOWN: "not shown, which does not prove that it is not set",
    _NO_LOG: "no log",
    _SEVERAL: "not the same for each communicator",
    LATER: "the C environ says something else now",
}
"""What each mark says; small letters are other values, listed below their row."""

_TITLE: Final = ("NCCL has read", "value")
_LISTED: Final = 8


def build(context: Context, launch: Launch) -> Matrix:
    """Return the table of one launch; without rows if no log was joined to any worker."""
    workers = who.processes(context, launch.workers)
    joined = [one for one in workers if one.nccl and one.nccl.state is LogState.JOINED]
    read = {read.name for one in joined if one.nccl for read in one.nccl.reads}
    stated = {one.name for one in context.config.nccl} if joined else set()
    names = sorted(read | stated)
    cells = {
        name: {one.pid: list(_values(_hops(context, one.pid, name))) for one in workers}
        for name in names
    }
    rows = [_row(context, name, cells[name], workers) for name in names]
    marks = [dict(zip((one.pid for one in workers), row.marks, strict=True)) for row in rows]
    columns = matrix.columns(workers, marks, matrix.heads(workers, workers)) if rows else ()
    return Matrix(
        columns=columns,
        rows=tuple(
            Row(row.name, row.value, tuple(each[one.pids[0]] for one in columns), row.others)
            for row, each in zip(rows, marks, strict=True)
        ),
        title=_TITLE,
        meanings=MEANINGS,
    )


def _hops(context: Context, pid: int, name: str) -> tuple[NcclHop, ...]:
    route = context.routing.routes.get((pid, name))
    return route.nccl if route is not None else ()


def _values(hops: Iterable[NcclHop]) -> Iterator[Value]:
    yield from (one.reading.value for one in hops if one.reading.value is not None)


def _row(
    context: Context, name: str, cells: dict[int, list[Value]], workers: Iterable[Process]
) -> Row:
    every = [value for values in cells.values() for value in values]
    usual = max(dict.fromkeys(every), key=every.count, default=None)
    others = [value for value in dict.fromkeys(every) if value != usual]
    letters = {value: matrix.letter(number) for number, value in enumerate(others)}
    marks = []
    for process in workers:
        hops = _hops(context, process.pid, name)
        values = set(cells[process.pid])
        if not hops:
            mark = _NO_LOG
        elif not values:
            mark = _NOT_SHOWN
        elif len(values) > 1 or any(one.reading.value is None for one in hops):
            mark = _SEVERAL
        else:
            (value,) = values
            mark = SAME if value == usual else letters[value]
        later = any(one.change is not None for one in hops)
        marks.append(mark + LATER if later else mark)
    return Row(name, usual, tuple(marks), tuple((mark, value) for value, mark in letters.items()))


# --- lines ---------------------------------------------------------------------------------------


def lines(context: Context, launch: Launch) -> Iterator[str]:
    """Yield, for one launch, which NCCL its workers have, which logs are theirs, and what is not.

    Nothing if no worker has NCCL loaded and none was looked for in a log.
    """
    workers = who.processes(context, launch.workers)
    if not any(one.nccl or (one.libraries and one.libraries.nccl) for one in workers):
        return
    names = matrix.heads(workers, workers)
    yield from _libraries(workers, names)
    joined = [one for one in workers if one.nccl and one.nccl.state is LogState.JOINED]
    if joined:
        files = dict.fromkeys(file for one in joined if one.nccl for file in one.nccl.files)
        listed = who.some((redact.show_text(one, 200) for one in files), 3)
        yield f"NCCL's log ({listed}) is joined to {_together(joined, names)}."
        yield from _communicators(joined, names)
    without = [one for one in workers if one.nccl and one.nccl.state is not LogState.JOINED]
    for group in who.folded(without, _why_not).values():
        yield from _no_log(group, names)


def _together(group: Iterable[Process], names: dict[int, str]) -> str:
    return labels.together(names[one.pid] for one in group)


def _libraries(workers: Iterable[Process], names: dict[int, str]) -> Iterator[str]:
    loaded = who.folded(workers, _words)
    for words, group in loaded.items():
        those = _together(group, names)
        if words:
            yield f"{those}: NCCL {'; NCCL '.join(redact.show_text(one, 300) for one in words)}"
        elif group[0].libraries is not None and group[0].libraries.whole:
            yield f"{those}: no libnccl is loaded"
        else:
            yield f"{those}: which NCCL is loaded could not be read"


def _words(process: Process) -> tuple[str, ...]:
    found = process.libraries.nccl if process.libraries is not None else ()
    return tuple(one.words + (", deleted" if one.deleted else "") for one in found)


def _communicators(joined: Iterable[Process], names: dict[int, str]) -> Iterator[str]:
    found: dict[tuple[str, int], list[str]] = {}
    for process in joined:
        for one in process.nccl.members if process.nccl else ():
            key = (one.communicator or "without an id", one.nranks)
            found.setdefault(key, []).append(f"{names[process.pid]} is rank {one.rank}")
    for (communicator, nranks), members in list(found.items())[:_LISTED]:
        shown = redact.show_text(communicator, 40)
        yield f"Communicator {shown} of {nranks} ranks: {who.some(members, _LISTED)}."
    if len(found) > _LISTED:
        yield f"{len(found) - _LISTED} more communicators are in the JSON report."


def advice_for(process: Process) -> Advice:
    """Return what is said of a worker without a log, by what its C environ has now."""
    # Slow to import, and needed only where a log was looked for.
    from envprobe.nccl.advice import advice
    from envprobe.routes.nccl import version_in

    view = process.environment(View.LIBC)
    names = [name for name in view.entries if view.reading(name).state is State.VALUE]
    return advice(names, version_in(process))


def _why_not(process: Process) -> object:
    log, told = process.nccl, advice_for(process)
    return (_reason(log), told.read, told.unread, tuple(told.to_log.items()))


def _reason(log: NcclLog | None) -> str:
    if log is None or log.state in (LogState.OLDER, LogState.NOT_IN_LOG, LogState.AMBIGUOUS):
        # Each process's own number is in those reasons: the findings tell them.
        return "none of those that were looked into could be told to be its"
    return log.reason


def _no_log(group: list[Process], names: dict[int, str]) -> Iterator[str]:
    from envprobe.routes.nccl import version_in

    told = advice_for(group[0])
    version = ".".join(map(str, version_in(group[0]) or ())) or "of unknown version"
    reason = redact.show_text(_reason(group[0].nccl))
    yield f"No log of NCCL for {_together(group, names)}: {reason}."
    if told.read:
        read = who.some((redact.show_name(name) for name in told.read), _LISTED)
        yield f"Set there now, and read by NCCL {version}: {read}."
    for one in told.unread[:_LISTED]:
        meant = f" (perhaps {' or '.join(one.suggestions)} is meant)" if one.suggestions else ""
        yield f"{redact.show_name(one.name)}: {one.reason}{meant}."
    given = " ".join(f"{name}={value}" for name, value in told.to_log.items())
    yield f"To see what it reads, start the server with {given}"
