"""What real NCCL libraries make of values and files, against what the tables and rules say.

No GPU is needed: ncclGetUniqueId reads the configuration files and a few variables, and the names
of all variables are in the library's own text.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from envprobe.nccl import conf, log
from envprobe.nccl.facts import Wording
from envprobe.nccl.params import Naming, Version, naming, parameters, version_of
from envprobe.nccl.values import interpret
from tests.programs.requirement import missing

ROOT = Path(__file__).resolve().parents[2]
_ENV: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "nccl_env.py"), run_name="nccl_env")
VERSIONS = tuple(_ENV["WHEELS"])

_ASK = """
import ctypes, json, os, sys
library = ctypes.CDLL(sys.argv[1])
unique = ctypes.create_string_buffer(128)
library.ncclGetUniqueId(unique)
c = ctypes.CDLL(None)
c.getenv.restype = ctypes.c_char_p
found = {name: c.getenv(os.fsencode(name)) for name in json.loads(sys.argv[2])}
with open(sys.argv[3], "w") as file:
    json.dump({name: None if raw is None else list(raw) for name, raw in found.items()}, file)
"""


@pytest.fixture(params=VERSIONS)
def library(request: pytest.FixtureRequest) -> tuple[Version, str]:
    """Return a version and the path of its library."""
    path = _ENV["library"](_ENV["default_directory"](), request.param)
    if not path.exists():
        missing("nccl", f"no NCCL {request.param} in {path.parent}; run scripts/nccl_env.py")
    version = version_of(request.param)
    assert version is not None
    return version, str(path)


def ask(
    library: str, folder: Path, names: list[str], environment: dict[str, str], *before: str
) -> tuple[dict[str, bytes | None], str]:
    """Call ncclGetUniqueId; return C's environment afterwards, and the log."""
    answer, output = folder / "answer.json", folder / "nccl.log"
    command = [*before, sys.executable, "-S", "-u", "-c", _ASK]
    with output.open("wb") as file:
        subprocess.run(
            [*command, library, json.dumps(names), str(answer)],
            env={"NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "lo", **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=True,
        )
    found = json.loads(answer.read_text("utf-8"))
    return {name: None if raw is None else bytes(raw) for name, raw in found.items()}, str(output)


CONF = (
    b"# a comment\n#NCCL_COMMENTED=1\nNCCL_ALGO=Ring\nexport NCCL_EXPORTED=1\n NCCL_BLANK =1\n"
    b"NCCL_TRAILING=Ring  \nNCCL_QUOTED='Ring'\nNCCL_NOTED=Ring # all\nNCCL_ALGO=Tree\n"
    b"NCCL_EQUALS=a=b\nno equals sign\nNCCL_EMPTY=\nNCCL_PROTO=LL\n=nameless\n"
    b"NCCL_RETURN=1\r\nNCCL_LONG=" + b"x" * 2000 + b"\nNCCL_VERY=" + b"y" * 4085 + b"NCCL_REST=1\n"
    b"NCCL_LAST=1"
)


def test_a_configuration_file_is_read_as_the_library_reads_it(
    library: tuple[Version, str], tmp_path: Path
) -> None:
    version, path = library
    environment = {"NCCL_PROTO": "Simple"}
    before: tuple[str, ...] = ()
    if version < (2, 23, 4):
        before = _with_etc(tmp_path)
        file = conf.SYSTEM
    else:
        file = str(tmp_path / "named.conf")
        (tmp_path / "named.conf").write_bytes(CONF)
        environment["NCCL_CONF_FILE"] = file
    lines = conf.parse(CONF, version)
    names = sorted({one.name for one in lines if one.name} | {"NCCL_REST", "NCCL_COMMENTED"})
    read = conf.settings([conf.File(file, conf.State.READ, lines)], environment)
    expected: dict[str, bytes | None] = dict.fromkeys(names)
    expected |= {name: one.value.reveal() for name, one in read.items()}
    expected["NCCL_PROTO"] = b"Simple"
    found, _ = ask(path, tmp_path, names, environment, *before)
    assert found == expected


def _with_etc(folder: Path) -> tuple[str, ...]:
    """Return a prefix that runs a command with an /etc of its own that holds nccl.conf only."""
    if os.getuid():
        missing("root", "a private /etc needs a mount namespace")
    (folder / "nccl.conf").write_bytes(CONF)
    script = (
        f"cp {folder}/nccl.conf /tmp/.$$ && mount -t tmpfs none /etc && mv /tmp/.$$ /etc/nccl.conf"
    )
    return ("unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh")


@pytest.mark.parametrize("home", ["HOME", "passwd"])
def test_which_home_counts_depends_on_the_version(
    library: tuple[Version, str], tmp_path: Path, home: str
) -> None:
    version, path = library
    (tmp_path / ".nccl.conf").write_bytes(b"NCCL_WITNESS=1\n")
    if home == "passwd":
        expected = conf.paths(version, {"HOME": "/nonexistent"}, str(tmp_path))
        environment, before = {"HOME": "/nonexistent"}, _with_passwd(tmp_path)
    else:
        expected = conf.paths(version, {"HOME": str(tmp_path)}, "/nonexistent")
        environment, before = {"HOME": str(tmp_path)}, ()
    found, _ = ask(path, tmp_path, ["NCCL_WITNESS"], environment, *before)
    reads = f"{tmp_path}/.nccl.conf" in expected
    assert found == {"NCCL_WITNESS": b"1" if reads else None}


def _with_passwd(folder: Path) -> tuple[str, ...]:
    """Return a prefix that runs a command with a password database whose home is `folder`."""
    if os.getuid():
        missing("root", "a private /etc/passwd needs a mount namespace")
    line = f"root:x:0:0:root:{folder}:/bin/sh"
    script = f"mount -t tmpfs none /etc && echo '{line}' > /etc/passwd"
    return ("unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NCCL_SET_THREAD_NAME", "8M"),
        ("NCCL_SET_THREAD_NAME", "0x10"),
        ("NCCL_SET_THREAD_NAME", "010"),
        ("NCCL_SET_THREAD_NAME", " 5 "),
        ("NCCL_SET_THREAD_NAME", "abc"),
        ("NCCL_SET_THREAD_NAME", ""),
        ("NCCL_SET_THREAD_NAME", "9" * 25),
        ("NCCL_SOCKET_FAMILY", "AF_INET"),
        ("NCCL_SOCKET_FAMILY", "AF_INET "),
        ("NCCL_COMM_ID", "127.0.0.1:4242"),
    ],
)
def test_a_line_shows_what_the_rules_say(
    library: tuple[Version, str], tmp_path: Path, name: str, text: str
) -> None:
    version, path = library
    _, output = ask(path, tmp_path, [], {name: text})
    shown = {
        one.value.reveal().decode()
        for process in log.read([output]).processes
        for one in process.variables
        if one.name == name and one.wording is not Wording.REFUSED
    }
    printed = interpret(name, text, version).printed
    assert shown == (set() if printed is None else {printed})


def test_every_name_that_a_version_reads_is_in_its_library_and_no_other_of_the_table(
    library: tuple[Version, str],
) -> None:
    version, path = library
    inside = _names_in(path)
    table = {
        name
        for name, one in parameters().items()
        if one.home == "libnccl" and one.reader != "unread"
    }
    read = {name for name in table if naming(name, version) is Naming.READ}
    gone = {name for name in table if naming(name, version) in (Naming.NOT_YET, Naming.REMOVED)}
    assert sorted(read - inside - NOT_BUILT) == []
    assert sorted(gone & inside) == []


NOT_BUILT = {"NCCL_PROXY_PROFILE"}
"""Read where the library is built with its own profiler (src/proxy.cc, ENABLE_PROFILER)."""


def _names_in(path: str) -> set[str]:
    """Return the names in a library's texts; a text may be the end of a longer one."""
    with open(path, "rb") as file:
        texts = ELFFile(file).get_section_by_name(".rodata").data()
    return {one.decode() for one in re.findall(rb"(NCCL_[A-Z0-9_]{2,80})\0", texts)}
