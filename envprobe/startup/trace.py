"""Reading what `python -v -X importtime` says on stderr about the start, CPython 3.9 to 3.15.

The lines come from Lib/importlib/_bootstrap_external.py, Python/import.c and Lib/site.py. What
hooks print stands between them, at worst in the same line, and may imitate them: of several lines
about one thing the first counts, which the interpreter has written before the hook could.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Callable
from typing import Final

from envprobe.startup.types import MODULES, FileRun, Imported, Kind, Raised, Trace

_TIME: Final = re.compile(r"import time: +(\d+) \| +(\d+) \| ( *)([\w.]+)$")
_MATCHES: Final = re.compile(r"# (/.*\.pyc) matches (.*)$")
_CODE: Final = re.compile(r"# code object from (.+)$")
_EXTENSION: Final = re.compile(r"# extension module '(\w+)' loaded from (.+)$")
_NAMESPACE: Final = re.compile(r"# possible namespace for (.+)$")
_IMPORT: Final = re.compile(r"import '(\w+)' # (.+)$")
_ZIP: Final = re.compile(r"import (\w+) # loaded from Zip (.+)$")
_ZIP_OBJECT: Final = re.compile(r'<zipimporter object "(.+?)/?">')
_FILE: Final = re.compile(
    r"(?:Processing \.pth file: (?P<pth>.+)|Exec'ing from (?P<exec>.+?): .*"
    r"|Executing entry point: .* from (?P<start>.+))$"
)
_FILE_FAILED: Final = re.compile(
    r"(?:Error processing line (?P<number>\d+) of (?P<pth>.+):"
    r"|Error in import line from (?P<line_of>.+?): (?P<line>.*)"
    r"|Error (?:in|resolving) entry point (?P<point>.+) from (?P<start>.+)"
    r"|Invalid entry point syntax in (?P<bad_of>.+?): (?P<bad>.+))$"
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'  File "(.+)", line (\d+)(?:, in (.+))?$')
_EXCEPTION: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?$")
_LOADERS: Final = {
    "SourceFileLoader": Kind.SOURCE,
    "SourcelessFileLoader": Kind.SOURCELESS,
    "ExtensionFileLoader": Kind.EXTENSION,
    "NamespaceLoader": Kind.NAMESPACE,
    "zipimporter": Kind.ZIP,
}
_SUFFIXES: Final = {".py": Kind.SOURCE, ".pyc": Kind.SOURCELESS, ".so": Kind.EXTENSION}
_SURROGATE: Final = re.compile(r"(?<!\\)\\u(dc[89a-f][0-9a-f])")
_MAX_MESSAGE: Final = 500
_LEVEL: Final = 2


def parse(stderr: bytes) -> Trace:
    """Return what the trace says; lines that are none of the interpreter's own are passed over."""
    reader = _Reader()
    told: _Told | None = None
    for line in _decoded(stderr).split("\n"):
        # Printing a traceback may import modules: their lines stand between its own.
        if not reader.take(line) and told is not None and told.take(line):
            reader.take_exception(told)
            told = None
        if line.endswith(_TRACEBACK):
            told = _Told(indented=line.endswith("  " + _TRACEBACK))
    return reader.result()


def begun(stderr: bytes) -> bool:
    """Return whether an interpreter run with -v has come as far as its first module in a file."""
    return b"import 'encodings' #" in stderr


def _decoded(stderr: bytes) -> str:
    """Return the text, with bytes of paths that are no UTF-8 as in sys.path: as surrogates.

    The error handler of sys.stderr, backslashreplace, writes them out.
    """
    return _SURROGATE.sub(
        lambda found: chr(int(found[1], 16)), stderr.decode("utf-8", "surrogateescape")
    )


@dataclasses.dataclass
class _Import:
    """What is known so far of one module's import."""

    path: str = ""
    code: str = ""
    kind: Kind | None = None
    finished: bool = False
    times: tuple[int, int] | None = None
    raised: Raised | None = None
    chained: list[str] = dataclasses.field(default_factory=list)
    chained_raised: dict[str, Raised] = dataclasses.field(default_factory=dict)
    nested: int = 0

    def timed(self, own: int, cumulative: int, *, nested: bool) -> None:
        """Take the times of the module, not those of one chained to it under the same name."""
        if nested and self.nested < len(self.chained):
            self.nested += 1
        else:
            self.times = self.times or (own, cumulative)

    def found(self, path: str, code: str, kind: Kind | None = None) -> None:
        """Take the code of the module; what comes later under its name is chained to it."""
        if self.times is not None:
            return
        if not self.path:
            self.path, self.code, self.kind = path, code, kind or _kind_of(path)
        elif path != self.path and path not in self.chained:
            self.chained.append(path)


class _Reader:
    """Takes the lines in order."""

    def __init__(self) -> None:
        self._imports = {module: _Import() for module in MODULES}
        self._files: dict[str, FileRun] = {}
        self._sources: dict[str, str] = {}
        self._namespace = ""
        self._file = ""
        self._failed_file = ""
        self._site_done = False
        self._fatal = False
        self._fatal_error: Raised | None = None
        self._own: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_TIME, self._take_time),
            (_IMPORT, self._take_import),
            (_MATCHES, self._take_source),
            (_CODE, self._take_code),
            (_NAMESPACE, self._take_namespace),
            (_EXTENSION, self._take_extension),
            (_ZIP, self._take_zip),
        )

    def take(self, line: str) -> bool:
        """Take one line; return whether it is one of the trace's own."""
        for pattern, take in self._own:
            if found := pattern.search(line):
                take(found)
                return True
        if found := _FILE.match(line):
            self._file = _unquoted(found["pth"] or found["exec"] or found["start"])
            self._files.setdefault(self._file, FileRun(self._file))
        elif found := _FILE_FAILED.match(line):
            self._take_failed_file(found)
        elif line.startswith("Fatal Python error: init_import_site"):
            self._fatal = True
        return line.startswith("# ")

    def _take_failed_file(self, found: re.Match[str]) -> None:
        path = found["pth"] or found["line_of"] or found["start"] or found["bad_of"]
        run = self._files.get(path, FileRun(path))
        if run.raised is None:
            text = found["line"] or found["point"] or _unquoted(found["bad"] or "")
            number = int(found["number"] or 0)
            self._files[path] = FileRun(path, run.cumulative_us, number, text, Raised("", ""))
            self._failed_file = path

    def _take_source(self, found: re.Match[str]) -> None:
        self._sources[found[1]] = found[2]

    def _take_namespace(self, found: re.Match[str]) -> None:
        self._namespace = found[1]

    def _take_extension(self, found: re.Match[str]) -> None:
        self._found(found[1], _unquoted(found[2]), Kind.EXTENSION)

    def _take_zip(self, found: re.Match[str]) -> None:
        archive = posixpath.dirname(found[2])
        self._take_loader(found[1], f'<zipimporter object "{archive}">')

    def _take_import(self, found: re.Match[str]) -> None:
        self._take_loader(found[1], found[2])

    def _take_code(self, found: re.Match[str]) -> None:
        code = _unquoted(found[1])
        path = self._sources.get(code) or _source_of(code)
        if (module := _module_of(path)) is not None:
            self._found(module, path, None, code)

    def _found(self, module: str, path: str, kind: Kind | None, code: str = "") -> None:
        if module in self._imports:
            self._imports[module].found(path, code or path, kind)

    def _take_loader(self, module: str, loader: str) -> None:
        if module == "site":
            self._site_done = True
        if module not in self._imports or self._imports[module].times is not None:
            return
        one = self._imports[module]
        one.finished = True
        kind = next((kind for name, kind in _LOADERS.items() if name in loader), None)
        if kind is Kind.ZIP and (archive := _ZIP_OBJECT.search(loader)):
            one.found(f"{archive[1]}/{module}.py", archive[1], kind)
        elif kind is Kind.NAMESPACE:
            one.found(self._namespace, "", kind)
        elif kind in (Kind.SOURCELESS, Kind.EXTENSION) or one.kind is None:
            one.kind = kind or Kind.OTHER

    def _take_time(self, found: re.Match[str]) -> None:
        own, cumulative, indent, name = int(found[1]), int(found[2]), found[3], found[4]
        if name in self._imports:
            self._imports[name].timed(own, cumulative, nested=len(indent) > _LEVEL)
        elif self._file and len(indent) == _LEVEL and not self._begun():
            run = self._files[self._file]
            total = run.cumulative_us + cumulative
            self._files[self._file] = dataclasses.replace(run, cumulative_us=total)

    def _begun(self) -> bool:
        return any(one.times is not None for one in self._imports.values())

    def take_exception(self, told: _Told) -> None:
        """Give an exception to what it ended: a startup file, a module, or site itself."""
        if told.indented and self._failed_file:
            run = self._files[self._failed_file]
            raised = told.seen_from(None)
            self._files[self._failed_file] = dataclasses.replace(run, raised=raised)
            self._failed_file = ""
            return
        for module in MODULES:
            if f"exec{module}" in told.functions:
                one = self._imports[module]
                one.raised = one.raised or told.seen_from(module)
        for one in self._imports.values():
            # What is told inside the import of a hook, and before it came to its end.
            if one.times is None and one.raised is None:
                for path in one.chained:
                    if told.names(path):
                        one.chained_raised.setdefault(path, told.seen_from(None, path))
        if self._fatal and self._fatal_error is None:
            self._fatal_error = told.seen_from(None)

    def result(self) -> Trace:
        return Trace(
            imports={module: self._made(module) for module in MODULES},
            files=self._files,
            site_done=self._site_done and not self._fatal,
            fatal=self._fatal_error,
        )

    def _made(self, module: str) -> Imported:
        one = self._imports[module]
        path = one.path
        if not path and one.raised is not None and _module_of(one.raised.file) == module:
            path = one.raised.file
        own, cumulative = one.times or (None, None)
        return Imported(
            module=module,
            path=path,
            code=one.code,
            kind=one.kind or _kind_of(path),
            finished=one.finished,
            ended=one.times is not None,
            self_us=own,
            cumulative_us=cumulative,
            raised=one.raised,
            chained=tuple(one.chained),
            chained_raised=one.chained_raised,
        )


# --- exceptions ----------------------------------------------------------------------------------


class _Told:
    """One traceback: its frames (file, line) in order, their functions, and its last line."""

    def __init__(self, *, indented: bool) -> None:
        self.indented = indented
        self.functions: list[str] = []
        self._frames: list[tuple[str, int]] = []
        self._type = ""
        self._message = ""

    def take(self, line: str) -> bool:
        """Take one line; return whether it was the last."""
        text = line[2:] if self.indented and line.startswith("  ") else line
        if found := _FRAME.match(text):
            self._frames.append((found[1], int(found[2])))
            self.functions.append(found[3] or "")
        elif text and not text.startswith(" "):
            if found := _EXCEPTION.match(text):
                self._type, self._message = found[1], found[2] or ""
            return True
        return False

    def names(self, path: str) -> bool:
        """Return whether code of a file is among the frames."""
        return any(file == path for file, _ in self._frames)

    def seen_from(self, module: str | None, path: str = "") -> Raised:
        """Return it with the innermost place in the module's own file or `path`, else in any."""
        real = [place for place in self._frames if not place[0].startswith("<")]
        own = [place for place in real if place[0] == path]
        own += [place for place in real if module and _module_of(place[0]) == module]
        file, line = (own or real or [("", 0)])[-1]
        return Raised(self._type, self._message[:_MAX_MESSAGE], file, line)


# --- names and paths -----------------------------------------------------------------------------


def _unquoted(text: str) -> str:
    """Undo repr() of a path."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        inner = text[1:-1]
        return _ESCAPED.sub(_unescaped, inner) if "\\" in inner else inner
    return text


_ESCAPED: Final = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)")
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}


def _unescaped(found: re.Match[str]) -> str:
    letter, digits = found[1][0], found[1][1:]
    return chr(int(digits, 16)) if digits else _CONTROLS.get(letter, letter)


def _module_of(path: str) -> str | None:
    """Return the hook whose file this is by its name, None if it is none's."""
    folder, name = posixpath.split(path)
    stem = name.partition(".")[0]
    stem = posixpath.basename(folder) if stem == "__init__" else stem
    return stem if stem in MODULES else None


def _source_of(code: str) -> str:
    """Return the source that cached bytecode stands for by its name, else the path itself."""
    folder, name = posixpath.split(code)
    if posixpath.basename(folder) != "__pycache__":
        return code
    return posixpath.join(posixpath.dirname(folder), name.partition(".")[0] + ".py")


def _kind_of(path: str) -> Kind:
    if posixpath.basename(path).startswith("__init__."):
        return Kind.PACKAGE
    return _SUFFIXES.get(posixpath.splitext(path)[1], Kind.OTHER)
