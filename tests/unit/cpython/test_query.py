"""The query language, and values as facts."""

from __future__ import annotations

import pytest

from envprobe.cpython.query import Query
from envprobe.errors import Exit, UsageError
from envprobe.pythonfacts import CallableFact, Datum, Wrapped
from envprobe.values import Value


@pytest.mark.parametrize(
    ("text", "module", "path"),
    [
        ("json", "json", ()),
        ("pkg.mod", "pkg.mod", ()),
        ("pkg.mod:name", "pkg.mod", ("name",)),
        ("pkg.mod:Class.attr", "pkg.mod", ("Class", "attr")),
        ("__main__:x.y.z", "__main__", ("x", "y", "z")),
        ("\u0434\u0432\u0430:\xe9", "\u0434\u0432\u0430", ("\xe9",)),
        ("with-dash", "with-dash", ()),
    ],
)
def test_parse(text: str, module: str, path: tuple[str, ...]) -> None:
    assert Query.parse(text) == Query(text, module, path)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "json:", ":name", "json:a..b", "json:.a", "a..b", ".a", "a.", " json"),
        *("a:b:c", "a:HF()", "a:HF=my", "a b", "a:b c", "a:b[0]"),
        *("json: a", "a" * 5000, "m:" + ".".join("a" * 40)),
    ],
)
def test_questions_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Query.parse(text)
    assert caught.value.code is Exit.USAGE
    assert "pkg.mod" in caught.value.remedy


def test_data_keep_strings_masked() -> None:
    secret = Datum("dict", keys=(text("token"),), items=(text("s3cret"),), length=1)
    assert "s3cret" not in repr(secret)
    assert secret.plain() == {"token": "s3cret"}


def text(content: str) -> Datum:
    return Datum("str", Value(content.encode("utf-8", "surrogatepass")), length=len(content))


@pytest.mark.parametrize(
    ("datum", "expected"),
    [
        (Datum("none"), None),
        (Datum("bool", Value(b"True")), True),
        (Datum("bool", Value(b"False")), False),
        (Datum("int", Value(b"-12")), -12),
        (Datum("float", Value(b"1.5")), 1.5),
        (Datum("float", Value(b"-inf")), float("-inf")),
        (Datum("bytes", Value(b"\xff")), b"\xff"),
        (text("\udc80\u20ac"), "\udc80\u20ac"),
        (Datum("object", type_name="x.Y"), None),
        (Datum("list", items=(Datum("int", Value(b"1")), Datum("none"))), [1, None]),
        (Datum("tuple", items=(Datum("tuple"),)), ((),)),
    ],
)
def test_plain(datum: Datum, expected: object) -> None:
    assert datum.plain() == expected


def test_innermost() -> None:
    last = CallableFact("function", name="last")
    middle = CallableFact("function", wraps=(Wrapped("__wrapped__", last),))
    first = CallableFact("functools.partial", wraps=(Wrapped("partial.func", middle),))
    assert first.innermost() is last
    assert last.innermost() is last
