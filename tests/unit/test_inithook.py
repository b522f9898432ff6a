"""What is written where, what is refused, and what is said about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import cli, cli_inithook, inithook, tables
from envprobe.errors import Exit, UsageError
from envprobe.inithook import Note, Patch, Request

PATCH = Patch("pkg.mod:Class.attr", "mine.mod:func")


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def refusal(request: Request) -> UsageError:
    with pytest.raises(UsageError) as caught:
        inithook.write(request)
    assert caught.value.remedy
    return caught.value


def test_every_option_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[cli_inithook.Options] = []

    def run(given: cli_inithook.Options) -> Exit:
        seen.append(given)
        return Exit.HOLDS

    monkeypatch.setattr(cli_inithook, "run", run)
    arguments = "init-hook d --patch a:b=c:d --patch e:f=g:h --pth --name n --force --format json"
    assert cli.run(arguments.split()) == 0
    assert cli.run(["init-hook", "d"]) == 0
    assert seen == [
        cli_inithook.Options("d", ("a:b=c:d", "e:f=g:h"), True, "n", True, "json"),
        cli_inithook.Options("d"),
    ]


def test_a_patch_is_parsed() -> None:
    assert inithook.parse_patch("pkg.mod:Class.attr=mine.mod:func") == PATCH


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pkg.mod:Class.attr", "takes TARGET=REPLACEMENT"),
        ("pkg.mod=mine:func", "'pkg.mod' is not of the form"),
        ("pkg.mod:a=mine", "'mine' is not of the form"),
        ("pkg..mod:a=mine:func", "'pkg..mod:a' is not of the form"),
        ("pkg.mod:=mine:func", "'pkg.mod:' is not of the form"),
        ('p:a"=mine:func', "is not of the form"),
        ("p:a=mine:f()", "is not of the form"),
        ("__main__:a=mine:f", "never imported"),
        ("p:a=p:a", "replaced by itself"),
    ],
)
def test_a_wrong_patch_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match="--patch") as caught:
        inithook.parse_patch(text)
    assert said in caught.value.message
    assert caught.value.remedy


def test_a_target_may_be_replaced_once(tmp_path: Path) -> None:
    twice = (PATCH, Patch(PATCH.target, "other:func"))
    assert "replaced twice" in refusal(Request(str(tmp_path), twice)).message
    assert not list(tmp_path.iterdir())


def test_the_file_is_readable_for_the_servers_user_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        written = inithook.write(Request(str(tmp_path / "a" / "hooks"), (PATCH,)))
    finally:
        os.umask(before)
    (path,) = map(Path, written.files)
    assert path == tmp_path / "a" / "hooks" / "sitecustomize.py"
    assert path.stat().st_mode & 0o777 == 0o644
    assert '    ("pkg.mod:Class.attr", "mine.mod:func"),\n' in path.read_text()
    assert [one.name for one in path.parent.iterdir()] == ["sitecustomize.py"]
    assert (written.replaced, written.notes, written.query) == (
        (),
        (),
        "sitecustomize:ENVPROBE_HOOK",
    )


def test_its_own_file_is_replaced_and_no_other(tmp_path: Path) -> None:
    request = Request(str(tmp_path))
    path = tmp_path / "sitecustomize.py"
    inithook.write(Request(str(tmp_path), (PATCH,)))
    assert inithook.write(request).replaced == (str(path),)
    assert "PATCHES = ()\n" in path.read_text()
    path.write_text(path.read_text() + "mine = 1\n")
    assert "was changed after envprobe wrote it" in refusal(request).message
    assert path.read_text().endswith("mine = 1\n")
    path.write_text("mine = 2\n")
    assert "was not written by envprobe" in refusal(request).message
    assert path.read_text() == "mine = 2\n"
    inithook.write(Request(str(tmp_path), force=True))
    assert "mine" not in path.read_text()


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("mine = 1\n")
    (tmp_path / "hooks").mkdir()
    link = tmp_path / "hooks" / "sitecustomize.py"
    link.symlink_to(other)
    assert "was not written by envprobe" in refusal(Request(str(tmp_path / "hooks"))).message
    inithook.write(Request(str(tmp_path / "hooks"), force=True))
    assert other.read_text() == "mine = 1\n"
    assert not link.is_symlink()


def test_a_pth_file_has_a_module_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    written = inithook.write(Request(str(folder), (PATCH,), "my_hook"))
    assert [Path(path).name for path in written.files] == ["my_hook.py", "my_hook.pth"]
    assert (folder / "my_hook.pth").read_text().splitlines()[1:] == ["import my_hook"]
    assert (folder / "my_hook.pth").read_text().startswith("#")
    (folder / "my_hook.pth").write_text("import my_hook; 1\n")
    before = (folder / "my_hook.py").read_bytes()
    assert "my_hook.pth was not" in refusal(Request(str(folder), (), "my_hook")).message
    assert (folder / "my_hook.py").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a-b", "no name of a module"),
        ("class", "no name of a module"),
        ("../x", "no name of a module"),
        ("json", "there is a module json already"),
        ("sitecustomize", "there is a module sitecustomize already"),
    ],
)
def test_a_name_that_would_not_work_is_refused(tmp_path: Path, name: str, said: str) -> None:
    assert said in refusal(Request(str(tmp_path), (), name)).message
    assert not list(tmp_path.iterdir())


def test_places_where_it_would_do_harm_or_not_be_found_are_refused(tmp_path: Path) -> None:
    assert "standard library" in refusal(Request(os.path.dirname(os.__file__), force=True)).message
    assert "colon" in refusal(Request(str(tmp_path / "a:b"))).message
    assert "line break" in refusal(Request(str(tmp_path / "a\nb"), (), "hook")).message
    (tmp_path / "file").touch()
    assert "is no directory" in refusal(Request(str(tmp_path / "file"))).message
    assert "cannot be written: Not a directory" in refusal(Request(f"{tmp_path}/file/x")).message


def test_a_module_of_that_name_that_is_found_first_is_refused(tmp_path: Path) -> None:
    for name in ("sitecustomize.cpython-311-x86_64-linux-gnu.so", "sitecustomize.pyc"):
        (tmp_path / name).touch()
        assert name in refusal(Request(str(tmp_path), force=True)).message
        (tmp_path / name).unlink()
    (tmp_path / "sitecustomize").mkdir()
    (tmp_path / "sitecustomizer.so").touch()
    assert inithook.write(Request(str(tmp_path)))
    (tmp_path / "sitecustomize" / "__init__.py").touch()
    assert "is a module sitecustomize too" in refusal(Request(str(tmp_path))).message


def test_the_places_notes(tmp_path: Path) -> None:
    for name in ("site-packages", "dist-packages"):
        assert inithook.write(Request(str(tmp_path / name))).notes == (Note.LOSES_IN_SITE_PACKAGES,)
        assert inithook.write(Request(str(tmp_path / name), (), "hook")).notes == ()
    assert inithook.write(Request(str(tmp_path), (), "hook")).notes == (Note.NO_SITE_DIRECTORY,)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["init-hook", *arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_text_names_files_and_the_lines_that_use_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / 'my "100%" $HOME hooks'
    code, out, err = said(capsys, str(folder), "--patch", "pkg.mod:Class.attr=mine.mod:func")
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == f"wrote {folder}/sitecustomize.py"
    assert lines[1] == "pkg.mod:Class.attr becomes mine.mod:func once its module is imported"
    assert f'Environment="PYTHONPATH={tmp_path}/my \\"100%%\\" $HOME hooks"' in lines
    (shell,) = (line for line in lines if line.startswith("export "))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": "/before"}
    command = ["sh", "-c", f'{shell}; printf %s "$PYTHONPATH"']
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert done.stdout == f"{folder}:/before"
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PATH": env["PATH"]}
    )
    assert done.stdout == str(folder)
    assert "envprobe inspect --pid PID sitecustomize:ENVPROBE_HOOK" in lines
    assert said(capsys, str(folder))[1].startswith(f"replaced {folder}/")


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, _ = said(capsys, *arguments, "--format", "json")
    found = json.loads(out)
    jsonschema.validate(found, tables.load("inithook.schema"))
    assert found["verdict"]["exit"] == code
    return found


def test_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, str(tmp_path), "--patch", "pkg.mod:Class.attr=mine.mod:func")
    assert found["files"] == [{"path": f"{tmp_path}/sitecustomize.py", "replaced": False}]
    assert found["patches"] == [{"target": PATCH.target, "replacement": PATCH.replacement}]
    assert found["use"]["unit"] == f'Environment="PYTHONPATH={tmp_path}"'
    found = document(capsys, str(tmp_path), "--pth")
    assert (found["module"], found["use"]) == ("envprobe_hook", None)
    assert [one["note"] for one in found["notes"]] == ["no-site-directory"]


def test_an_error_is_a_document_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sitecustomize.py").touch()
    found = document(capsys, str(tmp_path))
    assert found["verdict"]["exit"] == 2
    assert found["error"]["message"].endswith("sitecustomize.py was not written by envprobe")
    assert "--force" in found["error"]["remedy"]
    code, out, err = said(capsys, str(tmp_path), "--name", "x")
    assert (code, out) == (2, "")
    assert "--name is for --pth" in err
