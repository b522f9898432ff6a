"""Texts that cannot be produced on a machine without a GPU, and which of several is the cause.

They are composed of what public sources print: each case names the file. What a program of this
machine prints itself is tested in tests/integration/test_triage_logs.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envprobe import tables
from envprobe.checks.registry import every, run_checks
from envprobe.checks.triage.about import TriageContext
from envprobe.checks.triage.judgement import Judgement, judge
from envprobe.checks.triage.registry import CHECKS
from envprobe.triage import reading, table
from envprobe.triage.facts import Triage

TRACEBACK = """\
Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 3000, in run
    scheduler = Scheduler(server_args)
  File "/opt/kernels/my_kernels.py", line 41, in forward_extend
    return launch(q, k, v)
"""
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total"
    " capacity of 79.11 GiB of which 1.20 GiB is free."
)
NCCL_REMOTE = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
    "ProcessGroupNCCL.cpp:2395, remote process exited or there was a network error, NCCL version"
    " 2.28.9\nncclRemoteError: A call failed possibly due to a network error or a remote process"
    " exiting prematurely."
)
HIT = "[2026-11-30 02:20:03 TP{}] Scheduler hit an exception: "
ENDED = "[2026-11-30 02:20:09] Subprocess scheduler_{} (pid=4711) crashed with exit code -9. "


def context(text: str, folder: Path) -> TriageContext:
    path = folder / "server.log"
    path.write_text(text)
    facts = Triage((reading.read(str(path)),))
    return TriageContext(facts, judge(facts))


def judged(text: str, folder: Path) -> Judgement:
    return context(text, folder).judgement


CASES = [
    # c10/cuda/CUDAException.cpp, libcudart 13.0 cudaGetErrorString
    (
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the"
        " device",
        "start-no-kernel-image",
    ),
    (
        "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        "start-no-kernel-image",
    ),
    # c10/cuda/CUDACachingAllocator.cpp, as public threads show it
    (OOM, "start-out-of-memory"),
    (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "start-out-of-memory",
    ),
    # c10/cuda/CUDAException.cpp, libcudart 13.0
    ("RuntimeError: CUDA error: out of memory", "start-out-of-memory"),
    # sglang 0.5.21 srt/model_executor/pool_configurator.py
    (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "start-out-of-memory",
    ),
    # vllm v1/worker/utils.py, v1/core/kv_cache_utils.py
    (
        "ValueError: Free memory on device cuda:0 (3.25/23.43 GiB) on startup is less than desired"
        " GPU memory utilization (0.96, 22.49 GiB).",
        "start-out-of-memory",
    ),
    # nccl 2.28.9 src/init.cc
    (
        "vm:88:99 [1] init.cc:920 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA"
        " device 98000",
        "start-nccl-failed",
    ),
    # nccl src/bootstrap.cc bootstrapNetInit
    (
        "vm:88:88 [0] bootstrap.cc:100 NCCL WARN Bootstrap : no socket interface found",
        "start-nccl-failed",
    ),
    # torch/csrc/distributed/c10d/NCCLUtils.cpp with nccl src/init.cc ncclGetErrorString
    (
        "torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.hpp:317, unhandled system"
        " error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
        "start-nccl-failed",
    ),
    (
        "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
        "start-nccl-failed",
    ),
    # torch/csrc/distributed/c10d/socket.cpp, in libtorch_cpu.so 2.13.0
    (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local"
        " network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE",
        "start-port-in-use",
    ),
    # sglang 0.5.21 srt/utils/network.py
    ("ValueError: port at 30000 is not available in 60 seconds.", "start-port-in-use"),
    # Linux mm/oom_kill.c
    (
        "Nov 30 02:20:09 vm kernel: Memory cgroup out of memory: Killed process 4711 (python3)"
        " total-vm:1kB",
        "start-out-of-memory",
    ),
    # systemd 252 src/core/unit.c
    (
        "Nov 30 02:20:09 vm systemd[1]: sglang.service: A process of this unit has been killed by"
        " the OOM killer.",
        "start-out-of-memory",
    ),
    # sglang 0.5.21 srt/entrypoints/engine.py
    (
        "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9). If exit code is"
        " -9 (SIGKILL), a common cause is the OS OOM killer.",
        "start-worker-died",
    ),
    # vllm v1/executor/multiproc_executor.py
    (
        "(EngineCore_DP0 pid=265) ERROR 02-27 10:31:24 [multiproc_executor.py:231] Worker proc"
        " VllmWorker-0 died unexpectedly, shutting down executor.",
        "start-worker-died",
    ),
    # vllm v1/core/kv_cache_utils.py check_enough_kv_cache_memory
    (
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00"
        " GiB KV cache is needed, which is larger than the available KV cache memory (7.67 GiB).",
        "start-out-of-memory",
    ),
    # torch c10/cuda/CUDAFunctions.cpp
    (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please",
        "start-no-kernel-image",
    ),
    ("RuntimeError: No CUDA GPUs are available", "start-gpu-missing"),
    # libcudart 13.0 cudaGetErrorString
    ("torch.AcceleratorError: CUDA error: invalid device ordinal", "start-gpu-missing"),
    (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet"
        " initialized",
        "start-gpu-missing",
    ),
    # huggingface_hub 1.33 errors.py, transformers 5.12 utils/hub.py
    (
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo",
        "start-model-missing",
    ),
    (
        "OSError: /models/x is not a local folder and is not a valid model identifier listed on",
        "start-model-missing",
    ),
    # sglang 0.5.21 srt/model_loader/loader.py
    ("RuntimeError: Cannot find any model weights with `/models/x`", "start-model-missing"),
    # CPython, strerror(ENOSPC)
    ("OSError: [Errno 28] No space left on device: '/cache/x'", "start-no-space"),
    # transformers 5.12 dynamic_module_utils.py
    (
        "ValueError: The repository a/b contains custom code which must be executed to correctly"
        " load the model.",
        "start-argument-refused",
    ),
    # CPython, the default handler of SIGINT
    (f"{TRACEBACK}KeyboardInterrupt", "start-stopped"),
    # sglang 0.5.21 srt/managers/tokenizer_manager.py
    (
        "[2026-11-30 02:20:03] SIGTERM received. signum=None frame=None. Draining requests and"
        " shutting down...",
        "start-stopped",
    ),
    # systemd 252 src/core/job.c
    ("Nov 30 02:20:09 vm systemd[1]: Stopping sglang.service - SGLang...", "start-stopped"),
    # bash 5.2 jobs.c
    ("./run.sh: line 7:  4711 Killed                  python -m sglang", "start-worker-died"),
    # click 8 src/click/exceptions.py
    ("Error: No such option: --tensor-parallel (Possible options: --tp)", "start-argument-refused"),
    # glibc 2.36 elf/rtld.c
    (
        "/opt/venv/bin/python: error while loading shared libraries: libpython3.12.so.1.0: cannot"
        " open shared object file: No such file or directory",
        "start-module-missing",
    ),
]


@pytest.mark.parametrize(
    ("text", "check"), CASES, ids=[f"{n}-{c}" for n, (_, c) in enumerate(CASES)]
)
def test_a_text_of_a_source_is_named(text: str, check: str, tmp_path: Path) -> None:
    root = judged(text, tmp_path).root
    assert root is not None
    assert root.cause == check


@pytest.mark.parametrize(
    "text",
    [
        "[2026-11-30 02:20:03] Ignore import error when loading sglang.x: No module named y",
        "vm:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring",
        "vm:1:1 [0] NCCL INFO misc/cudawrap.cc: CUDA_ERROR is not set, using default",
        "INFO 11-30 02:20:03 [loader.py:1] no errors, 0 failed",
        "User prompt: please explain ModuleNotFoundError: No module named 'x'",
        '    raise RuntimeError("CUDA out of memory. Tried to allocate")',
        "Stopping sglang.service - SGLang...",
        "KeyboardInterrupt is how you end it",
        "(EngineCore_0 pid=1) WARNING 11-30 02:20:03 [x.py:1] Traceback (most recent call last):\n"
        '(EngineCore_0 pid=1) WARNING 11-30 02:20:03 [x.py:1]   File "/a/b.py", line 1, in c\n'
        "(EngineCore_0 pid=1) WARNING 11-30 02:20:03 [x.py:1] ImportError: survived",
        "\x00\x01\x02 binary \xff",
        "",
    ],
)
def test_what_is_no_failure_names_nothing(text: str, tmp_path: Path) -> None:
    # A line of code counts as such only in a traceback.
    before = TRACEBACK if text.startswith("    raise") else ""
    assert judged(before + text, tmp_path).root is None


# --- which one is the cause ----------------------------------------------------------------------


def test_a_rank_that_lost_its_peer_follows_from_what_ended_the_peer(tmp_path: Path) -> None:
    """TP0 is told first that the peer is gone; that TP1 had no memory comes later in the log."""
    text = HIT.format(0) + TRACEBACK + NCCL_REMOTE + "\n"
    text += HIT.format(1) + TRACEBACK + OOM + "\n" + ENDED.format(0)
    found = judged(text, tmp_path)
    assert found.root is not None
    assert found.root.cause == "start-out-of-memory"
    assert found.root.code == "/opt/kernels/my_kernels.py:41 in forward_extend"
    assert [one.cause for one in found.follows] == [
        "start-worker-died",
        "start-nccl-failed",
        "start-worker-died",
    ]


def test_of_two_causes_the_first_in_time_counts(tmp_path: Path) -> None:
    found = judged(f"{OOM}\nPermissionError: [Errno 13] Permission denied: '/x'\n", tmp_path)
    assert found.root is not None
    assert found.root.cause == "start-out-of-memory"
    assert [one.cause for one in found.follows] == ["start-permission-denied"]


def test_without_a_cause_the_first_effect_is_told_with_its_exception(tmp_path: Path) -> None:
    text = HIT.format(3) + TRACEBACK + "AssertionError: head_dim must be 128\n" + ENDED.format(3)
    found = judged(text, tmp_path)
    assert found.root is not None
    assert found.root.cause == "start-worker-died"
    assert found.root.code == "/opt/kernels/my_kernels.py:41 in forward_extend"
    assert found.root.raised is not None
    assert found.root.raised.message == "head_dim must be 128"


def test_a_rank_that_raised_goes_before_one_that_lost_its_peer(tmp_path: Path) -> None:
    """No rule knows the exception, but the other rank's says only that somebody is gone."""
    text = HIT.format(0) + TRACEBACK.replace("my_kernels", "lost") + NCCL_REMOTE + "\n"
    text += HIT.format(1) + TRACEBACK + "AssertionError: head_dim\n" + ENDED.format(0)
    found = judged(text, tmp_path)
    assert found.root is not None
    assert found.root.line is not None
    assert (found.root.cause, found.root.line.label) == ("start-worker-died", "TP1")
    assert found.root.code == "/opt/kernels/my_kernels.py:41 in forward_extend"


def test_torchruns_failed_rank_is_told_by_its_exception(tmp_path: Path) -> None:
    """torch/distributed/distributed_c10d.py and elastic/multiprocessing/api.py, 2.13."""

    def of_rank(rank: int, text: str) -> str:
        return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())

    failed = "E1130 02:20:10.000000 9 torch/distributed/elastic/multiprocessing/api.py:874] "
    text = of_rank(0, TRACEBACK.replace("my_kernels", "lost") + NCCL_REMOTE)
    text += of_rank(2, TRACEBACK + "AssertionError: 4")
    ended = "failed (exitcode: {}) local_rank: 2 (pid: 9) of binary: /opt/venv/bin/python\n"
    found = judged(text + failed + ended.format(1), tmp_path)
    assert found.root is not None
    assert (found.root.cause, found.root.what) == ("start-worker-died", "AssertionError: 4")
    assert not found.root.certain
    # A rank that a signal ended raised nothing: its exceptions were survived.
    found = judged(text + failed + ended.format(-9), tmp_path)
    assert found.root is not None
    assert found.root.raised is None or found.root.raised.message != "4"


def test_an_exception_of_a_request_did_not_kill_the_worker(tmp_path: Path) -> None:
    ready = "[2026-11-30 02:20:05] The server is fired up and ready to roll!\n"
    looked = context(f"{ready}{TRACEBACK}ValueError: bad request\n{ENDED.format(0)}", tmp_path)
    root = looked.judgement.root
    assert root is not None
    assert (root.cause, root.raised) == ("start-worker-died", None)
    (finding,) = run_checks(CHECKS, looked, {}).findings
    assert "bad request" not in str(finding.message.parts[0])
    assert any("not explained" in str(one.parts[0]) for one in finding.evidence)


def test_what_came_after_it_was_told_to_end_follows_from_that(tmp_path: Path) -> None:
    lines = [
        "systemd[1]: Stopping sglang.service - SGLang...",
        "systemd[1]: sglang.service: State 'stop-sigterm' timed out. Killing.",
        "systemd[1]: sglang.service: Main process exited, code=killed, status=9/KILL",
    ]
    text = "".join(f"Nov 30 02:20:09 vm {line}\n" for line in lines)
    found = judged(text, tmp_path)
    assert found.root is not None
    assert found.root.cause == "start-stopped"
    assert [one.cause for one in found.follows] == ["start-stopped", "start-worker-died"]
    # What ended it before is the cause, whatever was pressed then.
    found = judged(f"{OOM}\n{TRACEBACK}KeyboardInterrupt\n", tmp_path)
    assert found.root is not None
    assert found.root.cause == "start-out-of-memory"


def test_a_hook_that_raised_before_the_server_said_that_it_starts_is_told(tmp_path: Path) -> None:
    start = "[2026-11-30 02:20:03] server_args={'model_path': 'x'}\n"
    hook = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\nImportError: {}\n"
    text = f"{hook.format('one')}{start}{OOM}\n{hook.format('two')}{start}OSError: [Errno 28] x\n"
    found = judged(text, tmp_path)
    assert found.root is not None
    assert found.root.cause == "start-no-space"
    (told,) = found.hooks
    assert told.more == ("ImportError: two",)
    # The exception of the start before is none of the hook's.
    assert told.raised is None


def test_a_program_that_pip_made_is_not_the_users_code(tmp_path: Path) -> None:
    text = TRACEBACK.replace("/opt/kernels/my_kernels.py", "/opt/venv/bin/vllm")
    found = judged(text + "ImportError: x\n", tmp_path)
    assert found.root is not None
    assert "/site-packages/sglang/" in found.root.code


def test_exceptions_of_an_earlier_start_are_not_shown(tmp_path: Path) -> None:
    start = "[2026-11-30 02:20:03] server_args={'model_path': 'x'}\n"
    text = f"{start}{(TRACEBACK + 'ValueError: old' + chr(10)) * 30}{start}"
    found = judged(f"{text}{TRACEBACK}ValueError: new\n", tmp_path)
    assert [one.message for _, one in found.strange] == ["new"]


def test_what_came_before_the_server_was_ready_has_not_ended_it(tmp_path: Path) -> None:
    ready = "[2026-11-30 02:20:05] The server is fired up and ready to roll!\n"
    survived = f"{TRACEBACK}ImportError: cannot import name 'x'\n"
    found = judged(survived + ready, tmp_path)
    assert (found.root, found.survived) == (None, 1)
    found = judged(survived + ready + ENDED.format(0), tmp_path)
    assert found.root is not None
    assert (found.root.cause, found.survived) == ("start-worker-died", 1)


def test_only_the_last_of_several_starts_in_a_file_counts(tmp_path: Path) -> None:
    start = "[2026-11-30 02:20:03] server_args={'model_path': 'x'}\n"
    found = judged(f"{start}{OOM}\n{start}OSError: [Errno 98] Address already in use\n", tmp_path)
    assert found.root is not None
    assert (found.root.cause, found.survived) == ("start-port-in-use", 1)


def test_the_start_limit_is_told_beside_the_cause(tmp_path: Path) -> None:
    text = (
        "Nov 30 02:20:03 vm python3[9]: ModuleNotFoundError: No module named 'x'\n"
        "Nov 30 02:20:04 vm systemd[1]: a.service: Start request repeated too quickly.\n"
    )
    looked = context(text, tmp_path)
    found = {one.check: one for one in run_checks(CHECKS, looked, {}).findings}
    assert set(found) == {"start-module-missing", "start-limit-hit"}
    alone = context(text.splitlines()[1], tmp_path)
    checks = [one.check for one in run_checks(CHECKS, alone, {}).findings]
    assert checks == ["start-limit-hit", "start-cause-unknown"]


def test_an_exception_that_no_rule_knows_is_could_not_tell_and_is_shown(tmp_path: Path) -> None:
    looked = context(TRACEBACK + "ValueError: strange\n", tmp_path)
    (finding,) = run_checks(CHECKS, looked, {}).findings
    assert (finding.check, finding.undetermined) == ("start-cause-unknown", True)
    (shown,) = finding.evidence
    assert "ValueError: strange at /opt/kernels/my_kernels.py:41" in str(shown.parts[0])


# --- the table -----------------------------------------------------------------------------------


def test_every_row_has_a_source_and_a_check() -> None:
    known = {check.slug for check in CHECKS}
    rows = tables.load("causes")["rows"]
    assert {row["cause"] for row in rows} <= known
    assert {row["cause"] for row in tables.load("causes")["states"]} <= known
    assert known - {row["cause"] for row in rows} == {"start-cause-unknown"}
    for row in rows:
        assert all(row[key].strip() for key in ("project", "file", "version")), row


def test_what_is_looked_for_first_is_in_every_text_that_fits() -> None:
    """`has` only saves time: a row whose pattern fits must never be passed over."""
    for row in table.rows("exception"):
        for text, _ in CASES:
            if row.pattern.search(text):
                assert any(one in text for one in row.has), (row.pattern.pattern, text)


def test_no_pattern_takes_longer_than_its_line_is_long() -> None:
    """Nested repetitions would let one hostile line of a log stop the run."""
    import time

    hostile = [
        "a" * 8000,
        "NCCL WARN " * 800,
        "x: error: argument " * 400,
        "NCCL error in: " * 500,
        "(" * 8000,
        "[" + "1" * 8000,
        "A." * 4000,
        " | " * 2600,
        "Traceback " * 800,
    ]
    began = time.process_time()
    for text in hostile:
        for row in table.rows("exception"):
            row.pattern.search(text)
    # 500 searches of 8000 characters each; a square of 8000 takes a second by itself.
    assert time.process_time() - began < 2


def test_the_ids_are_the_triage_range() -> None:
    assert [check.id for check in CHECKS] == [f"EP{601 + n}" for n in range(len(CHECKS))]
    assert set(CHECKS) <= set(every())
    assert all(re.fullmatch(r"start-[a-z-]+", check.slug) for check in CHECKS)
