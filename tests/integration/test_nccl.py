"""`envprobe nccl` on real logs: exactly the findings that are there, in text and in JSON."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import cli, cli_nccllog, tables
from tests.programs.envprobe_cli import SECONDS, envprobe, script
from tests.programs.nccl_ranks import rank, write

LOGS = Path(__file__).resolve().parents[1] / "data" / "nccl"
SCHEMA = jsonschema.Draft202012Validator(tables.load("nccl.schema"))
BASE = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_PROTO": "Simple"}


def run(*arguments: str) -> tuple[int, Any]:
    """Run `envprobe nccl` in this process; return the exit code and the JSON report."""
    out = io.StringIO()
    given = ["nccl", *arguments, "--format", "json"]
    with contextlib.redirect_stdout(out):
        code = int(cli.app(args=given, prog_name="envprobe", standalone_mode=False)())
    document = json.loads(out.getvalue())
    SCHEMA.validate(document)
    return code, document


def told(document: Any) -> list[tuple[str, str, str]]:
    return [
        (one["check"], "unknown" if one["undetermined"] else one["severity"], one["variable"])
        for one in document["findings"]
    ]


@pytest.mark.parametrize(
    ("name", "expected", "findings", "code"),
    [
        ("036", ["NCCL_PROTO=Simple"], [], 0),
        ("037", [], [], 0),
        (
            "037",
            ["NCCL_P2P_LEVEL=nvl"],
            [("nccl-value-refused", "error", "NCCL_P2P_LEVEL")],
            1,
        ),
        (
            "038",
            [
                "NCCL_P2P_LEVEL=2",
                "NCCL_CUMEM_ENABLE=0",
                "NCCL_PROTO=Simple",
                "NCCL_ALGO=Ring",
            ],
            [],
            0,
        ),
        ("043", [], [("nccl-ranks-differ-critical", "error", "NCCL_BUFFSIZE")], 1),
        ("045", [], [("nccl-ranks-differ-critical", "error", "NCCL_PROTO")], 1),
    ],
)
def test_the_real_logs_give_exactly_their_findings(
    name: str, expected: list[str], findings: list[tuple[str, str, str]], code: int
) -> None:
    options = [word for one in expected for word in ("--expect", one)]
    exit_code, document = run(str(LOGS / f"{name}.log"), *options)
    assert (told(document), exit_code) == (findings, code)


def test_each_rank_has_what_was_given_and_only_that() -> None:
    for name in ("036", "037", "038", "043", "045"):
        truth = json.loads((LOGS / f"{name}.expected.json").read_text("utf-8"))["right_parse"]
        _, document = run(str(LOGS / f"{name}.log"))
        for process in document["processes"]:
            (found,) = (
                one
                for one in truth["processes"]
                if one["process"] == f"{process['host']}:{process['pid']}"
            )
            read = {one["name"]: one["value"]["text"] for one in process["variables"]}
            given = {
                key: value["value"] if isinstance(value, dict) else value
                for key, value in found["env_read"].items()
            }
            assert read == given, name


def test_the_rank_with_wrong_sums_is_named_with_what_comes_of_it() -> None:
    done = envprobe("nccl", str(LOGS / "043.log"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert (
        lines[0] == lines[-1] == "FAILS: 1 error in 2 ranks of 1 communicator in 2 processes"
        " (exit 1)"
    )
    assert "NCCL_BUFFSIZE       0      8388608  (no line shows it)" in lines
    assert "                    1      -        (no line shows it)" in lines
    assert "NCCL_NVLS_ENABLE    all 2  0        0 NVLS channels" in lines
    said = " ".join(done.stdout.split())
    assert "8388608 in rank 0; not read in rank 1." in said
    assert "wrong numbers without any message" in said
    assert "used: 24 channels, P2P/CUMEM (24), network Socket" in said


def test_equal_ranks_and_equal_communicators_are_folded(tmp_path: Path) -> None:
    ranks = [rank(n, 64, {**BASE, "NCCL_BUFFSIZE": "8388608."}) for n in range(64)]
    done = envprobe("nccl", write(tmp_path, ranks))
    assert done.returncode == 0
    assert "NCCL_BUFFSIZE       all 64  8388608" in done.stdout
    assert "ranks 0-63 on node0" in done.stdout
    assert len(done.stdout.splitlines()) < 20


def test_several_files_are_one_log_and_reports_go_to_files_too(tmp_path: Path) -> None:
    for number, reads in ((0, BASE), (1, {**BASE, "NCCL_PROTO": "LL"})):
        text = "\n".join(rank(number, 2, reads)) + "\n"
        with gzip.open(tmp_path / f"nccl.{number}.log.gz", "wt") as file:
            file.write(text)
    report = tmp_path / "report.txt"
    code, document = run(str(tmp_path / "nccl.*.log.gz"), "-o", f"text={report}")
    assert (code, told(document)) == (1, [("nccl-ranks-differ-critical", "error", "NCCL_PROTO")])
    assert "Simple in rank 0; LL in rank 1" in " ".join(report.read_text("utf-8").split())


def test_a_report_never_replaces_a_log(tmp_path: Path) -> None:
    path = write(tmp_path, [rank(n, 2, BASE) for n in range(2)])
    before = Path(path).read_bytes()
    done = envprobe("nccl", str(tmp_path / "*"), "-o", f"text={path}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"-o {path} would replace a log that is read" in done.stderr
    assert Path(path).read_bytes() == before


def test_what_follows_in_a_broken_file_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "043.log.gz"
    path.write_bytes(gzip.compress((LOGS / "043.log").read_bytes())[:1500])
    code, document = run(str(path))
    assert (code, told(document)) == (
        3,
        [("nccl-log-damaged", "info", None), ("nccl-log-damaged", "unknown", None)],
    )
    assert document["files"][0]["broken"] == "the compressed data break off"
    # The second rank may have read it in what is lost.
    (table,) = document["communicators"]
    assert "NCCL_BUFFSIZE" in json.dumps(table)
    code, _ = run(str(path), "--allow-unknown", "nccl-log-damaged")
    assert code == 0


def test_standard_input_and_prefixes_of_launchers() -> None:
    text = "".join(f"[pod/job-{n}/main] {line}\n" for n in range(2) for line in rank(n, 2, BASE))
    done = subprocess.run(
        [*script(), "nccl", "-", "--expect", "NCCL_PROTO=Simple"],
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "HOLDS: 1 expectation checked in 2 ranks of 1 communicator" in done.stdout


def test_unknowns_give_3_and_can_be_accepted(tmp_path: Path) -> None:
    path = write(tmp_path, [rank(n, 2, BASE) for n in range(2)])
    asked = (path, "--expect", "NCCL_NET=Socket")
    code, document = run(*asked)
    assert (code, told(document)) == (3, [("nccl-not-shown", "unknown", "NCCL_NET")])
    cell = next(
        one["cells"][0]
        for one in document["communicators"][0]["variables"]
        if one["name"] == "NCCL_NET"
    )
    assert (cell["shown"], cell["used"]) == ("not_shown", "network Socket")
    assert cell["reasons"] == ["NCCL reads it without printing anything"]
    code, document = run(*asked, "--allow-unknown", "nccl-not-shown")
    assert (code, document["verdict"]["counts"]["accepted"]) == (0, 1)
    assert run(*asked, "--exit-zero")[0] == 0


def test_no_nccl_line_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "other.log"
    path.write_text("nothing of NCCL\n" * 10, "utf-8")
    code, document = run(str(path))
    assert (code, told(document)) == (3, [("nccl-no-communicator", "unknown", None)])


def test_warnings_fail_where_that_is_asked_for(tmp_path: Path) -> None:
    reads = {**BASE, "NCCL_LL_BUFFSIZE": "8."}
    path = write(tmp_path, [rank(n, 2, reads) for n in range(2)])
    assert run(path)[0] == 0
    code, document = run(path, "--fail-on", "warning")
    assert (code, told(document)) == (1, [("nccl-value-odd", "warning", "NCCL_LL_BUFFSIZE")])


def test_a_configuration_file_that_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, [rank(n, 2, {**BASE, "NCCL_ALGO": "Ring"}) for n in range(2)])
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_ALGO=Ring\nexport NCCL_PROTO=LL\n", "utf-8")
    code, document = run(path, "--conf", str(conf))
    assert code == 0
    assert told(document) == [
        ("nccl-conf-file", "warning", "NCCL_PROTO"),
        ("nccl-set-elsewhere", "info", "NCCL_ALGO"),
    ]
    assert document["configuration_files"][0]["lines"][1]["oddities"] == ["export"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no log was given"),
        (("",), "LOG is empty"),
        (("/nonexistent/log",), "there is no file /nonexistent/log"),
        (("LOG", "--expect", "=x"), "a name of a variable is missing"),
        (("LOG", "--conf", "/nonexistent/conf"), "--conf /nonexistent/conf cannot be read"),
        (("LOG", "--allow-unknown", "nccl-ranks-differ"), "nothing would be accepted"),
        (("LOG", "--allow-unknown", "env-unknown"), "nothing would be accepted"),
        (("LOG", "--fail-on", "error", "--fail-on", "info"), "given twice"),
        (("LOG", "-o", "xml=x"), "FORMAT is one of text, json"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    given = [str(LOGS / "037.log") if one == "LOG" else one for one in arguments]
    done = envprobe("nccl", *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_text_of_a_log_is_data(tmp_path: Path) -> None:
    reads = {**BASE, "NCCL_COMM_ID": "\x1b[31m::error::[bold]x[/bold]\x07", "NCCL_API_TOKEN": "s3"}
    ranks = [
        rank(
            n, 2, reads, warnings=["Message truncated : received 1 bytes instead of 2\x1b]0;x\x07"]
        )
        for n in range(2)
    ]
    path = write(tmp_path, ranks)
    for kind in ("text", "json"):
        done = envprobe("nccl", path, "--format", kind)
        assert done.returncode == 1
        assert not {"\x1b", "\x07"} & set(done.stdout)
        assert not any(line.startswith("::") for line in done.stdout.splitlines())
        assert '"s3"' not in done.stdout
        assert " s3 " not in done.stdout
    assert " s3" in envprobe("nccl", path, "--unmask").stdout


def test_a_bar_shows_on_a_terminal_how_far_a_large_file_has_come(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(LOGS / "038.log")
    monkeypatch.setattr(cli_nccllog, "_PROGRESS_FROM", os.path.getsize(path))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert cli_nccllog.read((path,)).messages == 154
    assert "13.2/13.2 kB" in capfd.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert cli_nccllog.read((path,)).messages == 154
    assert capfd.readouterr().err == ""
