"""Programs that put a Python environment before what they start: `conda run` and `uv run`.

conda: conda/cli/main_run.py, conda/activate.py, conda/shell/etc/profile.d/conda.sh (0f64223f,
after 26.7.1). uv: crates/uv/src/commands/project/run.rs (26a9dd4b, after 0.12.5), and measured with
0.5.11 and 0.13.9.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final

from envprobe.launch import options
from envprobe.launch.environment import read_file
from envprobe.launch.options import OpaqueError, Taken
from envprobe.launch.steps import State
from envprobe.launch.words import is_name

Words = Sequence[str]
_UNSET: Final = "***unset***"
"""conda.base.constants.CONDA_ENV_VARS_UNSET_VAR: such a variable is left as it is."""

_BY_CONDA: Final = (
    *("CONDA_DEFAULT_ENV", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "CONDA_EXE"),
    *("CONDA_PYTHON_EXE", "_CE_CONDA", "_CE_M"),
)
_EPHEMERAL: Final = ("--with", "-w", "--with-editable", "--with-requirements", "--isolated")
_CHOSEN: Final = ("-p", "--python")
_PLAIN: Final = re.compile(r"(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*([^\s'\"\\$#`]*)\s*")
_NAMED: Final = re.compile(r"(?:export\s+)?([A-Za-z_][\w.]*)\s*=")
_INLINE: Final = re.compile(rb"^# /// script\s*$", re.MULTILINE)


# --- conda ---------------------------------------------------------------------------------------


def conda(state: State, words: Words) -> Words:
    """Follow `conda run`: a shell activates the environment, then starts the command."""
    taken = options.take(words[1:])
    if taken.rest[:1] != ("run",):
        raise OpaqueError("only `conda run` starts another program")
    inner = options.of("conda run", taken.rest[1:])
    for folder in inner.values("--cwd"):
        state.enter(folder)
    given = inner.values("-p", "--prefix")
    prefix = state.path(given[-1]) if given and (state.cwd or given[-1][:1] == "/") else ""
    if not prefix:
        state.unsure("the conda environment, which may set variables, is known to conda only")
    for name, value in _variables(state, prefix) if prefix else ():
        state.put(name, value, f"{prefix} sets it")
    if prefix and _has_files(posixpath.join(prefix, "etc/conda/activate.d")):
        state.unsure("the activation scripts of the conda environment may set variables")
    state.put("PATH", None, "conda puts the environment's bin and its own before it")
    state.put("CONDA_PREFIX", prefix or None, "conda sets it")
    for name in _BY_CONDA:
        state.put(name, None, "conda sets it")
    state.hop("conda run", "activates an environment, and passes the rest on", child=True)
    return _in_bin(inner.rest, prefix)


def _in_bin(rest: Words, prefix: str) -> list[str]:
    """Return the words of a command, the program by its path where the environment has it."""
    words = list(rest)
    if words and prefix and "/" not in words[0]:
        path = posixpath.join(prefix, "bin", words[0])
        words[0] = path if os.path.exists(path) else words[0]
    return words


def _variables(state: State, prefix: str) -> Iterator[tuple[str, str | None]]:
    """Yield what an environment sets: those of its packages, then `conda env config vars`."""
    folder = posixpath.join(prefix, "etc/conda/env_vars.d")
    files = [posixpath.join(folder, name) for name in sorted(_listed(folder))]
    found: dict[str, object] = {}
    for path in (*files, posixpath.join(prefix, "conda-meta/state")):
        try:
            read = json.loads(read_file(path))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            state.unsure(f"{path} cannot be read, and sets variables")
            continue
        inside = read.get("env_vars", {}) if path.endswith("/state") else read
        found |= inside if isinstance(inside, dict) else {}
    for name, value in found.items():
        if is_name(name) and name != "PATH" and value != _UNSET:
            yield name, str(value)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _has_files(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except FileNotFoundError:
        return False
    except OSError:
        return True


# --- uv ------------------------------------------------------------------------------------------


def uv(state: State, words: Words) -> Words:
    """Follow `uv run`: it puts a virtual environment before PATH and may read env files."""
    taken = options.of("uv", words[1:])
    if taken.rest[:1] != ("run",):
        raise OpaqueError("only `uv run` starts another program")
    inner = options.of("uv", taken.rest[1:])
    both = Taken((*taken.options, *inner.options), inner.rest)
    for folder in both.values("--directory")[-1:] or filter(None, [state.look("UV_WORKING_DIR")]):
        state.enter(folder)
    _env_files(state, both)
    venv = "" if _elsewhere(state, both) else _venv(state, both)
    before = state.look("PATH")
    path = f"{venv}/bin:{before}" if venv and before is not None else None
    state.put("PATH", path, "uv puts a virtual environment before it")
    state.put("VIRTUAL_ENV", venv or None, "uv sets it")
    for name in ("UV", "UV_RUN_RECURSION_DEPTH"):
        state.put(name, None, "uv sets it since some version")
    state.hop("uv run", "puts a virtual environment first, and passes the rest on", child=True)
    return _uv_command(both.rest, venv, both.has("-m", "--module"))


def _elsewhere(state: State, taken: Taken) -> bool:
    """Return whether uv makes an environment of its own, in its cache, or chooses another one."""
    if taken.has(*_EPHEMERAL, *_CHOSEN) or state.look("UV_PYTHON") != "":
        return True
    script = taken.rest[0] if taken.rest and not taken.has("-m", "--module") else ""
    if not script.endswith(".py") and not taken.has("-s", "--script"):
        return False
    try:
        return _INLINE.search(read_file(state.path(script))) is not None
    except FileNotFoundError:
        return not state.cwd
    except OSError:
        return True


def _venv(state: State, taken: Taken) -> str:
    """Return the virtual environment that uv finds, "" if that cannot be told."""
    if not state.cwd:
        return ""
    active = state.look("VIRTUAL_ENV")
    if taken.has("--no-project", "--active") and active != "":
        return active or ""
    given = state.look("UV_PROJECT_ENVIRONMENT")
    if given != "" and not taken.has("--no-project"):
        return state.path(given) if given and given[:1] == "/" else ""
    folder = state.path((taken.values("--project") or ["."])[-1])
    if taken.has("--no-project"):
        folder = state.cwd
    while not os.path.isdir(f"{folder}/.venv") and folder != "/":
        folder = posixpath.dirname(folder)
    return f"{folder.rstrip('/')}/.venv" if os.path.isdir(f"{folder}/.venv") else ""


def _uv_command(rest: Words, venv: str, module: bool) -> Words:
    python = f"{venv}/bin/python" if venv else "python"
    if module:
        return [python, "-m", *rest]
    if rest and rest[0].lower().endswith(".py"):
        return [python, *rest]
    return _in_bin(rest, venv)


def _env_files(state: State, taken: Taken) -> None:
    """Set what env files set: of several the last counts, and what is set already counts more."""
    if taken.has("--no-env-file"):
        return
    files = taken.values("--env-file")
    if not files:
        named = state.look("UV_ENV_FILE")
        if named is None:
            state.unsure("UV_ENV_FILE, which names files that set variables, is not known")
        files = (named or "").split()
    found: dict[str, str | None] = {}
    for path in files:
        try:
            raw = read_file(state.path(path))
        except OSError:
            state.unsure(f"{state.path(path)} cannot be read, and sets variables")
            continue
        found |= dict(_dotenv(raw))
    for name, value in found.items():
        was = state.look(name)
        if was == "" and not state.builder.has(name):
            state.put(name, value, "uv takes it from an env file")
        elif was is None and not state.builder.has(name):
            state.put(name, None, "uv takes it from an env file, if it is not set yet")


def _dotenv(raw: bytes) -> Iterator[tuple[str, str | None]]:
    """Yield what a .env file sets; None for a value with quotes, escapes or references."""
    for line in raw.decode("utf-8", "surrogateescape").splitlines():
        text = line.strip()
        plain, named = _PLAIN.fullmatch(text), _NAMED.match(text)
        if plain is not None:
            yield plain[1], plain[2]
        elif named is not None:
            yield named[1], None
