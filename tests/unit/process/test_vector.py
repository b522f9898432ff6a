"""The search by shape in stripped static programs: right, or unreadable, never wrong."""

from __future__ import annotations

import pytest

from envprobe.model import Confidence, EnvironmentStatus
from envprobe.process import vector
from envprobe.process.slots import Slot
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.unit.process.looking import agree, look, opened

ENV = {"PLAIN": "1", "NCCL_ALGO": "Ring"}
BUILDS = [("-static", "gcc"), ("-static-pie", "gcc"), ("-static", "musl-gcc")]


def scan(pid: int) -> Slot | None:
    with opened(pid) as process:
        return vector.scan(process.scope(), process.space)


@pytest.mark.parametrize(("flag", "compiler"), BUILDS)
def test_stripped_program_is_right_by_inference(flag: str, compiler: str) -> None:
    with CTarget(build("target", flag, "-s", compiler=compiler), env=ENV) as target:
        found = look(target.pid)
        agree(target, found, ENV.keys() | {"NEVER_SET"})
    assert found.confidence is Confidence.INFERRED
    assert found.source == "vector scan of the executable"


@pytest.mark.parametrize("action", ["set:NEW=1", "put:NEW=1", "unset:PLAIN"])
@pytest.mark.parametrize(("flag", "compiler"), BUILDS)
def test_changed_environ_is_right_or_unreadable(flag: str, compiler: str, action: str) -> None:
    with CTarget(build("target", flag, "-s", compiler=compiler), action, env=ENV) as target:
        found = look(target.pid)
        if found.status is EnvironmentStatus.UNREADABLE:
            assert "different arrays look like an environment" in found.reason
        else:
            agree(target, found, ENV.keys() | {"NEW"})


def test_glibc_program_stays_right_after_setenv() -> None:
    with CTarget(build("target", "-static", "-s"), "set:NEW=1", env=ENV) as target:
        agree(target, look(target.pid), ENV.keys() | {"NEW"})


@pytest.mark.parametrize(("flag", "compiler"), BUILDS)
def test_two_candidates_are_unreadable_with_the_reason(flag: str, compiler: str) -> None:
    with CTarget(build("target", flag, "-s", compiler=compiler), "keep", env=ENV) as target:
        with pytest.raises(vector.Ambiguous, match="2 different arrays"):
            scan(target.pid)
        found = look(target.pid)
    assert found.status is EnvironmentStatus.UNREADABLE
    assert "2 different arrays look like an environment" in found.reason
    assert found.remedy
    assert not found.entries


@pytest.mark.parametrize(("flag", "compiler"), BUILDS)
def test_strings_in_code_are_no_environment(flag: str, compiler: str) -> None:
    with CTarget(build("target", flag, "-s", compiler=compiler), "keep-code", env=ENV) as target:
        agree(target, look(target.pid), ENV.keys())


def test_no_candidate_is_unreadable_not_empty() -> None:
    with CTarget(build("target", "-static", "-s"), "clear", env=ENV) as target:
        assert scan(target.pid) is None
        found = look(target.pid)
    assert found.status is EnvironmentStatus.UNREADABLE
    assert "static and stripped" in found.reason
    assert found.remedy


def test_tables_of_functions_are_no_environment() -> None:
    """Code addresses led to bytes that passed for `\\xb6=`: with some layouts, so often tried."""
    program = build("target", "-static-pie", "-DREFER", "-s")
    for _ in range(20):
        with CTarget(program, env=ENV) as target:
            agree(target, look(target.pid), ENV.keys())


def test_huge_writable_segment_is_searched_within_bounds() -> None:
    with CTarget(build("big_data", "-static", "-s"), env=ENV) as target:
        found = look(target.pid)
    assert found.status is EnvironmentStatus.UNREADABLE
    assert "larger than 16 MiB" in found.reason
