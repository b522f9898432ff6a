"""All hooks of one start in the order in which they run, and what became of each.

The trace says what ran and how it ended; the walk adds what never had its turn; the interpreter's
own word after start-up (`effects`) decides where a hook has spoilt the trace.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

from envprobe.startup import lines, owners
from envprobe.startup.result import Effects, Hook, Outcome, Run
from envprobe.startup.types import (
    MODULES,
    USERCUSTOMIZE,
    Candidate,
    FileRun,
    Imported,
    Kind,
    Launch,
    Raised,
    StartupFile,
    Trace,
    Walk,
)

_FAILED: Final = "failed: "
"""How payload/hook_template.py begins what it records of a hook or a patch that raised."""

_NO_SITE: Final = "-S: site is not imported at start, and so no hook runs"
_SILENT: Final = (
    "it raised an ImportError that names {0} itself, such as `import {0}.x`: site takes that for"
    " the absence of the hook and says nothing"
)
_NOT_LOADABLE: Final = (
    "it is an extension module that the interpreter cannot load: site takes the ImportError for the"
    " absence of the hook and says nothing"
)
_NO_REASON: Final = (
    "its import raised an ImportError that names {0} itself: site takes that for the absence of the"
    " hook and says nothing"
)
_OTHER_VERSION: Final = (
    "it is bytecode of another version of Python: site takes the ImportError for the absence of"
    " the hook and says nothing"
)
_REST_IGNORED: Final = "a line before it raised, and the rest of such a file is ignored"
_SUPPRESSED: Final = "a .start file of the same name takes the place of its import lines (PEP 829)"
_BEFORE: Final = "the interpreter had ended before"
_ALREADY: Final = "it was imported by a startup file before site would have done so"


class Observed:
    """What was seen of one start.

    `last_read` is the startup file with which the walk of sys.path ended, "" if it did not.
    """

    def __init__(
        self,
        launch: Launch,
        run: Run,
        trace: Trace,
        walk: Walk | None,
        effects: Effects | None,
        last_read: str = "",
    ) -> None:
        self.launch = launch
        self.run = run
        self.trace = trace
        self.walk = walk
        self.effects = effects
        # CPython 3.9 does not say in its trace which files it reads.
        self._files = dict(trace.files)
        if last_read:
            self._files.setdefault(last_read, FileRun(last_read))

    def hooks(self) -> tuple[Hook, ...]:
        """Return all hooks; sitecustomize and usercustomize are always among them."""
        return (*self._startup_files(), *(self._module(module) for module in MODULES))

    # --- .pth and .start

    def _startup_files(self) -> Iterator[Hook]:
        if self.walk is None:
            yield from self._traced_files()
            return
        files = self.walk.files
        # PEP 829: all import lines run before all entry points.
        for file in sorted(files, key=lambda one: one.entry_points):
            yield from self._lines(file)

    def _traced_files(self) -> Iterator[Hook]:
        """Yield what the trace alone says, where the same files have stopped the walk too."""
        for path, told in self._files.items():
            outcome, reason = Outcome.RAN, ""
            if told.raised is not None:
                outcome = Outcome.RAISED
            elif self._stopped_in(path):
                outcome, reason = self._unfinished(path)
            yield Hook(
                name=path,
                outcome=outcome,
                path=path,
                line=told.line,
                text=lines.outline(told.text) if told.text else "",
                cumulative_us=told.cumulative_us if outcome is Outcome.RAN else None,
                raised=told.raised,
                reason=reason,
                owner=owners.tool_of(path),
            )

    def _stopped_in(self, path: str) -> bool:
        """Return whether site came no further than this startup file."""
        return not self._got_to_modules() and [*self._files][-1:] == [path]

    def _lines(self, file: StartupFile) -> Iterator[Hook]:
        told = self._files.get(file.file.path)
        stops = not file.entry_points and self.walk is not None and self.walk.version < (3, 15)
        raised = False
        for number, text in file.lines:
            outcome, reason, error = Outcome.RAN, "", None
            if self.launch.has_flag("S"):
                outcome, reason = Outcome.DISABLED, _NO_SITE
            elif file.suppressed:
                outcome, reason = Outcome.SUPPRESSED, _SUPPRESSED
            elif raised and stops:
                outcome, reason = Outcome.SUPPRESSED, _REST_IGNORED
            elif told is not None and told.raised and (told.line or text) in (number, told.text):
                outcome, error, raised = Outcome.RAISED, told.raised, True
            elif told is None or self._stopped_in(file.file.path):
                outcome, reason = self._unfinished(file.file.path)
            yield Hook(
                name=file.file.path,
                outcome=outcome,
                path=file.file.path,
                line=number,
                text=lines.outline(text),
                cumulative_us=told.cumulative_us if told and outcome is Outcome.RAN else None,
                raised=error,
                reason=reason,
                files=self._files_of(text),
                owner=file.file.owner or owners.tool_of(file.file.path),
            )

    def _got_to_modules(self) -> bool:
        """Return whether site had done all startup files."""
        seen = any(one.ended or one.path for one in self.trace.imports.values())
        return seen or self.trace.site_done or self.effects is not None

    def _files_of(self, text: str) -> tuple[str, ...]:
        """Return the files of the modules that a line imports and that are loaded."""
        loaded = self.effects.modules if self.effects is not None else {}
        return tuple(file for name in lines.modules(text) for file in loaded.get(name, ()))

    def _unfinished(self, path: str) -> tuple[Outcome, str]:
        """Return the outcome of a startup file that did not come to its end as far as is known."""
        if self._got_to_modules():
            return Outcome.RAN, ""
        if path not in self._files:
            return Outcome.UNKNOWN, _BEFORE if self._files else ""
        fatal = self.trace.fatal
        if fatal is not None:
            what = f"{fatal.type}: {fatal.message}" if fatal.message else fatal.type
            return Outcome.ENDED, f"the interpreter ended in it, by {what}"
        return self._how_it_ended()

    def _how_it_ended(self) -> tuple[Outcome, str]:
        """Return the outcome of what was running when the interpreter came to no good end."""
        if self.run.stopped == "time":
            return Outcome.STOPPED, f"it had not ended after {self.run.seconds:.0f} s"
        if self.run.stopped:
            return Outcome.STOPPED, "it started processes without end"
        code = self.run.code
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return Outcome.ENDED, f"the interpreter ended in it, {how}"

    # --- sitecustomize and usercustomize

    def _module(self, module: str) -> Hook:
        told = self.trace.imports[module]
        outcome, reason = self._outcome(module, told)
        path = told.path or self._loaded(module) or ""
        if not path and outcome in (Outcome.SILENT, Outcome.RAN, Outcome.RAISED):
            path = self._walked(module)
        return Hook(
            name=module,
            outcome=outcome,
            path=path,
            kind=self._kind(told, path),
            code=told.code,
            self_us=told.self_us if path else None,
            cumulative_us=told.cumulative_us if path else None,
            raised=told.raised,
            reason=reason,
            confirmed=self._loaded(module) is not None,
            owner=self._owner(module, path),
            agent=owners.agent_of(path),
            chained=told.chained,
            chained_raised=self._chained_raised(told),
        )

    def _chained_raised(self, told: Imported) -> dict[str, Raised]:
        """Return what chained hooks raised: by the trace, else by the hook that has run them."""
        found = dict(told.chained_raised)
        recorded = self.effects.chained if self.effects is not None else {}
        for path, state in recorded.items():
            if state.startswith(_FAILED) and self._is_of(path, told.module):
                kind, _, message = state.removeprefix(_FAILED).partition(": ")
                found.setdefault(path, Raised(kind, message))
        return found

    def _is_of(self, path: str, module: str) -> bool:
        name = posixpath.basename(path)
        name = posixpath.basename(posixpath.dirname(path)) if name[:9] == "__init__." else name
        return name.partition(".")[0] == module

    def _outcome(self, module: str, told: Imported) -> tuple[Outcome, str]:
        if (reason := self.disabled(module)) and not told.path:
            return Outcome.DISABLED, reason
        if told.raised is not None:
            if self.trace.fatal is not None or told.raised.type in ("SystemExit",):
                return Outcome.ENDED, f"{told.raised.type} ends the interpreter"
            return Outcome.RAISED, ""
        if told.kind is Kind.NAMESPACE and told.finished:
            return Outcome.NAMESPACE, "it is a directory without code"
        if told.finished or self._loaded(module) is not None:
            early = self.walk is not None and module in self.walk.loaded
            return Outcome.RAN, _ALREADY if early else ""
        if told.ended:
            return self._silent(module, told)
        if told.path:
            return self._how_it_ended()
        if self.trace.site_done or self.effects is not None:
            return Outcome.ABSENT, ""
        return self._never_reached(module)

    def _silent(self, module: str, told: Imported) -> tuple[Outcome, str]:
        if told.path:
            return Outcome.SILENT, _SILENT.format(module)
        winner = self._winner(module)
        if winner is None:
            return Outcome.ABSENT, ""
        why = {Kind.EXTENSION: _NOT_LOADABLE, Kind.SOURCELESS: _OTHER_VERSION}
        return Outcome.SILENT, why.get(winner.kind, _NO_REASON).format(module)

    def _never_reached(self, module: str) -> tuple[Outcome, str]:
        before = MODULES[: MODULES.index(module)]
        begun = any(self.trace.imports[one].path for one in before) or bool(self._files)
        return Outcome.UNKNOWN, _BEFORE if begun else "the interpreter did not come so far"

    def disabled(self, module: str) -> str:
        """Return why site does not import a hook at all, "" if it does."""
        if self.launch.has_flag("S"):
            return _NO_SITE
        if module != USERCUSTOMIZE or self.walk is None:
            return ""
        return no_user_site(self.walk, self.launch)

    def _loaded(self, module: str) -> str | None:
        """Return the origin of a module that is in sys.modules after start-up, else None."""
        loaded: Mapping[str, str] = self.effects.loaded if self.effects is not None else {}
        return loaded.get(module)

    def _winner(self, module: str) -> Candidate | None:
        return self.walk.winner(module) if self.walk is not None else None

    def _walked(self, module: str) -> str:
        winner = self._winner(module)
        return winner.file.path if winner is not None else ""

    def _kind(self, told: Imported, path: str) -> Kind | None:
        winner = self._winner(told.module)
        if told.kind is Kind.OTHER and winner is not None and winner.file.path == path:
            return winner.kind
        return told.kind if path else None

    def _owner(self, module: str, path: str) -> str:
        candidates = self.walk.of(module) if self.walk is not None else ()
        return next((one.file.owner for one in candidates if one.file.path == path), "")


def no_user_site(walk: Walk, launch: Launch) -> str:
    """Return why the user's site directory, and so usercustomize, does not count; "" if it does."""
    if walk.user_site_enabled:
        return ""
    if walk.user_site_enabled is None:
        return "the user and the effective user differ: the user site does not count"
    for letter in "sI":
        if launch.has_flag(letter):
            return f"-{letter}: the user site does not count"
    if not launch.ignores_variables and launch.environment.get("PYTHONNOUSERSITE"):
        return "PYTHONNOUSERSITE: the user site does not count"
    if walk.in_venv:
        return "a virtual environment without system packages has no user site"
    return "site.ENABLE_USER_SITE is false"
