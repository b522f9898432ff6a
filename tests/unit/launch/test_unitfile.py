"""Unit files and environment files, where no running manager is needed to know what holds."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from envprobe.checks.registry import run_checks
from envprobe.checks.unit.about import UnitContext
from envprobe.checks.unit.registry import CHECKS
from envprobe.launch import envfile, environment, manager, specifiers, unit, unitfile
from envprobe.launch.declared import Declared
from envprobe.launch.definition import Context, of_file
from envprobe.launch.specifiers import Scope
from envprobe.launch.types import Kind
from envprobe.model import EnvironmentStatus, State
from tests.programs.requirement import missing
from tests.programs.usermanager import PROGRAM


def _declared(body: str, files: dict[str, bytes | None], **more: str) -> Declared:
    """Return what a unit declares; a file that is None cannot be read."""

    def read(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError
        found = files[path]
        if found is None:
            raise PermissionError(13, "Permission denied")
        return found

    made = unit.read(Scope("u.service"), [unitfile.parse("u", f"[Service]\n{body}".encode())])
    return environment.declare(made, more, read=read, version=252)[0]


def test_no_real_key_is_taken_for_a_misspelt_one() -> None:
    try:
        ran = subprocess.run(
            [PROGRAM, "--dump-configuration-items"], capture_output=True, text=True, timeout=30
        )
    except OSError:
        missing("systemd", f"{PROGRAM} is not installed")
    section, keys = "", []
    for line in ran.stdout.splitlines():
        section = line if line.startswith("[") else section
        if section == "[Service]" and "=" in line:
            keys.append(line.partition("=")[0])
    assert len(keys) > 100
    text = "[Service]\n" + "".join(f"{key}=\n" for key in keys)
    assert unitfile.parse("u", text.encode()).remarks == ()
    assert set(unitfile.READ) <= set(keys)


@pytest.mark.parametrize("key", ["environment", "Enviroment", "Environments", "EnviromentFile"])
def test_a_misspelt_key_is_seen(key: str) -> None:
    (remark,) = unitfile.parse("u", f"[Service]\n{key}=A=1\n".encode()).remarks
    assert (remark.kind, remark.place.line) == (Kind.KEY_UNKNOWN, 2)


def test_an_unreadable_file_leaves_what_counts_less_open() -> None:
    body = "Environment=A=1 B=1 C=1\nEnvironmentFile=/closed\nEnvironmentFile=/open\n"
    body += "UnsetEnvironment=C\n"
    declared = _declared(body, {"/closed": None, "/open": b"B=2\n"})
    assert declared.reading("A").state is State.UNREADABLE
    assert declared.reading("NEVER_NAMED").state is State.UNREADABLE
    assert declared.reading("B").state is State.VALUE
    assert declared.reading("C").state is State.ABSENT
    assert declared.environment.status is EnvironmentStatus.PARTIAL
    assert "A" not in declared.environment.entries
    assert "/closed cannot be read here" in declared.reading("A").reason


def test_without_a_manager_a_name_that_is_not_declared_is_not_absent() -> None:
    made = unit.read(Scope("u.service"), [unitfile.parse("u", b"[Service]\nEnvironment=A=1\n")])
    declared, _ = environment.declare(made, None)
    assert declared.reading("A").state is State.VALUE
    assert declared.reading("B").state is State.UNREADABLE
    declared, _ = environment.declare(made, {"PATH": "/usr/bin"})
    assert declared.reading("B").state is State.ABSENT


def test_the_order_in_which_sources_count() -> None:
    body = "EnvironmentFile=/f\nEnvironment=A=unit B=unit\nPassEnvironment=A C\n"
    body += "ExecSearchPath=/x\nUnsetEnvironment=B=file D=other\n"
    declared = _declared(
        body, {"/f": b"B=file\nD=file\n"}, A="manager", C="manager", PATH="/usr/bin"
    )
    found = {
        one.setting.name: (one.setting.value.reveal(), [x.source.value for x in one.overridden])
        for one in declared.entries
        if one.removed is None and one.setting.value is not None
    }
    assert found["A"] == (b"unit", ["manager", "PassEnvironment="])
    assert found["PATH"] == (b"/x", ["manager"])
    assert (found["C"], found["D"]) == ((b"manager", ["manager"]), (b"file", []))
    assert declared.reading("B").state is State.ABSENT


@pytest.mark.parametrize(("version", "names"), [(252, ["B"]), (254, ["A", "B"]), (None, ["B"])])
def test_a_comment_with_a_backslash_depends_on_the_version(
    version: int | None, names: list[str]
) -> None:
    found = envfile.parse("f", b"# c \\\nA=1\nB=2\n", version)
    assert [one.name for one in found.lines] == names
    assert bool(found.unsure) is (version is None)
    assert found.lines[-1].place.line == 3


def test_specifiers_that_depend_on_what_is_not_known() -> None:
    scope = Scope("a@.service", user_manager=True, uid=None, version=None)
    for letter in ("i", "n", "h", "u", "t", "S", "D", "y", "c"):
        with pytest.raises(specifiers.UnknownError):
            specifiers.resolve(letter, scope)
    with pytest.raises(specifiers.RefusedError):
        specifiers.expand("x%z", scope)
    with pytest.raises(specifiers.RefusedError):
        specifiers.resolve("D", Scope("a.service", version=252))
    assert (
        specifiers.expand("%p %% %j %- %P", Scope("x-a\\x2db@.service"))
        == "x-a\\x2db % a\\x2db %- x/a-b"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('A=b "C=d e" F=', ["A=b", "C=d e", "F="]),
        ('"A=\\$x \\`y\\` \\\\ \\" \\033[0m"', ['A=$x `y` \\ " \x1b[0m']),
        ("$'A\\nb' c", ["A\nb", "c"]),
        ("\"a \\$'b'\"", ["a $'b'"]),
        ("", []),
    ],
)
def test_lists_as_systemctl_prints_them(text: str, expected: list[str]) -> None:
    assert manager.listed(text) == expected


def test_many_variables_are_judged_in_time_that_grows_with_their_number(tmp_path: Path) -> None:
    lines = [f"Environment=NCCL_V{number}={number}" for number in range(20_000)]
    path = tmp_path / "many.service"
    path.write_text("\n".join(["[Service]", *lines, "ExecStart=/usr/bin/env python3 -c 1", ""]))
    begin = time.process_time()
    found = of_file(str(path), (), Context({}))
    result = run_checks(CHECKS, UnitContext((found,)), {})
    assert len(found.relevant_entries) == 20_000
    assert {one.check for one in result.findings} <= {"launch-unknown"}
    assert time.process_time() - begin < 10
