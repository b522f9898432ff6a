"""Attributes of real packages, sampled at random, equal what the process itself says of them.

Each run takes another sample. ENVPROBE_SEED=N repeats the one that a failure names.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from envprobe.cpython.reader import PythonReader
from envprobe.pythonfacts import AnswerState, Kind
from tests.programs import interpreters
from tests.programs.pytarget import (
    PyTarget,
    attached,
    clean_environment,
    differences,
    in_sid,
    sid_tree,
)
from tests.programs.requirement import missing
from tests.programs.sglang_server import SglangError, find_environment

SEED = int(os.environ.get("ENVPROBE_SEED") or random.randrange(1 << 32))
COUNT = 300
UNREADABLE = 0.01
SID = ("python3.14", "python3.15")
END_SECONDS = 10
STANDARD = [
    *("json", "json.decoder", "json.encoder", "json.scanner", "asyncio", "asyncio.base_events"),
    *("asyncio.events", "asyncio.futures", "asyncio.locks", "asyncio.queues", "asyncio.runners"),
    *("asyncio.selector_events", "asyncio.sslproto", "asyncio.streams", "asyncio.subprocess"),
    *("asyncio.tasks", "asyncio.transports", "asyncio.unix_events"),
]
NUMPY = [
    *("numpy", "numpy._core.multiarray", "numpy._core.numeric", "numpy.fft", "numpy.lib"),
    *("numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random", "numpy.testing"),
]
TORCH = [
    *("torch", "torch._C", "torch.autograd", "torch.distributed", "torch.fx", "torch.jit"),
    *("torch.library", "torch.nn", "torch.nn.functional", "torch.ops", "torch.optim"),
    *("torch.utils.data", "triton.language.standard"),
]
"""The last has Triton's JIT functions, `torch.ops` makes its attributes up, the rest is mixed."""


def check_sample(command: Sequence[str], modules: Sequence[str]) -> None:
    """Compare a sample of the modules' attributes, and of those of their classes."""
    request = {"sample": {"modules": list(modules), "count": COUNT, "seed": SEED}}
    print(f"ENVPROBE_SEED={SEED}")
    wrong: dict[str, Any] = {}
    unreadable: dict[str, str] = {}
    with (
        PyTarget(command, request, clean_environment(PYTHONWARNINGS="ignore")) as target,
        attached(target.pid) as reader,
    ):
        assert len(target.truth) == COUNT
        for query, truth in target.truth.items():
            answer = reader.query(query)
            if answer.state is AnswerState.UNREADABLE:
                unreadable[query] = answer.reason
            elif found := differences(answer, truth):
                wrong[query] = found
    assert not wrong, f"ENVPROBE_SEED={SEED}"
    assert len(unreadable) <= UNREADABLE * COUNT, f"ENVPROBE_SEED={SEED}: {unreadable}"


def commands() -> list[Any]:
    """Return the interpreters of the machine and those of the sid tree, as parameters."""
    found = [pytest.param([one.path], id=str(one)) for one in interpreters.found()]
    return found + [pytest.param(in_sid(name), id=f"sid-{name}") for name in SID]


@pytest.mark.parametrize("command", commands())
def test_json_and_asyncio(command: list[str]) -> None:
    if command[0] == in_sid("")[0]:
        require_sid()
    check_sample(command, STANDARD)


@pytest.mark.sglang
@pytest.mark.parametrize(
    "modules", [pytest.param(NUMPY, id="numpy"), pytest.param(TORCH, id="torch")]
)
def test_packages_with_native_code(modules: list[str]) -> None:
    try:
        folder = find_environment()
    except SglangError as error:
        missing("sglang", str(error))
    check_sample([str(folder / "venv" / "bin" / "python")], modules)


def require_sid() -> None:
    if sid_tree() is None:
        missing("sid", "no tree of Debian sid can be made here (root, debootstrap, a mirror)")


def test_sid_has_the_versions_that_it_is_for() -> None:
    require_sid()
    for name in SID:
        program = "import sys; print('python%d.%d' % sys.version_info[:2])"
        done = subprocess.run(
            [*in_sid(name), "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{name}\n"


LAZY = """
lazy import colorsys
lazy from fractions import Fraction
lazy import stat
import sys
stat.S_IFREG
print("ready", flush=True)
sys.stdin.readline()
print(*sorted({"colorsys", "fractions", "stat"} & set(sys.modules)), flush=True)
"""


def test_lazy_imports_stay_unresolved() -> None:
    """PEP 810: what a lazy import stands for is not guessed, and reading it does not import it."""
    require_sid()
    process = subprocess.Popen(
        [*in_sid("python3.15"), "-c", LAZY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with attached(process.pid) as reader:
            check_lazy(reader)
        assert process.communicate("\n", END_SECONDS)[0] == "stat\n"
    finally:
        process.kill()
        process.communicate()


def check_lazy(reader: PythonReader) -> None:
    queries = ("colorsys", "colorsys.rgb_to_hls", "Fraction", "Fraction.numerator")
    for query in queries:
        answer = reader.query(f"__main__:{query}")
        assert answer.state is AnswerState.NOT_IMPORTED, query
        name = query.partition(".")[0]
        assert answer.reason == f"{name} is a lazy import that has not been resolved"
        assert answer.value is answer.function is answer.found_module is None
    assert reader.query("colorsys").state is AnswerState.NOT_IMPORTED
    used = reader.query("__main__:stat")
    assert used.kind is Kind.MODULE
    assert used.found_module is not None
    assert used.found_module.name == "stat"
