"""The language runtime, by what is in memory and never by a file's name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envprobe.model import Interpreter
from envprobe.process import runtime
from tests.programs import interpreters
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.programs.requirement import missing
from tests.unit.process.looking import look, opened, texts

TELL = (
    "import sys\n"
    "print('ready', flush=True)\n"
    "sys.stdin.readline()\n"
    "print(sys.version.split()[0].rstrip('+'), flush=True)\n"
    "sys.stdin.readline()"
)


def interpreter_of(pid: int) -> Interpreter | None:
    with opened(pid) as process:
        return runtime.interpreter(process.scope())


def own_version(target: CTarget) -> str:
    assert target.process.stdin is not None
    assert target.process.stdout is not None
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    return target.process.stdout.readline().decode().strip()


@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_every_cpython_tells_its_version(python: interpreters.Interpreter) -> None:
    with CTarget(python.path, "-I", "-S", "-c", TELL, env={"ONE": "1"}) as target:
        found = interpreter_of(target.pid)
        environment = texts(look(target.pid))
        version = own_version(target)
    assert found is not None
    assert found.kind == "CPython"
    exact = python.version >= (3, 11)
    assert found.version == (version if exact else "{}.{}".format(*python.version))
    assert found.source.startswith("_PyRuntime in ")
    assert environment["ONE"] == b"1"


def test_a_renamed_interpreter_is_still_one(tmp_path: Path) -> None:
    python = Path("/usr/bin/python3").resolve()
    if not python.exists():
        missing("system-python", "there is no /usr/bin/python3")
    shutil.copy(python, tmp_path / "server")
    with CTarget(tmp_path / "server", "-I", "-S", "-c", TELL, env={}) as target:
        found = interpreter_of(target.pid)
        assert found is not None
        assert found.kind == "CPython"
        assert own_version(target).startswith(found.version)
        assert found.version.startswith("3.")


@pytest.mark.parametrize("flags", [(), ("-static",)])
def test_a_program_called_python_is_none(tmp_path: Path, flags: tuple[str, ...]) -> None:
    shutil.copy(build("target", *flags), tmp_path / "python3.12")
    with CTarget(tmp_path / "python3.12") as target:
        assert interpreter_of(target.pid) is None


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0x030B07F0, "3.11.7"),
        (0x030D00F0, "3.13.0"),
        (0x030F00A2, "3.15.0a2"),
        (0x030E00B1, "3.14.0b1"),
        (0x030C00C3, "3.12.0rc3"),
    ],
)
def test_hexadecimal_versions(number: int, text: str) -> None:
    assert runtime.version_text(number) == text
