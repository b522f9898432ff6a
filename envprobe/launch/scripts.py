"""Following shell text: what it sets, and the command with which it ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from envprobe import inputfile
from envprobe.errors import UsageError
from envprobe.launch import shell
from envprobe.launch.shell import Command, ShellOpaqueError
from envprobe.launch.steps import State, is_python
from envprobe.launch.types import Place, Setting, Source
from envprobe.launch.words import is_name
from envprobe.values import Value

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=")
_HARMLESS: Final = frozenset(
    (":", "true", "echo", "printf", "mkdir", "chmod", "chown", "sleep", "date", "ulimit", "umask")
)
"""Commands that change no variable, and after which the text goes on."""

_SET_OPTIONS: Final = frozenset("aeuxvhbfmCo")
_MAX_SCRIPT: Final = 1 << 20
_DEEPEST: Final = 8

Words = Sequence[tuple[shell.Part, ...]]
Known = Sequence["str | None"]


class ShellRun:
    """Follows shell text, and the files that it sources; variables of the shell are kept apart.

    `every` says that each assignment is exported (`set -a`).
    """

    def __init__(self, state: State, *, every: bool = False) -> None:
        self.state = state
        self.every = every
        self.own: dict[str, str | None] = {}
        self.exported: list[str] = []
        self.depth = 0

    def text(self, text: str, arguments: Sequence[str], place: Place) -> list[str]:
        """Return the words of the command with which a text ends; ShellOpaqueError."""
        found = self._run(text, tuple(arguments), place)
        if found is None:
            raise ShellOpaqueError("it ends without starting anything", place.line)
        return found

    def _run(self, text: str, arguments: tuple[str, ...], place: Place) -> list[str] | None:
        file = place.file
        first = 0 if place.line <= 1 else place.line - 1
        self.state.place = place
        try:
            commands = shell.parse(text)
        except ShellOpaqueError as error:
            raise ShellOpaqueError(error.reason, first + error.line) from None
        for number, command in enumerate(commands, 1):
            self.state.place = Place(file, first + command.line)
            found = self._command(command, arguments, last=number == len(commands))
            if found is not None:
                return found
        return None

    def look(self, name: str) -> str | None:
        """Return a variable of the shell, or of its environment."""
        return self.own[name] if name in self.own else self.state.look(name)

    def _opaque(self, reason: str) -> ShellOpaqueError:
        return ShellOpaqueError(reason, self.state.place.line)

    def _command(
        self, command: Command, arguments: tuple[str, ...], *, last: bool
    ) -> list[str] | None:
        words = list(command.words)
        given: list[tuple[str, str | None]] = []
        while words and (found := self.assignment(words[0], arguments)) is not None:
            given.append(found)
            words.pop(0)
        if not words:
            for name, value in given:
                self.assign(name, value)
            return None
        known = [one for word in words for one in shell.expand(word, self.look, arguments)]
        program = known[0] if known else ""
        if program is None:
            raise self._opaque("which program is run depends on a variable that is not known")
        if program == "exec" and len(known) > 1:
            for name, value in given:
                self.export(name, value)
        if program in _BUILTINS:
            return _BUILTINS[program](self, words, known, arguments)
        if program in _HARMLESS and not last:
            return None
        for name, value in given:
            self.export(name, value)
        return self.start(known, replaced=False) if last else self._refuse(program)

    def _refuse(self, program: str) -> list[str]:
        raise self._opaque(f"what `{program}` does has to be run to be known")

    def start(self, known: Sequence[str | None], *, replaced: bool) -> list[str]:
        """Return the words of the command that is started: by exec, or as a child."""
        if any(one is None for one in known):
            raise self._opaque("a word of the command depends on a variable that is not known")
        how = "hands over by exec" if replaced else "stays, and starts the next one as its child"
        argv = [one for one in known if one is not None]
        self.state.hop("shell text", self._told(how, argv[0]), child=not replaced)
        return argv

    def _told(self, how: str, program: str) -> str:
        """Return how it goes on, with what this text exports and who gets it."""
        has = self.state.builder.has
        names = [name for name in dict.fromkeys(self.exported) if is_name(name) and has(name)]
        if not names:
            return how
        who = "the interpreter and its children get" if is_python(program) else "the next one gets"
        return f"exports {', '.join(names)} and {how}: {who} what it exports"

    def assignment(
        self, word: tuple[shell.Part, ...], arguments: tuple[str, ...]
    ) -> tuple[str, str | None] | None:
        """Return the name and value of a word that assigns; None for another one."""
        head = ""
        for part in word:
            if part.quoted or part.reference is not None:
                break
            head += part.text
        found = _ASSIGNMENT.match(head)
        if found is None:
            return None
        whole = shell.joined(word, self.look, arguments)
        return found[1], None if whole is None else whole[found.end() :]

    def assign(self, name: str, value: str | None) -> None:
        """Set a variable of the shell; one that is exported already stays so."""
        if self.every or self.state.builder.has(name):
            self.export(name, value)
        else:
            self.own[name] = value

    def export(self, name: str, value: str | None) -> None:
        """Set a variable of the environment."""
        self.own.pop(name, None)
        self.exported.append(name)
        reason = "" if value is not None else "it depends on a variable that is not known"
        raw = None if value is None else Value(value.encode("utf-8", "surrogateescape"))
        place = self.state.place
        self.state.builder.set(Setting(name, raw, Source.COMMAND, place, reason))

    # --- what the shell does itself

    def _do_export(
        self,
        words: Words,
        known: Known,
        arguments: tuple[str, ...],
    ) -> None:
        for word in words[1:]:
            given = self.assignment(word, arguments)
            if given is None:
                name, equals, value = (shell.joined(word, self.look, arguments) or "-").partition(
                    "="
                )
                if name.startswith("-"):
                    raise self._opaque("`export` with options or unknown names")
                if not equals and name not in self.own:
                    continue
                given = name, value if equals else self.own[name]
            self.export(*given)

    def _do_unset(
        self,
        words: Words,
        known: Known,
        arguments: tuple[str, ...],
    ) -> None:
        for name in known[1:]:
            if name is None or (name.startswith("-") and name != "-v"):
                raise self._opaque("`unset` with options or unknown names")
            self.own.pop(name, None)
            if name != "-v":
                self.state.builder.remove(name, self.state.place)

    def _do_set(
        self,
        words: Words,
        known: Known,
        arguments: tuple[str, ...],
    ) -> None:
        rest = list(known[1:])
        while rest:
            word = rest.pop(0)
            if not word or word[0] not in "-+" or not set(word[1:]) <= _SET_OPTIONS:
                raise self._opaque("`set` changes the positional parameters")
            if "o" in word[1:]:
                option = rest.pop(0) if rest else None
                self.every = (word[0] == "-") if option == "allexport" else self.every
            if "a" in word[1:]:
                self.every = word[0] == "-"

    def _do_cd(
        self,
        words: Words,
        known: Known,
        arguments: tuple[str, ...],
    ) -> None:
        if len(known) != 2 or known[1] is None or known[1].startswith("-"):
            raise self._opaque("where `cd` leads is not known")
        self.state.enter(known[1])

    def _do_exec(
        self,
        words: Words,
        known: Known,
        arguments: tuple[str, ...],
    ) -> list[str] | None:
        if len(known) == 1:
            return None
        if known[1] is not None and known[1].startswith("-"):
            raise self._opaque("`exec` with options")
        return self.start(known[1:], replaced=True)

    def _do_source(
        self,
        words: Words,
        known: Known,
        arguments: tuple[str, ...],
    ) -> list[str] | None:
        path = known[1] if len(known) == 2 else None
        if path is None or "/" not in path:
            raise self._opaque("which file is sourced is not known")
        here, full = self.state.place, self.state.path(path)
        if self.depth >= _DEEPEST:
            raise self._opaque("files source each other too deeply")
        try:
            raw = inputfile.read(full, _MAX_SCRIPT, remedy="")
        except (OSError, UsageError):
            raise self._opaque(f"{full} cannot be read on this machine") from None
        self.depth += 1
        found = self._run(raw.decode("utf-8", "surrogateescape"), arguments, Place(full, 1))
        self.depth -= 1
        self.state.place = here
        return found


_Builtin = Callable[[ShellRun, Words, Known, tuple[str, ...]], "list[str] | None"]
_BUILTINS: Final[dict[str, _Builtin]] = {
    "export": ShellRun._do_export,
    "unset": ShellRun._do_unset,
    "set": ShellRun._do_set,
    "cd": ShellRun._do_cd,
    "exec": ShellRun._do_exec,
    "source": ShellRun._do_source,
    ".": ShellRun._do_source,
}
