"""What is expected inside an interpreter: how it is written, and whether a place satisfies it.

A source is a module (`my_kernels`: itself and all below it) or, with a slash, an absolute path (a
file, or a folder and all below it). Only whole names count: `my_kernels` is not `my_kernels2`.
"""

from __future__ import annotations

import posixpath
from typing import Final

from envprobe.config import HookExpectation, PatchExpectation
from envprobe.errors import UsageError

_FORMS: Final = (
    "Write QUERY=PREFIX, such as 'pkg.mod:Class.attr=my_kernels' (a module and all below it) or"
    " 'pkg.mod:Class.attr=/opt/kernels' (a file, or a folder and all below it)."
)
_SOURCE: Final = (
    "Write a module such as my_kernels.attention, or an absolute path: what has a / is a file or a"
    " folder."
)
_PATH: Final = "Write an absolute path, such as /opt/kernels."
_FILES: Final = (".py", ".pyc", ".pyi", ".so")


def parse_patch(text: str, origin: str = "--patch") -> PatchExpectation:
    """Return what one `--patch QUERY=PREFIX` states; UsageError.

    Whether the question is one is for `cpython.query` to say.
    """
    query, sign, source = text.partition("=")
    if not sign or not query:
        raise UsageError(f"{origin} takes QUERY=PREFIX", _FORMS)
    return PatchExpectation(query, checked_source(source, f"{origin} {query}"), origin=origin)


def checked_source(source: str, where: str) -> str:
    """Return a source as it was written; UsageError, which does not repeat it."""
    if not source:
        raise UsageError(f"{where}: it is not said where the code must come from", _SOURCE)
    if "/" in source:
        return checked_path(source, where)
    # Python would import other names as well, but nobody can write them in an import statement.
    if source.endswith(_FILES) or not all(part.isidentifier() for part in source.split(".")):
        raise UsageError(f"{where}: what is expected is neither a module nor a path", _SOURCE)
    return source


def checked_path(path: str, where: str) -> str:
    """Return an absolute path as it was written; UsageError, which does not repeat it."""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise UsageError(f"{where}: a path must be absolute and without '..'", _PATH)
    return path


def accepts_hook(expectation: HookExpectation, file: str, cwd: str | None) -> bool | None:
    """Return whether a hook's `__file__` is the expected one; None: `cwd` is needed for it."""
    found = normal(file, cwd)
    if found is None:
        return None
    if expectation.exact:
        return found == normal(expectation.source, None)
    return is_below(found, expectation.source)


def is_below(path: str, prefix: str) -> bool:
    """Return whether an absolute path is `prefix` or below it, by whole names."""
    folder = normal(prefix, None) or ""
    found = normal(path, None)
    return found is not None and (found == folder or found.startswith(folder.rstrip("/") + "/"))


def is_within(module: str, prefix: str) -> bool:
    """Return whether a dotted name is `prefix` or below it, by whole names."""
    return module == prefix or module.startswith(prefix + ".")


def normal(path: str, cwd: str | None) -> str | None:
    """Return a path in the form in which two are compared; None if `cwd` is needed and None.

    Symbolic links are those of the target's file system, so that `..` stays as it is.
    """
    if not path.startswith("/"):
        if cwd is None:
            return None
        path = posixpath.join(cwd, path)
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
