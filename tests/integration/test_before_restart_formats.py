"""What stands in a unit, an environment file or a log cannot break a format of the new commands."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envprobe.report import formats
from tests.programs import consumers
from tests.programs.browser import browser
from tests.programs.envprobe_cli import envprobe

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = {
    "NCCL_X0": "\x1b[31mred\x1b]8;;http://e\x07",
    "NCCL_X1": "::set-output name=a::owned",
    "NCCL_X2": "##[error]owned ##vso[task.complete]",
    "NCCL_X3": "]]><failure/><![CDATA[",
    "NCCL_X4": "</script><script>document.title='x'</script><img src=x onerror=alert(1)>",
    "NCCL_X5": "[red]x[/red][/]",
    "NCCL_X6": "\u202eevil\u2066\u2028\ufeff",
    "NCCL_X7": "{{ 7 * 7 }}{% raw %}{0}%0A::error::",
    "NCCL_X9": "[click](http://e/)",
    "NCCL_X8": "a\n::error title=x::owned\n::stop-commands::x",
}
FOLDER = "::error::x]]><b>"
LOG = (
    "Traceback (most recent call last):\n"
    '  File "/srv/::error::]]><i>.py", line 3, in <module>\n'
    "    import x\n"
    "ModuleNotFoundError: No module named '{0}'\n"
)


def written(folder: Path) -> Path:
    """Write a unit in a folder of a hostile name, which sets every hostile value; return it."""
    place = folder / FOLDER
    (place / "app").mkdir(parents=True)
    server = place / "app" / "serve.py"
    server.write_text("def main():\n    pass\n\n\nif __name__ == '__main__':\n    main()\n")
    file = place / "nccl.env"
    lines = [f"{name}='{value.replace(chr(39), '')}'\n" for name, value in HOSTILE.items()]
    file.write_text("".join(lines) + "export NCCL_Y=]]></script>[red]\n")
    hooks = folder / "hooks]]><b>[red]"  # a colon ends an element of PYTHONPATH
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(f"raise RuntimeError({''.join(HOSTILE.values())!r})\n")
    unit = place / "sgl.service"
    unit.write_text(
        "[Service]\nEnvironment=NCCL_ALGO = ]]></script>::error::[red]\n"
        f"Environment=PYTHONPATH={hooks}\n"
        f"EnvironmentFile={file}\nExecStart={sys.executable} {server}\n"
    )
    (place / "failed.log").write_text("".join(map(LOG.format, HOSTILE.values())))
    expected = "".join(f'{name} = "other"\n' for name in (*HOSTILE, "NCCL_ALGO"))
    (place / "envprobe.toml").write_text(f"[expect.env]\n{expected}")
    return unit


OTHER = tuple(f"--expect={name}=other" for name in HOSTILE)
"""Every value is told, as none is the one that is expected."""
COMMANDS = {
    "unit": ("{unit}", *OTHER),
    "gate": ("-c", "{folder}/envprobe.toml", "--unit", "{unit}"),
    "rehearse": ("--unit", "{unit}", *OTHER),
    "triage": ("{folder}/failed.log",),
}


@pytest.fixture(scope="module", params=COMMANDS)
def reports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What one run of a command has written, by format."""
    unit = written(tmp_path_factory.mktemp("formats"))
    outputs = {kind: unit.parent / f"report.{kind}" for kind in ("json", *formats.MACHINE)}
    words = [word.format(unit=unit, folder=unit.parent) for word in COMMANDS[request.param]]
    options = [f"-o{kind}={path}" for kind, path in outputs.items()]
    ran = envprobe(request.param, *options, "--show-all", *words)
    assert ran.returncode == 1, ran.stderr
    found = {kind: path.read_text() for kind, path in outputs.items()}
    return {**found, "text": ran.stdout, "progress": ran.stderr}


def test_no_value_acts_in_a_terminal_or_in_a_log_of_a_runner(reports: dict[str, str]) -> None:
    text = reports["text"] + reports["progress"]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028]", text)
    for line in text.splitlines():
        assert not re.match(r"\s*::[\w-]+", line)
        assert "##[" not in line
        assert "##vso[" not in line
    assert "[red]x[/red][/]" in reports["text"]


def test_json_holds_the_values_as_they_are(reports: dict[str, str]) -> None:
    assert reports["json"].isascii()
    assert "[red]x[/red][/]" in json.dumps(json.loads(reports["json"]))
    assert "\x1b" not in reports["json"]


def test_junit_is_read_and_has_no_case_of_a_value(reports: dict[str, str]) -> None:
    cases = consumers.cases(reports["junit"])
    kinds = {type(one).__name__ for case in cases.values() for one in case.result}
    assert "Failure" in kinds
    assert all(re.match(r"EP\d+ |verdict", name) for name in cases)


def test_a_runner_obeys_annotations_only(reports: dict[str, str]) -> None:
    found = consumers.annotations(reports["github"])
    assert {one.level for one in found} <= {"error", "warning", "notice"}
    assert all(re.match(r"EP\d+ |envprobe", one.title) for one in found), found


def test_sarif_is_valid(reports: dict[str, str]) -> None:
    run = consumers.sarif(reports["sarif"])
    texts = [one["message"]["text"] for one in run["results"]]
    # In a message of SARIF `[text](target)` is a link (3.11.6), unless a backslash is before it.
    assert not [one for one in texts if re.search(r"(?<!\\)\[[^\]]*\]\(", one)]
    plain = " ".join(texts).replace("\\[", "[").replace("\\]", "]")
    assert "[red]x[/red][/]" in plain
    assert "]]>" in plain


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def test_a_browser_shows_the_values_as_text(
    reports: dict[str, str], chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(reports["html"], encoding="utf-8")
    page = chromium.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    page.goto(path.as_uri())
    assert asked == [path.as_uri()]
    assert page.title().startswith("FAILS: envprobe")
    assert page.locator("script, img, iframe, object, link, failure, i, b[title]").count() == 0
    assert "[red]" in page.locator("body").inner_text()
    page.close()
