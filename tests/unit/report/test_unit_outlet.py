"""`unit` for other programs: what is handed over, where it is lost, and what each start is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envprobe import cli_unit
from envprobe.report import formats, unit_outlet
from envprobe.report.model import Presentation
from envprobe.report.outlet import Cell, Grid, Tone
from tests.programs import consumers
from tests.programs.browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECRET = "hf_aBcDeFgHiJkLmNoPqRsT"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """A unit with a value overridden, one removed, one set and one changed on the way."""
    path = tmp_path / "sgl.service"
    (tmp_path / "serve.py").write_text("import os\nos.fork()\n")
    (tmp_path / "sgl.env").write_text(f"HF_TOKEN={SECRET}\n")
    path.write_text(
        "[Service]\n"
        "Environment=NCCL_ALGO=Ring NCCL_PROTO=LL NCCL_DEBUG=INFO\n"
        "Environment=NCCL_ALGO=Tree\n"
        f"EnvironmentFile={tmp_path}/sgl.env\n"
        "PrivateTmp=yes\n"
        "ExecStart=/usr/bin/env -u NCCL_PROTO NCCL_DEBUG=WARN NCCL_NET=Socket"
        f" {sys.executable} -u {tmp_path}/serve.py\n"
    )
    return path


def _grids(*units: Path, command: tuple[str, ...] | None = None) -> list[Grid]:
    made = unit_outlet.build(_report(*units, command=command), Presentation())
    return [grid for subject in made.subjects for grid in subject.grids]


def _report(*units: Path, command: tuple[str, ...] | None = None) -> cli_unit.Report:
    options = cli_unit.Options(tuple(map(str, units)), command, no_interpreter=True)
    return cli_unit.judged(cli_unit.context_of(options), frozenset(), options)


def test_each_entry_has_its_origin_what_it_overrides_and_where_it_is_lost(unit: Path) -> None:
    entries, start = _grids(unit)
    assert entries.heads == ("variable", "handed over", "from", "overrides", "at the interpreter")
    rows = {row[0].text: row[1:] for row in entries.rows}
    same = Cell("the same", Tone.SAME)
    assert rows["NCCL_ALGO"] == (
        Cell("Tree"),
        Cell(f"{unit}:3"),
        Cell(f"Ring of {unit}:2", Tone.OTHER),
        same,
    )
    assert rows["NCCL_PROTO"][-1] == Cell(f"removed by {unit}:6", Tone.LOST)
    assert rows["NCCL_DEBUG"][-1] == Cell(f"WARN ({unit}:6)", Tone.OTHER)
    assert rows["NCCL_NET"][0] == Cell("not declared")
    assert rows["NCCL_NET"][-1] == Cell("Socket", Tone.OTHER)
    assert SECRET not in rows["HF_TOKEN"][0].text
    assert rows["HF_TOKEN"][1:] == (Cell(f"{unit.parent}/sgl.env:1"), Cell(""), same)
    assert f"changes which files are seen: PrivateTmp=yes ({unit}:5)" in entries.notes
    assert [row[1].text for row in start.rows] == ["env", sys.executable]
    assert any("no main guard; outside of it os.fork at line 2" in one for one in start.notes)


def test_what_stops_at_a_container_and_what_cannot_be_told(tmp_path: Path) -> None:
    unit = tmp_path / "sgl.service"
    lines = "[Service]\nType=oneshot\nEnvironment=NCCL_ALGO=Ring NCCL_PROTO=LL\n"
    lines += "ExecStart=/usr/bin/docker run -e NCCL_ALGO image:1 python3\n"
    unit.write_text(lines + "ExecStart=/bin/sh -c 'eval x'\n")
    entries, image, shell = _grids(unit)
    assert entries.heads[4:] == (f"in the container ({unit}:4)", f"at the interpreter ({unit}:5)")
    ends = {row[0].text: row[4:] for row in entries.rows}
    unknown = Cell(f"not known from {unit}:5 on", Tone.UNKNOWN)
    assert ends["NCCL_ALGO"] == (Cell("Ring"), unknown)
    assert ends["NCCL_PROTO"] == (Cell(f"stops at {unit}:4", Tone.LOST), unknown)
    assert image.rows[-1][2].text == "image:1"
    assert shell.rows[-1][2].tone is Tone.UNKNOWN


def test_a_command_line_and_what_is_read_by_each_program(unit: Path) -> None:
    entries, start = _grids(command=("env", "NCCL_ALGO=Ring", sys.executable, "-c", "pass"))
    assert [row[0].text for row in start.rows] == ["the command line"] * 2
    assert any(row[0].text == "NCCL_ALGO" for row in entries.rows)
    made = unit_outlet.build(_report(unit), Presentation())
    cases = consumers.cases(formats.render("junit", made))
    (failed,) = [name for name in cases if name.startswith("EP323 ")]
    assert type(cases[failed].result[0]).__name__ == "Failure"
    rules = {one["ruleId"] for one in consumers.sarif(formats.render("sarif", made))["results"]}
    titles = {one.title for one in consumers.annotations(formats.render("github", made))}
    assert "EP323" in rules
    assert any(one.startswith("EP323 lost-in-launch") for one in titles)
    for kind in formats.MACHINE:
        assert SECRET not in formats.render(kind, made)
    shown = unit_outlet.build(_report(unit), Presentation(unmask=True))
    assert SECRET in formats.render("html", shown)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_marks_breaks_and_fits_a_phone(
    unit: Path, chromium: Browser, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "report.html"
    made = unit_outlet.build(_report(unit), Presentation())
    path.write_text(formats.render("html", made), encoding="utf-8")
    page = chromium.new_page(viewport={"width": width, "height": 800})
    page.goto(path.as_uri())
    assert page.locator("table").count() == 2
    assert page.locator("td.lost").all_inner_texts() == [f"removed by {unit}:6"]
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    page.close()
