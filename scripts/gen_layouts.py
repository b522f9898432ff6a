#!/usr/bin/env python3
"""Write envprobe/data/layouts/*.json: where each minor version of CPython keeps what is read.

Every number is measured by `envprobe/payload/calibrate.py` inside a real interpreter and must equal
what an independent witness says (`layout_oracle.py`: gcc's offsetof on that interpreter's headers,
gdb on its debug information, and from 3.13 its own `_Py_DebugOffsets`). Builds that no interpreter
here has (marked "headers" in the provenance) come from the headers alone.

Usage: gen_layouts.py [--check] [--sid TREE] [INTERPRETER...]
  --check   compare with the files that are there, write nothing; exit 1 on a difference
  --sid     a tree of `scripts/sid_chroot.sh --full`, whose interpreters are taken too
Needs gcc and gdb. Interpreters: those named, else pyenv's and /usr/bin/python3*.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import layout_oracle as oracle

ROOT: Final = Path(__file__).resolve().parent.parent
LAYOUTS: Final = ROOT / "envprobe" / "data" / "layouts"
CALIBRATE: Final = ROOT / "envprobe" / "payload" / "calibrate.py"
FIRST_TABLE: Final = (3, 13)
WORD: Final = 8

_ASK: Final = """
import json, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "include": [paths["include"], paths["platinclude"]],
    "library": [sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")],
    "shared": sysconfig.get_config_var("Py_ENABLE_SHARED"),
}))
"""

# Members of structures that no header declares: they move with the object's head.
_AFTER_HEAD: Final = (
    "staticmethod_callable",
    "classmethod_callable",
    "partial_function",
    "methodwrapper_descriptor",
    "methodwrapper_self",
)
_VARIANTS: Final = {
    "debug": ("-DPy_DEBUG=1",),
    "free-threaded": ("-DPy_GIL_DISABLED=1",),
}


class Interpreter(NamedTuple):
    """An interpreter to measure; `tree` is the folder of the chroot that it lives in."""

    path: str
    tree: Path | None

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what it prints; CalledProcessError."""
        command = [self.path, "-I", "-S", *arguments]
        if self.tree is not None:
            mount = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
            prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount]
            command = [*prefix, str(self.tree), *command]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, check=True
        ).stdout

    def inside(self, path: str) -> Path:
        """Return where a path of the interpreter's lies for this process."""
        return Path(path) if self.tree is None else self.tree / path.lstrip("/")


class Measured(NamedTuple):
    """One interpreter's layout, and what the witnesses said of it."""

    version: tuple[int, int]
    build: str
    release: str
    forms: dict[str, str]
    offsets: dict[str, int]
    table: dict[str, int]
    witnesses: tuple[str, ...]
    flags: tuple[str, ...]


class DisagreementError(Exception):
    """Two sources give different numbers."""


def default_interpreters(tree: Path | None) -> list[Interpreter]:
    """Return pyenv's interpreters, the system's and those of the chroot."""
    pyenv = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv")))
    found = [*sorted(pyenv.glob("versions/3.*/bin/python3")), *Path("/usr/bin").glob("python3.?*")]
    named = re.compile(r"python3(\.\d+d?)?$")
    paths = [path for path in found if named.match(path.name)]
    inside = sorted((tree / "usr/bin").glob("python3.*")) if tree else []
    return [Interpreter(str(path), None) for path in paths] + [
        Interpreter(f"/usr/bin/{path.name}", tree) for path in inside if named.match(path.name)
    ]


def measure(interpreter: Interpreter) -> Measured | None:
    """Calibrate one interpreter and compare with the witnesses; None if it is too old."""
    source = CALIBRATE.read_text()
    minor = interpreter.run("-c", "import sys; print(*sys.version_info[:2])").split()
    version = (int(minor[0]), int(minor[1]))
    if not (3, 9) <= version <= (3, 15):
        return None
    report = oracle.read_json(interpreter.run("-c", source))
    if report["missing"]:
        raise DisagreementError(f"{interpreter.path}: not found: {report['missing']}")
    offsets: dict[str, int] = report["offsets"]
    asked = oracle.read_json(interpreter.run("-c", _ASK))
    flags = compiler_flags(interpreter, asked)
    witnesses = []
    said = oracle.headers(version, flags)
    compare(interpreter.path, "headers", offsets, said)
    witnesses.append(f"offsetof on its headers ({len(said)} numbers)")
    if debugger := debugger_says(interpreter, version, asked):
        compare(interpreter.path, "debug information", offsets, debugger)
        witnesses.append(f"its debug information ({len(debugger)} numbers)")
    table: dict[str, int] = {}
    if version >= FIRST_TABLE:
        table = oracle.debug_offsets(version, flags)
        said = own_table(interpreter, table)
        compare(interpreter.path, "_Py_DebugOffsets", offsets, said)
        witnesses.append(f"its _Py_DebugOffsets ({len(said)} numbers)")
    silent = sorted(set(offsets) - set(oracle.headers(version, flags)) - set(debugger))
    if silent:
        witnesses.append("nobody else: " + ", ".join(silent))
    release = ".".join(map(str, report["version"]))
    return Measured(
        version,
        report["build"],
        release,
        report["forms"],
        offsets,
        table,
        tuple(witnesses),
        tuple(flags),
    )


def compiler_flags(interpreter: Interpreter, asked: dict[str, Any]) -> list[str]:
    """Return the include flags for an interpreter's headers."""
    flags = []
    for folder in dict.fromkeys(asked["include"]):
        inside = interpreter.inside(folder)
        flags += [f"-I{inside}", f"-I{inside}/internal"]
    if interpreter.tree is not None:
        flags += ["-idirafter", str(interpreter.inside("/usr/include"))]
    return flags


def debugger_says(
    interpreter: Interpreter, version: tuple[int, int], asked: dict[str, Any]
) -> dict[str, int]:
    """Return what gdb knows of the interpreter; {} if it has no debug information."""
    program = interpreter.inside(os.path.realpath(interpreter.path))
    if asked["shared"] and all(asked["library"]):
        library = interpreter.inside("/".join(asked["library"]))
        program = library if library.exists() else program
    return oracle.debug_information(version, program, interpreter.inside("/usr/lib/debug"))


def own_table(interpreter: Interpreter, table: dict[str, int]) -> dict[str, int]:
    """Return what the interpreter's `_Py_DebugOffsets` holds, by our names."""
    known = ("version", "free_threaded", "size")
    places = {name: place for name, place in table.items() if name not in known}
    program = (
        "import ctypes, json, struct\n"
        "start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, '_PyRuntime'))\n"
        f"raw = ctypes.string_at(start, {table['size']})\n"
        f"places = {json.dumps(places)}\n"
        "said = {n: struct.unpack_from('<Q', raw, p)[0] for n, p in places.items()}\n"
        "print(json.dumps([raw[:8].decode(), said]))\n"
    )
    cookie, said = json.loads(interpreter.run("-c", program))
    if cookie != "xdebugpy":
        raise DisagreementError(f"{interpreter.path}: no cookie")
    return dict(said)


def compare(who: str, witness: str, measured: dict[str, int], said: dict[str, int]) -> None:
    """Raise DisagreementError for each number on which two sources differ."""
    wrong = {
        name: (measured.get(name), value)
        for name, value in said.items()
        if measured.get(name) != value
    }
    if wrong:
        raise DisagreementError(f"{who} against {witness}: {wrong}")


def assemble(version: tuple[int, int], found: Sequence[Measured]) -> dict[str, Any]:
    """Return the contents of one file; DisagreementError if releases of a build differ."""
    by_build: dict[str, list[Measured]] = defaultdict(list)
    for one in found:
        by_build[one.build].append(one)
    release = by_build["release"][0]
    builds: dict[str, dict[str, int]] = {}
    provenance = []
    for build, members in sorted(by_build.items(), key=lambda item: item[0] != "release"):
        for member in members:
            who = f"{member.release} {build}"
            compare(who, members[0].release, member.offsets, members[0].offsets)
            if member.forms != release.forms or member.table != release.table:
                raise DisagreementError(f"{member.release} {build}: another form or table")
        builds[build] = differences(release.offsets, members[0].offsets, build)
        provenance += [
            {"build": build, "release": m.release, "measured": True, "agrees": list(m.witnesses)}
            for m in members
        ]
    for build, defines in _VARIANTS.items():
        if build in builds or (build == "free-threaded" and version < FIRST_TABLE):
            continue
        offsets = from_headers(version, release, defines)
        builds[build] = differences(release.offsets, offsets, build)
        source = f"offsetof on the headers of {release.release} with {' '.join(defines)}"
        provenance.append({"build": build, "measured": False, "headers": source})
    return {
        "version": ".".join(map(str, version)),
        "machine": "64-bit little-endian Linux",
        "generated_by": "scripts/gen_layouts.py",
        "provenance": provenance,
        "forms": release.forms,
        "table": release.table,
        "builds": builds,
    }


def from_headers(
    version: tuple[int, int], release: Measured, defines: Iterable[str]
) -> dict[str, int]:
    """Return the layout of a build that cannot be run here."""
    said = oracle.headers(version, release.flags, tuple(defines))
    offsets = {**release.offsets, **said}
    grown = said["object_size"] - release.offsets["object_size"]
    for name in _AFTER_HEAD:
        offsets[name] = release.offsets[name] + grown
    return offsets


def differences(release: dict[str, int], offsets: dict[str, int], build: str) -> dict[str, int]:
    """Return all numbers for the release build, only what differs for another one."""
    if build == "release":
        return dict(sorted(offsets.items()))
    return {name: value for name, value in sorted(offsets.items()) if release.get(name) != value}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare, and write or check the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("interpreter", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sid", type=Path)
    options = parser.parse_args(arguments)
    named = [Interpreter(path, None) for path in options.interpreter]
    by_version: dict[tuple[int, int], list[Measured]] = defaultdict(list)
    seen = set()
    for interpreter in named or default_interpreters(options.sid):
        real = (os.path.realpath(interpreter.inside(interpreter.path)), interpreter.tree)
        if real in seen:
            continue
        seen.add(real)
        measured = measure(interpreter)
        if measured is not None:
            print(f"{interpreter.path}: {measured.release} {measured.build} agrees")
            by_version[measured.version].append(measured)
    changed = 0
    for version, found in sorted(by_version.items()):
        path = LAYOUTS / f"{version[0]}.{version[1]}.json"
        text = json.dumps(assemble(version, found), indent=1) + "\n"
        if options.check:
            same = path.exists() and numbers_of(path.read_text()) == numbers_of(text)
            changed += not same
            print(f"{path.name}: {'unchanged' if same else 'DIFFERS'}")
        else:
            path.write_text(text)
            print(f"{path.name}: written")
    return 1 if changed else 0


def numbers_of(text: str) -> Any:
    """Return the part of a file that decides what is read."""
    loaded = json.loads(text)
    return [loaded["forms"], loaded["table"], loaded["builds"]]


if __name__ == "__main__":
    sys.exit(main())
