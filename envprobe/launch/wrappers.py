"""Programs that start another one: what each does to the environment on the way.

Each function takes the words of such a program and returns those of the next; what it does not know
is an OpaqueError. Sources: the programs' manual pages, named where the rule is not obvious.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence
from typing import Final

from envprobe import tables
from envprobe.launch import envfile, options
from envprobe.launch.declared import setting
from envprobe.launch.environment import read_file
from envprobe.launch.options import OpaqueError
from envprobe.launch.steps import State
from envprobe.launch.types import Setting, Source
from envprobe.launch.words import is_name

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
        state.cwd = state.path(folder)
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
        state.user = user
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
    state.user = (taken.values("-u", "--user") or ["root"])[-1]
    for folder in taken.values("-D", "--chdir"):
        state.cwd = state.path(folder)
    rest, names = assignments(state, taken.rest)
    kept = "with -E keeps most, but" if everything else "keeps only what its policy lists, and"
    told = f"{kept} removes PYTHONPATH, PYTHONHOME and LD_* in any case"
    if names or listed:
        told += f"; {', '.join([*names, *listed])} passed by name"
    state.hop("sudo", told)
    return rest


def conda(state: State, words: Words) -> Words:
    """Follow `conda run`: the environment's activation scripts run first."""
    taken = options.take(words[1:])
    if taken.rest[:1] != ("run",):
        raise OpaqueError("only `conda run` starts another program")
    inner = options.of("conda run", taken.rest[1:])
    for folder in inner.values("--cwd"):
        state.cwd = state.path(folder)
    prefix = (inner.values("-p", "--prefix") or [""])[-1]
    scripts = posixpath.join(prefix, "etc/conda/activate.d") if prefix else ""
    if not prefix or _has_files(scripts):
        state.unsure("the activation scripts of the conda environment may set variables")
    if prefix:
        before = state.look("PATH")
        path = None if before is None else f"{prefix}/bin:{before}"
        _set(state, "PATH", path, "conda puts the environment's bin before it")
    else:
        _set(state, "PATH", None, "conda puts the environment's bin before it")
    for name in ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL"):
        _set(state, name, None, "conda sets it")
    state.hop("conda run", "activates an environment, and passes the rest on", child=True)
    rest = list(inner.rest)
    if rest and prefix and "/" not in rest[0] and os.path.exists(f"{prefix}/bin/{rest[0]}"):
        rest[0] = f"{prefix}/bin/{rest[0]}"
    return rest


def _has_files(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _set(state: State, name: str, value: str | None, reason: str) -> None:
    if value is not None:
        state.builder.set(setting(name, value, Source.COMMAND, state.place))
    else:
        state.builder.set(Setting(name, None, Source.COMMAND, state.place, reason))


def uv(state: State, words: Words) -> Words:
    """Follow `uv run`: it puts a virtual environment before PATH and may read an env file."""
    taken = options.of("uv", words[1:])
    if taken.rest[:1] != ("run",):
        raise OpaqueError("only `uv run` starts another program")
    inner = options.of("uv", taken.rest[1:])
    folder = (inner.values("--directory", "--project") or taken.values("--directory") or [""])[-1]
    for path in inner.values("--env-file"):
        # Variables that are set already win over the file's (uv 0.5, docs/configuration/files).
        _env_file(state, path)
    venv = posixpath.join(state.path(folder or "."), ".venv")
    before = state.look("PATH")
    found = os.path.isdir(venv) and bool(state.cwd or folder) and not inner.has("--isolated")
    path_text = f"{venv}/bin:{before}" if found and before is not None else None
    _set(state, "PATH", path_text, "uv puts the project's virtual environment before it")
    _set(state, "VIRTUAL_ENV", venv if found else None, "uv sets it")
    state.hop("uv run", "puts a virtual environment first, and passes the rest on", child=True)
    return _uv_command(inner.rest, venv if found else "", inner.has("-m", "--module"))


def _uv_command(rest: Words, venv: str, module: bool) -> Words:
    python = f"{venv}/bin/python" if venv else "python"
    if module:
        return [python, "-m", *rest]
    if rest and rest[0].endswith(".py"):
        return [python, *rest]
    if rest and venv and "/" not in rest[0] and os.path.exists(f"{venv}/bin/{rest[0]}"):
        return [f"{venv}/bin/{rest[0]}", *rest[1:]]
    return rest


def _env_file(state: State, path: str) -> None:
    full = state.path(path)
    try:
        parsed = envfile.parse(full, read_file(full))
    except OSError:
        state.unsure(f"{full} cannot be read, and sets variables")
        return
    for line in parsed.lines:
        if not state.builder.has(line.name):
            state.builder.set(Setting(line.name, line.value, Source.FILE, line.place))


_PER_RANK: Final = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
)


def torchrun(state: State, words: Words, interpreter: str) -> Words:
    """Follow torchrun (torch/distributed/run.py and elastic/agent, 2.4): one process per rank."""
    taken = options.of("torchrun", words[1:])
    number = (taken.values("--nproc-per-node", "--nproc_per_node") or ["1"])[-1]
    told = "passes its environment on to each rank and adds RANK, WORLD_SIZE and their kin"
    if number != "1" and state.look("OMP_NUM_THREADS") == "":
        state.builder.set(setting("OMP_NUM_THREADS", "1", Source.COMMAND, state.place))
        told += "; it sets OMP_NUM_THREADS=1"
    if state.look("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "":
        name = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
        state.builder.set(setting(name, "1", Source.COMMAND, state.place))
        told += f"; it sets {name}=1"
    for name in _PER_RANK:
        _set(state, name, None, "torchrun sets it for each rank")
    state.hop("torchrun", told, child=True)
    rest = list(taken.rest)
    if taken.has("--no-python", "--no_python"):
        return rest
    module = ["-m"] if taken.has("-m", "--module") else []
    return [interpreter, "-u", *module, *rest]


def srun(state: State, words: Words) -> Words:
    """Follow `srun` (srun(1)): the submitting environment goes along, or what --export says."""
    taken = options.of("srun", words[1:])
    told = "passes the submitting shell's environment on and adds SLURM_*"
    exported = (taken.values("--export") or ["ALL"])[-1]
    listed = exported.split(",")
    if "ALL" not in listed:
        names = [one.partition("=")[0] for one in listed]
        state.builder.clear(state.place, [one for one in names if is_name(one)])
        told = f"passes only {exported.partition('=')[0] if '=' in exported else exported} on"
        state.unsure("Slurm builds the rest of the environment for the user")
    _, names = assignments(state, [one for one in listed if "=" in one])
    if names:
        told += f"; it sets {', '.join(names)}"
    for folder in taken.values("-D", "--chdir"):
        state.cwd = state.path(folder)
    state.hop("srun", told, child=True)
    return taken.rest


Peel = Callable[[State, Words], Words]
BY_NAME: Final[dict[str, Peel]] = {
    "env": env,
    "setpriv": setpriv,
    "sudo": sudo,
    "conda": conda,
    "mamba": conda,
    "micromamba": conda,
    "uv": uv,
    "srun": srun,
}
