"""`gate` after a start: what the running server shows, by its process and by its unit."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import patchhooks
from tests.programs.actions import Action, py_set
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.gates import Gate, gate
from tests.programs.trees import TitledTree
from tests.programs.usermanager import UserManager, user_manager

SERVED = Path(__file__).parents[1] / "programs" / "served.py"
ENV = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
NAME = "gated"


def config(folder: Path, text: str) -> str:
    path = folder / "envprobe.toml"
    path.write_text(text)
    return str(path)


def test_a_running_server_holds_or_fails_by_worker(tmp_path: Path) -> None:
    other = Action(parent_before=[py_set("NCCL_PROTO", "LL")])
    good = config(tmp_path, '[expect.env]\nNCCL_ALGO = "Ring"\n[expect.workers]\nscheduler = 2\n')
    with TitledTree(workers=2, env=ENV, actions={1: other}) as running:
        found = gate("-c", good, "--pid", str(running.root), "--fail-on", "error")
        assert found.standing("env") == {"NCCL_ALGO": ("judged", ("workers",))}
        assert found.standing("workers") == {"2 scheduler": ("judged", ("workers",))}
        assert {one["check"] for one in found.report["findings"]} >= {"peers-differ-critical"}
        bad = config(tmp_path, '[expect.env]\nNCCL_PROTO = "Simple"\n')
        found = gate("-c", bad, "--pid", str(running.root))
        assert (found.code, found.report["phase"]) == (1, "live")
        (one,) = found.of("env-wrong-value")
        assert (one["pids"], one["parts"]) == ([running.worker(1)], ["workers"])
        assert "TP1" in one["processes"][0]


def test_processes_outside_the_tree_are_named_by_pattern(tmp_path: Path) -> None:
    good = config(tmp_path, '[expect.env]\nNCCL_ALGO = "Ring"\n')
    mark = f"of-{tmp_path.name}"
    other = {**ENV, "NCCL_ALGO": "Tree"}
    with (
        TitledTree(workers=1, env=ENV) as named,
        TitledTree(workers=1, env=other, arguments=(mark,)) as outside,
    ):
        alone = gate("-c", good, "--pid", str(named.root))
        assert (alone.code, alone.of("env-wrong-value")) == (0, [])
        joined = gate("-c", good, "--pid", str(named.root), "--match", f"*{mark}*")
        (told,) = joined.of("env-wrong-value")
        (pid,) = told["pids"]
        assert joined.code == 1
        assert mark in Path(f"/proc/{pid}/cmdline").read_text(), outside.root


def test_a_process_that_is_gone_is_4(tmp_path: Path) -> None:
    path = config(tmp_path, '[expect.env]\nNCCL_ALGO = "Ring"\n')
    ran = envprobe("gate", "-c", path, "--pid", "4194303", "--format", "junit")
    assert ran.returncode == 4
    assert '<error message="there is no process 4194303' in ran.stdout


def test_what_is_awaited_is_waited_for(tmp_path: Path) -> None:
    path = config(tmp_path, '[expect.env]\nNCCL_ALGO = "Ring"\n')
    with TitledTree(workers=2, env=ENV) as running:
        words = ("-c", path, "--pid", str(running.root), "--timeout", "2")
        assert gate(*words, "--wait", "scheduler=2").code == 0
        found = gate(*words, "--wait", "scheduler=3")
        assert found.code == 1
        assert found.of("workers-missing")
        assert "waiting: 2 of 3 scheduler" in found.stderr


def test_a_process_does_not_say_which_interpreter_a_kernel_is_tried_in(tmp_path: Path) -> None:
    path = config(tmp_path, '[expect.env]\nNCCL_ALGO = "Ring"\n[expect.kernel]\ninstalled = true\n')
    with TitledTree(workers=2, env=ENV) as running:
        found = gate("-c", path, "--pid", str(running.root))
    assert (found.code, found.part("workers")) == (3, 0)
    assert found.of("kernel-not-judged")[0]["parts"] == ["kernel"]


# --- by its unit ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserManager]:
    with user_manager(tmp_path_factory.mktemp("manager")) as found:
        yield found


class Server:
    """A unit with NCCL's variables and a hook that patches, and a configuration for it."""

    def __init__(self, manager: UserManager, folder: Path) -> None:
        self.manager = manager
        self.hooks = patchhooks.written(folder, patchhooks.lazy("engine"))
        self.config = folder / "envprobe.toml"
        self.write()
        self.expect(
            '[expect.env]\nNCCL_ALGO = "Ring"\nNCCL_PROTO = "Simple"\n[expect.sitecustomize]\n'
            f'file = "{self.hooks.hook}"\n[expect.patch]\n"engine:Backend.plain" = "my_kernels"\n'
            "[expect.workers]\nscheduler = 2\n"
        )

    def write(self, *lines: str) -> None:
        own = [f"Environment={name}={value}" for name, value in ENV.items()]
        body = ["[Service]", "Type=notify", *own, f"Environment=PYTHONPATH={self.hooks.path}"]
        start = f"ExecStart={sys.executable} {SERVED} --workers 2"
        self.manager.write(f"{NAME}.service", "\n".join([*body, *lines, start, ""]))
        self.manager.systemctl("daemon-reload")

    def expect(self, text: str) -> None:
        self.config.write_text(text)

    def gate(self, *arguments: str) -> Gate:
        words = ("-c", str(self.config), "--unit", NAME, "--user", *arguments)
        return gate(*words, env=environment(**self.manager.environment))


@pytest.fixture
def server(manager: UserManager, tmp_path: Path) -> Iterator[Server]:
    yield Server(manager, tmp_path)
    manager.systemctl("stop", NAME, check=False)


def test_before_and_after_the_start_of_a_unit(server: Server) -> None:
    before = server.gate()
    assert (before.code, before.checks) == (0, set())
    assert before.standing("workers") == {"2 scheduler": ("only_after_the_start", ())}
    server.manager.systemctl("start", NAME)
    after = server.gate("--live", "--wait", "scheduler=2", "--timeout", "30")
    assert (after.code, after.checks) == (0, set())
    assert after.standing("workers") == {"2 scheduler": ("judged", ("workers",))}


def test_a_restart_that_this_gate_is_for_is_no_finding_of_it(server: Server) -> None:
    server.manager.systemctl("start", NAME)
    pid = server.manager.main_pid(NAME)
    server.write("Environment=NCCL_P2P_LEVEL=SYS")
    text = server.config.read_text().replace("[expect.env]", '[expect.env]\nNCCL_P2P_LEVEL = "SYS"')
    server.expect(text)
    before = server.gate()
    assert (before.code, before.checks) == (0, set())
    (one,) = before.report["ignored"]
    assert (one["check"], one["pids"], one["parts"]) == ("unit-not-restarted", [pid], ["unit"])
    assert one["ignored_because"] == "it is of the process before the restart that this gate is for"
    live = server.gate("--live")
    assert live.code == 1
    missing = {pid for one in live.of("env-missing") for pid in one["pids"]}
    assert len(missing) == 2
    server.manager.systemctl("restart", NAME)
    assert (server.gate("--live", "--wait", "2", "--timeout", "30").code, server.gate().code) == (
        0,
        0,
    )


def test_a_failed_start_does_not_count_unless_it_keeps_the_next_one_from_coming(
    manager: UserManager, server: Server
) -> None:
    name = f"{NAME}.service"
    manager.write(name, "[Service]\nExecStart=/bin/false\n[Unit]\nStartLimitBurst=2\n")
    manager.systemctl("daemon-reload")
    manager.systemctl("start", NAME, check=False)
    wait_until_failed(manager)
    server.write()
    mended = server.gate()
    assert (mended.code, mended.checks) == (0, set())
    (one,) = mended.report["ignored"]
    assert (one["check"], one["parts"]) == ("unit-failed", ["unit"])
    again = "Restart=always\nRestartSec=0\n[Unit]\nStartLimitIntervalSec=1h\n"
    manager.write(name, f"[Service]\nExecStart=/bin/false\n{again}")
    manager.systemctl("daemon-reload")
    manager.systemctl("start", NAME, check=False)
    wait_until_failed(manager)
    server.write("[Unit]", "StartLimitIntervalSec=1h", "[Service]")
    refused = server.gate()
    assert refused.code == 1
    (one,) = refused.of("unit-failed")
    assert "reset-failed gated.service" in one["remedy"]
    manager.systemctl("reset-failed", NAME)
    assert server.gate().code == 0


def wait_until_failed(manager: UserManager) -> None:
    deadline = time.monotonic() + 20
    while manager.systemctl("show", "--value", "-p", "ActiveState", NAME).strip() != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_unit_that_does_not_run_is_4_and_one_that_is_not_there_2(server: Server) -> None:
    ran = envprobe(
        *("gate", "-c", str(server.config), "--unit", NAME, "--user", "--live"),
        env=environment(**server.manager.environment),
    )
    assert ran.returncode == 4
    assert NAME in ran.stderr
    ran = envprobe(
        *("gate", "-c", str(server.config), "--unit", "none-such", "--user"),
        env=environment(**server.manager.environment),
    )
    assert ran.returncode == 2
    assert "none-such.service does not exist" in ran.stderr


def test_a_baseline_of_a_unit_holds_after_its_restart(server: Server) -> None:
    server.write("Environment=HF_TOKEN=hf_aBcDeFgHiJkLmNoPqRsT SGLANG_PORT=30000 MY_SWITCH=on")
    server.manager.systemctl("start", NAME)
    first = server.manager.main_pid(NAME)
    env = environment(**server.manager.environment)
    made = envprobe(
        *("baseline", "--pid", str(first), "--patch", "sitecustomize"),
        *("--patch", "engine:Backend.plain", "--var", "INVOCATION_ID", "--var", "JOURNAL_STREAM"),
        env=env,
    )
    assert made.returncode == 0, made.stderr
    for name in ("INVOCATION_ID", "HF_TOKEN"):
        assert f"#   {name}: " in made.stdout
        assert f"left out: {name}" in made.stderr
    assert '\nMY_SWITCH = "on"\n' in made.stdout
    assert "SGLANG_PORT =" not in made.stdout
    server.expect(made.stdout)
    server.manager.systemctl("restart", NAME)
    assert server.manager.main_pid(NAME) != first
    after = server.gate("--live", "--wait", "scheduler=2", "--timeout", "30")
    assert (after.code, after.checks) == (0, set())
    assert after.standing("env")
    server.write("Environment=NCCL_ALGO=Tree")
    server.manager.systemctl("restart", NAME)
    changed = server.gate("--live", "--wait", "scheduler=2", "--timeout", "30")
    assert changed.code == 1
    assert {one["variable"] for one in changed.of("env-wrong-value")} == {"NCCL_ALGO"}


def test_a_kernel_that_is_expected_is_not_forgotten_by_workers(tmp_path: Path) -> None:
    path = config(tmp_path, '[expect.env]\nNCCL_ALGO = "Ring"\n[expect.kernel]\narch = "sm_120"\n')
    with TitledTree(workers=2, env=ENV) as running:
        ran = envprobe("workers", "--config", path, "--pid", str(running.root))
    assert ran.returncode == 0
    assert "note: envprobe.toml [expect.kernel] is tried by `envprobe gate` only" in ran.stderr
