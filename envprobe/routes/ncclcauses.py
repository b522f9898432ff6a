"""Why NCCL has read another value than a process's C environ holds now, and where values are from.

What the C environ says is later than what NCCL read: a change since then always fits, unless what
was there from the start is known and is neither.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Final

from envprobe.model import Process, Reading, Sentence, Shown, State
from envprobe.nccl.facts import Wording
from envprobe.nccl.params import Version
from envprobe.nccl.values import interpret
from envprobe.ncclfacts import NcclLog, Read, Setting
from envprobe.routes.case import Verdict, state
from envprobe.routes.hops import way_to
from envprobe.routes.types import Cause, NcclCauseId
from envprobe.routes.witnesses import Family, same
from envprobe.routes.writers import known_writers
from envprobe.values import Value

_ENV_PLUGINS: Final = (2, 28, 7)
_DEFAULT_PLUGIN: Final = "ncclEnvDefault"
_PLUGIN: Final = re.compile(r"ENV/Plugin: (?:Using|Closing env plugin) (\S+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Late:
    """One variable of which NCCL read `read`, and the C environ says `live` now."""

    name: str
    process: Process
    family: Family
    log: NcclLog
    read: Read
    live: Reading
    version: Version | None


def weigh(case: Late) -> tuple[tuple[Cause, ...], tuple[Cause, ...]]:
    """Return the causes that fit, the likeliest first, and those that evidence rules out."""
    verdicts = [
        verdict
        for rule in (_net_plugin, _changed_later, _conf_file, _env_plugin, _second_copy)
        for verdict in rule(case)
    ]
    fitting = [one.cause for one in verdicts if one.fits]
    fitting.sort(key=lambda one: len(one.evidence_against) - len(one.evidence_for))
    return tuple(fitting), tuple(one.cause for one in verdicts if not one.fits)


def _changed_later(case: Late) -> Iterator[Verdict]:
    process, name = case.process, case.name
    done = "removed" if case.live.state is State.ABSENT else "set or changed"
    told = [
        Sentence.of(
            f"What {process.named} has in its C environ now is later than what NCCL read: ",
            *state(name, case.live),
            ".",
        )
    ]
    at_exec = case.family.at_exec(process, name)
    against = []
    if at_exec.known:
        source = f" (read from: {at_exec.source})" if at_exec.source else ""
        had = (f"{process.named} had ", *state(name, at_exec), f" at its exec{source}")
        if same(at_exec, case.live):
            against.append(Sentence.of(*had, ": it must have been changed and changed back."))
        elif _is_read(case, at_exec):
            told.append(Sentence.of(*had, ", as NCCL read it."))
    known = writer(case)
    if known:
        told.append(Sentence.of(f"{known}."))
    yield _cause(
        NcclCauseId.CHANGED_AFTER_READ,
        f"Code in {process.named} {done} {name} after NCCL had read it, which NCCL does not see.",
        tuple(told),
        f"Set {name} before NCCL starts: in the launch environment, or before torch.distributed"
        " is initialised.",
        tuple(against),
    )


def _conf_file(case: Late) -> Iterator[Verdict]:
    setting = _setting(case.log, case.name)
    if setting is None or _printed(case.name, setting.value, case.version) != case.read.value:
        return
    yield _cause(
        NcclCauseId.CONF_FILE,
        f"NCCL took {case.name} from {setting.path}, and code in {case.process.named} changed it"
        " later.",
        (_in_file(setting),),
        f"Mend {setting.path}, or set {case.name} in the launch environment, which wins over it.",
    )


def _net_plugin(case: Late) -> Iterator[Verdict]:
    written = [one for one in case.log.reads if _is_written(one, case.name)]
    for one in written[-1:]:
        yield _cause(
            NcclCauseId.NET_PLUGIN,
            f"The plugin {one.source} set {case.name} while NCCL started.",
            (_line(one),),
            f"Set {case.name} in the launch environment: look in the plugin's manual whether it"
            " then leaves it alone.",
        )


def _env_plugin(case: Late) -> Iterator[Verdict]:
    sentence = f"An environment plugin answered NCCL's question for {case.name}."
    foreign = foreign_plugin(case.log)
    if foreign:
        told = Sentence.of(f"The log says that NCCL uses the environment plugin {foreign}.")
        yield _cause(
            NcclCauseId.ENV_PLUGIN,
            sentence,
            (told,),
            "Unset NCCL_ENV_PLUGIN, or change the value where the plugin takes it from.",
        )
        return
    reason = ""
    if case.version is not None and case.version < _ENV_PLUGINS:
        reason = "This version of NCCL has no environment plugins (2.28.7 and later have)."
    elif case.log.plugins:
        reason = "The log says that no environment plugin was found."
    if reason:
        made = Cause(NcclCauseId.ENV_PLUGIN, Sentence.of(sentence), (), (Sentence.of(reason),))
        yield Verdict(made, fits=False)


def _second_copy(case: Late) -> Iterator[Verdict]:
    libraries = case.process.libraries
    copies = libraries.nccl if libraries is not None else ()
    if len(copies) < 2:
        return
    those = " and ".join(one.words for one in copies)
    yield _cause(
        NcclCauseId.SECOND_COPY,
        f"One of the {len(copies)} copies of NCCL in {case.process.named} read {case.name} at"
        " another time than the other.",
        (Sentence.of(f"It has loaded {those}; each reads its variables on its own."),),
        "Load one libnccl only: look at LD_PRELOAD, VLLM_NCCL_SO_PATH and SGLANG_NCCL_SO_PATH.",
    )


def _cause(
    identity: NcclCauseId,
    sentence: str,
    told: tuple[Sentence, ...],
    remedy: str,
    against: tuple[Sentence, ...] = (),
) -> Verdict:
    return Verdict(Cause(identity, Sentence.of(sentence), told, against, Sentence.of(remedy)))


def _is_read(case: Late, at_exec: Reading) -> bool:
    value = at_exec.value
    return value is not None and _printed(case.name, value, case.version) == case.read.value


# --- where a value is from -----------------------------------------------------------------------


def origin(name: str, process: Process, family: Family, read: Read) -> tuple[Sentence, ...]:
    """Return where a value that NCCL calls "set by environment" may be from.

    Nothing is said of what the process, or one above it, was started with.
    """
    log = process.nccl
    given = (family.at_exec(one, name) for one in way_to(process, family.by_pid).processes)
    if log is None or any(one.state is State.VALUE for one in given):
        return ()
    return tuple(_origin(name, process, family, log, read))


def _origin(
    name: str, process: Process, family: Family, log: NcclLog, read: Read
) -> Iterator[Sentence]:
    foreign = foreign_plugin(log)
    if foreign:
        yield Sentence.of(f"The environment plugin {foreign} answers for every variable.")
    for one in [one for one in log.reads if _is_written(one, name)][-1:]:
        yield Sentence.of(f"{one.source} wrote it: ", *_where(one), ".")
    setting = _setting(log, name)
    if setting is not None and _printed(name, setting.value, None) == read.value:
        yield _in_file(setting)
    for known in known_writers(name, read.value, process, family):
        yield Sentence.of(f"{known}.")


def foreign_plugin(log: NcclLog) -> str:
    """Return the environment plugin that NCCL says it uses, "" for none and for its own."""
    for line in log.plugins:
        found = _PLUGIN.search(line)
        if found and found.group(1) != _DEFAULT_PLUGIN:
            return found.group(1)
    return ""


def writer(case: Late) -> str:
    """Return which framework code writes what the C environ has now, "" if none is known."""
    if case.live.value is None:
        return ""
    return next(known_writers(case.name, case.live.value, case.process, case.family), "")


def _setting(log: NcclLog, name: str) -> Setting | None:
    return next((one for one in log.settings if one.name == name), None)


def _in_file(one: Setting) -> Sentence:
    return Sentence.of(
        f"{one.path}:{one.line} says {one.name}=",
        Shown(one.name, one.value),
        ", and NCCL puts into the environment what that file says and nothing else has set.",
    )


def _is_written(one: Read, name: str) -> bool:
    return one.name == name and one.wording == Wording.WRITTEN.value


def _line(one: Read) -> Sentence:
    return Sentence.of(f"{one.source} says so in ", *_where(one), ".")


def _where(one: Read) -> tuple[str | Shown, ...]:
    return (f"{one.file}:{one.line}, {one.name}=", Shown(one.name, one.value))


def _printed(name: str, value: Value, version: Version | None) -> Value | None:
    """Return the text by which NCCL's line would show a value."""
    if value.truncated:
        return None
    printed = interpret(name, os.fsdecode(value.reveal()), version).printed
    return None if printed is None else Value(os.fsencode(printed))
