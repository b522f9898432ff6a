"""Writes a start-up hook: a `sitecustomize.py`, or a module of another name with its `.pth` file.

The text is payload/hook_template.py with the patches filled in. Its first line holds a digest of
the rest, so that a file that envprobe did not write, or that was changed since, is not overwritten.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import keyword
import os
import posixpath
import sys
from collections.abc import Iterator
from importlib import resources
from typing import Final

from envprobe.errors import UsageError

VARIABLE: Final = "ENVPROBE_HOOK"
"""The variable in which a hook says what it did."""

DEFAULT_NAME: Final = "envprobe_hook"
_HOOKS: Final = ("sitecustomize", "usercustomize")
_MARKER: Final = "# Written by `envprobe init-hook`. SHA-256 of what follows: "
_NO_PATCHES: Final = "PATCHES: tuple = ()\n"
_FILE_MODE, _FOLDER_MODE = 0o644, 0o755
_PATCH: Final = (
    "Write for example"
    " 'sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend"
    "=my_kernels.attention:forward_extend'."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """An attribute and what replaces it, both as `pkg.mod:Class.attr`."""

    target: str
    replacement: str


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What is to be written into which directory.

    `name` is the module of a `.pth` file; None: a `sitecustomize.py`. `force` overwrites a file
    whoever wrote it.
    """

    directory: str
    patches: tuple[Patch, ...] = ()
    name: str | None = None
    force: bool = False


class Note(str, enum.Enum):
    """What is to be known of the place that a hook was written to."""

    LOSES_IN_SITE_PACKAGES = "loses-in-site-packages"
    NO_SITE_DIRECTORY = "no-site-directory"


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What was written: `directory` is absolute, `files` are paths, `replaced` those there before.

    `module` is the name under which the hook is imported; `pth`: by a `.pth` file. `python` is the
    interpreter that the site-packages directory belongs to, "" if that is not known.
    """

    directory: str
    module: str
    pth: bool
    files: tuple[str, ...]
    replaced: tuple[str, ...]
    patches: tuple[Patch, ...]
    notes: tuple[Note, ...]
    python: str = ""

    @property
    def query(self) -> str:
        """The question to `envprobe inspect` that tells what the hook did."""
        return f"{self.module}:{VARIABLE}"


def parse_patch(text: str) -> Patch:
    """Return what one `--patch TARGET=REPLACEMENT` states; UsageError."""
    target, sign, replacement = text.partition("=")
    if not sign:
        raise UsageError("--patch takes TARGET=REPLACEMENT", _PATCH)
    for one in (target, replacement):
        module, colon, path = one.partition(":")
        words = (*module.split("."), *path.split("."))
        if not colon or not all(word.isidentifier() for word in words):
            raise UsageError(f"--patch: {one!r} is not of the form pkg.mod:Class.attr", _PATCH)
        if module in ("__main__", "__mp_main__"):
            raise UsageError(
                f"--patch: {module} is executed and never imported, so that nothing can be patched"
                " in it",
                "Name the module that defines the attribute.",
            )
    if target == replacement:
        raise UsageError(f"--patch: {target} is to be replaced by itself", _PATCH)
    return Patch(target, replacement)


def write(request: Request) -> Written:
    """Write the hook; nothing is written if anything speaks against it. Raises UsageError."""
    directory = posixpath.abspath(request.directory)
    module = request.name or "sitecustomize"
    _check_patches(request.patches)
    _check_place(directory, module, request.name is not None)
    texts = {f"{module}.py": hook_text(request.patches)}
    if request.name is not None:
        texts[f"{module}.pth"] = _marked(f"import {module}\n")
    paths = {posixpath.join(directory, name): text for name, text in texts.items()}
    replaced = tuple(path for path in paths if os.path.lexists(path))
    if not request.force:
        for path in replaced:
            _check_ours(path)
    place = directory
    try:
        os.makedirs(directory, _FOLDER_MODE, exist_ok=True)
        for place, text in paths.items():
            _replace(place, text)
    except OSError as error:
        raise UsageError(
            f"{place} cannot be written: {error.strerror}",
            "Give a directory that you may write to.",
        ) from None
    pth = request.name is not None
    notes = tuple(_notes(directory, pth))
    python = _python_of(directory) if pth else ""
    return Written(directory, module, pth, tuple(paths), replaced, request.patches, notes, python)


def _python_of(directory: str) -> str:
    """Return the interpreter of PREFIX/lib/pythonX.Y/site-packages, "" if there is none."""
    folder = posixpath.dirname(directory)
    prefix = posixpath.dirname(posixpath.dirname(folder))
    for name in (posixpath.basename(folder), "python3", "python"):
        path = posixpath.join(prefix, "bin", name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def hook_text(patches: tuple[Patch, ...]) -> str:
    """Return the text of a hook with these patches."""
    template = resources.files("envprobe").joinpath("payload").joinpath("hook_template.py")
    before, found, after = template.read_text("utf-8").partition(_NO_PATCHES)
    assert found, "the template has no place for patches"
    lines = [f"    ({_quoted(one.target)}, {_quoted(one.replacement)}),\n" for one in patches]
    filled = "".join(["PATCHES = (\n", *lines, ")\n"]) if patches else "PATCHES = ()\n"
    return _marked(before + filled + after)


def _quoted(text: str) -> str:
    return f'"{text}"'  # of identifiers, so that nothing needs an escape


def _marked(text: str) -> str:
    return f"{_MARKER}{_digest(text)}\n{text}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _check_patches(patches: tuple[Patch, ...]) -> None:
    targets = [one.target for one in patches]
    for target in targets:
        if targets.count(target) > 1:
            raise UsageError(
                f"--patch: {target} is replaced twice", "Only one of them can have an effect."
            )


def _check_place(directory: str, module: str, pth: bool) -> None:
    """Raise UsageError where a hook would do harm or could not be found."""
    if not module.isidentifier() or keyword.iskeyword(module):
        raise UsageError(f"--name: {module!r} is no name of a module", f"Say {DEFAULT_NAME}.")
    if pth and (module in _HOOKS or module in sys.stdlib_module_names):
        raise UsageError(
            f"--name: there is a module {module} already, which would be imported instead",
            f"Give the hook a name of its own, such as {DEFAULT_NAME}.",
        )
    if any(character in directory for character in "\n\r\0") or (not pth and ":" in directory):
        raise UsageError(
            "the directory's name holds a colon or a line break, so that PYTHONPATH cannot name it",
            "Choose another directory.",
        )
    if os.path.lexists(directory) and not os.path.isdir(directory):
        raise UsageError(f"{directory} is no directory", "Name a directory for the hook.")
    names = set(_names(directory))
    if {"os.py", "site.py"} <= names:
        raise UsageError(
            f"{directory} is the directory of a standard library: every program of that interpreter"
            " would run the hook, and the next update would take it away",
            "Choose a directory of your own and name it in PYTHONPATH, or use --pth with the"
            " site-packages directory of a virtual environment.",
        )
    for name in sorted(names - {f"{module}.py", f"{module}.pth"}):
        if _rivals(directory, name, module):
            raise UsageError(
                f"{posixpath.join(directory, name)} is a module {module} too: only one of the two"
                " would run",
                "Move it to a directory of its own, behind this one in PYTHONPATH: the hook then"
                " runs it."
                if not pth
                else "Choose another --name.",
            )


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _rivals(directory: str, name: str, module: str) -> bool:
    """Return whether an entry of the directory is the module as well (FileFinder's suffixes)."""
    stem, _, rest = name.partition(".")
    if stem != module:
        return False
    if not rest:
        return any(one.startswith("__init__.") for one in _names(posixpath.join(directory, name)))
    return rest.endswith(("so", "pyc"))


def _check_ours(path: str) -> None:
    """Raise UsageError for a file that envprobe did not write, or that was changed since."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            first, _, rest = file.read(1 << 20).partition("\n")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "Choose another directory."
        ) from None
    if not first.startswith(_MARKER):
        raise UsageError(
            f"{path} was not written by envprobe",
            "Choose an empty directory: put in front on PYTHONPATH, its hook runs this one as well."
            " --force overwrites it.",
        )
    if first != _MARKER + _digest(rest):
        raise UsageError(
            f"{path} was changed after envprobe wrote it",
            "Keep a copy of what was added, then use --force.",
        )


def _replace(path: str, text: str) -> None:
    """Write a file that is there complete or not at all; a link in its place is not followed.

    Its mode does not depend on the umask: the server's user must be able to read it.
    """
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), _FILE_MODE)
        os.replace(temporary, path)
    except OSError:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _notes(directory: str, pth: bool) -> Iterator[Note]:
    site = posixpath.basename(directory) in ("site-packages", "dist-packages")
    if site and not pth:
        yield Note.LOSES_IN_SITE_PACKAGES
    if pth and not site:
        yield Note.NO_SITE_DIRECTORY
