"""The trace of real interpreters (scripts/gen_traces.py), with the verdict stated in advance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe.startup.trace import parse
from envprobe.startup.types import Imported, Kind, Raised

TRACES = Path(__file__).resolve().parents[2] / "data" / "traces"
HOOK = "/hooks/sitecustomize.py"
SHIPS_ONE = ("3.14", "3.15")
"""Traced on Debian, which has a sitecustomize of its own with the standard library."""


def _traces(case: str) -> Iterator[tuple[str, str]]:
    for file in sorted(TRACES.glob("*.json")):
        yield file.stem, json.loads(file.read_text())[case]


def _imports(case: str, module: str = "sitecustomize") -> dict[str, Imported]:
    return {version: parse(text.encode()).imports[module] for version, text in _traces(case)}


def test_there_is_a_trace_of_each_version() -> None:
    versions = [version for version, _ in _traces("ran")]
    assert versions == ["3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.9"]


@pytest.mark.parametrize(
    ("case", "path", "kind"),
    [
        ("ran", HOOK, Kind.SOURCE),
        ("prints", HOOK, Kind.SOURCE),
        ("chains", HOOK, Kind.SOURCE),
        ("package", "/hooks/sitecustomize/__init__.py", Kind.PACKAGE),
        ("zip", "/hooks/hooks.zip/sitecustomize.py", Kind.ZIP),
        ("sourceless", "/hooks/own/sitecustomize.pyc", Kind.SOURCELESS),
    ],
)
def test_the_winner_is_named_and_ran_to_its_end(case: str, path: str, kind: Kind) -> None:
    for version, one in _imports(case).items():
        assert (one.path, one.kind, one.finished) == (path, kind, True), version
        assert one.raised is None
        assert one.self_us is not None
        assert one.cumulative_us is not None
        assert 0 < one.self_us <= one.cumulative_us


def test_only_real_files_count_as_chained() -> None:
    assert {one.chained for one in _imports("chains").values()} == {
        ("/hooks/next/sitecustomize.py",)
    }
    # What a hook prints without a newline stands in the line of the interpreter.
    assert {one.chained for one in _imports("prints").values()} == {()}


def test_a_namespace_package_is_one_only_where_nothing_else_is_found() -> None:
    for version, one in _imports("namespace").items():
        if version in SHIPS_ONE:
            assert one.path == f"/python/lib/python{version}/sitecustomize.py"
        else:
            assert (one.path, one.kind) == ("/hooks/sitecustomize", Kind.NAMESPACE)
        assert one.finished


@pytest.mark.parametrize(
    ("case", "raised"),
    [
        ("raised", Raised("ValueError", "no: value", HOOK, 2)),
        ("syntax-error", Raised("SyntaxError", "invalid syntax", HOOK, 1)),
        (
            "submodule",
            Raised(
                "ModuleNotFoundError",
                "No module named 'sitecustomize.more'; 'sitecustomize' is not a package",
                HOOK,
                1,
            ),
        ),
    ],
)
def test_an_exception_is_told_with_its_place(case: str, raised: Raised) -> None:
    for version, text in _traces(case):
        found = parse(text.encode())
        one = found.imports["sitecustomize"]
        assert (one.path, one.finished, one.raised) == (HOOK, False, raised), version
        assert found.site_done
        assert found.imports["usercustomize"].raised is None


def test_silence_is_an_import_that_ended_without_an_end() -> None:
    for version, one in _imports("silent").items():
        assert (one.path, one.finished, one.ended) == (HOOK, False, True), version
        assert one.raised is None


def test_an_exit_ends_site_too() -> None:
    for version, text in _traces("exits"):
        found = parse(text.encode())
        assert found.fatal == Raised("SystemExit", "3", HOOK, 1), version
        assert not found.site_done


def test_an_exception_belongs_to_the_hook_that_raised_it() -> None:
    for version, text in _traces("user-raised"):
        found = parse(text.encode())
        assert found.imports["sitecustomize"].raised is None, version
        assert found.imports["sitecustomize"].finished
        assert found.imports["usercustomize"].raised == Raised(
            "KeyError", "'user'", "/hooks/usercustomize.py", 1
        )


def test_startup_files_up_to_3_14_are_named_with_the_line_that_failed() -> None:
    found = parse(
        b"Processing .pth file: '/site/a.pth'\n"
        b"import time:       100 |        700 |   first\n"
        b"Error processing line 3 of /site/a.pth:\n"
        b"\n"
        b"  Traceback (most recent call last):\n"
        b'    File "<frozen site>", line 213, in addpackage\n'
        b'    File "<string>", line 1, in <module>\n'
        b"  ZeroDivisionError: division by zero\n"
        b"\n"
        b"Remainder of file ignored\n"
    )
    one = found.files["/site/a.pth"]
    assert (one.line, one.cumulative_us) == (3, 700)
    assert one.raised == Raised("ZeroDivisionError", "division by zero")


def test_startup_files_of_3_15_are_named_with_the_text_that_failed() -> None:
    found = parse(
        b"Exec'ing from /site/a.pth: import nothing\n"
        b"Error in import line from /site/a.pth: import nothing\n"
        b"  Traceback (most recent call last):\n"
        b'    File "<string>", line 1, in <module>\n'
        b"  ModuleNotFoundError: No module named 'nothing'\n"
        b"Executing entry point: a:main from /site/a.start\n"
        b"Error in entry point a:main from /site/a.start\n"
        b"  Traceback (most recent call last):\n"
        b'    File "/site/a.py", line 2, in main\n'
        b"  OSError: no\n"
    )
    assert found.files["/site/a.pth"].text == "import nothing"
    assert found.files["/site/a.pth"].raised == Raised(
        "ModuleNotFoundError", "No module named 'nothing'"
    )
    assert found.files["/site/a.start"].text == "a:main"
    assert found.files["/site/a.start"].raised == Raised("OSError", "no", "/site/a.py", 2)


def test_any_bytes_are_a_trace_without_hooks() -> None:
    found = parse(b"\xff\xfe\0Traceback (most recent call last):\n" * 3)
    assert not found.site_done
    assert not found.imports["sitecustomize"].ended


def test_bytes_of_a_path_that_stderr_has_escaped_are_the_path() -> None:
    found = parse(b"# code object from '/caf\\udce9/sitecustomize.py'\n").imports["sitecustomize"]
    assert found.path == "/caf\udce9/sitecustomize.py"
