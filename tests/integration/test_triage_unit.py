"""Real units of a real manager that fail, with a real journal: the cause is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from envprobe.checks.triage import oneline
from envprobe.launch.manager import Manager
from envprobe.redact import show_sentence
from tests.programs.envprobe_cli import environment, envprobe, script
from tests.programs.journald import Journal, journald
from tests.programs.usermanager import UserManager, user_manager

PYTHON = os.path.realpath(sys.executable)
SCHEMA = jsonschema.Draft202012Validator(tables.load("triage.schema"))
UNGUARDED = """\
import multiprocessing

def work():
    pass

def launch():
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
    raise SystemExit(1)

launch()
"""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    with journald(tmp_path_factory.mktemp("journal")) as found:
        yield found


@pytest.fixture(scope="module")
def manager(journal: Journal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserManager]:
    folder = tmp_path_factory.mktemp("manager")
    with user_manager(folder, journal.manager(folder)) as found:
        yield found


def _start(manager: UserManager, name: str, body: str) -> None:
    """Start a unit and wait until it has failed or runs: the job ends then."""
    manager.write(f"{name}.service", body)
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name, check=False)


def _wait_until(manager: UserManager, name: str, *states: str) -> None:
    """Wait for a state that the manager goes to by itself, in steps of its own time."""
    watch = f'until [ "$(systemctl --user show -P ActiveState {name})" = {states[0]} ]; do :; done'
    subprocess.run(["sh", "-c", watch], env=manager.environment, timeout=60, check=True)


def _triage(journal: Journal, manager: UserManager, *arguments: str, code: int) -> Any:
    journal.sync()
    ran = envprobe(
        "triage",
        "--user",
        "--format",
        "json",
        *arguments,
        env=environment(**manager.environment),
        command=[*journal.within, *script()],
    )
    found = json.loads(ran.stdout)
    SCHEMA.validate(found)
    assert ran.returncode == code == found["verdict"]["exit"], (found, ran.stderr)
    return found


def _finding(found: Any, check: str) -> Any:
    (finding,) = (one for one in found["findings"] if one["check"] == check)
    return finding


def test_a_restart_loop_is_told_by_its_first_cause_and_needs_reset_failed(
    journal: Journal, manager: UserManager, tmp_path: Path
) -> None:
    program = tmp_path / "serve.py"
    program.write_text(UNGUARDED)
    _start(
        manager,
        "looping",
        "[Unit]\nStartLimitIntervalSec=60\nStartLimitBurst=3\n"
        f"[Service]\nRestart=on-failure\nRestartSec=1ms\nExecStart={PYTHON} {program}\n",
    )
    _wait_until(manager, "looping", "failed")
    found = _triage(journal, manager, "--unit", "looping", code=1)
    assert (
        found["unit"]["restarts"]
        == 3
        == int(manager.systemctl("show", "-P", "NRestarts", "looping"))
    )
    cause = _finding(found, "start-reimports-main")
    assert cause["id"] == "EP601"
    assert f"{program}:12 in <module>" in cause["message"]
    assert "systemctl --user reset-failed looping.service" in cause["remedy"]
    assert any("restarted 3 times" in one for one in cause["evidence"])
    limit = _finding(found, "start-limit-hit")
    assert limit["id"] == "EP610"
    assert "after 3 restarts" in limit["message"]
    assert [one["kind"] for one in found["logs"]] == ["journal"]
    # What the remedy says is true: the start is refused before, and is not after.
    refused = manager.systemctl("start", "looping", check=False)
    assert "failed" in manager.systemctl("is-active", "looping", check=False), refused
    manager.systemctl("reset-failed", "looping")
    assert "inactive" in manager.systemctl("is-active", "looping", check=False)


def test_a_unit_that_is_refused_after_starts_by_hand_names_the_limit(
    journal: Journal, manager: UserManager
) -> None:
    """It was never restarted by itself, and its result is that of its last failure."""
    body = (
        "[Unit]\nStartLimitIntervalSec=60\nStartLimitBurst=2\n"
        f"[Service]\nExecStart={PYTHON} -c 'import envprobe_has_no_such_module'\n"
    )
    # Each daemon-reload would begin to count anew.
    _start(manager, "byhand", body)
    for _ in range(2):
        _wait_until(manager, "byhand", "failed")
        manager.systemctl("start", "byhand", check=False)
    found = _triage(journal, manager, "--unit", "byhand", code=1)
    assert (found["unit"]["restarts"], found["unit"]["result"]) == (0, "exit-code")
    cause = _finding(found, "start-module-missing")
    assert "systemctl --user reset-failed byhand.service" in cause["remedy"]
    limit = _finding(found, "start-limit-hit")
    assert "systemd refuses to start byhand.service again" in limit["message"]


def test_a_unit_that_did_not_end_when_it_was_stopped_was_stopped(
    journal: Journal, manager: UserManager, tmp_path: Path
) -> None:
    """Its result is `timeout`, and that it was killed follows from it."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    program = tmp_path / "serve.py"
    program.write_text(
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(ready)!r}, 'w').close()\nwhile True:\n    signal.pause()\n"
    )
    _start(manager, "stays", f"[Service]\nTimeoutStopSec=300ms\nExecStart={PYTHON} {program}\n")
    ready.read_bytes()
    manager.systemctl("stop", "stays", check=False)
    found = _triage(journal, manager, "--unit", "stays", code=1)
    assert found["unit"]["result"] == "timeout"
    finding = _finding(found, "start-stopped")
    assert finding["id"] == "EP615"
    assert "Stopping stays.service" in finding["message"]
    assert any("9/KILL" in one for one in finding["evidence"])


def test_lines_without_the_id_of_their_start_are_found_by_unit_and_time(
    journal: Journal, tmp_path: Path
) -> None:
    with user_manager(tmp_path, journal.manager(tmp_path, known=False)) as manager:
        body = f"[Service]\nExecStart={PYTHON} -c 'import envprobe_has_no_such_module'\n"
        _start(manager, "anonymous", body)
        _wait_until(manager, "anonymous", "failed")
        found = _triage(journal, manager, "--unit", "anonymous", code=1)
    finding = _finding(found, "start-module-missing")
    assert finding["id"] == "EP604"
    assert finding["who"].startswith("the journal of anonymous.service")


def test_a_log_file_that_the_unit_names_is_read(
    journal: Journal, manager: UserManager, tmp_path: Path
) -> None:
    log = tmp_path / "serve.log"
    _start(
        manager,
        "tofile",
        f"[Service]\nStandardOutput=append:{log}\nStandardError=inherit\n"
        f"ExecStart={PYTHON} -c 'import envprobe_has_no_such_module'\n",
    )
    _wait_until(manager, "tofile", "failed")
    found = _triage(journal, manager, "--unit", "tofile", code=1)
    assert found["unit"]["files"] == [str(log)]
    finding = _finding(found, "start-module-missing")
    assert finding["id"] == "EP604"
    assert finding["who"].startswith(f"{log}:")
    assert "envprobe_has_no_such_module" in finding["message"]
    assert "`reset-failed` is not needed" in finding["remedy"]


@pytest.mark.parametrize(
    ("body", "check", "said"),
    [
        ("ExecStart=/nonexistent/python serve.py", "start-program-not-run", "EXEC"),
        ("WorkingDirectory=/nonexistent\nExecStart=/bin/true", "start-program-not-run", "CHDIR"),
        (
            "Type=notify\nTimeoutStartSec=200ms\nExecStart=/bin/sleep 60",
            "start-timed-out",
            "start operation timed out",
        ),
        ("ExecStart=/bin/sh -c 'kill -9 $$$$'", "start-worker-died", "9/KILL"),
    ],
    ids=["exec", "chdir", "timeout", "killed"],
)
def test_what_only_the_manager_says(
    journal: Journal,
    manager: UserManager,
    request: pytest.FixtureRequest,
    body: str,
    check: str,
    said: str,
) -> None:
    name = f"only{abs(hash(request.node.name))}"
    _start(manager, name, f"[Service]\n{body}\n")
    _wait_until(manager, name, "failed")
    found = _triage(journal, manager, "--unit", name, code=1)
    finding = _finding(found, check)
    assert said in finding["message"]
    assert finding["who"].startswith(f"the journal of {name}.service")


def test_only_the_last_start_counts_and_a_running_unit_holds(
    journal: Journal, manager: UserManager, tmp_path: Path
) -> None:
    switch, ready = tmp_path / "mended", tmp_path / "ready"
    os.mkfifo(ready)
    program = tmp_path / "serve.py"
    program.write_text(
        "import os, signal\n"
        f"if not os.path.exists({str(switch)!r}):\n"
        "    import envprobe_has_no_such_module\n"
        "print('serving', flush=True)\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "signal.pause()\n"
    )
    _start(manager, "mends", f"[Service]\nExecStart={PYTHON} {program}\n")
    _wait_until(manager, "mends", "failed")
    found = _triage(journal, manager, "--unit", "mends", code=1)
    assert "serve.py:3" in _finding(found, "start-module-missing")["message"]
    switch.touch()
    manager.systemctl("start", "mends")
    ready.read_bytes()
    found = _triage(journal, manager, "--unit", "mends", code=0)
    assert found["findings"] == []
    assert found["unit"]["active"] == "active"
    assert found["logs"][0]["lines"] > 0
    manager.systemctl("stop", "mends")
    found = _triage(journal, manager, "--unit", "mends", code=3)
    finding = _finding(found, "start-cause-unknown")
    assert "the manager remembers no start of mends.service" in finding["message"]


def test_a_failure_that_a_running_unit_has_survived_is_a_warning(
    journal: Journal, manager: UserManager, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    program = tmp_path / "serve.py"
    program.write_text(
        "import signal, traceback\n"
        "try:\n    import envprobe_has_no_such_module\n"
        "except ImportError:\n    traceback.print_exc()\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "signal.pause()\n"
    )
    _start(manager, "survives", f"[Service]\nExecStart={PYTHON} {program}\n")
    ready.read_bytes()
    found = _triage(journal, manager, "--unit", "survives", code=0)
    finding = _finding(found, "start-module-missing")
    assert finding["severity"] == "warning"
    assert "survives.service runs all the same" in finding["message"]
    manager.systemctl("stop", "survives")


def test_the_cause_in_one_sentence_for_other_reports(manager: UserManager, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    _start(
        manager,
        "oneline",
        f"[Service]\nStandardOutput=truncate:{log}\n"
        f"ExecStart={PYTHON} -c 'import envprobe_has_no_such_module'\n",
    )
    _wait_until(manager, "oneline", "failed")
    asked = Manager(True, manager.environment)
    told = oneline.of_unit(asked, "oneline")
    assert told is not None
    said = show_sentence(told)
    assert said.startswith(f"{log}:")
    assert "a module or library is missing: No module named" in said
    manager.write("fine.service", f"[Service]\nExecStart={PYTHON} -c pass\n")
    manager.systemctl("daemon-reload")
    assert oneline.of_unit(asked, "fine") is None


def test_what_is_no_unit_or_was_never_started(journal: Journal, manager: UserManager) -> None:
    found = _triage(journal, manager, "--unit", "nosuch", code=2)
    assert "there is no unit nosuch.service" in found["error"]["message"]
    manager.write("never.service", "[Service]\nExecStart=/bin/true\n")
    manager.systemctl("daemon-reload")
    found = _triage(journal, manager, "--unit", "never", code=3)
    assert "no start of never.service" in _finding(found, "start-cause-unknown")["message"]
    manager.write("broken.service", "[Service]\nExecStart=\n")
    manager.systemctl("daemon-reload")
    found = _triage(journal, manager, "--unit", "broken", code=3)
    assert "broken.service is not loaded" in found["error"]["message"]


def test_a_journal_that_cannot_be_read_is_could_not_tell(manager: UserManager) -> None:
    """Outside of the namespace there is no journal of it: what is lacking is said."""
    _start(manager, "hidden", f"[Service]\nExecStart={PYTHON} -c 'import no_such_module_here'\n")
    _wait_until(manager, "hidden", "failed")
    ran = envprobe(
        "triage",
        "--user",
        "--unit",
        "hidden",
        "--format",
        "json",
        env=environment(**manager.environment),
    )
    found = json.loads(ran.stdout)
    SCHEMA.validate(found)
    assert ran.returncode == 3 == found["verdict"]["exit"]
    finding = _finding(found, "start-cause-unknown")
    assert finding["undetermined"]
    assert "the journal" in found["not_read"][0]["reason"]
    assert finding["remedy"] == found["not_read"][0]["remedy"]


def test_fields_of_a_process_that_lies_break_nothing(
    journal: Journal, manager: UserManager
) -> None:
    """Escapes, bytes that are no text, a line of a megabyte, a forged identifier, a secret."""
    program = (
        "import os, sys;"
        "sys.stderr.buffer.write(b'\\x1b[31m\\xff\\xfe ::error::x ##[error]y <script>\\n');"
        "sys.stderr.write('A' * 1000000 + '\\n');"
        "sys.stderr.write('PermissionError: [Errno 13] token=hunter2hunter2 \\x1b]0;x\\x07\\n');"
        "sys.exit(1)"
    )
    _start(
        manager,
        "lying",
        f'[Service]\nSyslogIdentifier=systemd\nExecStart={PYTHON} -c "{program}"\n'.replace(
            "\\", "\\\\"
        ),
    )
    _wait_until(manager, "lying", "failed")
    found = _triage(journal, manager, "--unit", "lying", code=1)
    finding = _finding(found, "start-permission-denied")
    assert finding["id"] == "EP609"
    text = json.dumps(found)
    assert "hunter2" not in text
    assert "\\u001b" not in text
    assert "<masked>" in text
