"""The walk: the order of candidates and why they lose, from what an interpreter answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envprobe.startup.types import Kind, Launch, Origin, Walk
from envprobe.startup.walk import Oddity, elements, read

PATH = [
    ("/hooks", "directory"),
    ("/usr/lib/python312.zip", "missing"),
    ("/usr/lib/python3.12", "directory"),
    ("/usr/lib/python3.12/lib-dynload", "directory"),
    ("/home/me/.local/lib/python3.12/site-packages", "directory"),
    ("/venv/site-packages", "directory"),
    ("/src/editable", "directory"),
]
LAUNCH = Launch("/venv/bin/python", {"PYTHONPATH": "/hooks"}, cwd="/srv")


def _walk(*candidates: dict[str, Any]) -> Walk:
    answer = {
        "version": [3, 12, 1],
        "implementation": "cpython",
        "executable": "/venv/bin/python",
        "prefix": "/venv",
        "base_prefix": "/usr",
        "stdlib": "/usr/lib/python3.12",
        "user_site": "/home/me/.local/lib/python3.12/site-packages",
        "user_site_enabled": True,
        "site_directories": ["/venv/site-packages"],
        "files": [],
        "hooks": {
            "sitecustomize": {
                "loaded": False,
                "path": [{"entry": entry, "state": state} for entry, state in PATH],
                "candidates": list(candidates),
            }
        },
    }
    return read(json.dumps(answer).encode(), LAUNCH)


def _at(entry: int | None, kind: str = "source", **more: Any) -> dict[str, Any]:
    folder = PATH[entry][0] if entry is not None else "/finder"
    return {"entry": entry, "kind": kind, "path": f"{folder}/sitecustomize.{kind}", **more}


def _reasons(walk: Walk) -> list[str]:
    return [one.reason for one in walk.of("sitecustomize")]


def test_each_entry_is_known_by_where_it_comes_from() -> None:
    assert [entry.origin for entry in _walk().entries] == [
        Origin.PYTHONPATH,
        Origin.STDLIB_ZIP,
        Origin.STDLIB,
        Origin.DYNLOAD,
        Origin.USER_SITE,
        Origin.SITE,
        Origin.ADDED,
    ]


def test_the_first_entry_wins_and_the_others_lose_by_their_place() -> None:
    walk = _walk(_at(2), _at(5))
    assert [one.wins for one in walk.of("sitecustomize")] == [True, False]
    assert _reasons(walk)[1] == (
        "its directory is entry 6 of sys.path (site-packages), after entry 3,"
        " /usr/lib/python3.12 (standard library), where one is found first"
    )


def test_in_one_directory_the_kind_decides() -> None:
    walk = _walk(_at(0, "package"), _at(0, "source"))
    assert _reasons(walk) == [
        "",
        "in one directory a package is taken before a source file",
    ]


def test_a_directory_without_code_wins_only_alone() -> None:
    beaten = _walk(_at(0, "namespace"), _at(5))
    assert [one.wins for one in beaten.of("sitecustomize")] == [False, True]
    assert "any module beats" in _reasons(beaten)[0]
    alone = _walk(_at(0, "namespace"))
    winner = alone.winner("sitecustomize")
    assert winner is not None
    assert winner.kind is Kind.NAMESPACE


def test_finders_come_before_or_after_the_path() -> None:
    walk = _walk(
        _at(None, finder="Late", before_path=False),
        _at(2),
        _at(None, finder="Early", before_path=True),
    )
    found = walk.of("sitecustomize")
    assert [one.finder for one in found] == ["Early", "", "Late"]
    assert found[0].wins
    assert found[1].reason == "Early is asked before the entries of sys.path"
    assert _reasons(_walk(_at(2), _at(None, finder="Late", before_path=False)))[1] == (
        "Late is asked after the entries of sys.path"
    )


def test_a_walk_that_was_not_finished_is_none() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        read(b"", LAUNCH)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("/a:/b", [("/a", None), ("/b", None)]),
        ("/a:", [("/a", None), ("/srv", Oddity.TRAILING)]),
        (":/a", [("/srv", Oddity.TRAILING), ("/a", None)]),
        ("/a::/b", [("/a", None), ("/srv", Oddity.EMPTY), ("/b", None)]),
        (".", [("/srv", Oddity.RELATIVE)]),
        ("../x", [("/x", Oddity.RELATIVE)]),
    ],
)
def test_elements_of_pythonpath(value: str, found: list[tuple[str, Oddity | None]]) -> None:
    launch = Launch("python", {"PYTHONPATH": value}, cwd="/srv")
    assert [(one.path, one.oddity) for one in elements(launch)] == found


@pytest.mark.parametrize("flag", ["-E", "-I", "-BE", "-bI"])
def test_pythonpath_does_not_count_under_a_flag(flag: str) -> None:
    assert elements(Launch("python", {"PYTHONPATH": "/a"}, (flag,))) == ()


def test_an_option_with_a_value_is_no_flag() -> None:
    launch = Launch("python", {"PYTHONPATH": "/a"}, ("-XIE", "-WI"))
    assert [one.path for one in elements(launch)] == ["/a"]


def test_an_empty_pythonpath_is_none() -> None:
    assert elements(Launch("python", {"PYTHONPATH": ""})) == ()
