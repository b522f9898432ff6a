"""`workers` on a server of a real service manager: every route starts at what the unit declares."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from envprobe import factsfile, tables
from tests.programs.cli import Run, Span, judge, judge_as
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.usermanager import UserManager, user_manager

PYTHON = os.path.realpath(sys.executable)
SERVER = Path(__file__).parents[1] / "programs" / "unitserver.py"
SERVE = f"{PYTHON} {SERVER}"
SIX = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_IB_DISABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_DEBUG": "INFO",
}
NOBODY = 65534
SECONDS = 30


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserManager]:
    with user_manager(tmp_path_factory.mktemp("manager")) as found:
        yield found


@pytest.fixture
def name(request: pytest.FixtureRequest, manager: UserManager) -> Iterator[str]:
    chosen = f"w{abs(hash(request.node.name))}"
    yield chosen
    manager.systemctl("kill", "--signal=KILL", chosen, check=False)
    manager.systemctl("stop", chosen, check=False)
    manager.systemctl("reset-failed", chosen, check=False)


def _workers(manager: UserManager, *arguments: str) -> Run:
    ran = envprobe("workers", "--format=json", *arguments, env=environment(**manager.environment))
    run = Run(ran.returncode, ran.stdout, ran.stderr)
    if ran.stdout.startswith("{"):
        jsonschema.Draft202012Validator(tables.load("report.schema")).validate(run.document)
    return run


def _of_unit(manager: UserManager, name: str, *arguments: str) -> Run:
    return _workers(manager, "--user", "--unit", name, *arguments)


def _body(*lines: str, exec_start: str = SERVE) -> str:
    return "\n".join(
        ["[Service]", "Type=notify", "NotifyAccess=all", *lines, f"ExecStart={exec_start}", ""]
    )


def _started(manager: UserManager, name: str, body: str) -> int:
    manager.write(f"{name}.service", body)
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name)
    return manager.main_pid(name)


def _loud(run: Run) -> set[tuple[str, str, str, tuple[int, ...]]]:
    """Return check, severity, variable and processes of each finding above `info`.

    Orphans are those of the whole machine, and other tests leave some on purpose.
    """
    return {
        (one["check"], one["severity"], one["variable"], tuple(one["pids"]))
        for one in run.findings()
        if one["severity"] != "info" and one["check"] != "orphan-worker"
    }


def _later(path: Path) -> None:
    at = time.time() + 2
    os.utime(path, (at, at))


def _declared_break(run: Run, pid: int, variable: str) -> Span:
    (found,) = (one for one in run.spans(pid, variable) if one.before[1] == "declared")
    return found


# --- what holds ----------------------------------------------------------------------------------


def test_a_healthy_route_starts_at_the_declaration_and_holds(
    manager: UserManager, name: str
) -> None:
    lines = [f"Environment={key}={value}" for key, value in SIX.items()]
    pid = _started(manager, name, _body(*lines, "Environment=MY_OWN_SWITCH=on"))
    expect = [f"--expect={key}={value}" for key, value in SIX.items()]
    for run in (_of_unit(manager, name, *expect), _workers(manager, "--pid", str(pid), *expect)):
        assert (run.code, _loud(run)) == (0, set())
        assert len(run.workers()) == 3
        unit = run.scan["unit"]
        assert (unit["name"], unit["main_pid"]) == (f"{name}.service", pid)
        for variable, value in {**SIX, "MY_OWN_SWITCH": "on"}.items():
            assert run.text(pid, variable, "declared") == value
            for worker in run.workers():
                assert run.text(worker, variable) == value
        assert run.process(pid)["edge"]["launcher"] == "systemd"
    shown = _of_unit(manager, name, "--show-all")
    for worker in shown.workers():
        (route,) = (
            one
            for one in shown.scan["routes"]
            if (one["pid"], one["name"]) == (worker, "MY_OWN_SWITCH")
        )
        places = [(stop["pid"], stop["view"]) for stop in route["stops"]]
        assert places[:3] == [(pid, "declared"), (pid, "exec"), (pid, "libc")]
        assert places[-1] == (worker, "python")
        assert route["breaks"] == []


def test_the_reports_show_what_is_declared(manager: UserManager, name: str, tmp_path: Path) -> None:
    _started(manager, name, _body("Environment=MY_OWN_SWITCH=on", "Environment=MY_TOKEN=hunter22"))
    page = tmp_path / "report.html"
    ran = envprobe(
        "workers",
        "--user",
        "--unit",
        name,
        "-o",
        f"html={page}",
        env=environment(**manager.environment),
    )
    assert ran.returncode == 0, ran.stderr
    head = next(line for line in ran.stdout.splitlines() if line.startswith("variable"))
    assert head.split()[:3] == ["variable", "value", "declared"]
    row = next(line for line in ran.stdout.splitlines() if line.startswith("MY_OWN_SWITCH"))
    assert row.split()[:3] == ["MY_OWN_SWITCH", "on", "="]
    assert f"unit {name}.service of the user's service manager: active" in ran.stdout
    assert "hunter22" not in ran.stdout + page.read_text()
    assert f"{name}.service" in page.read_text()


def test_a_process_left_outside_the_tree_belongs_to_the_unit(
    manager: UserManager, name: str
) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring", exec_start=f"{SERVE} --left"))
    run = _of_unit(manager, name)
    first, *others = run.scan["snapshot"]["roots"]
    assert (first, len(others)) == (pid, 1)
    assert run.process(others[0])["ppid"] == manager.pid


def test_a_baseline_of_a_server_that_a_unit_runs_holds_for_the_unit(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring MY_OWN_SWITCH=on"))
    made = envprobe("baseline", "--pid", str(pid), env=environment(**manager.environment))
    assert (made.returncode, 'NCCL_ALGO = "Ring"' in made.stdout) == (0, True), made.stderr
    config = tmp_path / "envprobe.toml"
    config.write_text(made.stdout)
    manager.systemctl("restart", name)
    run = _of_unit(manager, name, "--config", str(config))
    assert (run.code, _loud(run)) == (0, set())
    config.write_text(made.stdout.replace('"Ring"', '"Tree"'))
    run = _of_unit(manager, name, "--config", str(config))
    assert run.code == 1
    assert run.pids("env-wrong-value", "NCCL_ALGO") == run.workers()


# --- one change at a time ------------------------------------------------------------------------


def test_a_unit_that_was_edited_and_not_loaded(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring KEPT=1"))
    _later(manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree KEPT=1")))
    run = _of_unit(manager, name)
    assert run.code == 1
    assert _loud(run) == {("definition-not-loaded", "error", "NCCL_ALGO", (pid,))}
    found = _declared_break(run, pid, "NCCL_ALGO")
    assert found.after == (pid, "exec")
    assert (found.causes, found.confidence) == (frozenset({"definition-changed"}), "proved")


def test_an_expectation_that_fails_for_it_names_the_hop(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring"))
    _later(manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree")))
    run = _of_unit(manager, name, "--expect", "NCCL_ALGO=Tree")
    assert run.pids("env-wrong-value", "NCCL_ALGO") == run.workers()
    (one,) = run.findings("env-wrong-value")
    assert f"(PID {pid}), between its declared view and its exec view" in one["message"]
    assert run.pids("definition-not-loaded") == {pid}


def test_a_restart_that_was_never_done(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring KEPT=1"))
    manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree KEPT=1"))
    manager.systemctl("daemon-reload")
    run = _of_unit(manager, name)
    assert run.code == 1
    assert _loud(run) == {("server-not-restarted", "error", "NCCL_ALGO", (pid,))}
    (one,) = run.findings("server-not-restarted")
    assert "No restart has been done: it has been active since" in one["message"]
    manager.systemctl("restart", name)
    again = _of_unit(manager, name)
    assert (again.code, _loud(again)) == (0, set())


def test_a_restart_that_was_tried_and_did_not_end_the_old_process(
    manager: UserManager, name: str
) -> None:
    deaf = f"{SERVE} --deaf"
    body = ("TimeoutStopSec=infinity", "KillMode=process")
    pid = _started(manager, name, _body(*body, "Environment=NCCL_ALGO=Ring", exec_start=deaf))
    manager.write(f"{name}.service", _body(*body, "Environment=NCCL_ALGO=Tree", exec_start=deaf))
    manager.systemctl("daemon-reload")
    manager.systemctl("--no-block", "restart", name)
    run = _of_unit(manager, name)
    assert _loud(run) == {("server-not-restarted", "error", "NCCL_ALGO", (pid,))}
    (one,) = run.findings("server-not-restarted")
    assert (
        "A restart or stop has begun and has not ended: the unit is deactivating"
        in (one["message"])
    )


def test_a_reload_in_place_of_a_restart(manager: UserManager, name: str) -> None:
    reload = "ExecReload=/bin/true"
    # It becomes active seconds after its process was started, as a server that loads a model.
    slow = f"{SERVE} --late 1.2"
    pid = _started(manager, name, _body(reload, "Environment=NCCL_ALGO=Ring", exec_start=slow))
    manager.write(f"{name}.service", _body(reload, "Environment=NCCL_ALGO=Tree", exec_start=slow))
    manager.systemctl("daemon-reload")
    for told in ("No restart has been done", "it was reloaded (`systemctl reload`)"):
        run = _of_unit(manager, name)
        assert _loud(run) == {("server-not-restarted", "error", "NCCL_ALGO", (pid,))}
        (one,) = run.findings("server-not-restarted")
        assert told in one["message"]
        manager.systemctl("reload", name)


def test_a_restart_that_was_refused(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring"))
    manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree", "ExecStart=/bin/true"))
    manager.systemctl("daemon-reload")
    manager.systemctl("restart", name, check=False)
    run = _of_unit(manager, name)
    assert (run.code, manager.main_pid(name)) == (1, pid)
    (one,) = run.findings("server-not-restarted")
    assert one["pids"] == [pid]
    assert (
        "A restart fails and leaves the old process: the manager refuses the unit"
        in (one["message"])
    )


def test_an_environment_file_that_was_changed_since(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "nccl.env"
    file.write_text("NCCL_ALGO=Ring\nKEPT=1\n")
    pid = _started(manager, name, _body(f"EnvironmentFile={file}"))
    assert _loud(_of_unit(manager, name)) == set()
    file.write_text("NCCL_ALGO=Tree\nKEPT=1\n")
    _later(file)
    run = _of_unit(manager, name)
    assert run.code == 1
    assert _loud(run) == {("env-file-changed", "error", "NCCL_ALGO", (pid,))}
    assert "environment-file" in _declared_break(run, pid, "NCCL_ALGO").causes


def test_a_wrapper_that_removes_a_declared_variable(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(
        "#!/bin/bash\nexport NCCL_PROTO=LL\n"
        "export PYTHONPATH=/opt/a${PYTHONPATH:+:$PYTHONPATH}\n"
        f"exec env -u GONE {SERVE}\n"
    )
    script.chmod(0o755)
    lines = "Environment=NCCL_ALGO=Ring GONE=1 PYTHONPATH=/opt/hooks"
    pid = _started(manager, name, _body(lines, exec_start=f"/usr/bin/nice {script}"))
    run = _of_unit(manager, name)
    assert run.code == 1
    assert _loud(run) == {("declared-not-handed-over", "error", "GONE", (pid,))}
    (one,) = run.findings("declared-not-handed-over")
    assert one["confidence"] == "proved"
    assert "through nice, bash, shell text and env" in one["message"]
    assert any(f"{script}:4: GONE is taken out." in line for line in one["evidence"])
    found = _declared_break(run, pid, "GONE")
    assert (found.change, found.after) == ("lost", (pid, "exec"))
    assert (found.causes, found.confidence) == (frozenset({"exec-start-wrapper"}), "proved")
    exported = _declared_break(run, pid, "NCCL_PROTO")
    assert (exported.change, exported.causes) == ("appeared", frozenset({"exec-start-wrapper"}))
    assert [one["program"] for one in run.scan["unit"]["hops"]] == [
        "nice",
        "bash",
        "shell text",
        "env",
    ]
    assert all(run.text(worker, "NCCL_PROTO") == "LL" for worker in run.workers())


def test_a_shell_that_stays_is_the_main_process(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/bash\nexport NCCL_PROTO=LL\nunset GONE\n{SERVE}\n")
    script.chmod(0o755)
    pid = _started(manager, name, _body("Environment=GONE=1", exec_start=str(script)))
    run = _of_unit(manager, name)
    assert run.text(pid, "GONE", "exec") == run.text(pid, "GONE", "declared") == "1"
    assert run.findings("declared-not-handed-over") == []
    assert run.pids("lost-on-the-way", "GONE") == run.workers()


def test_a_program_that_cannot_be_followed_is_one_of_the_causes(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/bash\nif true; then unset NCCL_ALGO; fi\nexec {SERVE}\n")
    script.chmod(0o755)
    lines = "Environment=NCCL_ALGO=Ring KEPT=1"
    pid = _started(manager, name, _body(lines, exec_start=str(script)))
    run = _of_unit(manager, name)
    assert _loud(run) == {("declared-not-handed-over", "error", "NCCL_ALGO", (pid,))}
    found = _declared_break(run, pid, "NCCL_ALGO")
    assert {"exec-start-wrapper", "definition-changed", "exec-again"} == found.causes
    assert {"manager-environment-changed"} <= found.excluded
    assert found.confidence == "inferred"
    assert str(script) in run.scan["unit"]["opaque"]


def test_what_the_manager_was_told_since_the_start(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring"))
    manager.systemctl("set-environment", "NCCL_NTHREADS=256")
    try:
        run = _of_unit(manager, name)
    finally:
        manager.systemctl("unset-environment", "NCCL_NTHREADS")
    assert (run.code, _loud(run)) == (
        0,
        {("declared-not-handed-over", "warning", "NCCL_NTHREADS", (pid,))},
    )
    assert "manager-environment-changed" in _declared_break(run, pid, "NCCL_NTHREADS").causes


def test_a_value_that_is_declared_and_cannot_be_told(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f"export MY_RANKS=$OF_PROFILE\nexec {SERVE}\n")
    lines = "Environment=KEPT=1"
    pid = _started(manager, name, _body(lines, exec_start=f"/bin/bash -l {script}"))
    run = _of_unit(manager, name)
    assert (run.code, _loud(run)) == (3, set())
    (one,) = run.findings("declaration-not-told")
    assert (one["variable"], one["pids"], one["undetermined"]) == ("MY_RANKS", [pid], True)
    accepted = _of_unit(manager, name, "--allow-unknown", "declaration-not-told")
    assert (accepted.code, accepted.pids("declaration-not-told")) == (0, {pid})
    quiet = _workers(manager, "--pid", str(pid))
    assert (quiet.code, quiet.pids("declaration-not-told")) == (0, {pid})


def test_a_script_that_was_edited_since_is_one_of_the_causes(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/bash\nexport MY_RANKS=2\nexec {SERVE}\n")
    script.chmod(0o755)
    pid = _started(manager, name, _body(exec_start=str(script)))
    script.write_text(f"#!/bin/bash\nexport MY_RANKS=4\nexec {SERVE}\n")
    _later(script)
    run = _of_unit(manager, name)
    assert run.code == 1
    assert _loud(run) == {("declared-not-handed-over", "error", "MY_RANKS", (pid,))}
    found = _declared_break(run, pid, "MY_RANKS")
    assert "exec-start-wrapper" in found.causes
    (one,) = run.findings("declared-not-handed-over")
    assert any(f"{script} was written after the start." in line for line in one["evidence"])


def test_a_process_that_is_not_the_main_one_is_a_note(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring"))
    worker = max(_of_unit(manager, name).workers())
    run = _workers(manager, "--pid", str(worker))
    assert (run.code, run.workers(), "unit" in run.scan) == (0, {worker}, False)
    (note,) = (one for one in run.scan["snapshot"]["notes"] if f"PID {worker}" in one)
    assert note.endswith(f"its main process is {pid}")


# --- a saved scan, another reader ----------------------------------------------------------------


def test_a_saved_scan_is_judged_the_same_by_an_unprivileged_reader(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    assert factsfile  # imported before: the other user may not be able to read our files
    pid = _started(
        manager, name, _body("Environment=NCCL_ALGO=Ring MY_TOKEN=hunter22 MY_OWN_SWITCH=on")
    )
    manager.write(
        f"{name}.service", _body("Environment=NCCL_ALGO=Tree MY_TOKEN=hunter23 MY_OWN_SWITCH=on")
    )
    manager.systemctl("daemon-reload")
    facts = tmp_path / "facts.json"
    run = _of_unit(manager, name, "--save-facts", str(facts))
    assert "hunter2" not in facts.read_text()
    (one,) = run.findings("server-not-restarted")
    assert (one["pids"], one["message"].count("NCCL_ALGO, MY_TOKEN")) == ([pid], 1)
    # The folders above tmp_path are closed to others.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shared = shutil.copy(facts, folder)
        os.chmod(shared, 0o644)
        runs = (judge("--from-facts", shared), judge_as(NOBODY, "--from-facts", shared))
    for again in runs:
        assert again.code == run.code == 1
        assert again.scan["findings"] == run.scan["findings"]
        assert again.scan["unit"] == run.scan["unit"]
        assert again.spans(pid, "NCCL_ALGO") == run.spans(pid, "NCCL_ALGO")


def test_a_reader_for_whom_there_is_no_manager_is_told_so(manager: UserManager, name: str) -> None:
    pid = _started(manager, name, _body("Environment=NCCL_ALGO=Ring"))
    said = f"PID {pid} is in the control group of {name}.service, whose declaration is not shown"
    # As root first: the other user may not be able to read our files, to import them.
    for run, code in ((judge("--pid", str(pid)), 0), (judge_as(NOBODY, "--pid", str(pid)), 3)):
        assert (run.code, "unit" in run.scan) == (code, False)
        assert any(said in note for note in run.scan["snapshot"]["notes"])
        assert run.process(pid)["environments"].keys().isdisjoint({"declared"})
        unread = {one["check"] for one in run.findings() if one["undetermined"]}
        assert unread == ({"worker-unreadable"} if code else set()), run.findings()
    for run in (judge("--user", "--unit", name), judge_as(NOBODY, "--user", "--unit", name)):
        assert (run.code, run.document["verdict"]["exit"]) == (3, 3)
        assert "the user's service manager cannot be asked" in run.stderr


# --- a unit without a server ---------------------------------------------------------------------


def test_a_unit_that_failed_is_gone_and_says_how_it_ended(manager: UserManager, name: str) -> None:
    manager.write(f"{name}.service", _body(exec_start="/bin/sh -c 'exit 7'"))
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name, check=False)
    for more in ((), ("--wait=scheduler=3", "--timeout=20")):
        run = _of_unit(manager, name, *more)
        assert run.code == 4
        assert (
            f"{name}.service has no main process (MainPID=0): it is failed (failed)"
            in (run.document["error"]["message"])
        )
        assert "exit-code, exit status 7" in run.document["error"]["message"]


def test_a_unit_that_was_stopped_is_gone(manager: UserManager, name: str) -> None:
    _started(manager, name, _body())
    manager.systemctl("stop", name)
    run = _of_unit(manager, name)
    assert (run.code, "it is inactive (dead)" in run.document["error"]["message"]) == (4, True)


def test_a_unit_that_does_not_exist_is_wrong_usage(manager: UserManager) -> None:
    run = _of_unit(manager, "nothing")
    assert run.code == 2
    assert "the unit nothing.service does not exist" in run.document["error"]["message"]


def test_a_manager_that_cannot_be_asked_could_not_tell(tmp_path: Path) -> None:
    ran = envprobe(
        "workers", "--user", "--unit", "any", env=environment(XDG_RUNTIME_DIR=str(tmp_path))
    )
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "service manager cannot be asked" in ran.stderr or "no systemctl" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--unit", "x", "--pid", "1"), "--unit and --pid exclude each other"),
        (("--unit", "x", "--cgroup", "/x"), "--unit and --cgroup exclude each other"),
        (("--unit", "x", "--container", "0123456789ab"), "--unit and --container exclude"),
        (("--unit", "x", "--from-facts", "f"), "--from-facts judges a saved scan and cannot"),
        (("--unit", "/etc/x.service"), "--unit /etc/x.service is a file"),
        (("--unit", "sgl*"), "sgl* is a pattern"),
        (("--unit", "x.timer"), "x.timer is no service"),
        (("--unit", ""), "--unit is empty"),
        (("--user",), "--user says which manager --unit is of"),
    ],
)
def test_what_does_not_go_together_is_one_clear_error(
    arguments: tuple[str, ...], told: str
) -> None:
    ran = envprobe("workers", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


# --- waiting -------------------------------------------------------------------------------------


def test_a_server_that_is_being_restarted_is_waited_for(manager: UserManager, name: str) -> None:
    late = f"{SERVE} --late 1.5"
    before = _started(manager, name, _body("Environment=NCCL_ALGO=Ring", exec_start=late))
    manager.write(f"{name}.service", _body("Environment=NCCL_ALGO=Tree", exec_start=late))
    manager.systemctl("daemon-reload")
    manager.systemctl("--no-block", "restart", name)
    run = _of_unit(
        manager, name, "--wait=scheduler=3", f"--timeout={SECONDS}", "--expect", "NCCL_ALGO=Tree"
    )
    assert (run.code, _loud(run)) == (0, set())
    assert len(run.workers()) == 3
    assert run.scan["unit"]["main_pid"] not in (0, before)


def test_a_main_process_that_comes_only_after_a_preparation_is_waited_for(
    manager: UserManager, name: str
) -> None:
    manager.write(f"{name}.service", _body("ExecStartPre=/bin/sleep 2"))
    manager.systemctl("daemon-reload")
    manager.systemctl("--no-block", "start", name)
    assert _of_unit(manager, name).code == 4
    run = _of_unit(manager, name, "--wait=scheduler=3", f"--timeout={SECONDS}")
    assert (run.code, len(run.workers())) == (0, 3)


def test_a_server_that_fails_at_first_and_is_started_again_is_waited_for(
    manager: UserManager, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "start.sh"
    script.write_text(
        f"#!/bin/bash\nif mkdir {tmp_path}/tried; then sleep 1; exit 3; fi\nexec {SERVE}\n"
    )
    script.chmod(0o755)
    again = ("Restart=on-failure", "RestartSec=1")
    manager.write(f"{name}.service", _body(*again, exec_start=str(script)))
    manager.systemctl("daemon-reload")
    manager.systemctl("--no-block", "start", name)
    run = _of_unit(manager, name, "--wait=scheduler=3", f"--timeout={SECONDS}")
    assert (run.code, len(run.workers()), run.scan["unit"]["restarts"]) == (0, 3, 1)
