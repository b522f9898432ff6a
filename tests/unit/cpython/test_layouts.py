"""The shipped layouts: complete, with provenance, and chosen with distrust of the target."""

from __future__ import annotations

import dataclasses
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from envprobe import tables
from envprobe.cpython import layouts
from envprobe.cpython.layouts import DebugTable, Layout
from tests.programs.requirement import missing

ROOT = Path(__file__).parents[3]
MINORS = [(3, minor) for minor in range(9, 16)]


@pytest.mark.parametrize("minor", MINORS, ids=str)
def test_each_version_was_measured_and_confirmed(minor: tuple[int, int]) -> None:
    contents = tables.load(f"layouts/{minor[0]}.{minor[1]}")
    rows = contents["provenance"]
    assert {row["build"] for row in rows} == set(contents["builds"])
    measured = [row for row in rows if row["measured"]]
    assert any(row["build"] == "release" for row in measured)
    for row in measured:
        assert any("headers" in witness for witness in row["agrees"])
        assert (minor >= (3, 13)) == any("_Py_DebugOffsets" in w for w in row["agrees"])
    assert all("headers" in row for row in rows if not row["measured"])
    release = [row for row in measured if row["build"] == "release"]
    assert any(not w.startswith("nobody") for row in release for w in row["agrees"])
    assert not all(any(w.startswith("nobody") for w in row["agrees"]) for row in release)


@pytest.mark.parametrize("minor", MINORS, ids=str)
def test_candidates(minor: tuple[int, int]) -> None:
    found = list(layouts.candidates(minor))
    assert {layout.build for layout in found} == {"release", "debug"}
    assert all(layouts.plausible(layout) for layout in found)
    assert all(layout.minor == minor for layout in found)
    threaded = list(layouts.candidates(minor, free_threaded=True))
    assert bool(threaded) == (minor >= (3, 13))
    assert all(layout.object_type == 24 and layout.object_size == 32 for layout in threaded)


def table(minor: tuple[int, int], **changes: int) -> bytes:
    """Return `_Py_DebugOffsets` with what the file's release build says, but for `changes`."""
    contents = tables.load(f"layouts/{minor[0]}.{minor[1]}")
    raw = bytearray(layouts.table_size(minor))
    struct.pack_into("<8sQQ", raw, 0, layouts.COOKIE, minor[0] << 24 | minor[1] << 16, 0)
    values = {**contents["builds"]["release"], **changes}
    for name, place in contents["table"].items():
        if name in values:
            struct.pack_into("<Q", raw, place, values[name])
    return bytes(raw)


@pytest.mark.parametrize("minor", MINORS[4:], ids=str)
def test_the_targets_own_table_comes_first(minor: tuple[int, int]) -> None:
    raw = table(minor, interpreter_modules=8000)
    assert DebugTable.parse(raw) == DebugTable(minor[0] << 24 | minor[1] << 16, False)
    first, second, *_ = layouts.candidates(minor, table=raw)
    assert (first.source, first.interpreter_modules) == ("its own table", 8000)
    assert second.source == "known offsets"
    assert second.interpreter_modules != 8000


@pytest.mark.parametrize("changes", [{"str_length": 1 << 20}, {"interpreter_id": 1 << 40}])
def test_numbers_that_are_no_offsets_are_not_taken(changes: dict[str, int]) -> None:
    found = list(layouts.candidates((3, 14), table=table((3, 14), **changes)))
    assert {layout.source for layout in found} == {"known offsets"}


def test_a_table_that_is_cut_is_not_taken() -> None:
    found = list(layouts.candidates((3, 14), table=table((3, 14))[:-400]))
    assert {layout.source for layout in found} == {"known offsets"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"xdebugpy",
        b"xdebugp!" + bytes(16),
        layouts.COOKIE + struct.pack("<QQ", 0x30D00F0, 2),
        layouts.COOKIE + struct.pack("<QQ", 1 << 32, 0),
    ],
)
def test_what_is_no_table(raw: bytes) -> None:
    assert DebugTable.parse(raw) is None


def test_versions() -> None:
    assert layouts.minor_of(0x030B07F0) == (3, 11)
    assert [layouts.known((3, minor)) for minor in (8, 9, 15, 16)] == [False, True, True, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"object_type": 16, "object_size": 16},
        {"str_length": 0},
        {"str_ascii_size": 8},
        {"long_digits": 16},
        {"str_kind_shift": -1},
    ],
)
def test_orders_that_cannot_be(changes: dict[str, int]) -> None:
    good: Layout = next(layouts.candidates((3, 12)))
    assert layouts.plausible(good)
    assert not layouts.plausible(dataclasses.replace(good, **changes))


def report(**changes: object) -> dict[str, object]:
    contents = tables.load("layouts/3.12")
    found = {
        "version": [3, 12, 1],
        "build": "release",
        "forms": contents["forms"],
        "offsets": contents["builds"]["release"],
        "missing": [],
    }
    return {**found, **changes}


def test_a_calibration_is_a_layout() -> None:
    known = next(layouts.candidates((3, 12)))
    found = layouts.calibrated(report())
    assert dataclasses.replace(found, source=known.source) == known


@pytest.mark.parametrize(
    "changes",
    [
        {"missing": ["dict_keys"]},
        {"offsets": {}},
        {"offsets": {"dict_keys": "x"}},
        {"offsets": {**tables.load("layouts/3.12")["builds"]["release"], "dict_keys": 1 << 40}},
        {"forms": None},
        {"version": [3]},
    ],
)
def test_what_is_no_calibration(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"calibration|invalid literal|unpack"):
        layouts.calibrated(report(**changes))


def test_the_files_are_what_the_interpreters_here_say() -> None:
    """Measure the interpreters of this machine again, with the compiler as the witness."""
    for tool in ("gcc", "gdb"):
        if shutil.which(tool) is None:
            missing(tool, f"{tool} is not installed")
    script = ROOT / "scripts" / "gen_layouts.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unchanged" in done.stdout
