"""The two reports of `envprobe inspect`: what they show, mask and leave out."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from envprobe.calibration import Calibration
from envprobe.cpython import layouts
from envprobe.cpython.session import Subject
from envprobe.errors import Exit
from envprobe.inspection import Inspection
from envprobe.model import Environment, EnvironmentStatus, Identity, View
from envprobe.pythonfacts import (
    Answer,
    AnswerState,
    CallableFact,
    ClassFact,
    Datum,
    DiskState,
    FileFact,
    Kind,
    ModuleFact,
    PythonFact,
    PythonState,
    Wrapped,
    files_of,
)
from envprobe.report import inspection, inspection_document
from envprobe.runner.rights import Rights
from envprobe.values import Value

SCHEMA = tables.load("inspection.schema")
EVIL = "\x1b]0;owned\x07\n::error::x ##[y] \u202e"
PYTHON = PythonFact(
    "3.12.1",
    "release",
    "known offsets",
    flags={"isolated": 0, "ignore_environment": 0, "no_site": 0, "optimize": 1},
    path=("/lib", "rel"),
    executable="/usr/bin/python3",
    prefix="/usr",
    base_prefix="/usr",
)
SUBJECT = Subject(
    Identity(7, 100),
    1_000_000.0,
    "python3",
    PythonState.READ,
    title=("sglang::scheduler_TP0",),
    cwd="/srv",
    python=PYTHON,
    environment=Environment(
        View.PYTHON,
        EnvironmentStatus.COMPLETE,
        {"PYTHONPATH": Value(b"/hooks"), "PYTHON_API_KEY": Value(b"hunter3"), "HOME": None},
    ),
)
NOT_LOADED = tuple(
    Answer(name, AnswerState.NOT_IMPORTED, reason=f"{name} is not imported")
    for name in ("sitecustomize", "usercustomize")
)


def found(*answers: Answer, files: tuple[FileFact, ...] = (), **changes: Any) -> Inspection:
    subject = dataclasses.replace(SUBJECT, **changes)
    return Inspection(subject, NOT_LOADED, answers, {one.path: one for one in files})


def words(one: Inspection, **options: Any) -> str:
    return " ".join(inspection.render(one, **options).split())


def document(one: Inspection, **options: Any) -> Any:
    made = json.loads(inspection_document.render(one, **options))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    return made


def value(query: str, datum: Datum) -> Answer:
    return Answer(query, AnswerState.VALUE, Kind.VALUE, value=datum)


def text(raw: bytes) -> Datum:
    return Datum("str", Value(raw), length=len(raw))


def test_the_schema_is_one_and_knows_every_word_of_the_facts() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    words: dict[str, type[enum.Enum]] = {
        "answer.state": AnswerState,
        "file.state": DiskState,
        "interpreter.state": PythonState,
    }
    for place, kind in words.items():
        definition, _, field = place.partition(".")
        stated = SCHEMA["$defs"][definition]["properties"][field]["enum"]
        assert set(stated) == {one.value for one in kind}, place
    kinds = SCHEMA["$defs"]["answer"]["properties"]["kind"]["enum"]
    assert set(kinds) == {None, *(one.value for one in Kind)}
    facts = {"module": ModuleFact, "class": ClassFact, "callable": CallableFact}
    for name, fact in facts.items():
        fields = {one.name for one in dataclasses.fields(fact)}
        assert set(SCHEMA["$defs"][name]["required"]) == fields, name


def test_the_schema_refuses_what_must_not_look_like_an_answer() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    good = document(found(value("a:b", text(b"x"))))
    (answer,) = good["answers"]
    unread = {name: one for name, one in answer.items() if name != "value"}
    unread |= {"state": "unreadable", "kind": None, "reason": "of this"}
    assert validator.is_valid({**good, "answers": [unread]})
    for wrong in (
        {**answer, "state": "absent"},
        {**answer, "kind": None},
        {**answer, "kind": "module"},
        {**answer, "value": {"kind": "str"}},
        {**answer, "value": {"kind": "dict", "items": [{"kind": "none"}]}},
        {**unread, "reason": ""},
        {**unread, "kind": "value"},
    ):
        assert not validator.is_valid({**good, "answers": [wrong]}), wrong
    for name in ("interpreter", "answers", "tool"):
        assert not validator.is_valid({key: one for key, one in good.items() if key != name})


def test_who_measured_the_layout_is_said() -> None:
    layout = next(layouts.candidates((3, 12)))
    made = Calibration(layout, "/opt/\x1bpython", Rights(65534, 5, (5, 7)))
    one = dataclasses.replace(found(), calibration=made)
    assert "measured by /opt/\\x1bpython, executed as uid 65534, gid 5" in words(one)
    assert document(one)["interpreter"]["calibration"] == {
        "program": "/opt/\\x1bpython",
        "uid": 65534,
        "gid": 5,
        "groups": [5, 7],
    }
    assert document(found())["interpreter"]["calibration"] is None
    assert "measured" not in words(found())


def test_without_questions_all_of_the_interpreter_is_shown() -> None:
    shown = words(found())
    assert "python CPython 3.12.1, release build" in shown
    assert "flag optimize=1: -O" in shown
    assert "variable PYTHONPATH=/hooks variable" in shown
    assert "PYTHON_API_KEY=<masked, 7 bytes>" in shown
    assert "rel (relative, now /srv/rel)" in shown
    assert "sitecustomize not loaded usercustomize not loaded" in shown
    assert "isolated" not in shown
    assert "sys.path" not in words(found(Answer("a", AnswerState.ABSENT, reason="a has no b")))


def test_variables_are_ignored_only_by_the_flag() -> None:
    python = dataclasses.replace(PYTHON, flags={"ignore_environment": 1})
    assert "(ignored: " in words(found(python=python))
    assert "(ignored: " not in words(found())
    named = {one["name"]: one["ignored"] for one in document(found())["interpreter"]["variables"]}
    assert named == {"PYTHONPATH": False, "PYTHON_API_KEY": False}


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (AnswerState.VALUE, Exit.HOLDS),
        (AnswerState.NOT_IMPORTED, Exit.HOLDS),
        (AnswerState.ABSENT, Exit.HOLDS),
        (AnswerState.UNREADABLE, Exit.UNDETERMINED),
        (AnswerState.CHANGING, Exit.UNDETERMINED),
    ],
)
def test_the_exit_code_of_each_state(state: AnswerState, code: Exit) -> None:
    is_value = state is AnswerState.VALUE
    unread = Answer("a:b", state, reason="of this", remedy="Do that.")
    one = found(value("a:b", text(b"x")) if is_value else unread)
    assert inspection.exit_of(one) is code
    assert document(one)["verdict"]["exit"] == int(code)
    assert document(one)["answers"][0]["state"] == state.value


@pytest.mark.parametrize("state", [state for state in PythonState if state is not PythonState.READ])
def test_no_interpreter_is_no_answer(state: PythonState) -> None:
    one = found(state=state, python=None, reason="of this", remedy="Do that.")
    assert inspection.exit_of(one) is Exit.UNDETERMINED
    assert f"python {state.value}: of this => Do that." in words(one)
    assert document(one)["interpreter"] == {
        "state": state.value,
        "reason": "of this",
        "remedy": "Do that.",
    }


def test_a_name_anywhere_on_the_way_masks_a_value() -> None:
    nested = Datum(
        "dict",
        keys=(text(b"password"), text(b"mode")),
        items=(text(b"hunter2"), Datum("list", items=(text(b"fast"),), length=1)),
        length=2,
    )
    one = found(value("a:CONFIG", nested), value("a:API_KEY", nested), value("a:TOKEN.x", nested))
    shown = words(one)
    assert "hunter2" not in shown + inspection_document.render(one)
    assert "{password: <masked, 7 bytes>, mode: [fast]}" in shown
    assert shown.count("fast") == 1
    assert words(one, unmask=True).count("hunter2") == 3
    assert inspection_document.render(one, unmask=True).count("hunter2") == 3


def test_what_is_cut_is_said() -> None:
    many = Datum("list", items=(Datum("int", Value(b"1")),) * 1000, length=5000, cut=True)
    long = Datum("str", Value(b"x" * 10), length=100_000, cut=True)
    one = found(value("a:many", many), value("a:long", long))
    assert "list of 5000: [1, 1," in words(one)
    assert "... and 4940 more]" in words(one)
    assert "(100000 in all)" in words(one)
    assert document(one)["answers"][1]["value"]["cut"] is True


def test_hostile_texts_are_harmless_everywhere() -> None:
    inner = CallableFact(EVIL, EVIL, EVIL, EVIL, EVIL, 1, EVIL, EVIL, EVIL, EVIL, EVIL)
    function = dataclasses.replace(inner, wraps=(Wrapped(EVIL, inner),), cut=True)
    module = ModuleFact(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, EVIL, (EVIL,))
    answers = (
        Answer(EVIL, AnswerState.VALUE, Kind.CALLABLE, module, EVIL, function=function),
        Answer(EVIL, AnswerState.VALUE, Kind.MODULE, module, found_module=module),
        Answer("a", AnswerState.VALUE, type=ClassFact(EVIL, EVIL, EVIL, EVIL, (EVIL,), (EVIL,))),
        Answer("a", AnswerState.VALUE, type=ClassFact(EVIL, EVIL, EVIL, library=EVIL)),
        value("a:b", Datum("dict", keys=(text(EVIL.encode()),), items=(Datum("none"),), length=1)),
        value("a:b", Datum("object", type_name=EVIL)),
        Answer("a", AnswerState.UNREADABLE, reason=EVIL, remedy=EVIL, notes=(EVIL,)),
    )
    python = dataclasses.replace(
        PYTHON, version=EVIL, path=(EVIL,), executable=EVIL, prefix=EVIL, base_prefix=EVIL
    )
    files = (FileFact(EVIL, DiskState.UNREADABLE, reason=EVIL),)
    changes = {"python": python, "title": (EVIL,), "comm": EVIL, "exe": EVIL, "cwd": EVIL}
    for one in (found(*answers, files=files, **changes), found(files=files, **changes)):
        for shown in (inspection.render(one), inspection_document.render(one)):
            assert "owned" in shown
            assert shown.isascii()
            assert all(line.isprintable() for line in shown.split("\n"))
            assert "##[" not in shown
            assert not any(line.lstrip().startswith("::") for line in shown.split("\n"))


def shown_and_document(query: str, datum: Datum) -> tuple[str, str]:
    """Return what both renderers say of one value."""
    one = found(value(query, datum))
    return words(one), json.dumps(document(one))


def items(kind: str, *members: Datum, keys: tuple[Datum, ...] = (), **fields: Any) -> Datum:
    return Datum(kind, items=members, keys=keys, length=len(members), **fields)


SECRETS = [
    # What follows an option that names a credential, and what its `=` gives.
    items("list", *map(text, (b"server", b"--api-key", b"hunter2pw", b"--port", b"plain"))),
    items("tuple", *map(text, (b"plain", b"--password=hunter2pw"))),
    items("list", *(Datum("bytes", Value(one)) for one in (b"plain", b"--token", b"hunter2pw"))),
    items("dict", items("list", text(b"--api-key"), text(b"hunter2pw")), keys=(text(b"plain"),)),
    # Keys of os.environ._data, and keys of several parts.
    items("dict", text(b"hunter2pw"), keys=(Datum("bytes", Value(b"DB_PASSWORD")),)),
    items(
        "dict",
        text(b"hunter2pw"),
        keys=(items("tuple", text(b"DB_PASSWORD"), Datum("int", Value(b"1"))),),
    ),
    # Pairs, and named fields.
    items("list", items("tuple", text(b"DB_PASSWORD"), text(b"hunter2pw"))),
    items(
        "tuple",
        text(b"plain"),
        text(b"hunter2pw"),
        keys=(text(b"user"), text(b"password")),
        type_name="srv.Login",
    ),
]


@pytest.mark.parametrize("datum", SECRETS)
def test_credentials_inside_of_containers_are_masked(datum: Datum) -> None:
    for said in shown_and_document("srv:things", datum):
        assert "hunter2pw" not in said
        assert "masked" in said
    open_ = words(found(value("srv:things", datum)), unmask=True)
    assert "hunter2pw" in open_
    for said in shown_and_document("srv:things", datum):
        assert ("plain" in said) is ("plain" in open_)


def test_fields_are_shown_with_their_names() -> None:
    assert "(user=plain, password=<masked, 9 bytes>)" in words(found(value("srv:t", SECRETS[-1])))


def test_the_files_of_an_answer() -> None:
    deep = CallableFact("function", file="/c.py")
    middle = CallableFact("partial", wraps=(Wrapped("func", deep),))
    outer = CallableFact("function", file="/b.py", wraps=(Wrapped("__wrapped__", middle),))
    module = ModuleFact("a", "module", "/a.py")
    answer = Answer("a:b", AnswerState.VALUE, Kind.CALLABLE, module, function=outer)
    assert files_of(answer) == ("/a.py", "/b.py", "/c.py")
    frozen = ClassFact("a", "B", "type", "<frozen os>", ("/a.py", "/d.py"))
    assert files_of(dataclasses.replace(answer, function=None, type=frozen)) == ("/a.py", "/d.py")


def test_what_became_of_a_file() -> None:
    module = ModuleFact("a", "module", "/a.py")
    answer = Answer("a", AnswerState.VALUE, Kind.MODULE, module, found_module=module)

    def shown(state: DiskState, changed: float | None = None, reason: str = "") -> str:
        return words(found(answer, files=(FileFact("/a.py", state, changed, reason),)))

    assert "note" not in shown(DiskState.UNCHANGED, 1.0)
    assert "/a.py was changed at 19" in shown(DiskState.CHANGED, 1_000_100.0)
    assert "the disk has another" in shown(DiskState.CHANGED, 1_000_100.0)
    assert "/a.py is not there any more" in shown(DiskState.MISSING)
    unknown = shown(DiskState.UNREADABLE, reason="Permission denied")
    assert "whether /a.py has changed is not known: Permission denied" in unknown
