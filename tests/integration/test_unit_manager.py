"""A unit of a running manager: what is loaded, what its files say, what its process was given."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from envprobe.launch import live
from envprobe.launch.definition import Context, of_name
from envprobe.launch.manager import Manager
from envprobe.model import Environment, State
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.usermanager import UserManager, user_manager

PYTHON = os.path.realpath(sys.executable)
WAIT = f'{PYTHON} -c "import signal; signal.pause()"'
SIX = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_IB_DISABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_DEBUG": "INFO",
}


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserManager]:
    with user_manager(tmp_path_factory.mktemp("manager")) as found:
        yield found


def _unit(manager: UserManager, *arguments: str) -> Any:
    """Run `envprobe unit --user` as JSON and return the exit code and the report."""
    ran = envprobe(
        "unit", "--user", "--format", "json", *arguments, env=environment(**manager.environment)
    )
    found = json.loads(ran.stdout)
    jsonschema.Draft202012Validator(tables.load("unit.schema")).validate(found)
    assert ran.returncode == found["verdict"]["exit"]
    return found


def _checks(found: Any) -> set[tuple[str, str]]:
    return {(one["check"], one["severity"]) for one in found["findings"]}


def _body(*lines: str, exec_start: str = WAIT) -> str:
    return "\n".join(["[Service]", *lines, f"ExecStart={exec_start}", ""])


def _started(manager: UserManager, name: str, body: str) -> int:
    manager.write(f"{name}.service", body)
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name)
    return manager.main_pid(name)


@pytest.fixture
def name(request: pytest.FixtureRequest, manager: UserManager) -> Iterator[str]:
    chosen = f"t{abs(hash(request.node.name))}"
    yield chosen
    manager.systemctl("stop", chosen, check=False)


def test_a_healthy_unit_holds_before_and_after_the_start(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    server = tmp_path / "serve.py"
    server.write_text(
        "import signal\n\ndef main():\n    signal.pause()\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )
    lines = [f"Environment={key}={value}" for key, value in SIX.items()]
    body = _body(*lines, "Environment=PYTHONPATH=/opt/hooks", exec_start=f"{PYTHON} {server}")
    manager.write(f"{name}.service", body)
    manager.systemctl("daemon-reload")
    expect = [f"--expect={key}={value}" for key, value in SIX.items()]
    for _ in range(2):
        found = _unit(manager, name, *expect, "--expect", "PYTHONPATH~=/opt/hooks")
        assert (found["verdict"]["exit"], found["findings"]) == (0, [])
        (definition,) = found["definitions"]
        entries = {one["name"]: one for one in definition["entries"]}
        line = body.split("\n").index("Environment=NCCL_ALGO=Ring") + 1
        path = str(manager.units / f"{name}.service")
        assert entries["NCCL_ALGO"]["place"] == {"file": path, "line": line}
        assert entries["NCCL_ALGO"]["value"] == {"text": "Ring"}
        (look,) = definition["entry_files"]
        assert (look["guard"], look["starts"], look["own_grammar"]) == (6, [], False)
        manager.systemctl("start", name)
    pid = manager.main_pid(name)
    assert definition["live"]["main_pid"] == pid
    asked = live.ask(Manager(True, manager.environment), name)
    assert asked.members([pid, os.getpid()]) == [pid]


def test_an_edit_without_daemon_reload(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring KEPT=1"))
    path = manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree KEPT=1"))
    os.utime(path, (time.time() + 2, time.time() + 2))
    found = _unit(manager, name)
    assert _checks(found) == {("unit-not-reloaded", "error")}
    (one,) = found["findings"]
    assert one["evidence"] == ["What is loaded and what the files say differ in NCCL_ALGO."]
    assert one["pids"] == [pid]
    assert "systemctl --user daemon-reload" in one["remedy"]


def test_a_new_drop_in_that_systemd_itself_does_not_see(manager: UserManager, name: str) -> None:
    _started(manager, name, _body("Environment=NCCL_ALGO=Ring"))
    path = manager.write(f"{name}.service.d/10.conf", "[Service]\nEnvironment=NCCL_ALGO=Tree\n")
    assert manager.systemctl("show", "--value", "-p", "NeedDaemonReload", name).strip() == "no"
    found = _unit(manager, name)
    errors = {check for check, severity in _checks(found) if severity == "error"}
    assert errors == {"unit-not-reloaded"}
    (one,) = (one for one in found["findings"] if one["check"] == "unit-not-reloaded")
    assert f"{path} is not loaded." in one["evidence"]


def test_an_edit_on_top_of_a_forgotten_restart(manager: UserManager, name: str) -> None:
    _started(manager, name, _body("Environment=NCCL_ALGO=Ring B=1"))
    path = manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree B=1"))
    manager.systemctl("daemon-reload")
    path.write_text(_body("Environment=NCCL_ALGO=Tree B=2"))
    os.utime(path, (time.time() + 2, time.time() + 2))
    found = _unit(manager, name)
    assert _checks(found) == {("unit-not-reloaded", "error"), ("unit-not-restarted", "error")}
    told = {one["check"]: one for one in found["findings"]}
    assert told["unit-not-restarted"]["message"].endswith("says now for NCCL_ALGO.")
    assert told["unit-not-reloaded"]["evidence"][0].endswith("differ in B.")


def test_a_restart_that_was_forgotten(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring KEPT=1"))
    manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree KEPT=1"))
    manager.systemctl("daemon-reload")
    found = _unit(manager, name)
    assert _checks(found) == {("unit-not-restarted", "error")}
    (one,) = found["findings"]
    assert one["pids"] == [pid]
    assert one["message"].endswith("it was not given what the unit says now for NCCL_ALGO.")
    manager.systemctl("restart", name)
    assert _unit(manager, name)["findings"] == []


def test_a_unit_that_was_only_touched_is_a_warning(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring"))
    path = manager.units / f"{name}.service"
    os.utime(path, (time.time() + 2, time.time() + 2))
    manager.systemctl("daemon-reload")
    found = _unit(manager, name)
    assert (found["verdict"]["exit"], _checks(found)) == (0, {("unit-not-restarted", "warning")})
    assert found["findings"][0]["pids"] == [pid]


def test_an_environment_file_that_is_newer_than_the_process(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "nccl.env"
    file.write_text("NCCL_ALGO=Ring\nKEPT=1\n")
    pid = _started(manager, name, _body(f"EnvironmentFile={file}"))
    assert _unit(manager, name)["findings"] == []
    file.write_text("NCCL_ALGO=Tree\nKEPT=1\n")
    found = _unit(manager, name)
    assert _checks(found) == {("env-file-newer", "error")}
    (one,) = found["findings"]
    assert (one["pids"], "now for NCCL_ALGO." in one["message"]) == ([pid], True)
    file.write_text("NCCL_ALGO=Ring\nKEPT=1\n")
    os.utime(file, (time.time() + 2, time.time() + 2))
    again = _unit(manager, name)
    assert (again["verdict"]["exit"], _checks(again)) == (0, {("env-file-newer", "warning")})


def test_a_unit_that_failed_says_so_in_one_line(manager: UserManager, name: str) -> None:
    manager.write(f"{name}.service", _body("Type=oneshot", exec_start="/bin/sh -c 'exit 7'"))
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name, check=False)
    found = _unit(manager, name)
    (one,) = (one for one in found["findings"] if one["check"] == "unit-failed")
    assert one["message"] == (
        f"{name}.service has failed: its main process ended with an error"
        " (exit-code, exit status 7)."
    )


def test_the_cause_of_a_failure_is_told_from_the_log_of_the_unit(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    start = f'{PYTHON} -c "import no_such_module_of_sgl"'
    log = tmp_path / "sgl.log"
    body = _body("Type=oneshot", f"StandardError=file:{log}", exec_start=start)
    manager.write(f"{name}.service", body)
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name, check=False)
    found = _unit(manager, name)
    (one,) = (one for one in found["findings"] if one["check"] == "unit-failed")
    assert found["verdict"]["exit"] == 1
    assert any("no_such_module_of_sgl" in line for line in one["evidence"]), one


def test_too_many_starts_need_reset_failed(manager: UserManager, name: str) -> None:
    body = _body("Type=simple", "Restart=always", "RestartSec=0", exec_start="/bin/false")
    manager.write(f"{name}.service", body)
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name, check=False)
    deadline = time.monotonic() + 20
    while manager.systemctl("show", "--value", "-p", "ActiveState", name).strip() != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    found = _unit(manager, name)
    (one,) = (one for one in found["findings"] if one["check"] == "unit-failed")
    assert "restarts" in one["message"]
    assert f"systemctl --user reset-failed {name}.service" in one["remedy"]


def test_a_missing_environment_file_is_told_before_and_after(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    manager.write(f"{name}.service", _body(f"EnvironmentFile={tmp_path}/none.env"))
    manager.systemctl("daemon-reload")
    assert ("env-file-not-found", "error") in _checks(_unit(manager, name))
    manager.systemctl("start", name, check=False)
    found = _unit(manager, name)
    assert {("env-file-not-found", "error"), ("unit-failed", "error")} <= _checks(found)
    assert any("(resources" in one["message"] for one in found["findings"])


def test_a_unit_that_the_manager_refuses(manager: UserManager, name: str) -> None:
    manager.write(f"{name}.service", _body("Type=simple", "ExecStart=/bin/true"))
    manager.systemctl("daemon-reload")
    found = _unit(manager, name)
    assert {("unit-not-loaded", "error"), ("exec-line-odd", "error")} <= _checks(found)


def test_drop_ins_that_reset_and_remove(manager: UserManager, name: str) -> None:
    manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Ring NCCL_PROTO=LL"))
    reset = manager.write(f"{name}.service.d/20-reset.conf", "[Service]\nEnvironment=\n")
    manager.systemctl("daemon-reload")
    found = _unit(manager, name, "--expect", "NCCL_ALGO=Ring")
    assert _checks(found) == {("list-reset", "warning"), ("declared-unexpected", "error")}
    reset.write_text("[Service]\nUnsetEnvironment=NCCL_ALGO\nEnvironment=NCCL_PROTO=Simple\n")
    manager.systemctl("daemon-reload")
    found = _unit(manager, name)
    assert _checks(found) == {("variable-removed", "error"), ("entry-overridden", "warning")}
    (removed,) = (one for one in found["findings"] if one["check"] == "variable-removed")
    assert (removed["variable"], removed["who"]) == ("NCCL_ALGO", f"{reset}:2")


def test_what_the_manager_itself_hands_over_is_known(manager: UserManager, name: str) -> None:
    manager.systemctl("set-environment", "FROM_MANAGER=a b$'\"\\")
    try:
        manager.write(f"{name}.service", _body("Environment=A=1"))
        manager.systemctl("daemon-reload")
        found = _unit(manager, name, "--expect", "FROM_MANAGER=a b$'\"\\", "--expect", "!NOT_SET")
        assert (found["verdict"]["exit"], found["findings"]) == (0, [])
    finally:
        manager.systemctl("unset-environment", "FROM_MANAGER")


def test_what_the_wrappers_hand_on_is_what_the_process_was_given(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(
        "#!/bin/bash\nset -e\nexport NCCL_ALGO=Tree\n"
        "export PYTHONPATH=/opt/hooks${PYTHONPATH:+:$PYTHONPATH}\n"
        f"exec env -u GONE NCCL_PROTO=LL {WAIT}\n"
    )
    script.chmod(0o755)
    lines = ["Environment=NCCL_ALGO=Ring GONE=1 PYTHONPATH=/a", 'Environment="X=a b"']
    pid = _started(manager, name, _body(*lines, exec_start=f"/usr/bin/nice {script}"))
    definition = of_name(name, Context(manager.environment, user=True))
    (launch,) = definition.launches
    handed = _settled(manager, name, pid)
    assert launch.opaque == ""
    for entry in launch.declared.entries:
        reading = launch.declared.reading(entry.setting.name)
        if entry.setting.name in ("PWD", "OLDPWD", "SHLVL", "_"):
            assert reading.reason == "the shell sets it"
            continue
        assert reading.value == handed.reading(entry.setting.name).value, entry.setting.name
    assert handed.reading("GONE").state is State.ABSENT
    assert [one.program for one in launch.hops] == ["nice", "bash", "shell text", "env"]


def _settled(manager: UserManager, name: str, pid: int) -> Environment:
    """Return what the main process was given once all wrappers have handed over to Python."""
    deadline = time.monotonic() + 20
    while "python" not in os.path.basename(os.readlink(f"/proc/{pid}/exe")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    handed = live.ask(Manager(True, manager.environment), name).handed
    assert handed is not None
    return handed


def test_a_unit_that_does_not_exist(manager: UserManager) -> None:
    ran = envprobe("unit", "--user", "nothing", env=environment(**manager.environment))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "the unit nothing.service does not exist in the user's service manager" in ran.stderr


def test_a_unit_that_is_masked_says_how_to_take_that_away(manager: UserManager) -> None:
    (manager.units / "masked.service").symlink_to("/dev/null")
    manager.write("instance@.service", _body("Environment=NCCL_ALGO=Ring"))
    manager.write("relative.service", _body(exec_start="bin/python3 -c 1"))
    manager.systemctl("daemon-reload")
    ran = envprobe("unit", "--user", "masked", env=environment(**manager.environment))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "systemctl --user unmask masked.service" in ran.stderr
    # systemctl answers a pattern with any unit, and none of them was meant.
    ran = envprobe("unit", "--user", "inst*", env=environment(**manager.environment))
    assert (ran.returncode, "inst* is a pattern" in ran.stderr) == (2, True)
    assert _unit(manager, "instance@1.5")["definitions"][0]["subject"] == "instance@1.5.service"
    # What is refused here is refused by systemd.
    state = manager.systemctl("show", "--property=LoadState", "--value", "relative.service")
    assert state.strip() == "bad-setting"
    found = _unit(manager, "relative")
    assert _checks(found) == {("exec-line-odd", "error"), ("unit-not-loaded", "error")}
    assert found["definitions"][0]["launches"] == []
