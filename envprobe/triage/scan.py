"""Going through a log once: what its lines say of causes, starts and exceptions."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final

from envprobe.triage import table
from envprobe.triage.facts import Line, Mark, MarkKind, Occurrence, Raised
from envprobe.triage.table import Row
from envprobe.triage.tracebacks import Assembler, Step

_MOST_OF_A_CAUSE: Final = 100
_MOST_STRANGE: Final = 20
_MOST_MARKS: Final = 1000
_MOST_MORE: Final = 4
_OF_A_MESSAGE: Final = 6
"""Lines of an exception's message that are searched behind its first one."""


@dataclasses.dataclass(slots=True)
class _Found:
    row: Row
    what: str
    line: Line
    raised: Raised | None = None
    more: list[str] = dataclasses.field(default_factory=list)

    def done(self) -> Occurrence:
        return Occurrence(self.row, self.what, self.line, self.raised, tuple(self.more))


class Scanner:
    """Takes the lines of one log in their order; bounded, whatever the log holds."""

    def __init__(self) -> None:
        self._assembler = Assembler()
        self._found: list[_Found] = []
        self._waiting: dict[tuple[str, ...], _Found] = {}
        self.marks: list[Mark] = []
        self.strange: list[Raised] = []
        self.counts: Counter[str] = Counter()

    def feed(self, line: Line) -> None:
        """Take one line."""
        step, raised = self._assembler.feed(line)
        if self._assembler.broken is not None:
            self._break(self._assembler.broken)
        if step is Step.CODE:
            return
        self._mark(line)
        if self._awaited(line, raised):
            return
        text = line.text if raised is None else _last_line(raised)
        found = table.find("manager", text) if line.manager and raised is None else None
        found = found or table.find("line" if raised is None else "exception", text)
        if found is not None:
            row, match = found
            self._take(row, (match.groupdict().get("what") or text).strip(), line, raised)
        elif raised is not None and not self._by_frame(raised, line):
            self.strange.append(raised)
            del self.strange[_MOST_STRANGE:]

    @property
    def idle(self) -> bool:
        """Whether no traceback is open and nothing is waited for."""
        return not self._waiting and not self._assembler.busy

    def skip(self) -> None:
        """Take lines that can tell nothing, all at once."""
        self._assembler.skip()

    def occurrences(self) -> tuple[Occurrence, ...]:
        """Return what was found, in its order; to be asked for once the log has ended."""
        for raised in self._assembler.unfinished():
            self._break(raised)
        return tuple(one.done() for one in sorted(self._found, key=lambda one: one.line.order))

    def _mark(self, line: Line) -> None:
        for row in table.marks():
            telling = any(one in line.text for one in row.has)
            if telling and row.manager <= line.manager and row.pattern.search(line.text):
                self.marks.append(Mark(MarkKind(row.kind), line))
                # What came before has ended no start of now.
                self.strange.clear()
                # The first ones say nothing that later ones do not.
                del self.marks[:-_MOST_MARKS]

    def _awaited(self, line: Line, raised: Raised | None) -> bool:
        """Give a line to what waits for it; return whether it says nothing beside that."""
        waiting = self._waiting.get(line.stream)
        if waiting is None:
            return False
        if waiting.row.then == "line" and line.text.strip():
            waiting.more.append(line.text)
        elif waiting.row.then == "raised" and raised is not None:
            waiting.raised = raised
        else:
            return False
        del self._waiting[line.stream]
        return not waiting.row.effect

    def _take(self, row: Row, what: str, line: Line, raised: Raised | None) -> None:
        self.counts[row.cause] += 1
        if raised is None and not row.then and not (row.effect and row.certain):
            # The text may be that of an exception. That a process ended is never in one, nor what
            # stands before one.
            raised = self._assembler.recent(line, _OF_A_MESSAGE)
        before = self._found[-1] if self._found else None
        if (
            raised is not None
            and before is not None
            and before.raised is raised
            and before.row.cause == row.cause
        ):
            if len(before.more) < _MOST_MORE:
                before.more.append(what)
            return
        if self.counts[row.cause] > _MOST_OF_A_CAUSE:
            return
        made = _Found(row, what, line, raised)
        self._found.append(made)
        if row.then:
            self._waiting[line.stream] = made

    def _break(self, raised: Raised) -> None:
        """Take a traceback that has no end: its innermost frame may tell the exception."""
        if self._by_frame(raised, raised.line):
            return
        waiting = self._waiting.pop(raised.line.stream, None)
        if waiting is not None:
            waiting.raised = raised

    def _by_frame(self, raised: Raised, line: Line) -> bool:
        """Take an exception whose innermost frame alone tells what it is."""
        if not raised.frames:
            return False
        innermost = raised.frames[-1]
        found = table.find("frame", f"{innermost.file}:{innermost.function}")
        if found is not None:
            self._take(found[0], _last_line(raised) or "a traceback that breaks off", line, raised)
        return found is not None


def _last_line(raised: Raised) -> str:
    return f"{raised.type}: {raised.message}" if raised.message else raised.type
