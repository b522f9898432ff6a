"""Python tracebacks put together from the lines of a log that several processes write.

What the interpreter prints is described by CPython 3.9 to 3.15, Lib/traceback.py: a head, frames
and their code further in, the exception at the depth of the head.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from typing import Final

from envprobe.triage.facts import Frame, Line, Raised

_TITLE: Final = "Traceback (most recent call last):"
_HEAD: Final = re.compile(
    r"^(?P<before>.*?)(?:Exception Group )?Traceback \(most recent call last\):"
)
_MARGIN: Final = re.compile(r"[ |+]*")
_BAR: Final = re.compile(r" *(?:[|+] |\+-[+-]* \d+ -+$)")
_FRAME: Final = re.compile(r'\s*File "(.+?)", line (\d{1,9})(?:, in (.+))?$')
_EXCEPTION: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_<]\w*>?)*)(?:: ?(.*))?$", re.DOTALL)
_NAMED_LIKE_ONE: Final = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning|Group|Iteration|Timeout|Failure)\d?"
)
_HUMPS: Final = re.compile(r"(?:\w+\.)*[A-Z][a-z0-9]+[A-Z]\w*|\w+(?:\.\w+)+")
_MOST_FRAMES: Final = 400
_MOST_FOREIGN: Final = 200
"""Lines of others between those of a traceback, after which it is given up."""

_MOST_STREAMS: Final = 4096
_MOST_MESSAGE: Final = 2000


class Step(enum.Enum):
    """What a line is to a traceback: none of it, its head, its frames and code, its last line."""

    OTHER = enum.auto()
    HEAD = enum.auto()
    CODE = enum.auto()
    RAISED = enum.auto()


@dataclasses.dataclass(slots=True)
class _Open:
    """A traceback whose exception has not come yet."""

    line: Line
    margin: int
    mixed: bool = False
    foreign: int = 0
    frames: list[Frame] = dataclasses.field(default_factory=list)

    def raised(self, kind: str, message: str, line: Line) -> Raised:
        return Raised(kind, message[:_MOST_MESSAGE], tuple(self.frames), line, self.mixed)

    def add(self, frame: Frame) -> None:
        if len(self.frames) == _MOST_FRAMES:
            del self.frames[_MOST_FRAMES // 2]
        self.frames.append(frame)


@dataclasses.dataclass(slots=True)
class _Stream:
    open: _Open | None = None
    last: Raised | None = None
    since: int = 0


class Assembler:
    """Takes the lines of a log one by one; `broken` holds the traceback that the last one cut."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, ...], _Stream] = {}
        self.broken: Raised | None = None

    def feed(self, line: Line) -> tuple[Step, Raised | None]:
        """Return what a line is, with the exception that it ends."""
        stream = self._stream(line)
        self.broken = None
        head = _HEAD.match(line.text) if _TITLE in line.text else None
        if head is not None:
            self._begin(stream, line, head["before"])
            return Step.HEAD, None
        if stream.open is None:
            return self._outside(stream, line)
        return self._inside(stream, stream.open, line)

    @property
    def busy(self) -> bool:
        """Whether a traceback has begun that has not ended."""
        return any(one.open is not None for one in self._streams.values())

    def skip(self) -> None:
        """Take lines that belong to no traceback: none that ended before is recent any more."""
        for stream in self._streams.values():
            stream.last = None

    def recent(self, line: Line, within: int) -> Raised | None:
        """Return the exception that ended at most `within` lines before, in the same stream."""
        stream = self._stream(line)
        return stream.last if stream.since <= within else None

    def unfinished(self) -> Iterator[Raised]:
        """Yield the tracebacks that have no end."""
        for stream in self._streams.values():
            if stream.open is not None and stream.open.frames:
                yield stream.open.raised("", "", stream.open.line)

    def _stream(self, line: Line) -> _Stream:
        found = self._streams.get(line.stream)
        if found is None:
            if len(self._streams) >= _MOST_STREAMS:
                self._streams.pop(next(iter(self._streams)))
            found = self._streams[line.stream] = _Stream()
        return found

    def _begin(self, stream: _Stream, line: Line, before: str) -> None:
        margin = _MARGIN.fullmatch(before)
        begun = _Open(line, len(before) if margin is not None else 0)
        if stream.open is not None:
            stream.open.mixed = begun.mixed = True
            if stream.open.frames:
                self.broken = stream.open.raised("", "", stream.open.line)
        stream.open = begun
        stream.last = None

    def _outside(self, stream: _Stream, line: Line) -> tuple[Step, Raised | None]:
        frame = _FRAME.match(line.text)
        if frame is not None and line.text[:1] == " ":
            stream.open = _Open(line, 0)
            stream.open.add(_frame(frame))
            return Step.CODE, None
        stream.since += 1
        found = _EXCEPTION.match(line.text)
        if found is None or _NAMED_LIKE_ONE.fullmatch(found[1]) is None:
            return Step.OTHER, None
        return self._end(stream, _Open(line, 0), found, line)

    def _inside(self, stream: _Stream, opened: _Open, line: Line) -> tuple[Step, Raised | None]:
        inner = _inner(line.text, opened.margin)
        frame = _FRAME.match(inner)
        if frame is not None:
            opened.add(_frame(frame))
            return Step.CODE, None
        if not inner.strip() or inner[:1] in " \t":
            return Step.CODE, None
        found = _EXCEPTION.match(inner)
        if found is not None and (
            _NAMED_LIKE_ONE.fullmatch(found[1]) or _HUMPS.fullmatch(found[1])
        ):
            return self._end(stream, opened, found, line)
        opened.foreign += 1
        if opened.foreign > _MOST_FOREIGN:
            stream.open = None
        return Step.OTHER, None

    def _end(
        self, stream: _Stream, opened: _Open, found: re.Match[str], line: Line
    ) -> tuple[Step, Raised | None]:
        stream.open = None
        stream.last = opened.raised(found[1], found[2] or "", line)
        stream.since = 0
        return Step.RAISED, stream.last


def _inner(text: str, margin: int) -> str:
    bar = _BAR.match(text)
    if bar is not None:
        return text[bar.end() :]
    return text[margin:] if not text[:margin].strip() else text


def _frame(found: re.Match[str]) -> Frame:
    return Frame(found[1], int(found[2]), found[3] or "")
