"""The kernel compiles for devices that are not here, within their limits; nothing of it is run."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from tests.programs.requirement import missing

try:
    import cuda.core  # noqa: F401
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
except (ImportError, RuntimeError) as error:
    NVRTC_PROBLEM: str | None = str(error)
else:
    NVRTC_PROBLEM = None

from kernel_ext import build
from kernel_ext.cubin import driver_calls, forbidden_instructions, resources

ARCHITECTURES = ("sm_80", "sm_90", "sm_120")
REGISTER_LIMIT = 255
STACK_LIMIT = 128
COMPILERS = 8


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if NVRTC_PROBLEM is not None:
        missing("nvrtc", NVRTC_PROBLEM)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_limits_of_the_machine_code(architecture: str, cache: Path) -> None:
    code = build.compile_kernel(architecture, cache=cache).code
    found = resources(code)
    assert set(found) == {"verify_attention", "merge_partials"}
    for kernel in found.values():
        assert 16 <= kernel.registers <= REGISTER_LIMIT
        assert kernel.stack <= STACK_LIMIT
    dynamic = build.SHARED_BYTES
    assert found["verify_attention"].static_shared + dynamic <= build.SHARED_LIMIT
    assert driver_calls(code) == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_instruction_that_sm_120_lacks(architecture: str) -> None:
    text = build.compile_ptx(architecture)
    assert "mma.sync" in text
    assert "ldmatrix" in text
    assert "cp.async" in text
    assert ("cp.async.bulk" in text) == (architecture != "sm_80")
    assert forbidden_instructions(text) == []


def test_a_forbidden_instruction_is_found() -> None:
    text = "wgmma.mma_async.sync.aligned; x_wgmma; cp.async.bulk.tensor.2d; wgmma.fence;"
    assert forbidden_instructions(text) == ["wgmma", "cp.async.bulk.tensor"]


def test_what_is_no_cubin_is_refused() -> None:
    with pytest.raises(ValueError, match="no cubin"):
        resources(b"not ELF at all")
    with pytest.raises(ValueError, match="no cubin"):
        resources(Path("/bin/true").read_bytes())


def _compile(cache: Path, barrier: object, answers: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    answers.put(build.compile_kernel("sm_90", cache=cache).code)  # type: ignore[attr-defined]


def test_processes_that_compile_at_once_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(COMPILERS), context.Queue()
    workers = [
        context.Process(target=_compile, args=(tmp_path, barrier, answers))
        for _ in range(COMPILERS)
    ]
    for worker in workers:
        worker.start()
    codes = {answers.get(timeout=300) for _ in workers}
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * COMPILERS
    assert len(codes) == 1
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert [path.read_bytes() for path in kept if path.read_bytes()[:4] == b"\x7fELF"] == [*codes]


def test_the_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.compile_kernel("sm_90", cache=tmp_path).code
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    assert build.cache_directory() == tmp_path
    (entry,) = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    entry.write_bytes(first + b"\0")
    assert build.compile_kernel("sm_90").code == first + b"\0"
    assert build.compile_kernel("sm_80").code != first
