"""Measuring a build of CPython that no layout is known for, by running an interpreter of it.

This is the one part of `inspect` that executes foreign code: payload/calibrate.py, in the process's
own interpreter or in a copy of it that the user names, with the rights of the process (`rights`),
isolated (-I -S -B), bounded, without GPUs. What it prints is the word of that program: it becomes a
layout only when it has been verified on the process itself (`cpython.runtime.verify`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import resources
from typing import Final, NamedTuple, TypeVar

import msgspec

from envprobe.cpython import layouts
from envprobe.cpython.layouts import Layout
from envprobe.errors import UndeterminedError, UsageError
from envprobe.process import program, rootfs
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle, Unsupported
from envprobe.process.maps import AddressSpace
from envprobe.process.program import Program
from envprobe.runner.forked import run_each
from envprobe.runner.rights import Rights
from envprobe.runner.started import NO_GPUS, Bounds, start

T = TypeVar("T")

OPTIONS: Final = ("-I", "-S", "-B")
_BOUNDS: Final = Bounds(seconds=30.0, output_bytes=1 << 18, processes=8, grace_seconds=0.5)
_CHUNK: Final = 1 << 20
_NAME_A_COPY: Final = (
    "Name an interpreter of the very same build, at a place of this system: "
    "--calibrate-with /path/to/python."
)
_ANOTHER_BUILD: Final = "Name the file that the process runs, or an exact copy of it."


class Calibration(NamedTuple):
    """A layout, the interpreter that measured it, and the rights that it ran with."""

    layout: Layout
    program: str
    rights: Rights


class _Report(msgspec.Struct, forbid_unknown_fields=True):
    """What payload/calibrate.py prints; only the first two for a version that is too old."""

    version: tuple[int, int, int]
    missing: list[str]
    hexversion: int = 0
    build: str = ""
    image: str = ""
    forms: dict[str, str] = {}
    offsets: dict[str, int] = {}


def measure(
    handle: ProcessHandle, copy: str | None, deadline: float, tell: Callable[[str], None]
) -> Calibration:
    """Run an interpreter of the process's build and return the layout that it measures.

    `copy` is the path of one of the same build, None for the process's own. `tell` gets the
    sentence that says what is executed, before it is. `deadline`, in seconds, is for each look at
    files. Raises UsageError where there is no `copy`, UndeterminedError with the reason where
    nothing may be run, or nothing was measured; ProcessGone.
    """
    chosen = _within(deadline, lambda: _choose(handle, copy))
    tell(
        f"--calibrate executes foreign code: {chosen.path} {' '.join(OPTIONS)}, as {chosen.rights} "
        "without capabilities"
    )
    report = _run(chosen)
    if copy is not None:
        image = report.image
        _within(deadline, lambda: _require_same_build(handle, chosen.path, image))
    try:
        layout = layouts.calibrated(msgspec.structs.asdict(report))
    except ValueError as error:
        raise UndeterminedError(f"{chosen.path} gave no layout: {error}", _NAME_A_COPY) from None
    return Calibration(layout, chosen.path, chosen.rights)


def _choose(handle: ProcessHandle, copy: str | None) -> Program:
    if copy is None:
        return program.interpreter_of(handle, _NAME_A_COPY)
    path = os.path.realpath(copy)
    if not os.path.exists(path):
        raise UsageError(f"--calibrate-with: {copy} is not there", _NAME_A_COPY)
    # What cannot be read cannot be compared, so that executing it would tell nothing.
    if not os.path.isfile(path) or not os.access(path, os.X_OK | os.R_OK):
        raise UndeterminedError(
            f"{copy} is no program that can be read and executed",
            "Give --calibrate-with an interpreter.",
        )
    return Program(path, program.rights_of(handle))


def _run(chosen: Program) -> _Report:
    source = resources.files("envprobe").joinpath("payload").joinpath("calibrate.py")
    command = [chosen.path, *OPTIONS, "-c", source.read_text("utf-8")]
    # An interpreter with a shared libpython may need LD_LIBRARY_PATH to start at all.
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", **NO_GPUS, **kept}
    with start(command, _BOUNDS, environment, name=chosen.path, rights=chosen.rights) as run:
        line = run.read_line()
    try:
        report = msgspec.json.decode(line, type=_Report)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UndeterminedError(
            f"{chosen.path} said nothing that can be used", _NAME_A_COPY
        ) from None
    if report.missing:
        raise UndeterminedError(
            f"{chosen.path} could not measure itself: {report.missing[0][:200]}",
            "Run the server with a release of CPython 3.9 to 3.15.",
        )
    return report


def _require_same_build(handle: ProcessHandle, path: str, image: str) -> None:
    """Compare the file that holds the interpreter of `path` with that of the process, by content.

    Raises UndeterminedError unless they are equal.
    """
    if os.path.realpath(image) == path:
        name, opened = "exe", handle.open_file("exe")
    else:
        name = _mapped(handle, os.path.basename(image))
        opened = rootfs.open_regular(handle, name)
    with os.fdopen(opened, "rb") as theirs, os.fdopen(_open_regular(image), "rb") as ours:
        same = _same_content(ours.fileno(), theirs.fileno())
    if not same:
        raise UndeterminedError(
            f"{path} is another build: {image} is not the file that the process runs ({name})",
            _ANOTHER_BUILD,
        )


def _open_regular(path: str) -> int:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return rootfs.reopen_regular(place, path)
    finally:
        os.close(place)


def _mapped(handle: ProcessHandle, name: str) -> str:
    """Return the path of the file of this name that the process has mapped."""
    with AddressSpace(handle) as space:
        for mapping in space.mappings():
            if mapping.inode and os.path.basename(mapping.path) == name:
                return mapping.path
    raise UndeterminedError(f"the process has no {name} mapped, as this one has", _ANOTHER_BUILD)


def _same_content(first: int, second: int) -> bool:
    one, other = os.fstat(first), os.fstat(second)
    if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
        return True
    if one.st_size != other.st_size:
        return False
    for place in range(0, one.st_size, _CHUNK):
        if os.pread(first, _CHUNK, place) != os.pread(second, _CHUNK, place):
            return False
    return True


def _within(deadline: float, look: Callable[[], T]) -> T:
    """Return what `look` gives, which runs in a child: files may never answer."""

    def guarded(_: None) -> T | UndeterminedError | UsageError:
        try:
            return look()
        except (UndeterminedError, UsageError) as failure:
            return failure
        except (AccessRefused, Unsupported, ProcessGone, OSError) as failure:
            return UndeterminedError(f"its files cannot be looked at ({failure})", _NAME_A_COPY)

    ((_, found),) = run_each(
        [None],
        guarded,
        deadline=deadline,
        on_timeout=lambda _: UndeterminedError("its files do not answer", "Give --deadline more."),
        on_crash=lambda _: UndeterminedError("the child that looked at its files ended"),
    )
    if isinstance(found, UndeterminedError | UsageError):
        raise found
    return found
