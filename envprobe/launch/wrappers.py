"""Programs that start another one: what each does to the environment on the way.

Each function takes the words of such a program and returns those of the next; what it does not know
is an OpaqueError. Sources: the programs' manual pages, named where the rule is not obvious.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Final

from envprobe import tables
from envprobe.launch import jobs, options, pythonenvs
from envprobe.launch.declared import setting
from envprobe.launch.options import OpaqueError
from envprobe.launch.steps import State
from envprobe.launch.types import Setting, Source

Words = Sequence[str]


def is_plain(program: str) -> bool:
    """Return whether a program is one that passes its environment on as it is."""
    row = options.rows().get(program)
    return row is not None and row["peel"] == "plain"


def plain(state: State, words: Words) -> Words:
    """Follow a program that passes its environment on as it is: nice, taskset, numactl, ..."""
    program = posixpath.basename(words[0])
    row = options.rows()[program]
    taken = options.of(program, words[1:])
    rest = taken.rest[row["positional"] :]
    if not rest:
        raise OpaqueError(f"{program} is given no command")
    told = "passes its environment on"
    for name in row.get("sets", ()):
        reason = f"{program} sets it"
        state.builder.set(Setting(name, None, Source.COMMAND, state.place, reason))
        told += f", and sets {name}"
    state.hop(program, told)
    return rest


def env(state: State, words: Words) -> Words:
    """Follow `env` of coreutils (env(1))."""
    given = list(words[1:])
    emptied = given[:1] == ["-"]
    taken = options.of("env", given[1:] if emptied else given)
    told = []
    if emptied or taken.has("-i", "--ignore-environment"):
        state.builder.clear(state.place)
        state.open = ""
        told.append("starts with an empty environment")
    for name in taken.values("-u", "--unset"):
        state.builder.remove(name, state.place)
        told.append(f"removes {name}")
    for folder in taken.values("-C", "--chdir"):
        state.enter(folder)
    rest = list(taken.rest)
    for text in reversed(taken.values("-S", "--split-string")):
        if set(text) & set("'\"\\$#"):
            raise OpaqueError("env -S is given quotes, escapes or variables")
        rest = [*text.split(), *rest]
    rest, names = assignments(state, rest)
    if names:
        told.append(f"sets {', '.join(names)}")
    state.hop("env", " and ".join(told) or "passes its environment on")
    return rest


def assignments(state: State, words: Words) -> tuple[list[str], list[str]]:
    """Take NAME=VALUE words off the front; return the rest and the names."""
    rest, names = list(words), []
    while rest and "=" in rest[0] and not rest[0].startswith("="):
        name, _, value = rest.pop(0).partition("=")
        state.builder.set(setting(name, value, Source.COMMAND, state.place))
        names.append(name)
    return rest, names


def setpriv(state: State, words: Words) -> Words:
    """Follow `setpriv` (setpriv(1)): --reset-env leaves TERM and sets five others anew."""
    taken = options.of("setpriv", words[1:])
    told = "passes its environment on"
    if taken.has("--reset-env"):
        state.builder.clear(state.place, ("TERM",))
        for name in ("HOME", "SHELL", "USER", "LOGNAME", "PATH"):
            reason = "setpriv --reset-env sets it for the user"
            state.builder.set(Setting(name, None, Source.COMMAND, state.place, reason))
        state.open = ""
        told = "removes all but TERM, HOME, SHELL, USER, LOGNAME and PATH"
    for user in taken.values("--reuid", "--ruid"):
        state.become(user)
    state.hop("setpriv", told)
    return taken.rest


def sudo(state: State, words: Words) -> Words:
    """Follow `sudo` (sudo(8)): the policy keeps little, and some names never, even with -E."""
    taken = options.of("sudo", words[1:])
    listed = [one for text in taken.values("--preserve-env") for one in text.split(",") if one]
    everything = taken.has("-E") or ("--preserve-env", "") in taken.options
    table = tables.load("wrappers")["sudo_removes"]
    for name in state.builder.names:
        if name in listed:
            continue
        bad = name in table["names"] or name.startswith(tuple(table["prefixes"]))
        if bad:
            state.builder.remove(name, state.place)
        elif name not in ("TERM", "DISPLAY"):
            reason = "sudo keeps it only if its policy lets -E count"
            if not everything:
                reason = "sudo removes it unless its policy keeps it (env_keep)"
            state.builder.doubt(reason, [name])
    for name in ("HOME", "LOGNAME", "MAIL", "PATH", "SHELL", "USER"):
        reason = "sudo sets it by its policy"
        state.builder.set(Setting(name, None, Source.COMMAND, state.place, reason))
    state.become((taken.values("-u", "--user") or ["root"])[-1].removeprefix("#"))
    for folder in taken.values("-D", "--chdir"):
        state.enter(folder)
    rest, names = assignments(state, taken.rest)
    kept = "with -E keeps most, but" if everything else "keeps only what its policy lists, and"
    told = f"{kept} removes PYTHONPATH, PYTHONHOME and LD_* in any case"
    if names or listed:
        told += f"; {', '.join([*names, *listed])} passed by name"
    state.hop("sudo", told)
    return rest


Peel = Callable[[State, Words], Words]
BY_NAME: Final[dict[str, Peel]] = {
    "env": env,
    "setpriv": setpriv,
    "sudo": sudo,
    "conda": pythonenvs.conda,
    "mamba": pythonenvs.conda,
    "micromamba": pythonenvs.conda,
    "uv": pythonenvs.uv,
    "srun": jobs.srun,
}
