"""The definition behind a running server, as a scan carries it: `UnitFacts` and a declared view."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from envprobe.launch.declared import Declared
from envprobe.launch.definition import Definition
from envprobe.launch.live import Live, modified, touched
from envprobe.launch.steps import Hop, Launch
from envprobe.launch.types import Entry, Source
from envprobe.model import Confidence, Environment, EnvironmentStatus, View
from envprobe.unitfacts import Entry as Said
from envprobe.unitfacts import Hop as Step
from envprobe.unitfacts import UnitFacts
from envprobe.values import Value

Wanted = Callable[[str], bool]

_BY_SHELLS: Final = ("PWD", "OLDPWD", "SHLVL", "_")
"""What every shell sets anew: nobody means it by naming it."""

_INSIDE_SHELL: Final = "shell text"
_SEVERAL: Final = "the unit has several commands, and which one runs is not known"
_NONE: Final = "the unit has no command that can be told"


def names_of(definition: Definition) -> tuple[str, ...]:
    """Return the variables that a unit, or a wrapper of its command, speaks of."""
    return tuple(
        dict.fromkeys(
            one.setting.name
            for one in (*definition.declared.written, *_by_wrappers(_launch(definition)))
        )
    )


def facts_of(
    definition: Definition, wanted: Wanted = lambda _: True, *, asked: bool = False
) -> UnitFacts:
    """Return what a scan keeps of a definition: of what the manager adds, only what is `wanted`.

    `asked`: the user named the unit. For a definition without a manager all of it is unset.
    """
    live, launch = definition.live, _launch(definition)
    named = frozenset(names_of(definition))
    declared = tuple(_said(definition.declared.entries, named, wanted))
    handed, opaque = _handed(definition, launch, declared, named, wanted)
    scripts = _scripts(definition, launch)
    times = {path: at for path in scripts if (at := modified(path)) is not None}
    every = (*definition.files, *definition.env_files, *scripts)
    facts = UnitFacts(
        name=definition.subject,
        user_manager=definition.user_manager,
        asked=asked,
        files=definition.files,
        env_files=definition.env_files,
        scripts=scripts,
        modified={**definition.modified, **times},
        touched={path: at for path in every if (at := touched(path)) is not None},
        on_disk=_on_disk(definition.declared),
        declared=declared,
        handed=handed,
        open=definition.declared.open,
        hops=tuple(_step(one) for one in launch.hops) if launch is not None else (),
        program=_program(launch),
        opaque=opaque,
        pam="PAM" in definition.declared.open,
    )
    return facts if live is None else _with_live(facts, live)


def view_of(definition: Definition, wanted: Wanted = lambda _: True) -> Environment:
    """Return the declared view: what systemd hands to the first program of a unit.

    What is written counts also where it may be overridden by something that cannot be read: the
    view is then inferred. Values are kept where the name is `wanted`.
    """
    declared = definition.declared
    there = [one for one in declared.entries if one.removed is None]
    sure = {one.setting.name: one.setting.value for one in there if one.setting.value is not None}
    unsure = [one.doubt or one.setting.reason for one in there if not one.known]
    lacking = [one.setting.reason for one in there if one.setting.value is None]
    partial = declared.open or next(iter(lacking), "")
    inferred = unsure or any(one.setting.confidence is Confidence.INFERRED for one in there)
    return Environment(
        View.DECLARED,
        EnvironmentStatus.PARTIAL if partial else EnvironmentStatus.COMPLETE,
        {name: value if wanted(name) else None for name, value in sure.items()},
        source=", ".join(definition.files[:1]) or definition.subject,
        at=declared.at,
        confidence=Confidence.INFERRED if inferred else Confidence.PROVED,
        reason=partial,
        remedy="Run envprobe as root or as the user of the service." if partial else "",
    )


# --- what is handed over -------------------------------------------------------------------------


def _launch(definition: Definition) -> Launch | None:
    return definition.launches[0] if len(definition.launches) == 1 else None


def _by_wrappers(launch: Launch | None) -> Iterator[Entry]:
    for one in launch.declared.entries if launch is not None else ():
        if one.setting.source is Source.COMMAND and one.setting.name not in _BY_SHELLS:
            yield one


def _scripts(definition: Definition, launch: Launch | None) -> tuple[str, ...]:
    """Return the files, beside those of the unit, that say what the command does."""
    if launch is None:
        return ()
    known = {*definition.files, *definition.env_files, ""}
    found = [one.place.file for one in launch.hops] + [launch.opaque_at.file]
    return tuple(dict.fromkeys(path for path in found if path not in known))


def _said(entries: Iterable[Entry], named: frozenset[str], wanted: Wanted) -> Iterator[Said]:
    for one in entries:
        setting = one.setting
        if setting.name not in named and not wanted(setting.name):
            continue
        place = str(setting.place)
        yield Said(
            name=setting.name,
            value=setting.value,
            source=setting.source.value,
            given=setting.source.given and setting.name not in named,
            file=setting.place.file,
            place=place,
            removed=str(one.removed) if one.removed is not None else "",
            doubt=one.doubt or setting.reason,
        )


def _handed(
    definition: Definition,
    launch: Launch | None,
    declared: tuple[Said, ...],
    named: frozenset[str],
    wanted: Wanted,
) -> tuple[tuple[Said, ...], str]:
    """Return what the main process is handed behind the wrappers, and why that is not known.

    A wrapper that stays is the main process: what it and those behind it change comes later.
    """
    if launch is None:
        reason = _SEVERAL if definition.launches else _NONE
        return _doubted(declared, reason), reason
    if launch.opaque:
        reason = f"{launch.opaque_at}: {launch.opaque}"
        return _doubted(declared, f"could not tell at {reason}"), reason
    stays = next((number for number, one in enumerate(launch.hops) if one.child), None)
    if stays is None:
        return tuple(_said(launch.declared.entries, named, wanted)), ""
    if launch.hops[stays].program == _INSIDE_SHELL:
        stays -= 1
    if stays <= 0:
        return declared, ""
    reason = f"what is changed before {launch.hops[stays].program} is not told from what follows"
    behind = {one.name: one for one in _said(launch.declared.entries, named, wanted)}
    unsure = _doubted([one for one in declared if behind.get(one.name) != one], reason)
    again = {one.name: one for one in unsure}
    return tuple(again.get(one.name, one) for one in declared), ""


def _doubted(entries: Iterable[Said], reason: str) -> tuple[Said, ...]:
    return tuple(dataclasses.replace(one, removed="", doubt=reason) for one in entries)


def _on_disk(declared: Declared) -> dict[str, Value | None]:
    """Return what the Environment= lines of the files say, the last one for each name."""
    return {
        setting.name: setting.value
        for entry in declared.entries
        for setting in (*entry.overridden, entry.setting)
        if setting.source is Source.ENVIRONMENT
    }


def _step(hop: Hop) -> Step:
    return Step(hop.program, str(hop.place), hop.told, hop.child)


def _program(launch: Launch | None) -> str:
    if launch is None:
        return ""
    if launch.python is not None:
        return launch.python.interpreter
    return launch.argv[0] if launch.argv else ""


def _with_live(facts: UnitFacts, live: Live) -> UnitFacts:
    loaded = {
        name: Value(text.encode("utf-8", "surrogateescape")) for name, text in live.loaded.items()
    }
    return dataclasses.replace(
        facts,
        name=live.name,
        active=live.active,
        sub=live.sub,
        result=live.result,
        code=live.code,
        load_state=live.load_state,
        load_error=live.load_error,
        restarts=live.restarts,
        job=live.job,
        need_reload=live.need_reload,
        main_pid=live.main_pid,
        started=live.started,
        active_since=live.active_since,
        state_changed=live.state_changed,
        drop_ins=live.drop_ins,
        loaded=loaded,
    )
