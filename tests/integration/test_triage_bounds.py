"""`triage` on logs that are huge, damaged or hostile, on wrong usage, and in every format."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from envprobe.errors import UsageError
from envprobe.nccl import archives, streams
from envprobe.report import formats
from envprobe.triage import reading
from tests.programs import consumers
from tests.programs.envprobe_cli import environment, envprobe, script
from tests.programs.peak import telling_peak
from tests.programs.requirement import missing

SCHEMA = jsonschema.Draft202012Validator(tables.load("triage.schema"))
MISSING = b"Traceback (most recent call last):\n" + (
    b'  File "/srv/serve.py", line 7, in <module>\n    import torch\n'
    b"ModuleNotFoundError: No module named 'torch'\n"
)
GONE = b"PermissionError: [Errno 13] Permission denied: '/srv/model'\n"


def run(*arguments: str) -> Any:
    ran = envprobe("triage", *arguments, "--format", "json")
    found = json.loads(ran.stdout)
    SCHEMA.validate(found)
    assert ran.returncode == found["verdict"]["exit"], ran.stderr
    return found


def _first(found: Any) -> tuple[int, str]:
    return found["verdict"]["exit"], found["findings"][0]["check"]


# --- size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_the_head", [True, False])
def test_of_ten_gigabytes_the_head_and_the_tail_are_read(tmp_path: Path, at_the_head: bool) -> None:
    log = tmp_path / "huge.log"
    size = 10 << 30
    with log.open("wb") as file:
        file.write(b"begin\n" + (MISSING if at_the_head else b""))
        file.truncate(size)  # sparse: zeros that take no room
        file.seek(size)
        file.write(b"\n" + GONE)
    reading_end, writing_end = os.pipe()
    command = [*script(), "triage", str(log), "--format", "json"]
    ran = subprocess.run(
        telling_peak(command, writing_end),
        capture_output=True,
        env=environment(),
        pass_fds=(writing_end,),
        timeout=120,
        check=False,
    )
    os.close(writing_end)
    with open(reading_end, "rb") as told:
        peak = int(told.read())
    found = json.loads(ran.stdout)
    SCHEMA.validate(found)
    assert ran.returncode == 1
    assert peak < 200 << 10
    (read,) = found["logs"]
    assert read["left_out_bytes"] == size + 1 + len(GONE) - reading.HEAD - reading.TAIL
    assert read["binary"]
    line = found["cause"]["line"]
    if at_the_head:
        assert _first(found) == (1, "start-module-missing")
        assert line["number"] == 5
        assert [one["check"] for one in found["follows"]] == ["start-permission-denied"]
    else:
        assert _first(found) == (1, "start-permission-denied")
        assert (line["number"], line["offset"]) == (None, size + 1)
        assert any("were not read" in one for one in found["findings"][0]["evidence"])


def test_of_a_long_stream_the_same_is_read_and_lines_are_numbered(tmp_path: Path) -> None:
    """Standard input cannot be sought in; what lies between head and tail is dropped."""
    filler = b"x" * 1023 + b"\n"
    number = (reading.HEAD + reading.TAIL + (64 << 20)) // len(filler)
    process = subprocess.Popen(
        [*script(), "triage", "-", "--format", "json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    for _ in range(number):
        process.stdin.write(filler)
    out = process.communicate(MISSING, timeout=120)[0]
    found = json.loads(out)
    SCHEMA.validate(found)
    assert _first(found) == (1, "start-module-missing")
    assert found["cause"]["line"]["number"] == number + 4
    # Whole blocks are dropped.
    left_out = found["logs"][0]["left_out_bytes"]
    assert 63 << 20 < left_out < (64 << 20) + 2 * streams.BLOCK
    assert process.returncode == 1


def test_a_line_of_a_hundred_megabytes_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    with log.open("wb") as file:
        file.write(b"first\nprogress: ")
        for _ in range(90):
            file.write(b"ModuleNotFoundError: " + b"y" * (1 << 20))
        file.write(b"\n" + GONE)
    found = run(str(log))
    assert _first(found) == (1, "start-permission-denied")
    assert found["cause"]["line"]["number"] == 3


def test_a_million_causes_stay_one_bounded_report(tmp_path: Path) -> None:
    log = tmp_path / "many.log"
    log.write_bytes(MISSING * 50_000)
    found = run(str(log))
    assert _first(found) == (1, "start-module-missing")
    assert any(one.startswith("50000 lines") for one in found["findings"][0]["evidence"])
    assert len(json.dumps(found)) < 200_000


# --- what stands in a log ------------------------------------------------------------------------


def test_binary_and_torn_bytes_hide_nothing(tmp_path: Path) -> None:
    log = tmp_path / "torn.log"
    log.write_bytes(os.urandom(1 << 16) + b"\n\0\xff\xfe\x1b[2J\n" + MISSING + b"\x80" * 100)
    assert _first(run(str(log))) == (1, "start-module-missing")


SECRETS = (
    "ValueError: token=hunter2hunter2",
    "PermissionError: [Errno 13] cannot open https://user:hunter2hunter2@host/x",
    "serve.py: error: unrecognized arguments: --api-key hunter2hunter2",
    "ModuleNotFoundError: No module named 'x' (Authorization: Bearer hunter2hunter2)",
    "PermissionError: [Errno 13] password is: password = hunter2hunter2",
)


@pytest.mark.parametrize("line", SECRETS)
def test_a_credential_in_a_line_is_masked_in_every_format(tmp_path: Path, line: str) -> None:
    log = tmp_path / "secret.log"
    log.write_text(f"{line}\n")
    outputs = {kind: tmp_path / kind for kind in (*formats.MACHINE, "json")}
    options = [f"-o{kind}={path}" for kind, path in outputs.items()]
    ran = envprobe("triage", str(log), *options, "--show-all")
    assert ran.returncode == (3 if line.startswith("ValueError") else 1), ran.stderr
    for text in (ran.stdout, *(path.read_text() for path in outputs.values())):
        assert "hunter2" not in text
    assert "<masked>" in ran.stdout


HOSTILE = "ModuleNotFoundError: \x1b[31m::error::x ##[error]y ]]> </script> <b> %0A {{7*7}} \u202e"


def test_what_a_line_holds_breaks_no_format(tmp_path: Path) -> None:
    log = tmp_path / "hostile.log"
    log.write_text(f"{HOSTILE}\n", "utf-8")
    outputs = {kind: tmp_path / f"report.{kind}" for kind in formats.MACHINE}
    options = [f"-o{kind}={path}" for kind, path in outputs.items()]
    ran = envprobe("triage", str(log), *options)
    assert ran.returncode == 1, ran.stderr
    assert "\x1b" not in ran.stdout
    annotations = consumers.annotations(outputs["github"].read_text())
    assert annotations[0].title.startswith("EP604")
    sarif = consumers.sarif(outputs["sarif"].read_text())
    assert [one["ruleId"] for one in sarif["results"]] == ["EP604"]
    cases = consumers.cases(outputs["junit"].read_text())
    failed = [name for name, case in cases.items() if case.result]
    assert any(name.startswith("EP604") for name in failed)
    page = outputs["html"].read_text()
    assert "</script> <b>" not in page
    assert "signs of the failure" in page


def test_could_not_tell_is_an_error_of_junit_and_no_skip(tmp_path: Path) -> None:
    log = tmp_path / "quiet.log"
    log.write_text("all is well\n")
    ran = envprobe("triage", str(log), "--format", "junit")
    assert ran.returncode == 3
    cases = consumers.cases(ran.stdout)
    (unknown,) = (case for name, case in cases.items() if name.startswith("EP614"))
    assert type(unknown.result[0]).__name__ == "Error"


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be-with-a-mark"])
def test_a_log_in_utf_16_is_read(tmp_path: Path, codec: str) -> None:
    log = tmp_path / "a.log"
    text = "starting \u4e2d\n" + MISSING.decode()
    marked = text if codec == "utf-16" else "\ufeff" + text
    log.write_bytes(marked.encode(codec.removesuffix("-with-a-mark")))
    found = run(str(log))
    assert _first(found) == (1, "start-module-missing")
    assert not found["logs"][0]["binary"]


def test_a_line_without_its_end_is_a_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    for text, lines in ((b"A" * 1000, 1), (b"a\nb", 2), (b"a\nb\n", 2), (b"\n", 1)):
        log.write_bytes(text)
        found = run(str(log))
        assert found["logs"][0]["lines"] == lines, text[:9]
        assert "no line tells a failure" in found["findings"][0]["message"]


def test_of_a_log_of_which_nothing_could_be_read_is_not_said_that_it_is_empty(
    tmp_path: Path,
) -> None:
    log = tmp_path / "a.log.gz"
    log.write_bytes(gzip.compress(MISSING)[:12])
    found = run(str(log))
    assert _first(found) == (3, "start-cause-unknown")
    assert "nothing of a log could be read" in found["findings"][0]["message"]


# --- usage ---------------------------------------------------------------------------------------


def test_an_empty_log_and_one_without_a_failure_are_could_not_tell(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"")
    found = run(str(log))
    assert _first(found) == (3, "start-cause-unknown")
    assert "the log is empty" in found["findings"][0]["message"]
    log.write_text("[2026-11-30 02:20:05] The server is fired up and ready to roll!\n")
    found = run(str(log))
    assert _first(found) == (3, "start-cause-unknown")
    assert "the server was ready" in found["findings"][0]["message"]
    ran = envprobe("triage", str(log), "--allow-unknown", "EP614", "--format", "json")
    accepted = json.loads(ran.stdout)
    assert (ran.returncode, accepted["findings"][0]["accepted"]) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "`triage` takes one log or one unit"),
        (("a.log", "--unit", "b"), 2, "`triage` takes one log or one unit"),
        (("",), 2, "`triage` takes one log or one unit"),
        (("--user", "a.log"), 2, "--user needs --unit"),
        (("/nonexistent/a.log",), 2, "No such file or directory"),
        (("/tmp",), 2, "is neither a file nor a pipe"),
        (("/dev/null",), 2, "is neither a file nor a pipe"),
        (("--unit", "a.timer"), 2, "a.timer is no service"),
        (("a\0b",), 2, "cannot be read"),
    ],
)
def test_wrong_usage_is_one_error(arguments: tuple[str, ...], code: int, said: str) -> None:
    if "a\0b" in arguments:
        # No command line can hold it; a program that calls in can.
        with pytest.raises(UsageError, match=said):
            reading.read("a\0b")
        return
    ran = envprobe("triage", *arguments)
    assert ran.returncode == code
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_log_that_may_not_be_read_is_could_not_tell(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("root", "only root can become a user who may not read it")
    log = tmp_path / "secret.log"
    log.write_bytes(MISSING)
    log.chmod(0o600)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    child = (
        "import os, sys\nsys.path.insert(0, sys.argv[2])\n"
        "from envprobe.errors import EnvprobeError\n"
        "from envprobe.triage import reading\nos.setgroups([])\nos.setresgid(*[65534] * 3)\n"
        "os.setresuid(*[65534] * 3)\n"
        "try:\n    reading.read(sys.argv[1])\nexcept EnvprobeError as error:\n"
        "    print(int(error.code), error.message)\n"
    )
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-c", child, str(log), root], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == f"3 {log} may not be read"


def test_a_manager_that_is_not_there_leaves_the_log(tmp_path: Path) -> None:
    ran = envprobe(
        "triage", "--user", "--unit", "a", env=environment(XDG_RUNTIME_DIR=str(tmp_path))
    )
    assert ran.returncode == 3
    assert "service manager cannot be asked" in ran.stderr
    assert "`journalctl --user-unit=a | envprobe triage -`" in ran.stderr


def test_a_compression_without_its_library_names_no_other_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError) as raised:
        list(archives.unpacked("zstd", iter([b""]), "a.zst", 1))
    assert "zstd -dc FILE" in raised.value.remedy
    assert "nccl" not in raised.value.remedy


def test_a_report_never_replaces_the_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(MISSING)
    ran = envprobe("triage", str(log), "-o", f"json={log}")
    assert ran.returncode == 2
    assert "would replace the log" in ran.stderr
    assert log.read_bytes() == MISSING
