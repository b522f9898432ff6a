"""Keeping the hooks under test out of envprobe itself.

The shell or unit that starts envprobe often exports the very PYTHONPATH that is being looked into,
so its `sitecustomize` has already run when the first line of envprobe does: it may have changed
`os.environ`, patched modules or filled the buffer of stdout. The process therefore replaces itself
once with `python -I -S`: no PYTHON* variable is read, no `site` hook (`sitecustomize`,
`usercustomize`, `.pth`) runs, and what the first interpreter had buffered is gone. `execve` is
given the caller's environment, not the changed one.

What cannot be undone from inside: a hook that ends the process, and text that it has flushed to
stdout. `python -I -m envprobe` and `-o FORMAT=PATH` are immune to both.
"""

from __future__ import annotations

import os
import sys

from envprobe import interrupts

# Imported twice in each run: `typing` alone would cost several milliseconds.
PATH_OPTION = "envprobe-path"
"""The -X option that hands over where to import from; its presence also ends the recursion."""


def isolate(main_file: str, arguments: list[str]) -> None:
    """Replace this process by an isolated interpreter that runs `main_file` with `arguments`.

    Returns only where nothing is to be done (it is isolated already) or nothing can be done: an
    embedded interpreter without an executable, or a package that is not a file. Everything that is
    used of the interpreter here is built in, so that a hook's patches matter as little as possible.
    """
    if PATH_OPTION in sys._xoptions or not sys.executable or not os.path.isfile(main_file):
        return
    path = os.pathsep.join(_import_path(main_file))
    command = [sys.executable, "-I", "-S", "-X", f"{PATH_OPTION}={path}", main_file, *arguments]
    # The new interpreter has no handlers yet: __main__ lets the signals through again.
    interrupts.hold()
    try:
        os.execve(sys.executable, command, caller_environment())
    except OSError:
        # E2BIG, or the executable was replaced while it ran: go on with what there is.
        return
    finally:
        interrupts.release()


def extend_path() -> None:
    """Make importable what the process before `isolate` could import, after the standard library.

    The directories are those of installed packages; PYTHONPATH and the current directory are not
    among them.
    """
    handed_over = sys._xoptions.get(PATH_OPTION)
    if isinstance(handed_over, str):
        sys.path.extend(entry for entry in handed_over.split(os.pathsep) if entry not in sys.path)


def caller_environment() -> dict[bytes, bytes]:
    """Return the environment that this process was started with, untouched by any hook.

    It is the kernel's block, /proc/self/environ (proc(5)): what `os.environ` says may have been set
    by a hook since. Of duplicate names the first counts, as for getenv(3); entries without `=` are
    left out, since execve through `os` cannot pass them on. Where there is no block (no /proc, or a
    hook has retitled the process) it is the interpreter's own view.
    """
    environment: dict[bytes, bytes] = {}
    for entry in _own_block().split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if name and equals:
            environment.setdefault(name, value)
    return environment or dict(os.environb)


def _own_block() -> bytes:
    try:
        with open("/proc/self/environ", "rb") as block:
            return block.read()
    except OSError:
        return b""


def _import_path(main_file: str) -> list[str]:
    """Return where envprobe itself is, then the directories of installed packages."""
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(main_file)))
    site = sys.modules.get("site")
    directories = [package_parent]
    if site is not None and not sys.flags.no_site:
        directories += site.getsitepackages()
        if site.ENABLE_USER_SITE:
            directories.append(site.getusersitepackages())
    installed = dict.fromkeys(os.path.abspath(entry) for entry in directories)
    return [entry for entry in installed if os.path.isdir(entry) and os.pathsep not in entry]
