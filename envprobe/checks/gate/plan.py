"""Who judges what a configuration expects: before a start, from files alone, or after it.

No expectation is judged here, and none is dropped: what a part cannot judge is listed with the
reason, and never counts as holding.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.config import (
    Config,
    Expectation,
    HookExpectation,
    KernelExpectation,
    PatchExpectation,
    Rule,
)
from envprobe.expectations import accepts
from envprobe.launch.definition import Definition
from envprobe.launch.entry import EntryLook
from envprobe.launch.steps import Python
from envprobe.launch.types import Kind, Remark
from envprobe.model import State
from envprobe.routes import writers

UNIT: Final = "unit"
STARTUP: Final = "trace-sitecustomize"
REHEARSAL: Final = "rehearse"
KERNEL: Final = "kernel"
WORKERS: Final = "workers"
"""A part has the name of the command that it is."""

_SEPARATORS: Final = re.compile(r"[/.:]")
_OF_ROLE: Final = "what a role is given is known once it runs"
_PEERS: Final = "workers are compared with each other"
_LOG: Final = "what NCCL reads is in its log"
_COUNT: Final = "workers are counted once they run"
_LIBRARY: Final = "a library is looked for where it is loaded"
_INTERPRETER: Final = "only the interpreter decides it"
_NOT_HERE: Final = "it is not on this machine, and may set other variables and values"
_NO_FILE: Final = (Kind.FILE_MISSING, Kind.FILE_OPTIONAL)
_GPU: Final = "only a compiler, and for the installed kernel a GPU, decides it"


UNASKED: Final = ("main-guard", "env-file")
"""What no configuration expects, and is listed all the same where files do not decide it."""


class Phase(str, enum.Enum):
    """What the gate looks at."""

    BEFORE = "before"
    STATIC = "static"
    LIVE = "live"


class Standing(str, enum.Enum):
    """Whether an expectation is judged in this phase."""

    JUDGED = "judged"
    AFTER = "only_after_the_start"
    FILES = "not_decided_by_files"


@dataclasses.dataclass(frozen=True, slots=True)
class Stand:
    """One expectation, and what becomes of it: `parts` judge it, else `reason` says why none does.

    `kind` is the key under [expect], or one of `UNASKED`; `name` is what something is expected of,
    with no value.
    """

    kind: str
    name: str
    origin: str
    standing: Standing
    parts: tuple[str, ...] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """All expectations with their standing, and what is handed to the parts before a start.

    `declared` is for what the definition hands over, `children` for what a rehearsed child has,
    `kernel` for the kernel's programs.
    """

    phase: Phase
    stands: tuple[Stand, ...]
    declared: tuple[Expectation, ...] = ()
    children: tuple[Expectation, ...] = ()
    hooks: tuple[HookExpectation, ...] = ()
    patches: tuple[PatchExpectation, ...] = ()
    kernel: KernelExpectation | None = None


def live(config: Config) -> Plan:
    """Return the plan for a running server, which shows all but the kernel."""

    def stands() -> Iterator[Stand]:
        for one in (*config.expectations, *config.nccl):
            kind = "env" if one in config.expectations else "nccl"
            yield Stand(kind, one.name, one.origin, Standing.JUDGED, (WORKERS,))
        for hook in config.hooks:
            yield Stand(hook.name, hook.name, hook.origin, Standing.JUDGED, (WORKERS,))
        for patch in config.patches:
            yield Stand("patch", patch.query, patch.origin, Standing.JUDGED, (WORKERS,))
        for stand in _of_the_server(config):
            yield dataclasses.replace(stand, standing=Standing.JUDGED, parts=(WORKERS,), reason="")
        yield from _of_the_kernel(config, Phase.LIVE)

    return Plan(Phase.LIVE, tuple(stands()), kernel=config.kernel)


def before(
    config: Config, phase: Phase, definition: Definition, looks: Iterable[EntryLook] = ()
) -> Plan:
    """Return the plan for a definition that is not started yet; `phase` is BEFORE or STATIC.

    `looks` are those at the files that its launches begin with.
    """
    variables = [(one, _variable(one, phase, definition)) for one in config.expectations]
    logged = [(one, _logged(one, definition)) for one in config.nccl]
    hooks = [(one, _hook(one, phase, definition)) for one in config.hooks]
    patches = [(one, _patch(one, phase)) for one in config.patches]
    stands = [stand for _, stand in (*variables, *logged, *hooks, *patches)]
    stands += [*_of_the_kernel(config, phase), *_of_the_server(config)]
    if phase is Phase.STATIC:
        stands += [_unread(one) for one in looks if one.reason]
        stands += [_lacking(one) for one in not_here(definition)]
    declared = [one for one, stand in (*variables, *logged) if UNIT in stand.parts]
    return Plan(
        phase,
        tuple(stands),
        declared=tuple(declared),
        children=tuple(one for one, stand in variables if REHEARSAL in stand.parts),
        hooks=tuple(one for one, stand in hooks if stand.parts),
        patches=tuple(one for one, stand in patches if stand.parts),
        kernel=None if phase is Phase.STATIC else config.kernel,
    )


def _variable(one: Expectation, phase: Phase, definition: Definition) -> Stand:
    stand = Stand("env", one.name, one.origin, Standing.JUDGED)
    if one.role or one.rule is Rule.SAME:
        reason = _OF_ROLE if one.role else _PEERS
        return dataclasses.replace(stand, standing=Standing.AFTER, reason=reason)
    static = phase is Phase.STATIC
    writer = _set_later(one, definition)
    if static and (reason := writer or _from_elsewhere(one.name, definition)):
        return dataclasses.replace(stand, standing=Standing.FILES, reason=reason)
    parts = () if writer else (UNIT,)
    # What the definition leaves open is open in a rehearsal of it too, which then shows nothing.
    known = writer or all(final.reading(one.name).known for final in definition.final)
    return dataclasses.replace(stand, parts=(*parts, REHEARSAL) if known and not static else parts)


def _set_later(one: Expectation, definition: Definition) -> str:
    """Return which framework may set what is expected and not declared, in words; "" if none."""
    if _declared(one.name, definition):
        return ""
    words = [word for launch in definition.launches for word in launch.argv]
    frameworks = {part for word in words for part in _SEPARATORS.split(word)}
    return writers.may_set(one.name, frameworks, lambda value: accepts(one, value) is True)


def _declared(name: str, definition: Definition) -> bool:
    states = {one.reading(name).state for one in definition.final}
    return bool(states - {State.ABSENT}) and any(one.entry(name) for one in definition.final)


def not_here(definition: Definition) -> tuple[Remark, ...]:
    """Return the environment files of a definition that are not on this machine."""
    return tuple(one for one in definition.remarks if one.kind in _NO_FILE)


def _lacking(remark: Remark) -> Stand:
    name = remark.about.partition(" does not exist")[0]
    return Stand("env-file", name, str(remark.place), Standing.FILES, reason=_NOT_HERE)


def _from_elsewhere(name: str, definition: Definition) -> str:
    """Return which environment file may set what the files here say nothing of, "" if none may."""
    lacking = not_here(definition)
    if not lacking or all(one.entry(name) is not None for one in definition.final):
        return ""
    return f"{_lacking(lacking[0]).name}, which is not on this machine, may set it"


def _logged(one: Expectation, definition: Definition) -> Stand:
    parts = (UNIT,) if not one.role and _declared(one.name, definition) else ()
    return Stand("nccl", one.name, one.origin, Standing.AFTER, parts, _LOG)


def _hook(one: HookExpectation, phase: Phase, definition: Definition) -> Stand:
    stand = Stand(one.name, one.name, one.origin, Standing.JUDGED)
    if one.role:
        return dataclasses.replace(stand, standing=Standing.AFTER, reason=_OF_ROLE)
    if phase is not Phase.STATIC:
        return dataclasses.replace(stand, parts=(STARTUP, REHEARSAL))
    if any(map(runs_no_hook, pythons(definition))):
        return dataclasses.replace(stand, parts=(UNIT,))
    return dataclasses.replace(stand, standing=Standing.FILES, reason=_INTERPRETER)


def pythons(definition: Definition) -> tuple[Python, ...]:
    """Return the interpreters that a definition starts outside of containers."""
    return tuple(
        one.python
        for one in definition.launches
        if one.python is not None and one.container is None
    )


def runs_no_hook(python: Python) -> bool:
    """Return whether an interpreter's own options say that it runs no hook at all (-S)."""
    return python.isolated("S")


def _patch(one: PatchExpectation, phase: Phase) -> Stand:
    stand = Stand("patch", one.query, one.origin, Standing.JUDGED)
    if one.role:
        return dataclasses.replace(stand, standing=Standing.AFTER, reason=_OF_ROLE)
    if phase is Phase.STATIC:
        return dataclasses.replace(stand, standing=Standing.FILES, reason=_INTERPRETER)
    return dataclasses.replace(stand, parts=(REHEARSAL,))


def _unread(look: EntryLook) -> Stand:
    name = f"main guard of {look.path}"
    return Stand("main-guard", name, "ExecStart=", Standing.FILES, reason=look.reason)


def _of_the_kernel(config: Config, phase: Phase) -> Iterator[Stand]:
    if config.kernel is not None:
        name = config.kernel.arch or "the GPU at hand"
        stand = Stand("kernel", name, config.kernel.origin, Standing.JUDGED, (KERNEL,))
        if phase is Phase.STATIC:
            stand = dataclasses.replace(stand, standing=Standing.FILES, parts=(), reason=_GPU)
        yield stand


def _of_the_server(config: Config) -> Iterator[Stand]:
    for role, number in config.workers.items():
        name = f"{number} {role or 'workers'}"
        yield Stand("workers", name, "[expect.workers]", Standing.AFTER, reason=_COUNT)
    for library in config.libraries:
        yield Stand("lib", library.pattern, library.origin, Standing.AFTER, reason=_LIBRARY)
