"""Every command that reports findings writes every format, in one run, as files and on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe import demo
from envprobe.report import formats
from tests.programs import consumers
from tests.programs.envprobe_cli import envprobe

LOG = Path(__file__).parents[1] / "data" / "nccl" / "036.log"


@pytest.fixture(scope="module")
def tree() -> Iterator[demo.Tree]:
    with demo.tree() as running:
        yield running


def arguments(command: str, tree: demo.Tree, folder: Path) -> tuple[str, ...]:
    if command == "workers":
        return ("--pid", str(tree.pid), "--expect", "NCCL_ALGO=Never")
    if command == "nccl":
        return (str(LOG), "--expect", "NCCL_ALGO=Never")
    if command == "triage":
        log = folder / "server.log"
        log.write_text("RuntimeError: CUDA error: out of memory\n")
        return (str(log),)
    if command == "unit":
        return ("--expect", "NCCL_ALGO=Never", "--", "/usr/bin/python3", "-c", "pass")
    hook = ("--expect-winner", "/none/sitecustomize.py", "--no-spawn", "--runs", "0")
    return ("--python", "/usr/bin/python3", *hook)


@pytest.mark.parametrize(
    ("command", "code", "check"),
    [
        ("workers", 1, "EP004"),
        ("nccl", 1, "EP2"),
        ("triage", 1, "EP606"),
        ("unit", 1, "EP3"),
        ("trace-sitecustomize", 1, "EP1"),
    ],
)
def test_one_run_writes_all_formats_and_they_agree(
    command: str, code: int, check: str, tree: demo.Tree, tmp_path: Path
) -> None:
    outputs = {kind: tmp_path / f"report.{kind}" for kind in formats.MACHINE}
    options = [f"-o{kind}={path}" for kind, path in outputs.items()]
    done = envprobe(command, *options, "--format", "github", *arguments(command, tree, tmp_path))
    assert done.returncode == code, done.stderr
    annotations = consumers.annotations(done.stdout)
    assert done.stdout == outputs["github"].read_text()
    assert f"(exit {code})" in annotations[-1].message
    run = consumers.sarif(outputs["sarif"].read_text())
    assert run["invocations"][0]["exitCode"] == code
    cases = consumers.cases(outputs["junit"].read_text())
    failing = {name.split()[0] for name, case in cases.items() if case.result and name != "verdict"}
    assert failing == {one.title.split()[0] for one in annotations[:-1] if one.level == "error"}
    assert any(one.startswith(check) for one in failing)
    rules = {one["ruleId"] for one in run["results"]}
    assert failing <= rules
    page = outputs["html"].read_text()
    assert all(rule in page for rule in rules)
    assert page.count("<table>") >= 1


@pytest.mark.parametrize("kind", formats.MACHINE)
def test_a_run_without_a_report_says_so_in_the_format(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("of an earlier run")
    done = envprobe("workers", "--pid", "4194303", "--format", kind, "-o", f"{kind}={path}")
    assert done.returncode == 4
    assert done.stdout == path.read_text()
    assert "there is no process 4194303" in done.stdout
    if kind == "sarif":
        consumers.sarif(done.stdout)
    if kind == "github":
        assert consumers.annotations(done.stdout)[0].level == "error"
    if kind == "junit":
        ((name, case),) = consumers.cases(done.stdout).items()
        assert (name, type(case.result[0]).__name__) == ("no report", "Error")


def test_inspect_and_diff_have_text_and_json_only(tmp_path: Path) -> None:
    done = envprobe("inspect", "--pid", "1", "--format", "sarif")
    assert done.returncode == 2
    assert "Invalid value for '--format'" in done.stderr
    done = envprobe("diff", "a", "b", "-o", f"junit={tmp_path / 'x'}")
    assert done.returncode == 2
    assert "FORMAT is one of text, json" in done.stderr


def test_two_reports_of_one_server_are_compared(tree: demo.Tree, tmp_path: Path) -> None:
    one, other = tmp_path / "a.json", tmp_path / "b.json"
    for path in (one, other):
        envprobe("workers", "--pid", str(tree.pid), "-o", f"json={path}")
    done = envprobe("diff", str(one), str(other), "--ignore", "*TOKEN*")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("SAME: ")
    missing = envprobe("diff", str(one), str(tmp_path / "none.json"), "--format", "json")
    assert missing.returncode == 2
    assert "there is no such file" in missing.stdout
