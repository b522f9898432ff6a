"""`envprobe rehearse` with real interpreters and children: what is caught before a restart."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe import inithook
from tests.programs import consumers, interpreters
from tests.programs.requirement import missing
from tests.programs.stages import Rehearsed, Stage
from tests.programs.usermanager import user_manager

VENV = str(Path(sys.executable))
SYSTEM = "/usr/bin/python3"
# The environment of the tests may itself be below /tmp, which PrivateTmp= hides.
SEEN = f"BindReadOnlyPaths={sys.prefix}"
PYTHONS = [VENV, *(one.path for one in interpreters.found())]
PLAIN = "import sys; sys.hooked = True\n"
METHODS = ("spawn", "fork", "forkserver")


@pytest.fixture
def stage() -> Iterator[Stage]:
    # Where other users can get: what pytest makes is the own user's.
    folder = Path(tempfile.mkdtemp(prefix="stage-", dir="/tmp"))
    folder.chmod(0o755)
    yield Stage(folder)
    shutil.rmtree(folder)


# --- what holds


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("python", PYTHONS)
def test_hooks_and_variables_reach_children_of_every_interpreter(
    python: str, method: str, stage: Stage
) -> None:
    hooks = stage.hook(PLAIN)
    ran = stage.rehearse(
        *("--start-method", method, "--expect", "NCCL_ALGO=Ring"),
        *("--expect", f"PYTHONPATH~={hooks}", "--", python, "server.py"),
        PYTHONPATH=hooks,
        NCCL_ALGO="Ring",
    )
    assert (ran.code, ran.loud()) == (3, {"entry-unknown"}), ran.document["findings"]
    stage.write("server.py", "if __name__ == '__main__': pass\n")
    ran = stage.rehearse(
        *("--start-method", method, "--expect", "NCCL_ALGO=Ring"),
        *("--expect", f"PYTHONPATH~={hooks}", "--", python, "server.py"),
        PYTHONPATH=hooks,
        NCCL_ALGO="Ring",
    )
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]
    assert ran.workers == {"worker RANK0", "worker RANK1"}
    assert {one["hooks"]["sitecustomize"] for one in ran.one["processes"]} == {
        f"{hooks}/sitecustomize.py"
    }
    assert ran.values("NCCL_ALGO") == dict.fromkeys(
        ["the first process", "worker RANK0", "worker RANK1"], "Ring"
    )
    reached = "inherited" if method == "fork" else "ran"
    told = [hook["reached"] for one in ran.one["processes"] for hook in one["reached"]]
    assert told == [reached, reached]


def test_the_declared_program_is_never_run(stage: Stage) -> None:
    mark = stage.folder / "was-run"
    stage.write("server.py", f"open({str(mark)!r}, 'w')\nif __name__ == '__main__': pass\n")
    ran = stage.rehearse("--", VENV, "server.py")
    assert (ran.code, ran.loud()) == (0, set())
    assert not mark.exists()


# --- frameworks


SGLANG_2 = {"scheduler TP0", "scheduler TP1"}


def test_sglang_is_told_from_the_command_and_nested_as_it_nests(stage: Stage) -> None:
    packages = stage.framework("sglang", "0.5.23")
    ran = stage.rehearse(
        *("--expect", "CUDA_DEVICE_MAX_CONNECTIONS=8"),
        *("--", VENV, "-m", "sglang.launch_server", "--dp", "2", "--tp-size=2"),
        PYTHONPATH=packages,
        NCCL_CUMEM_ENABLE="1",
    )
    one = ran.one
    assert (one["framework"]["value"], one["version"]) == ("sglang", "0.5.23")
    assert (one["method"]["value"], one["workers"]["started"]) == ("spawn", 4)
    by_pid = {each["pid"]: each for each in one["processes"]}
    parents = {each["name"]: by_pid.get(each["parent"], {}).get("name") for each in by_pid.values()}
    controller = "data parallel controller"
    assert parents == {
        "the first process": None,
        controller: "the first process",
        "detokenizer": "the first process",
        **{f"scheduler DP{dp} TP{tp}": controller for dp in (0, 1) for tp in (0, 1)},
    }
    assert all(each["titled"] for each in by_pid.values() if each["role"])
    assert ran.values("NCCL_CUMEM_ENABLE")["scheduler DP1 TP1"] == "1"
    assert ran.values("NCCL_NVLS_ENABLE")["scheduler DP0 TP0"] == "0"
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]


@pytest.mark.parametrize(
    ("version", "value", "severity"), [("0.5.4", "0", "warning"), ("0.5.23", "1", None)]
)
def test_what_the_framework_overrides_follows_from_its_version(
    version: str, value: str, severity: str | None, stage: Stage
) -> None:
    packages = stage.framework("sglang", version)
    ran = stage.rehearse(
        *("--", VENV, "-m", "sglang.launch_server", "--tp", "2"),
        PYTHONPATH=packages,
        NCCL_NVLS_ENABLE="1",
    )
    assert ran.values("NCCL_NVLS_ENABLE") == {
        **dict.fromkeys(SGLANG_2, value),
        "the first process": value,
    }
    told = ran.found("variable-changed-by-framework", "NCCL_NVLS_ENABLE")
    assert [one["severity"] for one in told] == ([severity] if severity else [])
    assert all(ran.names(one) == SGLANG_2 for one in told)


def test_an_option_decides_what_the_framework_overrides(stage: Stage) -> None:
    packages = stage.framework("sglang", "0.5.23")
    command = (VENV, "-m", "sglang.launch_server", "--tp", "2", "--enable-deterministic-inference")
    ran = stage.rehearse(
        "--expect", "NCCL_ALGO=Ring", "--", *command, PYTHONPATH=packages, NCCL_ALGO="Ring"
    )
    (told,) = ran.found("env-wrong-value", "NCCL_ALGO")
    assert (ran.code, ran.names(told)) == (1, SGLANG_2)
    assert "--enable-deterministic-inference" in " ".join(told["evidence"])


def test_vllm_has_its_workers_below_the_engine(stage: Stage) -> None:
    packages = stage.framework("vllm", "0.33.0")
    # A package without __init__.py among them, as some frameworks have.
    stage.write("packages/vllm/entrypoints/__init__.py")
    stage.write("packages/vllm/entrypoints/openai/api_server.py", "if __name__ == '__main__': 1\n")
    command = (VENV, "-m", "vllm.entrypoints.openai.api_server", "-tp", "2")
    for method, given in (("fork", {}), ("spawn", {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"})):
        ran = stage.rehearse("--", *command, PYTHONPATH=packages, **given)
        by_pid = {each["pid"]: each for each in ran.one["processes"]}
        parents = {
            one["name"]: by_pid[one["parent"]]["name"] for one in by_pid.values() if one["role"]
        }
        assert parents == {
            "engine core": "the first process",
            "worker TP0": "engine core",
            "worker TP1": "engine core",
        }
        assert ran.one["method"]["value"] == method
        assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]


def test_numa_binding_starts_workers_through_a_shell_which_drops_odd_names(stage: Stage) -> None:
    packages = stage.framework("sglang", "0.5.23")
    unit = stage.unit(
        f"{VENV} -m sglang.launch_server --tp 2",
        f"Environment=PYTHONPATH={packages} SGLANG_NUMA_BIND_V2=1",
        "Environment=NCCL_ALGO=Ring",
    )
    ran = stage.rehearse("--unit", unit, "--expect", "NCCL_ALGO=Ring")
    assert ran.one["through_shell"]
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]
    assert ran.workers == SGLANG_2


# --- what is caught


def test_a_hook_that_removes_itself_is_missing_in_the_workers(stage: Stage) -> None:
    hooks = stage.hook("import os\nos.environ.pop('PYTHONPATH')\n")
    stage.write("server.py", "if __name__ == '__main__': pass\n")
    unit = stage.unit(
        f"{VENV} server.py",
        f"WorkingDirectory={stage.folder}",
        f"Environment=PYTHONPATH={hooks}",
    )
    ran = stage.rehearse("--unit", unit, "--start-method", "spawn", "--workers", "3")
    workers = {f"worker RANK{number}" for number in range(3)}
    (told,) = ran.found("hook-not-run-in-child")
    assert (ran.code, told["severity"], ran.names(told)) == (1, "error", workers)
    assert "has removed PYTHONPATH" in told["message"]
    (lost,) = ran.found("declared-variable-lost", "PYTHONPATH")
    assert ran.names(lost) == workers
    assert ran.found("lost-on-the-way") == []
    # By fork the same hook is there.
    ran = stage.rehearse("--unit", unit, "--start-method", "fork")
    assert ran.found("hook-not-run-in-child") == []


def test_a_hook_that_raises_is_told_of_each_process(stage: Stage) -> None:
    hooks = stage.hook("import os\nos.environ['EARLY'] = '1'\nraise ValueError('sekrit')\n")
    ran = stage.rehearse("--start-method", "spawn", "--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-hook-raised")
    assert (ran.code, told["severity"]) == (1, "error")
    assert ran.names(told) == {"the first process", "worker RANK0", "worker RANK1"}
    assert "sitecustomize raises ValueError" in told["message"]
    assert "sekrit" not in str(ran.document)


def test_a_hook_that_fails_in_silence_is_told(stage: Stage) -> None:
    hooks = stage.hook("raise ModuleNotFoundError('no', name='sitecustomize')\n")
    ran = stage.rehearse("--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-hook-raised")
    assert (ran.code, ran.names(told)) == (1, {"the first process"})
    assert f"{hooks}/sitecustomize.py is found" in told["message"]


def test_a_hook_that_ends_the_interpreter_lets_no_process_up(stage: Stage) -> None:
    hooks = stage.hook("import sys; sys.exit(7)\n")
    ran = stage.rehearse("--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-process-failed")
    assert (ran.code, ran.workers) == (1, set())
    assert "The first process ended with code 1" in told["message"]


def test_a_hook_that_ends_the_interpreter_in_silence_fails(stage: Stage) -> None:
    hooks = stage.hook("import os\nos._exit(0)\n")
    ran = stage.rehearse("--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-process-failed")
    assert (ran.code, told["undetermined"]) == (1, False)
    assert "The first process ended with code 0" in told["message"]


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.closerange(3, 100)\n",
        "import os\nos.dup2(os.open('/dev/null', os.O_WRONLY), 63)\n",
        "import os\ndef write(*_):\n    raise ValueError\nos.write = write\n",
    ],
)
def test_what_only_the_rehearsal_needs_is_no_failure_of_the_server(text: str, stage: Stage) -> None:
    ran = stage.rehearse("--", VENV, "-c", "pass", PYTHONPATH=stage.hook(text))
    (told,) = ran.found("rehearsed-process-failed")
    assert (ran.code, told["undetermined"]) == (3, True)
    assert "first process" in told["message"]


def test_a_hook_that_raises_in_the_workers_is_told_once(stage: Stage) -> None:
    hooks = stage.hook("import os\nfor number in (0, 1, 2):\n    os.close(number)\n")
    ran = stage.rehearse("--start-method", "spawn", "--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-hook-raised")
    assert (ran.code, ran.loud()) == (1, {"rehearsed-hook-raised"})
    assert ran.names(told) == {"worker RANK0", "worker RANK1"}


def test_the_number_of_workers_is_that_of_the_configuration(stage: Stage) -> None:
    expected = str(stage.write("envprobe.toml", "[expect.workers]\nscheduler = 3\n"))
    ran = stage.rehearse("--config", expected, "--", VENV, "-c", "pass")
    assert (ran.code, len(ran.workers)) == (0, 3)
    ran = stage.rehearse("--config", expected, "--workers", "1", "--", VENV, "-c", "pass")
    assert (ran.code, len(ran.workers)) == (0, 1)


def test_a_hook_that_ends_only_children_is_told_of_them(stage: Stage) -> None:
    hooks = stage.hook("import sys\nif '--multiprocessing-fork' in sys.argv: sys.exit(9)\n")
    ran = stage.rehearse("--start-method", "spawn", "--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-process-failed")
    assert ran.code == 1
    assert told["message"] == "Worker RANK0 and worker RANK1 ended with code 1 before it was ready."


@pytest.mark.parametrize("flag", ["-I", "-E"])
def test_an_isolated_interpreter_ignores_the_hook(flag: str, stage: Stage) -> None:
    hooks = stage.hook(PLAIN)
    config = stage.write("envprobe.toml", f'[expect.sitecustomize]\nfrom = "{hooks}"\n')
    ran = stage.rehearse(
        *("--config", str(config), "--start-method", "spawn"),
        *("--", VENV, flag, "-c", "pass"),
        PYTHONPATH=hooks,
    )
    (told,) = ran.found("hook-differs")
    assert (ran.code, ran.names(told)) == (1, {"worker RANK0", "worker RANK1"})
    (ignored,) = ran.found("pythonpath-ignored", "PYTHONPATH")
    assert flag in ignored["message"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("given", "isolated", "ignores"), [((), 0, 0), (("-I", "-B"), 1, 1), (("-E",), 0, 1)]
)
def test_each_process_tells_its_flags_and_what_its_start_has_cost(
    given: tuple[str, ...], isolated: int, ignores: int, method: str, stage: Stage
) -> None:
    hooks = stage.hook("import time\ntime.sleep(0.3)\n")
    command = ("--start-method", method, "--", VENV, *given, "-c", "pass")
    ran = stage.rehearse(*command, PYTHONPATH=hooks)
    told = {one["name"]: one["flags"] for one in ran.one["processes"]}
    assert set(told) == {"the first process", "worker RANK0", "worker RANK1"}
    # -B is in effect in any case: a rehearsal writes no bytecode.
    decisive = ("isolated", "ignore_environment", "dont_write_bytecode")
    for name, flags in told.items():
        assert [flags[one] for one in decisive] == [isolated, ignores, 1], name
    cost = {one["name"]: one["ready_ms"] for one in ran.one["processes"]}
    whole = ran.one["end"]["seconds"] * 1000
    assert all(0 < one < whole for one in cost.values()), (cost, whole)
    # The hook is part of it wherever it runs: spawned children run it again.
    runs = {"the first process", *(ran.workers if method == "spawn" else ())}
    if not ignores:
        assert all(cost[name] >= 300 for name in runs), cost


def test_a_fork_server_started_by_the_hook_keeps_its_old_environment(stage: Stage) -> None:
    hooks = stage.hook(
        "import os\nif os.environ.pop('FIRST', ''):\n"
        "    import multiprocessing\n"
        "    multiprocessing.set_start_method('forkserver')\n"
        "    from multiprocessing import forkserver\n"
        "    forkserver.ensure_running()\n"
        "    os.environ['NCCL_PROTO'] = 'Simple'\n"
    )
    ran = stage.rehearse(
        "--expect", "NCCL_PROTO=Simple", "--", VENV, "-c", "pass", PYTHONPATH=hooks, FIRST="1"
    )
    assert (ran.one["method"]["value"], ran.code) == ("forkserver", 1)
    workers = {"worker RANK0", "worker RANK1"}
    (early,) = ran.found("forkserver-started-early")
    assert (early["severity"], "NCCL_PROTO" in early["message"]) == ("error", True)
    (lost,) = ran.found("env-missing", "NCCL_PROTO")
    assert ran.names(lost) == workers
    assert ran.values("NCCL_PROTO") == {"the first process": "Simple", **dict.fromkeys(workers)}


def test_a_wrapper_without_guard_is_found_and_never_run(stage: Stage) -> None:
    mark = stage.folder / "was-run"
    script = stage.write(
        "wrapper.py",
        f"""
        import multiprocessing
        open({str(mark)!r}, "w")
        multiprocessing.Process(target=print).start()
        """,
    )
    ran = stage.rehearse("--start-method", "spawn", "--", VENV, str(script))
    (told,) = ran.found("main-guard-missing")
    assert (ran.code, told["severity"]) == (1, "error")
    assert told["message"].startswith(f"{script}:4: ")
    assert not mark.exists()
    assert ran.loud() == {"main-guard-missing"}
    assert ran.workers == {"worker RANK0", "worker RANK1"}


def test_the_wrong_interpreter_has_no_framework(stage: Stage) -> None:
    ran = stage.rehearse("--", SYSTEM, "-m", "sglang.launch_server", "--tp", "2")
    (told,) = ran.found("patch-target-not-importable")
    assert (ran.code, ran.names(told)) == (1, {"the first process"})
    assert "finds no module sglang" in told["message"]
    (assumed,) = ran.found("framework-version-assumed")
    assert "0.5.23" in assumed["message"]


def test_values_of_an_environment_file_reach_the_workers(stage: Stage) -> None:
    file = stage.write("nccl.env", "NCCL_ALGO='Ring'\nexport NCCL_PROTO=Simple\n")
    unit = stage.unit(f"{VENV} -c pass", f"EnvironmentFile={file}")
    ran = stage.rehearse("--unit", unit, "--expect", "NCCL_ALGO=Ring", "--expect", "NCCL_PROTO")
    assert ran.values("NCCL_ALGO")["worker RANK1"] == "Ring"
    (told,) = ran.found("env-unknown", "NCCL_PROTO")
    assert (ran.code, ran.names(told)) == (3, {"worker RANK0", "worker RANK1"})


@pytest.mark.parametrize("expected", ["NCCL_PROTO=LL", "NCCL_PROTO", "!NCCL_PROTO"])
def test_what_a_definition_leaves_open_is_neither_missing_nor_there(
    expected: str, stage: Stage
) -> None:
    unit = stage.unit(f"{VENV} -c pass", "Environment=NCCL_ALGO=Ring")
    ran = stage.rehearse("--unit", unit, "--expect", expected, "--expect", "NCCL_ALGO=Ring")
    (told,) = ran.found("env-unknown", "NCCL_PROTO")
    assert (ran.code, ran.loud(), told["undetermined"]) == (3, {"env-unknown"}, True)
    assert "what the manager itself hands over is not known" in told["message"]
    # A command line, and a line that takes it out, leave nothing open.
    ran = stage.rehearse("--expect", expected, "--", VENV, "-c", "pass")
    broken = set() if expected[0] == "!" else {"env-missing"}
    assert (ran.code, ran.loud()) == (len(broken), broken)
    unit = stage.unit(f"{VENV} -c pass", "UnsetEnvironment=NCCL_PROTO")
    ran = stage.rehearse("--unit", unit, "--expect", expected)
    assert (ran.code, ran.loud()) == (len(broken), broken)


def test_a_route_starts_at_what_is_declared(stage: Stage) -> None:
    hooks = stage.hook("import os\nos.environ.pop('NCCL_ALGO', None)\n")
    ran = stage.rehearse(
        *("--expect", "NCCL_ALGO=Ring", "--expect", "NCCL_PROTO", "--", VENV, "-c", "pass"),
        PYTHONPATH=hooks,
        NCCL_ALGO="Ring",
    )
    (scan,) = ran.document["scans"]
    routes = {(one["name"], one["pid"]): one["stops"] for one in scan["routes"]}
    for name, declared in (("NCCL_ALGO", "value"), ("NCCL_PROTO", "absent")):
        (first, *_) = {
            (stops[0]["view"], stops[0]["reading"]["state"])
            for (own, _), stops in routes.items()
            if own == name
        }
        assert first == ("declared", declared)
    (never,) = ran.found("env-missing", "NCCL_PROTO")
    assert "from the declared environment of" in never["message"]


def test_the_declared_user_runs_it_and_nobody_else(stage: Stage) -> None:
    if os.geteuid() != 0:
        missing("root", "only root can take on the rights of another user")
    hooks = stage.hook("import os\nos.environ['WHO'] = f'{os.getuid()}'\n")
    unit = stage.unit(f"{SYSTEM} -c pass", "User=nobody", f"Environment=PYTHONPATH={hooks}")
    ran = stage.rehearse("--unit", unit, "--expect", "WHO=65534", "--start-method", "spawn")
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]
    assert ran.one["rights"].startswith("uid 65534")
    # What that user cannot read does not run, whoever asks.
    (stage.folder / "hooks").chmod(0o700)
    ran = stage.rehearse("--unit", unit, "--expect", "WHO=65534", "--start-method", "spawn")
    (told,) = ran.found("env-unknown", "WHO")
    assert (ran.code, ran.names(told)) == (3, {"worker RANK0", "worker RANK1"})


# --- patches


ENGINE = """
    import os
    os.environ["ENGINE"] = "1"
    class Backend:
        def forward(self):
            return "original"
"""
PATCH = "engine.attention:Backend.forward"
LAZY = """
    import sys
    class Finder:
        def find_spec(self, name, path, target=None):
            if name != "engine.attention":
                return None
            sys.meta_path.remove(self)
            import importlib.util
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module
            def exec_module(module):
                load(module)
                import my_kernels
                module.Backend.forward = my_kernels.forward
            spec.loader.exec_module = exec_module
            return spec
    sys.meta_path.insert(0, Finder())
"""


def _engine(stage: Stage, hook: str) -> str:
    stage.write("hooks/engine/__init__.py")
    stage.write("hooks/engine/attention.py", ENGINE)
    stage.write("hooks/my_kernels.py", "def forward(self):\n    return 'patched'\n")
    return stage.hook(hook)


@pytest.mark.parametrize("source", ["", "=my_kernels"])
def test_a_lazy_patch_is_applied_by_a_real_import(source: str, stage: Stage) -> None:
    hooks = _engine(stage, LAZY)
    start = ("--start-method", "spawn", "--", VENV, "-c", "pass")
    ran = stage.rehearse(f"--patch={PATCH}{source}", "--import-target", *start, PYTHONPATH=hooks)
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]
    held = [one["held"][0]["file"] for one in ran.one["processes"] if one["worker"]]
    assert held == [f"{hooks}/my_kernels.py"] * 2
    # Without the import nobody knows: that is not the same as not patched.
    ran = stage.rehearse(f"--patch={PATCH}{source}", *start, PYTHONPATH=hooks)
    (told,) = ran.found("patch-would-not-be-applied")
    assert (ran.code, told["undetermined"]) == (3, True)
    assert ran.names(told) == {"worker RANK0", "worker RANK1"}
    assert "--import-target" in told["remedy"]


def test_a_hook_that_init_hook_wrote_says_that_it_waits(stage: Stage) -> None:
    hooks = _engine(stage, PLAIN)
    os.remove(f"{hooks}/sitecustomize.py")
    inithook.write(inithook.Request(hooks, (inithook.Patch(PATCH, "my_kernels:forward"),)))
    start = ("--start-method", "spawn", "--", VENV, "-c", "pass")
    ran = stage.rehearse(f"--patch={PATCH}", *start, PYTHONPATH=hooks)
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]
    ran = stage.rehearse(f"--patch={PATCH}=my_kernels", "--import-target", *start, PYTHONPATH=hooks)
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]
    assert {each["held"][0]["recorded"] for each in ran.one["processes"] if each["worker"]} == {
        "applied"
    }


@pytest.mark.parametrize("source", ["", "=my_kernels"])
def test_an_attribute_that_no_hook_replaces_is_told(source: str, stage: Stage) -> None:
    hooks = _engine(stage, PLAIN)
    ran = stage.rehearse(
        *(f"--patch={PATCH}{source}", "--import-target", "--start-method", "spawn"),
        *("--", VENV, "-c", "pass"),
        PYTHONPATH=hooks,
    )
    (told,) = ran.found("patch-would-not-be-applied")
    assert (ran.code, ran.names(told)) == (1, {"worker RANK0", "worker RANK1"})
    assert f"{hooks}/engine/attention.py" in told["message"]
    assert ran.loud() == {"patch-would-not-be-applied"}


def test_a_patch_from_elsewhere_is_told_of_its_workers(stage: Stage) -> None:
    hooks = _engine(stage, LAZY)
    ran = stage.rehearse(
        *(f"--patch={PATCH}=other_kernels", "--import-target", "--start-method", "spawn"),
        *("--", VENV, "-c", "pass"),
        PYTHONPATH=hooks,
    )
    (told,) = ran.found("patch-missing")
    assert (ran.code, ran.names(told)) == (1, {"worker RANK0", "worker RANK1"})
    assert ran.loud() == {"patch-missing"}


@pytest.mark.parametrize(
    ("patch", "check"),
    [
        ("engine.gone:Backend.forward", "patch-target-not-importable"),
        ("engine.attention:Backend.gone", "patch-would-not-be-applied"),
    ],
)
def test_a_patch_that_cannot_be_is_told_once(patch: str, check: str, stage: Stage) -> None:
    hooks = _engine(stage, PLAIN)
    ran = stage.rehearse(
        *(f"--patch={patch}=my_kernels", "--import-target", "--start-method", "spawn"),
        *("--", VENV, "-c", "pass"),
        PYTHONPATH=hooks,
    )
    assert (ran.code, ran.loud()) == (1, {check})
    assert len(ran.found(check)) == 1


def test_a_patch_of_a_module_that_is_not_there(stage: Stage) -> None:
    hooks = _engine(stage, PLAIN)
    ran = stage.rehearse(
        "--patch=engine.gone:Backend.forward", "--", VENV, "-c", "pass", PYTHONPATH=hooks
    )
    (told,) = ran.found("patch-target-not-importable")
    assert (ran.code, "no module engine.gone" in told["message"]) == (1, True)
    assert ran.names(told) >= {"worker RANK0", "worker RANK1"}


def test_a_hook_that_initialises_cuda(stage: Stage) -> None:
    stage.write("hooks/torch/__init__.py", "from . import cuda\n")
    stage.write("hooks/torch/cuda.py", "def is_initialized():\n    return True\n")
    hooks = stage.hook("import torch\n")
    ran = stage.rehearse("--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("hook-initialised-cuda")
    assert (ran.code, told["severity"]) == (1, "error")
    assert ran.names(told) == {"the first process", "worker RANK0", "worker RANK1"}


def test_gpus_are_hidden_and_that_is_not_taken_for_the_server(stage: Stage) -> None:
    given = ("--expect", "CUDA_VISIBLE_DEVICES=0,1")
    command = ("--", VENV, "-c", "pass")
    ran = stage.rehearse(*given, *command, CUDA_VISIBLE_DEVICES="0,1")
    (told,) = ran.found("not-reproduced", "CUDA_VISIBLE_DEVICES")
    assert (ran.code, told["undetermined"]) == (3, True)
    assert ran.found("env-wrong-value") == []
    ran = stage.rehearse(*given, "--with-gpu", *command, CUDA_VISIBLE_DEVICES="0,1")
    assert (ran.code, ran.loud()) == (0, set())


# --- bounds


STORM = """
    import os, subprocess, sys
    generation = int(os.environ.get("GENERATION", "0"))
    # The second net: at most 4 + 16 + 64 + 256 processes, whatever envprobe does.
    if generation < 4:
        for _ in range(4):
            subprocess.Popen(
                [sys.executable, "-c", "import signal; signal.alarm(120); signal.pause()"],
                env=dict(os.environ, GENERATION=str(generation + 1)),
                start_new_session=bool(generation % 2),
            )
"""


def test_a_hook_that_starts_interpreters_is_ended_with_all_it_has_started(stage: Stage) -> None:
    hooks = stage.hook(STORM)
    ran = stage.rehearse("--timeout", "30", "--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsal-storm")
    assert (ran.code, ran.one["end"]["stopped"]) == (1, "processes")
    assert "more processes" in told["message"]
    assert stage.left() == []


def test_a_hook_that_starts_one_interpreter_is_told(stage: Stage) -> None:
    hooks = stage.hook(
        "import os, subprocess, sys\n"
        "if os.environ.get('GENERATION') != '1':\n"
        "    subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
        " env=dict(os.environ, GENERATION='1'))\n"
    )
    ran = stage.rehearse("--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-hook-starts-processes")
    assert (told["severity"], ran.names(told)) == ("warning", {"the first process"})
    assert stage.left() == []


def test_a_hook_that_runs_a_command_is_told_of_each_process(stage: Stage) -> None:
    hooks = stage.hook("import subprocess\nsubprocess.run(['/bin/true'])\n")
    ran = stage.rehearse("--start-method", "spawn", "--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsed-hook-starts-processes")
    assert (ran.code, told["severity"]) == (0, "warning")
    assert ran.names(told) == {"the first process", "worker RANK0", "worker RANK1"}


def test_a_target_that_forks_for_ever_is_ended(stage: Stage) -> None:
    # The second net: 2**7 processes in each of two workers.
    stage.write(
        "hooks/engine.py",
        "import os, signal\nsignal.alarm(120)\nfor _ in range(7):\n    os.fork()\nsignal.pause()\n",
    )
    ran = stage.rehearse(
        *("--patch=engine:run", "--import-target", "--timeout", "30", "--start-method", "spawn"),
        *("--", VENV, "-c", "pass"),
        PYTHONPATH=str(stage.folder / "hooks"),
    )
    (told,) = ran.found("rehearsal-storm")
    assert (ran.code, ran.one["end"]["stopped"]) == (1, "processes")
    assert "of its processes had come up" in " ".join(told["evidence"])
    assert stage.left() == []


def test_a_hook_that_never_ends_is_ended_in_time(stage: Stage) -> None:
    hooks = stage.hook("import signal\nsignal.alarm(120)\nsignal.pause()\n")
    ran = stage.rehearse("--timeout", "1.5", "--", VENV, "-c", "pass", PYTHONPATH=hooks)
    (told,) = ran.found("rehearsal-storm")
    assert (ran.code, ran.one["end"]["stopped"]) == (1, "time")
    assert "when its time was up" in told["message"]
    assert stage.left() == []


# --- the sandbox of a unit


@pytest.fixture
def managed(stage: Stage, tmp_path: Path) -> Iterator[Stage]:
    with user_manager(tmp_path) as manager:
        stage.caller = {name: manager.environment[name] for name in ("HOME", "XDG_RUNTIME_DIR")}
        yield stage


def _require_sandbox(ran: Rehearsed) -> None:
    for one in ran.found("not-reproduced"):
        if "sandbox" in one["message"]:
            missing("systemd", f"no sandbox can be made here: {one['evidence'][0]}")


def test_a_hook_that_the_sandbox_hides_is_missed_before_the_restart(managed: Stage) -> None:
    hooks = managed.hook(PLAIN)
    config = managed.write("envprobe.toml", f'[expect.sitecustomize]\nfrom = "{hooks}"\n')
    given = ("--config", str(config), "--start-method", "spawn", "--user", "--unit")
    lines = (f"Environment=PYTHONPATH={hooks} NCCL_ALGO=Ring", "WorkingDirectory=/", SEEN)
    ran = managed.rehearse(*given, managed.unit(f"{VENV} -c pass", *lines))
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]
    ran = managed.rehearse(*given, managed.unit(f"{VENV} -c pass", *lines, "PrivateTmp=yes"))
    _require_sandbox(ran)
    (missed,) = ran.found("hook-differs")
    assert (ran.code, ran.names(missed)) == (1, {"worker RANK0", "worker RANK1"})
    assert ran.values("NCCL_ALGO") == dict.fromkeys(
        ["the first process", "worker RANK0", "worker RANK1"], "Ring"
    )
    assert ran.one["sandbox"] == []
    assert managed.left() == []
    # A directory that is bound in is there again.
    back = f"BindReadOnlyPaths={hooks}"
    ran = managed.rehearse(*given, managed.unit(f"{VENV} -c pass", *lines, "PrivateTmp=yes", back))
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]


def test_an_interpreter_that_the_sandbox_hides_cannot_be_started(managed: Stage) -> None:
    folder = managed.folder / "bin"
    folder.mkdir()
    shutil.copy(os.path.realpath(SYSTEM), folder / "python3")
    unit = managed.unit(f"{folder}/python3 -c pass", "PrivateTmp=yes", "WorkingDirectory=/")
    ran = managed.rehearse("--user", "--unit", unit)
    _require_sandbox(ran)
    (told,) = ran.found("rehearsed-process-failed")
    assert (ran.code, "ended with code 203" in told["message"]) == (1, True)
    assert "sandbox of the unit" in " ".join(told["evidence"])


def test_a_sandbox_without_a_manager_leaves_its_paths_untold(stage: Stage) -> None:
    hooks = stage.hook(PLAIN)
    stage.caller = {"HOME": "/", "XDG_RUNTIME_DIR": str(stage.folder)}
    lines = (f"Environment=PYTHONPATH={hooks}", "WorkingDirectory=/")
    unit = stage.unit(f"{SYSTEM} -c pass", *lines, "PrivateTmp=yes")
    ran = stage.rehearse("--user", "--unit", unit)
    (told,) = (one for one in ran.found("not-reproduced") if one["undetermined"])
    assert ran.code == 3
    assert f"{hooks}: PrivateTmp=yes." in told["evidence"]
    ran = stage.rehearse("--user", "--allow-unknown", "not-reproduced", "--unit", unit)
    assert (ran.code, ran.loud()) == (0, {"not-reproduced"})
    # What it hides is no path that counts here.
    unit = stage.unit(f"{SYSTEM} -c pass", *lines, "InaccessiblePaths=/mnt")
    ran = stage.rehearse("--user", "--unit", unit)
    assert (ran.code, ran.loud()) == (0, set()), ran.document["findings"]


def test_a_storm_inside_a_sandbox_is_ended_too(managed: Stage) -> None:
    # The number is only looked at now and then there: the hook waits for what it has started.
    hooks = managed.hook(f"{STORM}    if not generation:\n        os.wait()\n")
    lines = (f"Environment=PYTHONPATH={hooks}", "WorkingDirectory=/", "PrivateTmp=yes", SEEN)
    bound = f"BindReadOnlyPaths={hooks}"
    unit = managed.unit(f"{VENV} -c pass", *lines, bound)
    ran = managed.rehearse("--user", "--timeout", "30", "--unit", unit)
    _require_sandbox(ran)
    assert len(ran.found("rehearsal-storm")) == 1, ran.document["findings"]
    assert (ran.code, ran.one["end"]["stopped"]) == (1, "processes")
    assert managed.left() == []


# --- formats

HOSTILE = "a]]>\x1b[31m::error::x</script><b>%0A"


def test_values_break_no_format_and_all_formats_agree(stage: Stage, tmp_path: Path) -> None:
    packages = stage.framework("sglang", "0.5.23")
    outputs = {kind: tmp_path / f"report.{kind}" for kind in ("junit", "sarif", "html", "text")}
    ran = stage.rehearse(
        *(f"-o{kind}={path}" for kind, path in outputs.items()),
        *("--expect", "NCCL_ALGO=Ring", "--start-method", "spawn"),
        *("--", VENV, "-m", "sglang.launch_server", "--tp", "2", "--api-key", "k-7Hq2Lx9Zr4Tb"),
        PYTHONPATH=packages,
        NCCL_ALGO=HOSTILE,
        CUDA_DEVICE_MAX_CONNECTIONS=HOSTILE,
        HF_TOKEN="hf_AbCdEfGhIjKlMnOp",
    )
    assert (ran.code, len(ran.found("env-wrong-value", "NCCL_ALGO"))) == (1, 1)
    cases = consumers.cases(outputs["junit"].read_text())
    failing = {name.split()[0] for name, case in cases.items() if case.result} - {"verdict"}
    assert failing == {"EP004"}
    results = consumers.sarif(outputs["sarif"].read_text())["results"]
    assert {one["ruleId"] for one in results} >= {"EP004", "EP507"}
    for path in outputs.values():
        text = path.read_text()
        assert "\x1b" not in text
        assert "hf_AbCdEfGhIjKlMnOp" not in text
        assert "k-7Hq2Lx9Zr4Tb" not in text
    assert "</script><b>" not in outputs["html"].read_text()
    assert "rehearsed: env" in outputs["text"].read_text()
    assert "k-7Hq2Lx9Zr4Tb" not in str(ran.document)


# --- wrong usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workers", "0", "--", VENV, "-c", "pass"), "--workers takes a number from 1 to"),
        (("--workers", "33", "--", VENV, "-c", "pass"), "--workers takes a number from 1 to"),
        (("--framework", "trt", "--", VENV, "-c", "pass"), "--framework trt"),
        (("--start-method", "exec", "--", VENV, "-c", "pass"), "--start-method exec"),
        (("--timeout", "0", "--", VENV, "-c", "pass"), "--timeout takes"),
        (("--patch", "json.decoder", "--", VENV, "-c", "pass"), "names no attribute"),
        ((), "takes one launch definition"),
    ],
)
def test_wrong_usage_is_one_clear_error(
    arguments: tuple[str, ...], said: str, stage: Stage
) -> None:
    ran = stage.rehearse(*arguments)
    assert ran.code == 2
    assert said in ran.document["error"]["message"]
    assert "this runs" not in ran.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/bin/true",), "is not known"),
        (("docker", "run", "image", "python", "x.py"), "container"),
        (("/nothing/python3", "x.py"), "is not on this machine"),
    ],
)
def test_what_cannot_be_rehearsed_is_undetermined(
    command: tuple[str, ...], said: str, stage: Stage
) -> None:
    ran = stage.rehearse("--", *command)
    assert ran.code == 3
    assert said in ran.document["error"]["message"]


GARBAGE = """
    import os, threading, time
    def write():
        while True:
            try:
                os.write(63, b'{text}\\n')
            except OSError:
                pass
            time.sleep(0.001)
    threading.Thread(target=write, daemon=True).start()
"""


@pytest.mark.parametrize(
    "text", ["no json", '{"about": "member", "node": 1}', '{"about": "first"}', '{"about": []}']
)
def test_a_hook_that_answers_in_the_place_of_processes_is_no_fault_of_envprobe(
    text: str, stage: Stage
) -> None:
    hooks = stage.hook(GARBAGE.replace("{text}", text))
    ran = stage.rehearse("--timeout", "10", "--", VENV, "-c", "pass", PYTHONPATH=hooks)
    if "error" in ran.document:
        assert (ran.code, "something else" in ran.document["error"]["message"]) == (3, True)
    else:
        # What came through between its lines counts; what was lost is said.
        lost = {"rehearsed-process-failed"} if not ran.whole else set()
        assert {one["check"] for one in ran.unknown()} >= lost
        assert ran.code == (3 if lost else 0), ran.document["findings"]
    assert stage.left() == []
