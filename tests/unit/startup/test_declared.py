"""From a definition to the starts of its interpreters, and what of them is not known."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import pytest

from envprobe.errors import UndeterminedError
from envprobe.launch.definition import Context, of_command, of_file
from envprobe.runner import rights
from envprobe.startup.declared import Start, starts_of
from envprobe.startup.examine import Questions
from envprobe.startup.traced import trace_definition


def _of(folder: Path, *lines: str, user: bool = False, **variables: str) -> tuple[Start, ...]:
    path = folder / "sgl.service"
    path.write_text("\n".join(["[Service]", *lines, ""]))
    return starts_of(of_file(str(path), (), Context(variables, user)))


def _gaps(one: Start) -> str:
    return "; ".join(one.gaps)


def test_a_start_has_the_environment_flags_directory_and_place(tmp_path: Path) -> None:
    (one,) = _of(
        tmp_path,
        "Environment=A=1 B=2 C=%d",
        "UnsetEnvironment=B",
        "WorkingDirectory=/usr",
        "ExecStart=/usr/bin/python3 -u -X dev -m http.server",
    )
    assert dict(one.launch.environment) == {"A": "1"}
    assert one.launch.flags == ("-u", "-X", "dev")
    assert (one.launch.cwd, one.launch.path0) == ("/usr", "/usr")
    assert one.declared.place.line == 5
    assert "C: " in _gaps(one)
    assert one.undecided == {}


@pytest.mark.parametrize(
    ("line", "path0"),
    [
        ("-c pass", ""),
        ("", ""),
        ("-I {0}/link.py", None),
        ("-P {0}/link.py", None),
        ("{0}/link.py", "{0}/real"),
        ("{0}/real", "{0}/real"),
        ("{0}/app.pyz", "{0}/app.pyz"),
        ("gone.py", "/opt"),
    ],
)
def test_what_the_program_puts_first_on_the_path(
    tmp_path: Path, line: str, path0: str | None
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.py").write_text("")
    (tmp_path / "link.py").symlink_to("real/x.py")
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", "")
    start = f"ExecStart=/usr/bin/python3 {line.format(tmp_path)}"
    (one,) = _of(tmp_path, "WorkingDirectory=/opt", start)
    assert one.launch.path0 == (None if path0 is None else path0.format(tmp_path))


def test_which_gaps_decide(tmp_path: Path) -> None:
    python = "ExecStart=/usr/bin/python3 -c 1"
    (plain,) = _of(tmp_path, python)
    assert (plain.undecided, len(plain.gaps)) == ({}, 1 if os.geteuid() == 0 else 2)
    (passed,) = _of(tmp_path, "PassEnvironment=PYTHONHOME LANG", python)
    assert set(passed.undecided) == {"PYTHONHOME"}
    assert "LANG: " in _gaps(passed)
    (login,) = _of(tmp_path, "ExecStart=/bin/bash -lc 'exec /usr/bin/python3 -c 1'")
    assert set(login.undecided) == {"PYTHONPATH"}
    (isolated,) = _of(tmp_path, "ExecStart=/bin/bash -lc 'exec /usr/bin/python3 -I -c 1'")
    assert isolated.undecided == {}
    assert "PWD" not in _gaps(isolated)
    (relative,) = _of(tmp_path, "WorkingDirectory=%d", "Environment=PYTHONPATH=hooks:", python)
    assert "working directory is not known" in relative.undecided["PYTHONPATH"]
    (absolute,) = _of(tmp_path, "WorkingDirectory=%d", "Environment=PYTHONPATH=/hooks", python)
    assert absolute.undecided == {}
    assert "the working directory is not known" in _gaps(absolute)


def test_a_directory_that_need_not_be_there(tmp_path: Path) -> None:
    python = "ExecStart=/usr/bin/python3 -c 1"
    (one,) = _of(tmp_path, "WorkingDirectory=-/nothing/here", python)
    assert one.launch.cwd == "/"
    (one,) = _of(tmp_path, "User=nobody", "WorkingDirectory=~", python)
    assert one.launch.cwd == os.path.expanduser("~nobody")
    (one,) = _of(tmp_path, python, user=True, HOME="/home/u")
    assert one.launch.cwd == "/home/u"


def test_a_command_line_has_no_gaps() -> None:
    context = Context({"PATH": "/usr/bin:/bin", "A": "1"})
    (one,) = starts_of(of_command(["python3", "x.py"], context, "/srv"))
    assert (one.gaps, one.sandbox) == ((), ())
    assert (one.launch.python, one.launch.path0) == ("/usr/bin/python3", "/srv")
    assert one.launch.rights is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["python3", "x.py"], "the interpreter python3 is on no PATH that is known here"),
        (["/usr/bin/docker", "run", "image", "python3"], "it starts a container"),
        (["/bin/sh", "-c", "eval x"], "which interpreter it starts is not known"),
        (["/bin/sh", "-c", "export A=1"], "it ends without starting anything"),
    ],
)
def test_what_starts_nothing_that_can_be_told(words: list[str], said: str) -> None:
    with pytest.raises(UndeterminedError) as raised:
        starts_of(of_command(words, Context({"PATH": "/nowhere"}), "/"))
    assert said in raised.value.message


def test_a_unit_that_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError, match=r"sgl\.service: it starts no Python interpreter"):
        _of(tmp_path, "Environment=A=1")
    # Of several commands each must be known: the second is none that can be told.
    several = ("Type=oneshot", "ExecStart=/usr/bin/python3 -c 1", "ExecStart=/usr/bin/podman run i")
    with pytest.raises(UndeterminedError, match=r"sgl\.service:4: it starts a container"):
        _of(tmp_path, *several)


def test_a_dynamic_user_has_a_name_that_is_not_known(tmp_path: Path) -> None:
    (one,) = _of(tmp_path, "DynamicUser=yes", "ExecStart=/usr/bin/python3 -c 1")
    assert "USER: the user is made when the unit is started" in one.gaps
    assert one.undecided == {}
    (known,) = _of(tmp_path, "User=nobody", "DynamicUser=yes", "ExecStart=/usr/bin/python3 -c 1")
    assert known.launch.environment["USER"] == "nobody"


def test_rights_that_cannot_be_taken_on_are_refused_before_anything_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "_own_capabilities", lambda: 0)
    path = tmp_path / "sgl.service"
    path.write_text("[Service]\nUser=nobody\nExecStart=/usr/bin/python3 -c 1\n")
    told: list[str] = []
    with pytest.raises(UndeterminedError, match=r"sgl\.service:3: it runs as uid"):
        trace_definition(of_file(str(path), (), Context({})), Questions(), told.append)
    assert told == []


def test_a_script_that_looks_like_a_damaged_archive_is_a_script(tmp_path: Path) -> None:
    # A locator that names two disks in front of the end of an archive (APPNOTE.TXT 4.3.15).
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 1, 0, 2)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 0)
    script = tmp_path / "serve.py"
    script.write_bytes(b"#" * 100 + locator + end)
    with pytest.raises(zipfile.BadZipFile):
        zipfile.is_zipfile(script)
    (one,) = _of(tmp_path, f"ExecStart=/usr/bin/python3 {script}")
    assert one.launch.path0 == str(tmp_path)
