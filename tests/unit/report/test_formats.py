"""Each format for other programs, read by what reads it: nothing from a target breaks out of it."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import xmlschema

from envprobe.checks.registry import CHECKS
from envprobe.errors import TargetGoneError, UsageError
from envprobe.model import View
from envprobe.report import document, failure, formats, text, workers_outlet
from envprobe.report.model import Presentation, Report
from envprobe.report.outlet import Cell, Grid, Outcome
from tests.programs import consumers
from tests.programs.browser import browser
from tests.unit.checks.scene import Scene, refused, sglang, worker
from tests.unit.report.sample import report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECRET = "hf_aBcDeFgHiJkLmNoPqRsT"
HOSTILE = (
    "\x1b[31mred\x1b]8;;http://e\x07",
    "\n::error title=x::owned",
    "##[error]owned ##vso[task.complete]",
    "]]><failure/><![CDATA[",
    "</script><script>document.title='x'</script><img src=x onerror=\"document.title='x'\">",
    "".join(map(chr, range(1, 32))) + "\x7f\x85",
    b"\xff\xfe\x80".decode("utf-8", "surrogateescape"),
    "\u202eevil\u2066\u2028\u2029\ufeff\ufffe",
    "{{ 7 * 7 }}{% raw %}{0}",
    "100%0A::error::%25 a,b:c",
    "[click](http://e/) `x` **y**",
)
KINDS = ("text", "json", *formats.MACHINE)


def rendered(made: Report, kind: str, **presentation: Any) -> str:
    shown = Presentation(**presentation)
    if kind == "text":
        return text.render(made, shown)
    if kind == "json":
        return document.render(made, shown)
    return formats.render(kind, workers_outlet.build(made, shown))


def hostile() -> Report:
    """Return a report in which every value that a target chooses is hostile."""
    names = {f"NCCL_X{number}": one for number, one in enumerate(HOSTILE)}
    server = {name: value.encode("utf-8", "surrogateescape") for name, value in names.items()}
    scene = worker(sglang(2, server=server), 111, dict.fromkeys(names, "other"))
    title = ("evil", *HOSTILE)
    scene = scene.change(100, title=title, comm=HOSTILE[1][:15], notes=(HOSTILE[4],))
    return report(scene, *(f"{name}=other" for name in names), ignore={"block-wiped": HOSTILE[3]})


def broken(*expect: str) -> Report:
    """Return a report with one error in scheduler TP1, and one variable that nobody could read."""
    scene = sglang(2, server={"NCCL_ALGO": "Ring", "HF_TOKEN": SECRET})
    scene = worker(scene, 111, {"NCCL_ALGO": "Tree", "HF_TOKEN": SECRET})
    return report(scene, *(expect or ("NCCL_ALGO=Ring",)))


def unread(**config: Any) -> Report:
    scene: Scene = sglang(2, server={"NCCL_ALGO": "Ring"})
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    return report(scene.change(111, environments=environments), "NCCL_ALGO=Ring", **config)


# --- what each format says -----------------------------------------------------------------------


def test_a_finding_fails_its_case_and_a_clean_check_passes() -> None:
    found = consumers.cases(rendered(broken(), "junit"))
    case = found["EP004 env-wrong-value: NCCL_ALGO, scheduler TP1"]
    (result,) = case.result
    assert type(result).__name__ == "Failure"
    assert "PID 111" in result.message
    assert "expected: Ring" in result.message
    assert found["EP003 env-missing"].result == []
    assert {name.partition(" ")[0] for name in found} >= {check.id for check in CHECKS}


def test_could_not_tell_is_an_error_and_never_skipped() -> None:
    found = consumers.cases(rendered(unread(), "junit"))
    by_type = {
        name: type(result).__name__ for name, case in found.items() for result in case.result
    }
    assert by_type["EP006 env-unknown: NCCL_ALGO, scheduler TP1"] == "Error"
    assert set(by_type.values()) == {"Error"}
    results = consumers.sarif(rendered(unread(), "sarif"))["results"]
    assert ("EP006", "open", "none") in {
        (one["ruleId"], one["kind"], one["level"]) for one in results
    }
    titles = {one.title: one.level for one in consumers.annotations(rendered(unread(), "github"))}
    assert titles["EP006 env-unknown (could not tell)"] == "error"


def test_what_is_accepted_or_ignored_does_not_fail() -> None:
    scene = worker(sglang(2, server={"A": "1"}), 111, {"A": "2"})
    ignored = report(scene, "A=1", ignore={"env-wrong-value": "known"})
    (case,) = [
        one
        for name, one in consumers.cases(rendered(ignored, "junit")).items()
        if name.startswith("EP004")
    ]
    assert [type(one).__name__ for one in case.result] == ["Skipped"]
    assert case.result[0].message == "known"
    (result,) = [
        one
        for one in consumers.sarif(rendered(ignored, "sarif"))["results"]
        if one["ruleId"] == "EP004"
    ]
    assert result["suppressions"] == [{"kind": "external", "justification": "known"}]
    accepted = unread(allow_unknown={"env-unknown": "why", "worker-unreadable": "why"})
    outlet = workers_outlet.build(accepted, Presentation())
    assert {one.outcome for one in outlet.subjects[0].told} == {Outcome.ACCEPTED}
    assert not any(case.result for case in consumers.cases(rendered(accepted, "junit")).values())
    last = consumers.annotations(rendered(accepted, "github"))[-1]
    assert (last.level, last.title) == ("notice", "envprobe")
    assert last.message.startswith("HOLDS")


def test_a_verdict_that_no_finding_explains_is_an_error_too() -> None:
    # The server ended while it was read: exit 4, and no check has to say so.
    made = report(sglang(2, server={"A": "1"}).change(100, ended=True), "A=1")
    found = consumers.cases(rendered(made, "junit"))
    assert [type(one).__name__ for one in found["verdict"].result] == ["Error"]
    assert consumers.cases(rendered(broken(), "junit"))["verdict"].result == []


def test_sarif_tells_the_rule_the_process_and_the_exit_code() -> None:
    run = consumers.sarif(rendered(broken(), "sarif"))
    (result,) = [one for one in run["results"] if one["ruleId"] == "EP004"]
    assert (result["level"], result["properties"]["pids"]) == ("error", [111])
    names = {
        one["fullyQualifiedName"]: one["kind"] for one in result["locations"][0]["logicalLocations"]
    }
    assert names == {"scheduler TP1 (PID 111)": "process", "NCCL_ALGO": "variable"}
    assert run["invocations"][0]["exitCode"] == 1
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == [one.id for one in CHECKS]


def test_a_fingerprint_outlives_a_restart() -> None:
    def fingerprints(root: int) -> set[str]:
        scene = sglang(2, server={"NCCL_ALGO": "Ring"})
        made = report(worker(scene, 111, {"NCCL_ALGO": "Tree"}), "NCCL_ALGO=Ring")
        told = rendered(made, "sarif").replace("PID 111", f"PID {root}")
        return {
            one["partialFingerprints"]["envprobe/v1"] for one in consumers.sarif(told)["results"]
        }

    assert fingerprints(111) == fingerprints(4711)
    others = {
        one["partialFingerprints"]["envprobe/v1"]
        for one in consumers.sarif(rendered(unread(), "sarif"))["results"]
    }
    assert not others & fingerprints(111)


def test_the_last_annotation_is_the_verdict() -> None:
    found = consumers.annotations(rendered(broken(), "github"))
    assert [(one.level, one.title) for one in found if "EP004" in one.title] == [
        ("error", "EP004 env-wrong-value (fails)")
    ]
    assert found[-1].message.startswith("FAILS: 1 error")
    assert "\n=> " in found[0].message


# --- what cannot break them ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_control_character_and_no_command_comes_through(kind: str) -> None:
    made = rendered(hostile(), kind)
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", made
    )
    assert not re.search(r"##\w*\[", made)
    assert not re.search("[\ud800-\udfff\ufffe\uffff]", made)
    if kind != "github":
        assert not re.search(r"^\s*::", made, re.M)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('type="error"', 'kind="error"'),
        ('<testcase classname="', '<testcase klass="'),
        ('failures="1"', 'failures="one"'),
        ("<failure", "<system-out>early</system-out><failure"),
        ("<testsuite name", "<testcase/><testsuite name"),
    ],
)
def test_the_schema_of_junit_refuses_what_readers_do_not_know(right: str, wrong: str) -> None:
    made = rendered(broken(), "junit")
    assert right in made
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        consumers.cases(made.replace(right, wrong, 1))


def test_hostile_values_make_no_element_of_junit() -> None:
    made = rendered(hostile(), "junit")
    found = consumers.cases(made)
    assert sum(name.startswith("EP004") for name in found) == len(HOSTILE)
    assert {type(one).__name__ for case in found.values() for one in case.result} <= {
        "Failure",
        "Skipped",
    }
    assert any(
        "]]><failure/>" in one.text for case in found.values() for one in case.result if one.text
    )


def test_hostile_values_make_no_annotation() -> None:
    found = consumers.annotations(rendered(hostile(), "github"))
    assert not [one for one in found if one.title != "envprobe" and "EP0" not in one.title]
    assert any("100%0A::error::%25 a,b:c" in one.message for one in found)


def test_hostile_values_make_no_placeholder_and_no_link_of_sarif() -> None:
    for result in consumers.sarif(rendered(hostile(), "sarif"))["results"]:
        told = result["message"]["text"]
        assert not re.search(r"(?<!\\)[\[\]]", told)
        assert not re.search(r"[{}]", told.replace("{{", "").replace("}}", ""))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expect", ["HF_TOKEN=other", "NCCL_ALGO=Ring", "HF_TOKEN~=part"])
def test_secrets_are_masked_in_every_format(kind: str, expect: str) -> None:
    made = broken(expect)
    # The finding or the table speaks of it, or else the test would say nothing.
    shown = rendered(made, kind, patterns=("HF_TOKEN",))
    assert SECRET not in shown
    assert SECRET[3:] not in shown
    if expect.startswith("HF_TOKEN") or kind in ("text", "json", "html"):
        assert "HF_TOKEN" in shown
    assert (SECRET in rendered(made, kind, patterns=("HF_TOKEN",), unmask=True)) == (
        expect.startswith("HF_TOKEN") or kind in ("text", "json", "html")
    )


# --- a run without a report ----------------------------------------------------------------------

GONE = TargetGoneError(f"no process </p>::error:: ]]> {SECRET}", "Look for it.\nWith pgrep.")


def test_an_error_that_ends_the_run_is_told_in_every_format() -> None:
    made = {kind: failure.render(GONE, kind) for kind in KINDS}
    assert not [kind for kind, told in made.items() if SECRET in told]
    (case,) = consumers.cases(made["junit"]).values()
    assert type(case.result[0]).__name__ == "Error"
    assert "no process </p>" in case.result[0].message
    (annotation,) = consumers.annotations(made["github"])
    assert (annotation.level, annotation.title) == ("error", "envprobe (exit 4)")
    run = consumers.sarif(made["sarif"])
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["exitCode"] == 4
    assert "</p>" not in made["html"].partition("<p>")[2].removesuffix("</p></body>\n</html>\n")


def test_a_missing_package_is_one_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package jinja2") as caught:
        formats.require(("sarif", "html"))
    assert "pip install 'envprobe[html]'" in caught.value.remedy
    formats.require(("junit", "github", "sarif"))
    assert "NO REPORT" in failure.render(caught.value, "html")


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_on_a_phone_and_asks_for_nothing(
    chromium: Browser, scheme: str, tmp_path: Any
) -> None:
    path = tmp_path / "report.html"
    outlet = workers_outlet.build(hostile(), Presentation())
    long = Grid("paths", ("hook", "from"), ((Cell("/opt/hooks" * 40), Cell("x" * 400)),))
    subject = dataclasses.replace(outlet.subjects[0], grids=(*outlet.subjects[0].grids, long))
    outlet = dataclasses.replace(outlet, subjects=(subject,))
    path.write_text(formats.render("html", outlet), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(path.as_uri())
    assert asked == [path.as_uri()]
    assert said == []
    assert page.title() == "FAILS: envprobe workers"
    assert page.locator("script, img, iframe, object, link").count() == 0
    wide, room, size = page.evaluate(
        "[document.documentElement.scrollWidth, innerWidth,"
        " parseFloat(getComputedStyle(document.body).fontSize)]"
    )
    assert wide <= room, "the page scrolls sideways"
    widths = page.locator("td:first-child").evaluate_all("all => all.map(one => one.offsetWidth)")
    assert widths
    assert max(widths) <= room / 2, "the column that stays hides the others"
    assert max(widths) >= room / 4, "the column that stays is broken after each letter"
    assert size >= 16
    paper, ink = page.evaluate(
        "['backgroundColor', 'color'].map(one => getComputedStyle(document.body)[one]"
        ".match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b))"
    )
    assert (paper > ink) == (scheme == "light")
    page.close()


def test_the_page_shows_the_tree_the_table_and_the_break(chromium: Browser, tmp_path: Any) -> None:
    path = tmp_path / "report.html"
    scene = sglang(3, server={"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"})
    path.write_text(rendered(report(worker(scene, 111, {"NCCL_ALGO": "Ring"}, {})), "html"))
    page = chromium.new_page()
    page.goto(path.as_uri())
    rows = page.locator("section table").first.locator("tbody tr")
    assert rows.count() == len(scene.processes)
    broken_in = [one for one in rows.all_inner_texts() if "NCCL_PROTO" in one]
    assert len(broken_in) == 1
    assert "scheduler TP1" in broken_in[0]
    table = page.locator("section table").nth(1)
    heads = table.locator("th").all_inner_texts()
    lost = table.locator("tr", has_text="NCCL_PROTO").locator("td.lost")
    assert lost.count() == 1
    column = lost.evaluate("cell => cell.cellIndex")
    assert heads[column] == "TP1"
    page.close()


def test_a_failure_page_shows_its_error_as_text(chromium: Browser, tmp_path: Any) -> None:
    path = tmp_path / "report.html"
    path.write_text(failure.render(GONE, "html"))
    page = chromium.new_page()
    page.goto(path.as_uri())
    assert "no process </p>::error:: ]]>" in page.locator("p").inner_text()
    page.close()


def test_json_and_sarif_are_ascii() -> None:
    for kind in ("json", "sarif"):
        made = rendered(hostile(), kind)
        assert made.isascii()
        json.loads(made)
