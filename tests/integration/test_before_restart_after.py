"""After a restart: whether it has happened, and with the definition that is there now."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from envprobe.launch import live
from envprobe.launch.manager import Manager
from tests.programs.restart import NAME, WORKERS, Change, Stage, stage
from tests.programs.usermanager import SECONDS


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("after")) as found:
        yield found


def test_what_a_wrapper_sets_is_no_forgotten_restart(here: Stage) -> None:
    text = here.unit.read_text().replace("ExecStart=", "ExecStart=/usr/bin/env NCCL_ALGO=Tree ")
    here.manager.write("wrapped.service", text.replace("--workers 8", "--workers 1"))
    here.manager.systemctl("daemon-reload")
    here.manager.systemctl("start", "wrapped")
    judged = here.judged("unit", "--user", "wrapped", "--expect", "NCCL_ALGO=Tree")
    assert (judged.code, judged.report["findings"]) == (0, [])
    here.manager.systemctl("stop", "wrapped")


def test_what_the_unit_does_not_set_any_more_is_still_in_the_process(here: Stage) -> None:
    running = here.identity()
    with here.changed(Change(drop_in="[Service]\nEnvironment=\nEnvironment=PYTHONPATH={path}\n")):
        judged = here.judged("unit", "--user", NAME)
        assert judged.found("error") == {("unit-not-restarted", None)}
        (one,) = judged.of("unit-not-restarted")
        assert one["pids"] == [here.pid]
        assert one["message"].endswith(
            "says now for NCCL_ALGO, NCCL_P2P_LEVEL, NCCL_SOCKET_IFNAME, NCCL_DEBUG_FILE."
        )
    assert here.identity() == running


@dataclasses.dataclass(frozen=True)
class Stayed:
    """A change that the running server has not got: what names it, and the variable it is about."""

    name: str
    change: Change
    check: str
    variable: str


STAYED = (
    Stayed(
        "an edit and daemon-reload without a restart",
        Change(
            unit=(("NCCL_ALGO=Ring", "NCCL_ALGO=Tree"),),
            config=(('NCCL_ALGO = "Ring"', 'NCCL_ALGO = "Tree"'),),
        ),
        "server-not-restarted",
        "NCCL_ALGO",
    ),
    Stayed(
        "an environment file that was changed since the start",
        Change(
            env_file=(("NCCL_PROTO=Simple", "NCCL_PROTO=LL"),),
            config=(('NCCL_PROTO = "Simple"', 'NCCL_PROTO = "LL"'),),
        ),
        "env-file-changed",
        "NCCL_PROTO",
    ),
    Stayed(
        "an edit without daemon-reload and without a restart",
        Change(
            unit=(("NCCL_ALGO=Ring", "NCCL_ALGO=Tree"),),
            config=(('NCCL_ALGO = "Ring"', 'NCCL_ALGO = "Tree"'),),
            loaded=False,
        ),
        "definition-not-loaded",
        "NCCL_ALGO",
    ),
)


@pytest.mark.parametrize("stayed", STAYED, ids=lambda one: one.name)
def test_the_old_server_is_told_from_a_new_one(here: Stage, stayed: Stayed) -> None:
    pid, _, children = running = here.identity()
    with here.changed(stayed.change):
        judged = here.live("--timeout", "5")
        assert judged.found("error") == {
            (stayed.check, stayed.variable),
            ("env-wrong-value", stayed.variable),
        }
        (cause,) = judged.of(stayed.check)
        assert cause["pids"] == [pid]
        (wrong,) = judged.of("env-wrong-value")
        assert len(wrong["pids"]) == WORKERS
        assert children.issuperset(wrong["pids"])
        assert judged.code == 1
    assert here.identity() == running


def test_a_restart_that_failed_is_no_server(here: Stage) -> None:
    name = "again.service"
    text = here.unit.read_text().replace("--workers 8", "--workers 1")
    here.manager.write(name, text)
    here.manager.systemctl("daemon-reload")
    here.manager.systemctl("start", name)
    old = here.manager.main_pid(name)
    here.manager.write(name, text.replace("--workers 1", "--workers none"))
    here.manager.systemctl("daemon-reload")
    here.manager.systemctl("restart", name, check=False)
    gate = ("gate", "-c", str(here.config), "--user", "--unit", name)
    judged = here.judged(*gate, "--live", "--wait", "1", "--timeout", "5")
    assert judged.code == 4
    assert "again.service has no main process (MainPID=0): it is failed" in judged.stderr
    assert not psutil.pid_exists(old)
    # What was wrong with the last start says nothing of the next one: it is kept apart.
    (failed,) = (one for one in here.judged(*gate).report["ignored"])
    assert (failed["check"], "exit status 2" in failed["message"]) == ("unit-failed", True)
    here.manager.systemctl("reset-failed", name)


def _given_up(here: Stage, name: str, interval: str) -> Path:
    """Start a unit that fails until systemd starts it no more; return the file with its starts."""
    starts = here.folder / f"{name}.starts"
    here.manager.write(
        name,
        f"[Unit]\nStartLimitIntervalSec={interval}\n[Service]\nRestart=always\nRestartSec=0\n"
        f"ExecStartPre=/bin/sh -c 'echo >>{starts}; exit 1'\nExecStart=/bin/true\n",
    )
    here.manager.systemctl("daemon-reload")
    here.manager.systemctl("start", name, check=False)
    deadline = time.monotonic() + SECONDS
    while here.manager.systemctl("show", "--value", "-p", "ActiveState", name).strip() != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return starts


def test_a_unit_that_systemd_refuses_to_start_again_fails_before(here: Stage) -> None:
    name = "refused.service"
    starts = _given_up(here, name, "1h 30min")
    before = starts.stat().st_size
    judged = here.judged("gate", "-c", str(here.config), "--user", "--unit", name)
    (failed,) = judged.of("unit-failed")
    assert (judged.code, failed["severity"], failed["who"]) == (1, "error", name)
    assert f"systemctl --user reset-failed {name}" in failed["remedy"]
    until = live.ask(Manager(True, here.manager.environment), name).refused_until
    assert until is not None
    assert 5300 < until - time.time() < 5401
    here.manager.systemctl("start", name, check=False)
    assert starts.stat().st_size == before
    here.manager.systemctl("reset-failed", name)


def test_a_unit_that_may_be_started_again_does_not(here: Stage) -> None:
    name = "allowed.service"
    starts = _given_up(here, name, "3s")
    before = starts.stat().st_size
    asked = Manager(True, here.manager.environment)
    deadline = time.monotonic() + SECONDS
    while live.ask(asked, name).refused_until is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    here.manager.systemctl("start", name, check=False)
    assert starts.stat().st_size > before
    here.manager.systemctl("stop", name, check=False)
    here.manager.systemctl("reset-failed", name, check=False)
