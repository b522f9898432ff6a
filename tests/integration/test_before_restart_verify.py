"""What docs/units.md says of `systemd-analyze verify` and of envprobe, row by row."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from envprobe.launch.manager import local_version
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.requirement import missing
from tests.programs.restart import MEASURED, verified

PAGE = Path(__file__).parents[2] / "docs" / "units.md"
START = "ExecStart=/usr/bin/python3 -c pass\n"


@dataclasses.dataclass(frozen=True)
class Example:
    """One row made real: the body of a unit, a drop-in and an environment file beside it."""

    body: str = ""
    file: str = ""
    drop_in: str = ""

    def write(self, folder: Path) -> Path:
        """Write the files and return the unit's path."""
        unit = folder / "example.service"
        body = self.body
        if self.file:
            (folder / "example.env").write_text(self.file + "\n")
            body = f"EnvironmentFile={folder}/example.env\n"
        if self.drop_in:
            (folder / "example.service.d").mkdir()
            (folder / "example.service.d" / "50.conf").write_text(self.drop_in)
        unit.write_bytes(f"[Service]\n{START}{body}\n".encode("utf-8", "surrogateescape"))
        return unit


LITERAL = {
    "Environment=NCCL_ALGO = Ring",
    "Environment=export NCCL_ALGO=Ring",
    "Environment=NCCL_ALGO=Ring Tree",
    "Environment=NCCL_ALGO=Ring # why",
    "Environment=NCCL_DEBUG_FILE=/x.%z",
    'Environment="NCCL_ALGO=Ring',
    "Environment=PYTHONPATH=/a:$PYTHONPATH",
    "Environment=NCCL_DEBUG_FILE=/x.%h.%p",
    "Enviroment=A=1",
    "Environment A=1",
    "EnvironmentFile=/nothing/here",
    "EnvironmentFile=/a /b",
}
"""Rows that say what is written in the unit."""
IN_A_FILE = {"export A=1", "A=1 # note", "A=$HOME/x", 'A="x', "# note \\"}
EXAMPLES = {
    "`Environment=` in `[Unit]` or `[Servce]`": (
        Example("[Unit]\nEnvironment=A=1"),
        Example("[Servce]\nEnvironment=A=1"),
    ),
    "a section header without `]`, a line that is no UTF-8": (
        Example("[Service\nEnvironment=A=1"),
        Example("Environment=A=\udcff"),
    ),
    "`EnvironmentFile=nccl.env`, or in quotes": (
        Example("EnvironmentFile=nccl.env"),
        Example('EnvironmentFile="/etc/hostname"'),
    ),
    "a drop-in with `Environment=`": (
        Example("Environment=A=1", drop_in="[Service]\nEnvironment=\n"),
    ),
    "`UnsetEnvironment=A`": (Example("Environment=A=1\nUnsetEnvironment=A"),),
    "`python -I` in `ExecStart=`": (
        Example("Environment=PYTHONPATH=/a\nExecStart=\nExecStart=/usr/bin/python3 -I -c pass"),
    ),
    "two `ExecStart=` without `Type=oneshot`": (Example("Type=simple\n" + START),),
    "`ExecStart=bin/python3 serve.py`, `ExecStart=${VENV}/bin/python`": (
        Example("ExecStart=\nExecStart=bin/python3 serve.py"),
        Example("Environment=VENV=/opt\nExecStart=\nExecStart=${VENV}/bin/python x.py"),
    ),
}


def rows() -> dict[str, tuple[str, str]]:
    """Return the table of the page: the first cell, then envprobe's id and the verdict."""
    text = PAGE.read_text().partition("## Lines that are not what they look")[2]
    table = re.findall(r"^\| (.*) \| .* \| (EP\d+) \| (\w+) \|$", text.partition("\n## ")[0], re.M)
    return {line: (check, verdict) for line, check, verdict in table}


def examples(line: str) -> tuple[Example, ...]:
    """Return what a row of the table stands for."""
    if line in EXAMPLES:
        return EXAMPLES[line]
    in_file = re.fullmatch("`(.*)` in an environment file", line)
    if in_file is not None and in_file[1] in IN_A_FILE:
        more = "\nB=1" if in_file[1].endswith("\\") else ""
        return (Example(file=in_file[1] + more),)
    assert line.strip("`") in LITERAL, f"no example for the row: {line}"
    return (Example(line.strip("`")),)


@dataclasses.dataclass(frozen=True)
class Written:
    """The units of all rows, and what one run of envprobe finds in them."""

    units: dict[str, tuple[Path, ...]]
    findings: list[Any]

    def checks(self, unit: Path) -> set[str]:
        """Return the ids of what is found in one of them, or in what is beside it."""
        return {
            one["id"]
            for one in self.findings
            if one["severity"] != "info" and f"{unit.parent}/" in f"{one['who']} {one['message']}"
        }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    units = {}
    for line in rows():
        folders = [tmp_path_factory.mktemp("row") for _ in examples(line)]
        pairs = zip(examples(line), folders, strict=True)
        units[line] = tuple(example.write(folder) for example, folder in pairs)
    every = [str(unit) for given in units.values() for unit in given]
    ran = envprobe("unit", "--no-interpreter", "--format", "json", *every)
    return Written(units, json.loads(ran.stdout)["findings"])


def test_no_example_is_without_a_row() -> None:
    literal = {f"`{one}`" for one in LITERAL}
    assert {*rows()} == literal | {f"`{one}` in an environment file" for one in IN_A_FILE} | {
        *EXAMPLES
    }


def test_the_page_names_the_version_that_was_measured() -> None:
    stated = re.findall(r"`systemd-analyze verify` of\s+systemd (\d+)", PAGE.read_text())
    assert stated == [str(MEASURED)] * 2


@pytest.mark.parametrize("line", rows())
def test_the_row_is_true(line: str, written: Written, tmp_path: Path) -> None:
    check, verdict = rows()[line]
    for unit in written.units[line]:
        assert check in written.checks(unit)
        if local_version(os.environ) != MEASURED:
            missing("systemd", f"the page speaks of systemd {MEASURED}")
        variables = environment(HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path))
        assert verified(unit, variables) == verdict
