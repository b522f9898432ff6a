"""Forged and damaged processes: never a crash, never without a bound, never a wrong answer."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envprobe.cpython import layouts, reader, runtime, sites
from envprobe.cpython.faults import CannotAttach, NotRunning, Torn, Unreadable
from envprobe.cpython.layouts import Layout
from envprobe.process.elf import Image, Symbol
from envprobe.process.handle import MemoryFault, ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.process.scope import Scope
from envprobe.pythonfacts import Answer, AnswerState
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

FORGED = Path(__file__).parents[1] / "programs" / "py39" / "py_forged.py"
SECONDS_A_QUERY = 8.0
MAX_GROWTH_KIB = 256 << 10


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once: what is damaged stays so."""
    monkeypatch.setattr(reader, "PAUSE_S", 0.0)


@contextlib.contextmanager
def forged(python: str) -> Iterator[tuple[int, list[str]]]:
    """Run py_forged.py; give its pid and the names in its module."""
    process = subprocess.Popen(
        [python, "-c", FORGED.read_text()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        word, *names = process.stdout.readline().decode().split()
        assert word == "ready"
        yield process.pid, names
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("interpreter", interpreters.found(), ids=str)
def test_forged_objects(interpreter: interpreters.Interpreter) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with forged(interpreter.path) as (pid, names), attached(pid) as python:
        assert len(names) > 100
        for name in names:
            for query in (f"forged:{name}", f"forged:{name}.kept", f"forged:{name}.missing"):
                started = time.process_time()
                answer = python.query(query)
                assert time.process_time() - started < SECONDS_A_QUERY, query
                assert answer.state is AnswerState.VALUE or answer.reason, query
        honest = python.query("forged:honest").value
        assert honest is not None
        assert honest.plain() == {"value": [1, 2, 3]}
        method = python.query("forged:Honest.method").function
        assert method is not None
        assert method.name == "method"
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth < MAX_GROWTH_KIB


DAMAGED = (
    *("text_long", "text_negative", "text_kind", "bytes_negative", "int_long", "int_digits"),
    *("tuple_negative", "list_far", "list_odd", "dict_far", "dict_null", "dict_odd", "dict_high"),
    *("dict_ones", "dict_sevens", "type_self", "type_loop", "type_far", "type_odd", "type_high"),
    *("type_text", "class_name", "class_mro", "class_mro_text", "class_mro_null", "class_dict"),
    *("class_dict_text", "function_code_far", "function_code_text", "function_code_null"),
    *("function_closure_far", "function_closure_text", "function_globals_far"),
    *("function_globals_text", "function_globals_null", "builtin_far", "builtin_odd"),
)


def test_what_is_damaged_is_no_value() -> None:
    with forged(interpreters.found()[-1].path) as (pid, names), attached(pid) as python:
        assert set(DAMAGED) <= set(names)
        for name in DAMAGED:
            answer = python.query(f"forged:{name}")
            states = (AnswerState.UNREADABLE, AnswerState.CHANGING)
            assert answer.state in states, (name, answer)
            assert answer.remedy, name


CHECKED = {
    "imports": ["json", "functools", "enum", "collections"],
    "queries": [
        *("json", "json:loads", "json:JSONDecoder", "json:JSONDecoder.decode", "json:nothing"),
        *("functools:partial", "functools:WRAPPER_ASSIGNMENTS", "sys:maxsize", "sys:byteorder"),
        *("os:getcwd", "builtins:str.join", "enum:Enum.name", "collections:OrderedDict.fromkeys"),
        *("json.decoder:scanstring", "json.decoder:NaN", "os:environ.encodekey", "nothing"),
        *("os:environ._data", "functools:singledispatchmethod.register", "string.templatelib"),
    ],
}


UNPROVED = ("managed_dict",)
"""Read only of instances whose attributes were moved to a dict: a new process has none."""


@contextlib.contextmanager
def parts(pid: int) -> Iterator[tuple[Scope, AddressSpace, sites.Site]]:
    with (
        ProcessHandle.open(pid) as handle,
        Memory.open(handle) as memory,
        AddressSpace(handle) as space,
    ):
        scope = Scope(handle, memory, space)
        yield scope, space, next(sites.sites(handle, scope, space))


def test_a_wrong_layout_is_refused_or_gives_no_wrong_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shift each offset in turn: what is not refused must not make an answer wrong.

    One interpreter of each version; up in one version, down in the next.
    """
    refused = accepted = 0
    bad_fields: dict[tuple[str, int], Any] = {}
    of_each_version = {one.version: one for one in interpreters.found()}
    for turn, interpreter in enumerate(of_each_version.values()):
        with PyTarget([interpreter.path], CHECKED, clean_environment()) as target:
            good = layout_of(target.pid)
            for number, field in enumerate(dataclasses.fields(Layout)):
                value = getattr(good, field.name)
                if field.type != "int" or not value or field.name in UNPROVED:
                    continue
                step = 1 if field.name.endswith(("_bit", "_shift")) else 8
                shift = step if (turn + number) % 2 else -step
                bad = dataclasses.replace(good, **{field.name: value + shift})
                with monkeypatch.context() as patch:
                    patch.setattr(layouts, "candidates", lambda *_, _bad=bad, **__: [_bad])
                    try:
                        wrong = wrong_answers(target)
                    except CannotAttach:
                        refused += 1
                        continue
                accepted += 1
                bad_fields.update({(field.name, shift): wrong} if wrong else {})
    assert not bad_fields, "\n".join(map(str, sorted(bad_fields)))
    assert refused > accepted


def layout_of(pid: int) -> Layout:
    with (
        ProcessHandle.open(pid) as handle,
        Memory.open(handle) as memory,
        AddressSpace(handle) as space,
    ):
        scope = Scope(handle, memory, space)
        return runtime.locate(handle, scope, space, scope.memory).layout


def wrong_answers(target: PyTarget) -> dict[str, Any]:
    """Return the answers that are neither right nor refused."""
    wrong: dict[str, Any] = {}
    with attached(target.pid) as python:
        for query in CHECKED["queries"]:
            answer: Answer = python.query(query)
            if answer.state in (AnswerState.UNREADABLE, AnswerState.CHANGING):
                continue
            if found := differences(answer, target.truth[query]):
                wrong[query] = found
    return wrong


def test_the_layouts_of_other_versions_are_refused() -> None:
    for interpreter in interpreters.found():
        others = [(3, minor) for minor in range(9, 16) if (3, minor) != interpreter.version]
        with (
            PyTarget([interpreter.path], {"queries": []}) as target,
            parts(target.pid) as (scope, space, site),
        ):
            for layout in (one for minor in others for one in layouts.candidates(minor)):
                with pytest.raises((MemoryFault, Torn, Unreadable, NotRunning)):
                    runtime.verify(scope.memory, space, site, layout)


@pytest.mark.parametrize("python", ["python3.13", "python3.14", "python3.15"])
def test_the_cookie_leads_to_the_interpreter_without_symbols(
    python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [one.path for one in interpreters.found() if python.endswith(f".{one.version[1]}")]
    if not command:
        if sid_tree() is None:
            missing("sid", f"{python} comes from a tree of Debian sid")
        command = in_sid(python)

    def no_symbol(self: Image, name: bytes) -> Symbol | None:
        return None

    with PyTarget(command[-1:] if len(command) == 1 else command, CHECKED) as target:
        monkeypatch.setattr(Image, "lookup", no_symbol)
        monkeypatch.setattr(sites.symtab, "lookup", lambda *_: {})
        assert wrong_answers(target) == {}


def test_a_process_that_ends_while_it_is_read() -> None:
    with (
        PyTarget([interpreters.found()[-1].path], CHECKED) as target,
        attached(target.pid) as python,
    ):
        assert python.query("json").state is AnswerState.VALUE
        target.close()
        with pytest.raises(reader.ProcessGone):
            python.query("json")
