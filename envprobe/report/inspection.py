"""What `envprobe inspect` has found, as text, and what both of its renderers ask of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.errors import Exit
from envprobe.inspection import Inspection
from envprobe.pythonfacts import (
    Answer,
    AnswerState,
    CallableFact,
    ClassFact,
    Datum,
    DiskState,
    Kind,
    ModuleFact,
    PythonFact,
    files_of,
    names_of,
    only_named,
)
from envprobe.report import values
from envprobe.report.insidewords import resolved, sentence
from envprobe.report.labels import clock
from envprobe.values import Value

_MAX_WIDTH: Final = 110
_MAX_SHOWN: Final = 60
_LEFT: Final = 15
_LONGEST: Final = 4000
_BRACKETS: Final = {"list": ("[", "]"), "tuple": ("(", ")"), "dict": ("{", "}")}
_HOOK_OFF: Final = {
    "sitecustomize": ("no_site",),
    "usercustomize": ("no_site", "no_user_site"),
}
_FLAGS: Final = {
    "isolated": "-I: PYTHON* variables, the user site and the script's directory do not count",
    "ignore_environment": "-E (or -I): PYTHON* variables are ignored",
    "safe_path": "-P (or -I): the script's directory is not put before sys.path",
    "no_site": "-S: site is not imported at start, and so neither sitecustomize nor usercustomize",
    "no_user_site": "-s (or -I): no user site directory, and so no usercustomize",
    "optimize": "-O: assert statements are left out",
    "dont_write_bytecode": "-B: no byte code is written",
    "dev_mode": "-X dev: more checks and warnings",
}


def exit_of(found: Inspection) -> Exit:
    """Return HOLDS if everything that was asked could be read, else UNDETERMINED."""
    return Exit.HOLDS if found.complete else Exit.UNDETERMINED


def variables(found: Inspection) -> Iterator[tuple[str, Value, bool]]:
    """Yield the PYTHON* variables in os.environ, and whether the interpreter ignores them."""
    environment, python = found.subject.environment, found.subject.python
    if environment is None or python is None:
        return
    ignored = python.flags.get("ignore_environment", 0) > 0
    for name, value in environment.entries.items():
        if value is not None:
            yield name, value, ignored


# --- text ----------------------------------------------------------------------------------------


def render(found: Inspection, *, unmask: bool = False, width: int = 80) -> str:
    """Return what was found as text; without questions it shows all of the interpreter."""
    lines = list(_Text(found, unmask, width).lines())
    return redact.without_commands("\n".join(lines) + "\n")


class _Text:
    def __init__(self, found: Inspection, unmask: bool, width: int) -> None:
        self.found = found
        self.unmask = unmask
        self.width = min(max(width, 80), _MAX_WIDTH)

    def lines(self) -> Iterator[str]:
        yield from self.head()
        python = self.found.subject.python
        if python is not None and not self.found.answers:
            yield from self.interpreter(python)
        for hook in self.found.hooks:
            yield from self.hook(hook)
        for answer in self.found.answers:
            yield ""
            yield redact.show_text(answer.query, 300)
            yield from self.answer(answer)

    def head(self) -> Iterator[str]:
        subject = self.found.subject
        title = redact.show_command(subject.title or (subject.comm,), 120)
        yield f"PID {subject.identity.pid}, {title}, started {clock(subject.start_time)}"
        if subject.python is not None:
            python = subject.python
            build = f"CPython {redact.show_text(python.version)}, {python.build} build"
            yield from self.row("python", build)
            made = self.found.calibration
            if made is not None:
                yield from self.row("measured by", f"{made.program}, executed as {made.rights}")
        else:
            yield from self.row("python", f"{subject.state.value}: {subject.reason}")
            yield from self.wrapped(subject.remedy, "  => ")

    def interpreter(self, python: PythonFact) -> Iterator[str]:
        subject = self.found.subject
        yield from self.row("executable", python.executable or "(not set)")
        if subject.exe is not None and subject.exe != python.executable:
            yield from self.row("program", subject.exe)
        yield from self.row("prefix", python.prefix or "(not set)")
        if python.base_prefix not in (None, python.prefix):
            yield from self.row("base prefix", f"{python.base_prefix} (a virtual environment)")
        if python.interpreters > 1:
            yield from self.row("note", f"the first of {python.interpreters} interpreters is shown")
        for name in _FLAGS:
            if python.flags.get(name, 0) > 0:
                yield from self.row("flag", f"{name}={python.flags[name]}: {_FLAGS[name]}")
        for name, value, ignored in variables(self.found):
            effect = " (ignored: this interpreter runs with -E or -I)" if ignored else ""
            line = values.line((name,), value, unmask=self.unmask)
            line = f"{redact.show_name(name)}={line}{effect}"
            yield from self.row("variable", line, printable=True)
        for entry, place in resolved(python, subject.cwd):
            name = entry or "''"
            leads = f"{name} (relative, now {place or 'not known'})"
            yield from self.row("sys.path", name if entry == place else leads)

    def hook(self, answer: Answer) -> Iterator[str]:
        if answer.state is AnswerState.VALUE and answer.found_module is not None:
            file = answer.found_module.file
            yield from self.row(answer.query, file or f"loaded, {_no_file(answer.found_module)}")
            yield from self.stale(answer)
        elif answer.state is AnswerState.NOT_IMPORTED:
            yield from self.row(answer.query, f"not loaded{self.why_off(answer.query)}")
        elif self.found.subject.python is not None:
            yield from self.row(answer.query, "")
            yield from self.unread(answer)

    def why_off(self, hook: str) -> str:
        """Return the flag that keeps a hook from being loaded."""
        python = self.found.subject.python
        flags = python.flags if python is not None else {}
        off = [name for name in _HOOK_OFF.get(hook, ()) if flags.get(name, 0) > 0]
        return f" ({_FLAGS[off[0]]})" if off else ""

    def answer(self, answer: Answer) -> Iterator[str]:
        if answer.state is AnswerState.NOT_IMPORTED:
            yield from self.wrapped(f"not imported yet: {answer.reason}")
            if not answer.notes:
                yield from self.wrapped("a lazy hook patches when it is first imported", "  note: ")
        elif answer.state is AnswerState.ABSENT:
            yield from self.wrapped(f"absent: {answer.reason}")
        elif answer.state is AnswerState.VALUE:
            yield from self.value(answer)
        else:
            yield from self.unread(answer)
        for note in answer.notes:
            yield from self.wrapped(note, "  note: ")
        if answer.state is AnswerState.VALUE:
            yield from self.stale(answer)

    def unread(self, answer: Answer) -> Iterator[str]:
        yield from self.wrapped(f"{answer.state.value}: {answer.reason}")
        if answer.remedy:
            yield from self.wrapped(answer.remedy, "  => ")

    def value(self, answer: Answer) -> Iterator[str]:
        if answer.owner is not None:
            yield from self.row("found in", f"class {answer.owner}")
        if answer.kind is Kind.MODULE and answer.found_module is not None:
            yield from self.module(answer.found_module)
        elif answer.kind is Kind.CLASS and answer.type is not None:
            yield from self.klass(answer.type)
        elif answer.kind is Kind.CALLABLE and answer.function is not None:
            yield from self.callable(answer.function, 2)
        elif answer.value is not None:
            kind = redact.show_text(_kind(answer.value))
            line = _Values(names_of(answer.query), self.unmask).line(answer.value)
            plain = kind if answer.value.kind == "object" else f"{kind} {_cut(line)}".lstrip()
            yield from self.wrapped(plain, printable=True)

    def module(self, module: ModuleFact) -> Iterator[str]:
        yield from self.row("module", module.name)
        if module.type_name != "module":
            yield from self.row("type", f"{module.type_name}, which is no module")
        yield from self.row("file", module.file or _no_file(module))
        if module.origin not in (None, module.file):
            yield from self.row("origin", module.origin or "")
        for name, value in (("loader", module.loader), ("cached", module.cached)):
            if value is not None:
                yield from self.row(name, value)
        if module.initializing:
            yield from self.row("note", "its import has not ended: attributes may still come")

    def klass(self, one: ClassFact) -> Iterator[str]:
        yield from self.row("class", f"{one.module}.{one.qualname}" if one.module else one.qualname)
        if one.library is not None:
            yield from self.row("library", one.library)
        elif one.file is not None:
            yield from self.row("module file", one.file)
        for path in one.method_files:
            yield from self.row("methods from", path)

    def callable(self, one: CallableFact, indent: int) -> Iterator[str]:
        yield from self.wrapped(f"{one.type_name} {_called(one)}".rstrip(), " " * indent)
        below = " " * (indent + 2)
        if one.file is not None:
            name = f" ({one.code_name})" if one.code_name else ""
            yield from self.wrapped(f"code at {one.file}:{one.line}{name}", below)
            if one.globals_module not in (None, one.module):
                runs = f"runs in module {one.globals_module}"
                runs += f", {one.globals_file}" if one.globals_file else ""
                yield from self.wrapped(f"{runs}, whatever its __module__ says", below)
        if one.library is not None:
            yield from self.wrapped(f"native code in {one.library}", below)
        if one.bound_to is not None:
            yield from self.wrapped(f"bound to an object of type {one.bound_to}", below)
        for link in one.wraps:
            yield from self.wrapped(f"wraps, by {link.via}:", below)
            # A chain may be long: the indentation stays within the line.
            yield from self.callable(link.inner, min(indent + 4, 24))
        if one.cut:
            yield from self.wrapped("and more, which were not followed", below)

    def stale(self, answer: Answer) -> Iterator[str]:
        for path in files_of(answer):
            fact = self.found.files.get(path)
            if fact is not None and fact.state is DiskState.MISSING and path in only_named(answer):
                continue
            said = fact and sentence(fact, self.found.subject.start_time)
            if said:
                yield from self.wrapped(said, "  note: ")

    def row(self, name: str, value: str, *, printable: bool = False) -> Iterator[str]:
        yield from self.wrapped(value, f"  {name:{_LEFT}}", printable=printable)

    def wrapped(self, line: str, first: str = "  ", *, printable: bool = False) -> list[str]:
        """Wrap a line at blanks; a path is never broken. What is not `printable` is made so."""
        below = " " * len(first)
        return textwrap.wrap(
            line if printable else redact.show_text(line, _LONGEST),
            self.width,
            initial_indent=first,
            subsequent_indent=below,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]


class _Values:
    """Shows a value in the notation of Python, a bounded number of its parts."""

    def __init__(self, names: tuple[str, ...], unmask: bool) -> None:
        self.names = names
        self.unmask = unmask
        self.left = _MAX_SHOWN

    def line(self, datum: Datum) -> str:
        if datum.kind == "none":
            return "None"
        if datum.kind in ("list", "tuple", "dict"):
            return self.container(datum)
        if datum.value is None:
            return f"<{redact.show_text(datum.type_name)}>"
        return values.line(self.names, datum.value, unmask=self.unmask) + _rest(datum)

    def container(self, datum: Datum) -> str:
        parts = []
        keys: tuple[Datum | None, ...] = datum.keys or (None,) * len(datum.items)
        members = redact.members_of(datum, self.names)
        for key, (names, item) in zip(keys, members, strict=True):
            self.left -= 1
            if self.left < 0:
                break
            inner = _Values(names, self.unmask)
            inner.left = self.left
            parts.append(self.named(datum, key) + inner.line(item))
            self.left = inner.left
        more = (datum.length or 0) - len(parts)
        if more > 0:
            parts.append(f"... and {more} more")
        left, right = _BRACKETS[datum.kind]
        return left + ", ".join(parts) + right

    def named(self, datum: Datum, key: Datum | None) -> str:
        """Return what stands before a member: a dict's key, a field's name, or nothing."""
        if key is None:
            return ""
        return f"{self.line(key)}: " if datum.kind == "dict" else f"{self.line(key)}="


def _kind(datum: Datum) -> str:
    if datum.kind == "object":
        return f"object of type {datum.type_name}"
    counted = f" of {datum.length}" if datum.kind in ("list", "tuple", "dict") else ""
    subclass = f" ({datum.type_name})" if datum.type_name else ""
    return "" if datum.kind == "none" else f"{datum.kind}{counted}{subclass}:"


def _rest(datum: Datum) -> str:
    return f"... ({datum.length} in all)" if datum.cut else ""


def _cut(line: str, limit: int = _LONGEST) -> str:
    return line if len(line) <= limit else line[:limit] + "..."


def _called(one: CallableFact) -> str:
    name = one.qualname or one.name or ""
    return f"{one.module}.{name}" if one.module and name else name


def _no_file(module: ModuleFact) -> str:
    return f"no file ({module.origin})" if module.origin else "no file"
