"""Real NCCL libraries without a GPU: what they are given is what the parser finds they read.

`ncclGetUniqueId` starts the library: it reads its settings, its configuration file and the names
of its bootstrap network, and says so. scripts/nccl_env.py fetches the libraries.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envprobe.nccl import facts, log
from scripts.nccl_env import WHEELS, default_directory, library
from tests.programs.requirement import missing

PROGRAM = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
sys.exit(library.ncclGetUniqueId(ctypes.create_string_buffer(128)))
"""


def run(version: str, folder: Path, **settings: str) -> bytes:
    """Let one process start the library under exactly these settings; return what it printed."""
    path = library(default_directory(), version)
    if not path.exists():
        missing("nccl", f"no NCCL {version} in {path.parent}: run scripts/nccl_env.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, str(path)],
        env={"HOME": str(folder), "NCCL_SOCKET_IFNAME": "lo", **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def parsed(output: bytes, folder: Path) -> facts.Log:
    path = folder / "nccl.log"
    path.write_bytes(output)
    return log.read([str(path)])


def variables(found: facts.Log) -> dict[str, tuple[str, int | str | None]]:
    (process,) = found.processes
    return {each.name: (each.value.reveal().decode(), each.meaning) for each in process.variables}


@pytest.mark.parametrize("version", WHEELS)
@pytest.mark.parametrize(("given", "number"), [("0x10", 16), ("8M", 8), (" 5 ", 5), ("-3", -3)])
def test_an_integer_is_what_nccl_made_of_the_text(
    version: str, given: str, number: int, tmp_path: Path
) -> None:
    output = run(version, tmp_path, NCCL_DEBUG="INFO", NCCL_GDRCOPY_ENABLE=given)
    found = variables(parsed(output, tmp_path))
    assert found["NCCL_GDRCOPY_ENABLE"] == (str(number), number)
    assert found["NCCL_SOCKET_IFNAME"] == ("lo", None)
    assert set(found) == {"NCCL_GDRCOPY_ENABLE", "NCCL_SOCKET_IFNAME"}


@pytest.mark.parametrize("version", WHEELS)
def test_a_word_for_an_integer(version: str, tmp_path: Path) -> None:
    output = run(version, tmp_path, NCCL_DEBUG="INFO", NCCL_GDRCOPY_ENABLE="abc")
    (process,) = parsed(output, tmp_path).processes
    (read,) = (each for each in process.variables if each.name == "NCCL_GDRCOPY_ENABLE")
    if version == "2.32.3":
        # This version has a level of its own for it, and the default is used.
        assert (read.wording, read.value.reveal()) == (facts.Wording.REFUSED, b"abc")
        assert (read.meaning, process.levels["ATTN"]) == (0, 1)
        assert process.warnings[0].function == "ncclLoadParam"
    else:
        assert (read.wording, read.meaning) == (facts.Wording.INTEGER, 0)
        assert "ATTN" not in process.levels


@pytest.mark.parametrize("version", WHEELS)
def test_texts_keep_quotes_blanks_and_full_stops(version: str, tmp_path: Path) -> None:
    settings = {"NCCL_SOCKET_FAMILY": '"AF_INET" ', "NCCL_SOCKET_IFNAME": "lo,5."}
    output = run(version, tmp_path, NCCL_DEBUG="info", NCCL_GDRCOPY_ENABLE="", **settings)
    found = variables(parsed(output, tmp_path))
    assert found == {name: (value, None) for name, value in settings.items()}


@pytest.mark.parametrize("version", WHEELS)
def test_a_configuration_file_reads_like_the_environment(version: str, tmp_path: Path) -> None:
    file = tmp_path / "nccl.conf"
    file.write_text("NCCL_GDRCOPY_ENABLE=7\nNCCL_SOCKET_IFNAME=eth9\n")
    output = run(version, tmp_path, NCCL_DEBUG="INFO", NCCL_CONF_FILE=str(file))
    found = variables(parsed(output, tmp_path))
    assert found["NCCL_SOCKET_IFNAME"] == ("lo", None)
    # NCCL_CONF_FILE is read from 2.23.4 on.
    later = tuple(map(int, version.split("."))) >= (2, 23)
    assert found.get("NCCL_GDRCOPY_ENABLE") == (("7", 7) if later else None)


@pytest.mark.parametrize("version", WHEELS)
@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"NCCL_DEBUG": "WARN"}, False),
        ({"NCCL_DEBUG": "verbose"}, False),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ENV"}, True),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "^ENV"}, False),
        ({"NCCL_DEBUG": "TRACE", "NCCL_DEBUG_SUBSYS": "INIT,ENV"}, True),
    ],
)
def test_level_and_subsystem_decide_what_is_shown(
    version: str, settings: dict[str, str], shown: bool, tmp_path: Path
) -> None:
    found = parsed(run(version, tmp_path, NCCL_GDRCOPY_ENABLE="4", **settings), tmp_path)
    names = {each.name for process in found.processes for each in process.variables}
    assert ("NCCL_GDRCOPY_ENABLE" in names) == shown
    assert names <= {"NCCL_GDRCOPY_ENABLE", "NCCL_SOCKET_IFNAME"}
    seen = {name for process in found.processes for name in process.subsystems}
    assert ("ENV" in seen) == shown


@pytest.mark.parametrize("version", WHEELS)
def test_a_file_for_each_process(version: str, tmp_path: Path) -> None:
    pattern = tmp_path / "log.%h.%p"
    for number in ("1", "2"):
        run(
            version,
            tmp_path,
            NCCL_DEBUG="INFO",
            NCCL_DEBUG_FILE=str(pattern),
            NCCL_GDRCOPY_ENABLE="1" + number,
        )
    found = log.read([str(tmp_path / "log.*")])
    host = os.uname().nodename.split(".")[0]
    assert [process.host for process in found.processes] == [host, host]
    assert [process.first.file for process in found.processes] == [
        str(tmp_path / f"log.{host}.{process.pid}") for process in found.processes
    ]
    values = {
        each.meaning
        for process in found.processes
        for each in process.variables
        if each.name == "NCCL_GDRCOPY_ENABLE"
    }
    assert values == {11, 12}


@pytest.mark.parametrize("version", [name for name in WHEELS if name >= "2.26"])
@pytest.mark.parametrize("stamp", ["", "%s ", "[%F %T] ", "%H:%M:%S|", "day_%j_", "%T.%6f:"])
def test_a_time_stamp_is_free_text(version: str, stamp: str, tmp_path: Path) -> None:
    output = run(
        version,
        tmp_path,
        NCCL_DEBUG="INFO",
        NCCL_GDRCOPY_ENABLE="3",
        NCCL_DEBUG_TIMESTAMP_LEVELS="ALL",
        NCCL_DEBUG_TIMESTAMP_FORMAT=stamp,
    )
    found = parsed(output, tmp_path)
    assert variables(found)["NCCL_GDRCOPY_ENABLE"] == ("3", 3)
    assert found.processes[0].host == os.uname().nodename.split(".")[0]
    assert not found.damage_counts
