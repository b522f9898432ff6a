"""Where output goes: stdout and stderr that cannot break a run, and report files."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from envprobe.errors import EnvprobeError, UsageError

if TYPE_CHECKING:
    from envprobe.report.model import Presentation

FILE_WIDTH: Final = 100
"""Cells in a line of a report that goes to a file."""

_STDOUT_REMEDY: Final = "Write the report to a file with -o FORMAT=PATH, and stdout to /dev/null."
_DESCRIPTOR: Final = re.compile(r"(?:/proc/self|/dev)/fd/(\d{1,7})")


class ClosedPipe(Exception):  # noqa: N818 - it is no error, the reader has simply seen enough
    """The reader of stdout went away."""


_closed: set[str] = set()
"""Which of stdout and stderr were closed when envprobe was started."""


def prepare() -> None:
    """Make stdout and stderr safe to write to, whatever envprobe was started with.

    A closed descriptor below 3 is replaced by /dev/null, so that no file opened later can take its
    place; `write` still says that stdout is closed. Characters that the terminal's encoding lacks
    are written as escapes.
    """
    while True:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened > 2:
            os.close(opened)
            break
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            _closed.add(name)
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def leave_stdout(*, to_stderr: bool) -> None:
    """Have `write` write to stderr from now on, or nowhere: stdout is another program's."""
    target = os.dup(2) if to_stderr else os.open(os.devnull, os.O_WRONLY)
    os.dup2(target, 1)
    os.close(target)
    _closed.discard("stdout")


def write(text: str) -> None:
    """Write to stdout and flush. Raises ClosedPipe, or UsageError if it cannot be written."""
    if "stdout" in _closed:
        raise UsageError("stdout cannot be written: it is closed", _STDOUT_REMEDY)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        _drop_buffered(1)
        if error.errno == errno.EPIPE:
            raise ClosedPipe from None
        raise UsageError(f"stdout cannot be written: {_reason(error)}", _STDOUT_REMEDY) from None


def tell(line: str) -> None:
    """Say on stderr what envprobe does; control characters and credentials are shown masked."""
    from envprobe.redact import show_text

    note(f"envprobe: {show_text(line)}")


def note(text: str, end: str = "\n") -> None:
    """Write one line to stderr; a note that nobody can read is dropped."""
    try:
        sys.stderr.write(text + end)
        sys.stderr.flush()
    except OSError:
        _drop_buffered(2)
    except ValueError:
        return


def _drop_buffered(number: int) -> None:
    """Lead a descriptor nowhere: what is still buffered for it is tried again at the very end.

    The interpreter would then fail, and its exit code 120 would replace that of the run.
    """
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


class Destination:
    """A file that a report goes to: opened before the scan, complete or untouched after it.

    A regular file is replaced at the end by a new one that was written beside it, so that a
    symbolic link planted there is replaced and never followed, and nobody reads half a report.
    Devices, pipes, sockets and what names a descriptor of this process (/dev/stdout) are written in
    place. `used` is true once writing has begun.
    """

    def __init__(self, path: str, *, private: bool = False) -> None:
        self.path = path
        self.used = False
        self._temporary: str | None = None
        try:
            self._descriptor = self._open(0o600 if private else 0o666)
        except (OSError, ValueError) as error:
            reason = _reason(error) if isinstance(error, OSError) else "no valid path"
            raise UsageError(
                f"{path} cannot be written: {reason}", "Give a path in a directory you can write."
            ) from None

    def _open(self, mode: int) -> int:
        if (number := _own_descriptor(self.path)) is not None:
            return os.dup(number)
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY
        try:
            kind = os.stat(self.path).st_mode
        except FileNotFoundError:
            kind = 0
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if kind and not stat.S_ISREG(kind):
            return os.open(self.path, flags)
        temporary = f"{self.path}.{os.urandom(4).hex()}.tmp"
        descriptor = os.open(temporary, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        self._temporary = temporary
        return descriptor

    def write(self, text: str) -> None:
        """Write the whole report and put it in place. Raises UsageError (disk full, ...)."""
        self.used = True
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
            if self._temporary is not None:
                os.replace(self._temporary, self.path)
                self._temporary = None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {_reason(error)}") from None

    def close(self) -> None:
        """Close the file; what was not put in place is removed."""
        os.close(self._descriptor)
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)


def is_stdout(path: str) -> bool:
    """Return whether a path names the descriptor 1 of this process."""
    return _own_descriptor(path) == 1


def _own_descriptor(path: str) -> int | None:
    """Return the number of the descriptor of this process that a path names, None if none.

    Such names are links to wherever the descriptor leads; to replace one would break the machine.
    """
    path = os.path.abspath(path)
    with contextlib.suppress(OSError):
        path = os.readlink(path) if os.path.dirname(path) == "/dev" else path
    found = _DESCRIPTOR.fullmatch(path)
    return int(found[1]) if found else None


@contextlib.contextmanager
def told_on_stdout(kind: str) -> Iterator[None]:
    """Print an error that ends the run as a document too, where a document is what is printed."""
    try:
        yield
    except EnvprobeError as error:
        if kind != "text":
            from envprobe.report import failure

            with contextlib.suppress(UsageError, ClosedPipe):
                write(failure.render(error, kind))
        raise


@contextlib.contextmanager
def reports(paths: dict[str, str], *, private: bool = False) -> Iterator[dict[str, Destination]]:
    """Open `destinations`; an error that ends the run is written to all that have no report yet.

    So no file of an earlier run is left that could be read as the report on this one.
    """
    with destinations(paths, private=private) as files:
        try:
            yield files
        except EnvprobeError as error:
            for path, kind in paths.items():
                if not files[path].used:
                    from envprobe.report import failure

                    with contextlib.suppress(UsageError):
                        files[path].write(failure.render(error, kind))
            raise


@contextlib.contextmanager
def destinations(
    paths: dict[str, str], *, private: bool = False
) -> Iterator[dict[str, Destination]]:
    """Open a file for each report before anything else is done: `paths` maps path to format."""
    opened: dict[str, Destination] = {}
    try:
        for path in paths:
            opened[path] = Destination(path, private=private)
        yield opened
    finally:
        for one in opened.values():
            one.close()


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__


def wants_color() -> bool:
    """Return whether stdout is a terminal that shows colours (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return not plain and sys.stdout.isatty()


def width() -> int:
    """Return the terminal's width, or COLUMNS; 80 where there is none."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def presentation(
    *, unmask: bool, show_all: bool, to_file: bool, patterns: tuple[str, ...] = ()
) -> Presentation:
    """Return how a report is shown: on stdout as wide and as coloured as that is, or in a file."""
    from envprobe.report.model import Presentation

    return Presentation(
        unmask=unmask,
        show_all=show_all,
        patterns=patterns,
        width=FILE_WIDTH if to_file else width(),
        color=not to_file and wants_color(),
    )
