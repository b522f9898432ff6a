"""What a spawned child would run again is seen in the file alone, by every version's grammar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envprobe.launch import entry
from envprobe.launch.declared import Builder
from envprobe.launch.entry import EntryLook, StartKind
from envprobe.launch.peel import peel
from envprobe.launch.types import Place
from envprobe.payload import entry_syntax
from tests.programs.interpreters import Interpreter, found

GUARD = 'if __name__ == "__main__":\n'


def _look(source: str, tmp_path: Path, python: str = sys.executable) -> EntryLook:
    path = tmp_path / "serve.py"
    path.write_text(source)
    launch = peel(Builder().made(), [python, str(path)], Place("unit", 3), cwd="/")
    looked = entry.look(launch)
    assert looked is not None
    return looked


STORY = 'import runpy\n\nrunpy.run_module("sglang.launch_server", run_name="__main__")\n'


@pytest.mark.parametrize("interpreter", found(), ids=str)
def test_the_wrapper_of_the_story_is_seen_by_every_interpreter(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    looked = _look(STORY, tmp_path, interpreter.path)
    assert (looked.reason, looked.version, looked.own) == ("", interpreter.version, False)
    (start,) = looked.starts
    assert (start.line, start.kind, start.call) == (3, StartKind.RUNPY, "runpy.run_module")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import multiprocessing as mp\nmp.Process(target=print)\n", [(2, "process", None)]),
        ("from multiprocessing import Process\nif 1:\n    p = Process()\n", [(3, "process", None)]),
        ("import multiprocessing as m\nm.get_context('spawn').Pool()\n", [(2, "process", None)]),
        ("import multiprocessing as m\nc = m.get_context()\nc.Pool(2)\n", [(3, "process", None)]),
        ("import torch.multiprocessing as mp\nmp.spawn(print)\n", [(2, "process", None)]),
        ("import subprocess\nsubprocess.run(['x'])\n", [(2, "command", None)]),
        ("from os import system\ntry:\n    system('x')\nfinally: pass\n", [(3, "command", None)]),
        ("from vllm import LLM\nllm = LLM('m')\n", [(2, "server", None)]),
        ("import sglang as sgl\nclass A:\n    e = sgl.Engine()\n", [(3, "server", None)]),
        (
            "import runpy\ndef main():\n    go()\ndef go():\n    runpy.run_path('x')\nmain()\n",
            [(6, "runpy", 5)],
        ),
        ("import runpy\ndef main():\n    runpy.run_path('x')\n" + GUARD + "    main()\n", []),
        (
            "import os\n" + GUARD + "    os.system('x')\nelse:\n    os.system('y')\n",
            [(5, "command", None)],
        ),
        ("import runpy\nf = lambda: runpy.run_path('x')\n", []),
        (
            "import os\n@os.popen('x')\ndef f(a=os.popen('y')): pass\n",
            [(2, "command", None), (3, "command", None)],
        ),
        ("import os\nmatch 1:\n    case 1:\n        os.system('x')\n", [(4, "command", None)]),
    ],
)
def test_statements_at_module_level(
    source: str, expected: list[tuple[int, str, int | None]], tmp_path: Path
) -> None:
    looked = _look(source, tmp_path)
    assert looked.reason == ""
    assert [(one.line, one.kind.value, one.inside) for one in looked.starts] == expected


def test_what_is_predicted_is_what_happens(tmp_path: Path) -> None:
    """The child of an unguarded start dies; behind the guard, and told so, it lives."""
    head = "import multiprocessing as mp, os, sys\nmp.set_start_method('spawn', force=True)\n"
    # One more start than the first would be a storm: a child's child is refused by hand as well.
    head += "assert os.environ.setdefault('GENERATION', '0') < '2'\n"
    head += "os.environ['GENERATION'] = str(int(os.environ['GENERATION']) + 1)\n"
    start = (
        "p = mp.Process(target=print, args=('ran',)); p.start(); p.join(); sys.exit(p.exitcode)\n"
    )
    for body, starts, said in ((start, 1, "bootstrapping phase"), (GUARD + "    " + start, 0, "")):
        looked = _look(head + body, tmp_path)
        assert len(looked.starts) == starts
        ran = subprocess.run(
            [sys.executable, looked.path],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={},
        )
        assert (ran.returncode == 0) is (starts == 0)
        assert said in ran.stderr


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def (\n", "line 1 is no valid syntax for this interpreter"),
        ("x = 1\n\0", "it cannot be parsed"),
        ("# coding: nothing\n", "its encoding cannot be told"),
    ],
)
def test_what_cannot_be_parsed_is_not_known(source: str, reason: str, tmp_path: Path) -> None:
    looked = _look(source, tmp_path)
    assert looked.starts == ()
    assert reason in looked.reason or "syntax" in looked.reason


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    launch = peel(Builder().made(), [sys.executable, f"{tmp_path}/none.py"], Place("unit"), cwd="/")
    looked = entry.look(launch)
    assert looked is not None
    assert "cannot be read" in looked.reason


def test_a_module_is_found_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "serve.py").write_text(STORY)
    (package / "__main__.py").write_text("import os\nos.system('x')\n")
    for module, line in (("pkg.serve", 3), ("pkg", 2)):
        argv = [sys.executable, "-m", module]
        launch = peel(Builder().made(), argv, Place("unit"), cwd=str(tmp_path))
        looked = entry.look(launch)
        assert looked is not None
        assert [one.line for one in looked.starts] == [line]


def test_nothing_of_the_program_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hook = tmp_path / "sitecustomize.py"
    hook.write_text(f"open({str(mark)!r}, 'w')\n")
    looked = _look(f"open({str(mark)!r}, 'w')\n", tmp_path)
    assert looked.reason == ""
    assert not mark.exists()


def test_text_of_c_is_imported_by_no_child() -> None:
    launch = peel(Builder().made(), [sys.executable, "-c", STORY], Place("unit"), cwd="/")
    assert entry.look(launch) is None


def test_an_interpreter_that_is_not_here_gives_its_place_to_ours(tmp_path: Path) -> None:
    looked = _look(STORY, tmp_path, "/nothing/bin/python3")
    assert (looked.own, len(looked.starts)) == (True, 1)


def test_a_deep_expression_does_not_break_it() -> None:
    answer = entry_syntax.analyse("x = " + "(" * 3000 + ")" * 3000)
    assert "reason" in answer


def test_a_file_with_a_zero_byte_has_no_line_to_name() -> None:
    reason = entry_syntax.analyse("x = 1\0")["reason"]
    assert "None" not in reason
    assert reason.startswith(("its text (", "line ", "it cannot be parsed"))
