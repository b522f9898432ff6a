"""The gate in every format, read by what reads it, with values that try to break it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envprobe.report import formats
from tests.programs import consumers
from tests.programs.browser import browser
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.gates import PYTHON, Place

EVIL = "]]></failure>\x1b[31m</script><script>document.title='owned'</script>\n::error::x%0A{{7*7}}"


@pytest.fixture
def reports(tmp_path: Path) -> dict[str, str]:
    """Return the reports of one run that fails and could not tell something, by format."""
    place = Place(tmp_path)
    place.expect(
        '[expect.env]\nNCCL_ALGO = "Ring"\nSET_BY_NOBODY = "1"\n'
        f'[expect.sitecustomize]\nfrom = "{place.hooks}"\n[expect.workers]\nscheduler = 2\n'
    )
    kinds = {kind: tmp_path / f"report.{kind}" for kind in (*formats.MACHINE, "json", "text")}
    command = ("sh", "-c", f". {tmp_path}/none; exec {PYTHON} {place.server}")
    done = envprobe(
        *("gate", "--static", "-c", str(place.config)),
        *(f"-o{kind}={path}" for kind, path in kinds.items()),
        *("--format", "text", "--", *command),
        env=environment(NCCL_ALGO=EVIL),
    )
    assert done.returncode in (1, 3), done.stderr
    return {**{kind: path.read_text() for kind, path in kinds.items()}, "stdout": done.stdout}


def test_every_format_tells_the_same_findings(reports: dict[str, str]) -> None:
    document = json.loads(reports["json"])
    code = document["verdict"]["exit"]
    found = {one["id"] for one in document["findings"]}
    assert found
    annotations = consumers.annotations(reports["github"])
    assert {one.title.split()[0] for one in annotations[:-1]} == found
    assert f"(exit {code})" in annotations[-1].message
    run = consumers.sarif(reports["sarif"])
    assert {one["ruleId"] for one in run["results"]} == found
    assert run["invocations"][0]["exitCode"] == code
    cases = consumers.cases(reports["junit"])
    unknown = {one["id"] for one in document["findings"] if one["undetermined"]}
    failed = {one["id"] for one in document["findings"] if not one["undetermined"]}
    kinds = {(name.split()[0], type(one).__name__) for name in cases for one in cases[name].result}
    assert unknown
    assert kinds == {(one, "Error") for one in unknown} | {(one, "Failure") for one in failed}
    for one in found:
        assert one in reports["html"]
    assert reports["stdout"].split(":")[0] in ("FAILS", "UNDETERMINED")


def test_no_value_reaches_a_format_unescaped(reports: dict[str, str]) -> None:
    for kind, text in reports.items():
        assert "\x1b" not in text, kind
        assert not any(line.startswith("::error::x") for line in text.splitlines()), kind
    assert "<script" not in reports["html"]


def test_a_part_lists_only_the_checks_that_it_ran(reports: dict[str, str]) -> None:
    cases = consumers.cases(reports["junit"])
    assert not [name for name in cases if name.startswith(("EP1", "EP5", "EP0"))]


def test_the_page_is_read_in_a_browser(reports: dict[str, str], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(reports["html"])
    with browser() as started:
        shown = started.new_page(viewport={"width": 360, "height": 640})
        asked: list[str] = []
        shown.on("request", lambda request: asked.append(request.url))
        shown.goto(page.as_uri())
        assert "envprobe gate" in shown.title()
        text = shown.inner_text("body")
        assert "what is expected" in text
        assert "only the running server shows" in text
        assert "not decided by files" in text
        width = shown.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    assert asked == [page.as_uri()]
