"""What the checks of `kernel` make of what its programs have written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envprobe.checks import verdict
from envprobe.checks.kernel.registry import CHECKS
from envprobe.checks.registry import run_checks
from envprobe.kernel import records
from envprobe.kernel.architecture import Architecture
from envprobe.kernel.facts import KernelFacts, Question, Run
from envprobe.kernel.fatbin import Image, Kind
from envprobe.kernel.library import Library

Record = dict[str, Any]
Told = tuple[str, bool, int]
"""The check, whether it could not tell, and the exit code of the run."""

DRIVER: Record = {"kind": "driver", "version": 13000, "cards": 1}
CARD: Record = {
    "kind": "card",
    "index": 0,
    "name": "NVIDIA H200",
    "uuid": "0",
    "major": 9,
    "minor": 0,
    "multiprocessors": 132,
    "shared_limit": 232448,
    "registers": 65536,
    "free": 140 << 30,
    "total": 141 << 30,
    "processes": 0,
}
PACKAGES: Record = {"kind": "packages", "torch": "2.11.0", "compiler": [13, 0]}
LOADED: Record = {
    "kind": "loaded",
    "kernel": "attention",
    "architecture": 90,
    "registers": 255,
    "local": 0,
    "shared": 100160,
}
RIGHT: Record = {"absolute": 0.004, "relative": 0.002, "part": 0.9, "wrong": 0}
WRONG: Record = {"absolute": 0.4, "relative": 0.2, "part": 90.0, "wrong": 12}
ENDED: Record = {"kind": "ended", "code": 0}
DONE: Record = {"kind": "done", "part": "kernel"}
IN_CLASS: Record = {"kind": "stage", "stage": "class", "interpreted": False}
SGLANG: Record = {"kind": "sglang", "version": "0.5.21", "torch": "2.11.0"}
OWN_FILE = "/site/triton_backend.py"


def stage(name: str) -> Record:
    return {"kind": "stage", "stage": name}


def failed(at: str, word: str, text: str = "") -> Record:
    return {"kind": "failed", "stage": at, "error": "CUDAError", "word": word, "text": text or word}


def stopped(reason: str, **more: Any) -> Record:
    return {"kind": "stopped", "reason": reason, "text": reason, **more}


def compared(errors: Record = RIGHT) -> Record:
    return {"kind": "compared", "shape": "b1 d8 h8 4096", **errors}


def timed(bundled: float, triton: float | None) -> Record:
    times = {"bundled": bundled} | ({"triton": triton} if triton is not None else {})
    part = dict.fromkeys(times, 0.5)
    return {"kind": "timed", "shape": "b1", "key_bytes": 9, "microseconds": times, "part": part}


def called(whose: str, errors: Record = RIGHT, *, stored: bool = True) -> list[Record]:
    call = {"kind": "call", "whose": whose, "shape": "b2"}
    return [call, {"kind": "called", "whose": whose, "shape": "b2", "stored": stored, **errors}]


def installed(file: str) -> Record:
    function = {"module": "my_kernels.verify", "name": "forward", "file": file, "line": 7}
    return {"kind": "installed", "own_file": OWN_FILE, "functions": [function]}


def undriven(step: str, word: str = "") -> Record:
    return {
        "kind": "undriven",
        "step": step,
        "error": "Error",
        "word": word,
        "text": "",
        "where": "",
    }


def counted(**numbers: int) -> Record:
    return {"kind": "counters", "numbers": numbers, "last_reason": "argument sinks"}


def facts(*found: Record, problem: str = "", code: bool = True, **question: Any) -> KernelFacts:
    """Return what a run with these records of device 0 found."""
    lines = [{"device": 0, **one} if one["kind"] != "driver" else one for one in found]
    answer = "\n".join(map(json.dumps, lines)).encode()
    run = records.read(answer, Run("/venv/bin/python", "given", problem=problem, said="last"))
    return KernelFacts(Question(**question), run=run)


def told(of: KernelFacts) -> set[Told]:
    result = run_checks(CHECKS, of, {})
    code = int(verdict.of_findings(result, frozenset()).exit)
    return {(one.check, one.undetermined, code) for one in result.findings}


GRID = (stage("packages"), PACKAGES, stage("compile"), stage("load"), LOADED, stage("grid"))
GOOD = (DRIVER, CARD, *GRID, compared())
WHOLE = (*GOOD, stage("time"), timed(10.0, 100.0), DONE, ENDED)
TAKEN = (IN_CLASS, SGLANG, *called("own"), *called("asked"), counted(taken=4, fallen_back=0))
CLASS_DONE = {"kind": "done", "part": "class"}
BUSY = {"kind": "untimed", "reason": "busy", "text": "another process uses the card"}
UNPAIRED = {"kind": "unpaired", "error": "ImportError", "word": "", "text": "no sglang"}


def test_all_that_was_run_and_right_holds() -> None:
    assert told(facts(*WHOLE)) == set()
    assert told(facts(*WHOLE, *TAKEN, CLASS_DONE, ENDED, timed=True, in_class=True)) == set()


@pytest.mark.parametrize(
    ("found", "check", "undetermined", "code"),
    [
        ([stopped("no-gpu")], "kernel-not-run", True, 3),
        ([DRIVER, CARD, stopped("memory", free=1 << 28, need=1 << 30)], "kernel-not-run", True, 3),
        ([DRIVER, CARD, stopped("busy")], "kernel-not-run", True, 3),
        ([DRIVER, CARD, stage("packages"), stopped("package"), ENDED], "kernel-not-run", True, 3),
        ([DRIVER, CARD, stage("compile"), stopped("compiler"), ENDED], "kernel-not-run", True, 3),
        ([DRIVER, CARD, stage("compile"), stopped("too-old"), ENDED], "kernel-no-image", False, 1),
        (
            [DRIVER, CARD, *GRID[:4], failed("load", "CUDA_ERROR_NO_BINARY_FOR_GPU"), ENDED],
            "kernel-no-image",
            False,
            1,
        ),
        (
            [
                {**DRIVER, "version": 12080},
                CARD,
                *GRID[:4],
                failed("load", "CUDA_ERROR_INVALID_IMAGE"),
                ENDED,
            ],
            "kernel-not-run",
            True,
            3,
        ),
        (
            [DRIVER, CARD, *GRID[:4], failed("load", "CUDA_ERROR_INVALID_VALUE"), ENDED],
            "kernel-out-of-resources",
            False,
            1,
        ),
        (
            [DRIVER, CARD, *GRID, failed("grid", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"), ENDED],
            "kernel-out-of-resources",
            False,
            1,
        ),
        (
            [DRIVER, CARD, *GRID, failed("grid", "CUDA_ERROR_ILLEGAL_ADDRESS"), ENDED],
            "kernel-launch-failed",
            False,
            1,
        ),
        (
            [DRIVER, CARD, *GRID[:4], failed("load", "CUDA_ERROR_OUT_OF_MEMORY"), ENDED],
            "kernel-not-run",
            True,
            3,
        ),
        (
            [DRIVER, CARD, *GRID[:4], failed("load", "CUDA_ERROR_DEVICE_UNAVAILABLE"), ENDED],
            "kernel-not-run",
            True,
            3,
        ),
        (
            [DRIVER, CARD, *GRID[:3], failed("compile", "NVRTC_ERROR_COMPILATION"), ENDED],
            "kernel-not-compiled",
            False,
            1,
        ),
        (
            [DRIVER, CARD, *GRID[:3], failed("compile", "", "disk full"), ENDED],
            "kernel-not-run",
            True,
            3,
        ),
        ([DRIVER, CARD, *GRID, {**ENDED, "code": -11}], "kernel-launch-failed", False, 1),
        ([DRIVER, CARD, *GRID[:1], {**ENDED, "code": -11}], "kernel-not-run", True, 3),
        ([*GOOD, compared(WRONG), DONE, ENDED], "kernel-wrong-result", False, 1),
        ([*GOOD, compared({**WRONG, "part": float("inf")}), DONE], "kernel-wrong-result", False, 1),
        ([*GOOD[:-1], DONE, ENDED], "kernel-not-run", True, 3),
        (
            [*GOOD, {**timed(10.0, 100.0), "part": {"bundled": 3.0}}, DONE, ENDED],
            "kernel-wrong-result",
            False,
            1,
        ),
        ([*GOOD, timed(100.0, 10.0), DONE, ENDED], "kernel-slower", False, 0),
        ([*GOOD, stage("time"), BUSY, DONE, ENDED], "kernel-not-timed", False, 0),
        ([*GOOD, stage("time"), UNPAIRED, DONE, ENDED], "kernel-not-timed", False, 0),
        (
            [*GOOD, {"kind": "skipped", "shape": "b1", "need": 1 << 31}, DONE, ENDED],
            "shapes-left-out",
            False,
            0,
        ),
    ],
)
def test_each_outcome_of_the_bundled_kernel_has_a_check_of_its_own(
    found: list[Record], check: str, undetermined: bool, code: int
) -> None:
    assert told(facts(*found)) == {(check, undetermined, code)}


def test_a_part_that_was_asked_for_and_not_run_is_no_answer() -> None:
    busy = (*GOOD, stage("time"), BUSY, DONE, ENDED)
    assert told(facts(*busy, timed=True)) == {("kernel-not-timed", True, 3)}
    without = {**undriven("import"), "kind": "unclassed"}
    assert told(facts(*WHOLE, IN_CLASS, without)) == {("kernel-class-not-run", False, 0)}
    assert told(facts(*WHOLE, IN_CLASS, without, in_class=True)) == {
        ("kernel-class-not-run", True, 3)
    }


def test_a_program_that_said_nothing_or_was_ended() -> None:
    assert told(facts(problem="it did not end within 9 s")) == {("kernel-not-run", True, 3)}
    compiling = facts(DRIVER, CARD, *GRID[:3], problem="it did not end within 9 s")
    assert told(compiling) == {("kernel-not-run", True, 3)}
    running = facts(DRIVER, CARD, *GRID, problem="it did not end within 9 s")
    assert told(running) == {("kernel-launch-failed", False, 1)}


def test_a_verdict_on_time_needs_to_know_of_no_neighbour() -> None:
    slower = (*GOOD, stage("time"), timed(100.0, 10.0))
    unsure = facts(*slower, {"kind": "neighbours", "known": False}, DONE, ENDED)
    (finding,) = run_checks(CHECKS, unsure, {}).findings
    assert (finding.check, finding.confidence.value) == ("kernel-slower", "inferred")
    assert told(facts(*slower, BUSY, DONE, ENDED)) == {("kernel-not-timed", False, 0)}


def test_a_patch_whose_calls_fall_back() -> None:
    fallen = (*TAKEN[:-1], counted(taken=0, fallen_back=4), CLASS_DONE, ENDED)
    assert told(facts(*WHOLE, *fallen)) == {("kernel-not-taken", False, 1)}
    assert told(facts(*WHOLE, *TAKEN[:-1], CLASS_DONE)) == {("kernel-not-taken", False, 1)}


FORGED: Record = {**compared(WRONG), "wrong": "9" * 5000}
"""A wrong result that cannot be read."""


@pytest.mark.parametrize(
    "more",
    [
        [FORGED],
        [{**compared(WRONG), "wrong": None}],
        [compared()] * 256 + [compared(WRONG)],
    ],
)
def test_a_record_that_cannot_be_read_may_have_been_a_wrong_result(more: list[Record]) -> None:
    assert told(facts(*GOOD, *more, DONE, ENDED)) == {("kernel-not-run", True, 3)}
    assert told(facts(*WHOLE, {"kind": "of tomorrow", "x": None})) == set()


def test_a_line_that_is_no_record_or_was_cut_off_counts() -> None:
    for answer, unread in (
        (b'{"kind": "dri\n', 1),
        (b'\n{"kind": "dri', 1),
        (b"x\r[]\n", 1),
        (b"\n\n", 0),
    ):
        assert records.read(answer, Run("p", "c")).unread == unread


def test_a_version_of_thousands_of_digits_is_none() -> None:
    forged = {**PACKAGES, "compiler": ["9" * 5000, "1"]}
    load = failed("load", "CUDA_ERROR_INVALID_IMAGE")
    seen = told(facts(DRIVER, CARD, stage("packages"), forged, *GRID[2:4], load, ENDED))
    assert seen == {("kernel-no-image", False, 1), ("kernel-not-run", True, 1)}


def test_a_kernel_of_which_nothing_was_compared_is_not_known() -> None:
    ran = (DRIVER, CARD, *GRID, stage("time"), timed(10.0, 100.0), DONE, ENDED)
    assert told(facts(*ran)) == {("kernel-not-run", True, 3)}


MINE = (IN_CLASS, SGLANG, installed("/opt/my_kernels/verify.py"))


@pytest.mark.parametrize(
    ("found", "expected", "check", "undetermined", "code"),
    [
        (
            [*MINE, *called("own"), *called("asked", WRONG), CLASS_DONE],
            "",
            "wrong-result",
            False,
            1,
        ),
        (
            [*MINE, *called("own"), *called("asked", stored=False), CLASS_DONE],
            "",
            "wrong-result",
            False,
            1,
        ),
        ([*MINE, *called("own", WRONG), *called("asked", WRONG)], "", "not-driven", True, 3),
        ([*MINE, *called("own"), undriven("asked")], "", "not-driven", True, 3),
        ([*MINE, undriven("prepare")], "", "not-driven", True, 3),
        ([*MINE, undriven("own")], "", "not-driven", True, 3),
        ([*MINE, {**ENDED, "code": -11}], "", "not-driven", True, 3),
        ([*MINE, CLASS_DONE, ENDED], "", "not-driven", True, 3),
        ([*MINE, *called("own"), CLASS_DONE, ENDED], "", "not-driven", True, 3),
        ([*MINE, *called("asked"), CLASS_DONE, ENDED], "", "not-driven", True, 3),
        (
            [
                *MINE,
                *called("own"),
                *called("asked"),
                {**called("asked", WRONG)[1], "wrong": []},
                CLASS_DONE,
            ],
            "",
            "not-driven",
            True,
            3,
        ),
        (
            [*MINE, *called("own"), called("asked")[0], {**ENDED, "code": -11}],
            "",
            "launch-failed",
            False,
            1,
        ),
        (
            [*MINE, *called("own"), undriven("asked", "CUDA_ERROR_ILLEGAL_ADDRESS")],
            "",
            "launch-failed",
            False,
            1,
        ),
        (
            [*MINE, *called("own"), undriven("asked", "CUDA_ERROR_OUT_OF_MEMORY")],
            "",
            "not-run",
            True,
            3,
        ),
        ([IN_CLASS, {**undriven("import"), "kind": "unclassed"}], "", "not-run", True, 3),
        ([*MINE, *called("own"), *called("asked"), CLASS_DONE], "other", "unexpected", False, 1),
        (
            [*MINE[:2], installed(OWN_FILE), *called("own"), *called("asked"), CLASS_DONE],
            "",
            "unexpected",
            False,
            0,
        ),
    ],
)
def test_each_outcome_of_an_installed_function(
    found: list[Record], expected: str, check: str, undetermined: bool, code: int
) -> None:
    seen = told(facts(DRIVER, CARD, *found, installed=expected))
    assert {
        (one.removeprefix("kernel-").removeprefix("installed-"), *rest) for one, *rest in seen
    } == {(check, undetermined, code)}


@pytest.mark.parametrize(
    "expected",
    ["", "my_kernels", "my_kernels.verify", "/opt/my_kernels", "/opt/my_kernels/verify.py"],
)
def test_an_installed_function_that_is_expected_and_right_holds(expected: str) -> None:
    found = (*MINE, *called("own"), *called("asked"), CLASS_DONE, ENDED)
    assert told(facts(DRIVER, CARD, *found, installed=expected)) == set()


@pytest.mark.parametrize("expected", ["my_kernel", "verify", "/opt/my_ker", "/opt/other"])
def test_a_prefix_ends_at_a_dot_or_a_slash(expected: str) -> None:
    found = (*MINE, *called("own"), *called("asked"), CLASS_DONE, ENDED)
    assert told(facts(DRIVER, CARD, *found, installed=expected)) == {
        ("installed-unexpected", False, 1)
    }


# --- compiled only -------------------------------------------------------------------------------

COMPILER: Record = {"kind": "compiler", "version": [13, 0], "known": [90, 120]}
COMPILED: Record = {
    "kind": "compiled",
    "architecture": "sm_120",
    "bytes": 90000,
    "kernels": {
        "attention": {
            "registers": 255,
            "stack": 24,
            "spill_stores": 20,
            "spill_loads": 40,
            "shared": 101184,
        }
    },
    "shared_limit": 101376,
    "forbidden": [],
    "driver_calls": [],
}


def only_compiled(*found: Record, problem: str = "", asked: str = "") -> KernelFacts:
    answer = "\n".join(map(json.dumps, found)).encode()
    run = records.read(answer, Run("/venv/bin/python", "given", problem=problem))
    devices = tuple(map(Architecture.parse, asked.split()))
    return KernelFacts(Question(devices=devices), compile_only=run)


def kernel(**changes: int) -> Record:
    return {**COMPILED, "kernels": {"attention": {**COMPILED["kernels"]["attention"], **changes}}}


def refused(word: str) -> Record:
    return {"kind": "compiled", "architecture": "sm_120", "error": "E", "word": word, "text": "t"}


@pytest.mark.parametrize(
    ("found", "check", "undetermined", "code"),
    [
        ([COMPILER, kernel(shared=101377)], "kernel-over-limits", False, 1),
        ([COMPILER, {**COMPILED, "forbidden": ["wgmma"]}], "kernel-over-limits", False, 1),
        (
            [COMPILER, {**COMPILED, "driver_calls": ["__cuda_syscall_x"]}],
            "kernel-over-limits",
            False,
            1,
        ),
        ([COMPILER, kernel(spill_stores=400)], "kernel-over-limits", False, 0),
        ([COMPILER, refused("NVRTC_ERROR_COMPILATION")], "kernel-not-compiled", False, 1),
        ([COMPILER, refused("NVRTC_ERROR_INVALID_OPTION")], "kernel-not-compiled", True, 3),
        (
            [{**COMPILER, "version": None, "error": "ImportError", "word": "", "text": "t"}],
            "kernel-not-compiled",
            True,
            3,
        ),
        ([], "kernel-not-compiled", True, 3),
    ],
)
def test_each_outcome_of_compiling(
    found: list[Record], check: str, undetermined: bool, code: int
) -> None:
    assert told(only_compiled(*found)) == {(check, undetermined, code)}


def test_a_compilation_that_keeps_the_limits_holds() -> None:
    assert told(only_compiled(COMPILER, COMPILED)) == set()
    late = only_compiled(COMPILER, COMPILED, problem="it did not end within 9 s")
    assert told(late) == {("kernel-not-compiled", True, 3)}


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        ([COMPILER], {"sm_120", "sm_90"}),
        ([COMPILER, COMPILED], {"sm_90"}),
        ([COMPILER, {**COMPILED, "bytes": "9" * 5000}], {"sm_120", "sm_90"}),
    ],
)
def test_an_architecture_without_a_record_was_not_compiled(
    found: list[Record], missing: set[str]
) -> None:
    of = only_compiled(*found, asked="sm_120 sm_90")
    assert told(of) == {("kernel-not-compiled", True, 3)}
    assert {one.who for one in run_checks(CHECKS, of, {}).findings} == missing


def test_records_that_are_none_are_left_out() -> None:
    answer = b'{"kind": "compiled"}\n[]\nnot JSON\n{"kind": 4}\n{"kind": "card", "device": 0}\n{"ki'
    answer += b"\n" + b"[" * 100_000 + b'\n{"kind": "compiled", "architecture": "none"}'
    answer += b'\n{"kind": "timed", "device": 0, "shape": "", "key_bytes": 1e999}'
    run = records.read(answer, Run("p", "c"))
    assert (run.devices, run.compiled, run.unread) == ((), (), 9)


# --- images --------------------------------------------------------------------------------------


def library(*units: str, problem: str = "") -> Library:
    made = [
        frozenset(
            Image(Architecture.parse(word.split(":")[0]), Kind(word.split(":")[1]))
            for word in unit.split()
        )
        for unit in units
    ]
    return Library("/lib/libk.so", tuple(made), problem=problem)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (library("sm_90:sass sm_120:sass"), set()),
        (library("sm_90:sass"), {("image-missing", False, 1)}),
        (library("sm_90a:ptx"), {("image-missing", False, 1)}),
        (library("sm_120:lto"), {("image-missing", False, 1)}),
        (library("sm_90:ptx"), {("image-by-driver", False, 0)}),
        (library("sm_90:sass", "sm_120:sass"), {("image-partly-missing", False, 0)}),
        (library(), {("images-unknown", True, 3)}),
        (library("sm_120:sass", problem="damaged"), {("images-unknown", True, 3)}),
        (library("sm_90:sass", problem="damaged"), {("images-unknown", True, 3)}),
    ],
)
def test_whether_a_device_runs_a_library(found: Library, expected: set[Told]) -> None:
    question = Question(devices=(Architecture(120),))
    assert told(KernelFacts(question, libraries=(found,))) == expected


def test_without_a_device_only_what_cannot_be_read_is_told() -> None:
    assert told(KernelFacts(Question(), libraries=(library("sm_90:sass"),))) == set()
    plain = Library("/lib/libplain.so")
    assert told(KernelFacts(Question(), libraries=(library("sm_90:sass"), plain))) == set()
