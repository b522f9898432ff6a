from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envprobe.config import Expectation, Rule
from envprobe.errors import UsageError
from envprobe.expectations import accepts, parse, parse_count
from envprobe.values import MAX_VALUE_BYTES, Value


def stated(expression: str) -> tuple[str, Rule, list[bytes]]:
    one = parse(expression)
    return one.name, one.rule, [value.reveal() for value in one.values]


@pytest.mark.parametrize(
    ("expression", "name", "rule", "values"),
    [
        ("NCCL_ALGO=Ring", "NCCL_ALGO", Rule.EXACT, [b"Ring"]),
        ("NCCL_ALGO=", "NCCL_ALGO", Rule.EXACT, [b""]),
        ("A=b=c", "A", Rule.EXACT, [b"b=c"]),
        ("A==", "A", Rule.EXACT, [b"="]),
        ("A=!b", "A", Rule.EXACT, [b"!b"]),
        ("A=~b", "A", Rule.EXACT, [b"~b"]),
        ("A= b ", "A", Rule.EXACT, [b" b "]),
        ("A=x\ny", "A", Rule.EXACT, [b"x\ny"]),
        ("PYTHONPATH~=/opt/hooks", "PYTHONPATH", Rule.CONTAINS, [b"/opt/hooks"]),
        ("PYTHONPATH~=a=b", "PYTHONPATH", Rule.CONTAINS, [b"a=b"]),
        ("NCCL_ALGO", "NCCL_ALGO", Rule.SET, []),
        ("!NCCL_P2P_DISABLE", "NCCL_P2P_DISABLE", Rule.ABSENT, []),
        ("BASH_FUNC_f%%=() { :; }", "BASH_FUNC_f%%", Rule.EXACT, [b"() { :; }"]),
    ],
)
def test_each_form_of_an_expression(
    expression: str, name: str, rule: Rule, values: list[bytes]
) -> None:
    assert stated(expression) == (name, rule, values)


def test_bytes_of_an_argument_that_are_no_utf8_survive() -> None:
    expression = os.fsdecode(b"A_\xff=x\xfe\x80")
    name, _, values = stated(expression)
    assert os.fsencode(name) == b"A_\xff"
    assert values == [b"x\xfe\x80"]


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "missing"),
        ("=topsecret", "missing"),
        ("!", "missing"),
        ("~=topsecret", "missing"),
        ("!A=topsecret", "takes no value"),
        ("A B=topsecret", "'A'"),
        ("A!=topsecret", "'A'"),
        ("A*=topsecret", "'A'"),
        ("NCCL_?=topsecret", "'NCCL_'"),
        ("!!A", "''"),
        ("A=topsecret\0", "NUL"),
        ("A\0=topsecret", "'A'"),
        ("PYTHONPATH~=", "empty element"),
        ("PYTHONPATH~=/topsecret:/b", "itself a list"),
        ("LD_PRELOAD~=topsecret.so b.so", "itself a list"),
        ("LD_PRELOAD~=topsecret.so ", "itself a list"),
        ("LD_LIBRARY_PATH~=/topsecret;/b", "itself a list"),
        ("NCCL_IB_HCA~=topsecret,b", "itself a list"),
    ],
)
def test_a_wrong_expression_is_refused_without_its_value(expression: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(expression)
    assert says in caught.value.message
    assert "topsecret" not in caught.value.message + caught.value.remedy


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
def test_every_value_that_a_variable_can_hold_is_expected_as_it_is(value: str) -> None:
    one = parse("NAME=" + value)
    assert accepts(one, Value(os.fsencode(value))) is True
    assert accepts(one, Value(os.fsencode(value) + b"x")) is False
    assert accepts(one, None) is False


@given(st.text(max_size=40))
def test_any_argument_gives_an_expectation_or_a_usage_error(text: str) -> None:
    try:
        one = parse(text)
    except UsageError:
        return
    assert one.name
    assert "=" not in one.name


@pytest.mark.parametrize(
    ("text", "role", "number"),
    [("8", "", 8), ("scheduler=2", "scheduler", 2), ("008", "", 8)],
)
def test_counts_of_workers(text: str, role: str, number: int) -> None:
    assert parse_count(text) == (role, number)


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "x", "=3", "scheduler=", "3=scheduler", "1.0", "\uff19", "1_0", "9999999"],
)
def test_a_wrong_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="ROLE"):
        parse_count(text)


def one_of(*values: bytes) -> Expectation:
    return Expectation("A", Rule.ONE_OF, tuple(map(Value, values)))


@pytest.mark.parametrize(
    ("expectation", "value", "verdict"),
    [
        (parse("A=b"), b"b", True),
        (parse("A=b"), b"B", False),
        (parse("A=b"), b"", False),
        (parse("A=b"), None, False),
        (parse("A="), b"", True),
        (parse("A="), None, False),
        (parse("A"), b"", True),
        (parse("A"), None, False),
        (parse("!A"), None, True),
        (parse("!A"), b"", False),
        (one_of(b"x", b"y"), b"y", True),
        (one_of(b"x", b"y"), b"x,y", False),
        (one_of(b"x", b"y"), None, False),
        (Expectation("A", Rule.SAME), b"x", True),
        (Expectation("A", Rule.SAME), None, True),
    ],
)
def test_each_rule_against_a_value(
    expectation: Expectation, value: bytes | None, verdict: bool
) -> None:
    assert accepts(expectation, None if value is None else Value(value)) is verdict


@pytest.mark.parametrize(
    ("expression", "value", "cwd", "verdict"),
    [
        ("PYTHONPATH~=/a", b"/b:/a", "/w", True),
        ("PYTHONPATH~=/a", b"/ab:/b/a", "/w", False),
        ("PYTHONPATH~=/a", b"/b:/a/", "/w", True),
        ("PYTHONPATH~=/a/", b"//a/.", "/w", True),
        ("PYTHONPATH~=/a", b"/a/b/..", "/w", False),
        ("PYTHONPATH~=/w/hooks", b"hooks", "/w", True),
        ("PYTHONPATH~=hooks", b"/w/hooks", "/w", True),
        ("PYTHONPATH~=hooks", b"/x/hooks", "/w", False),
        ("PYTHONPATH~=.", b"/b:", "/w", True),
        ("PYTHONPATH~=/w", b"/b:", "/w", True),
        ("PYTHONPATH~=/w", b"", "/w", False),
        ("PYTHONPATH~=/w/hooks", b"hooks", "/other", False),
        ("PYTHONPATH~=/w/hooks", b"hooks", None, None),
        ("PYTHONPATH~=hooks", b"/x", None, None),
        ("PYTHONPATH~=hooks", b"", None, False),
        ("PYTHONPATH~=hooks", b"hooks", None, True),
        ("PYTHONPATH~=/a", b"/b", None, False),
        ("PYTHONPATH~=/a", b"rel:/a", None, True),
        ("LD_LIBRARY_PATH~=/a", b"/b;/a", "/w", True),
        ("LD_PRELOAD~=libx.so", b"liby.so libx.so", "/w", True),
        ("LD_PRELOAD~=/w/libx.so", b"libx.so", "/w", False),
        ("LD_PRELOAD~=/w/libx.so", b"./libx.so", "/w", True),
        ("LD_AUDIT~=liba.so", b"libb.so:liba.so", "/w", True),
        ("NCCL_IB_HCA~=mlx5_1", b"mlx5_0,mlx5_1", "/w", True),
        ("NCCL_IB_HCA~=mlx5_1", b"mlx5_10", "/w", False),
        ("NCCL_ALGO~=allreduce:tree", b"allreduce:tree", "/w", True),
        ("OTHER~=x", b"y:x", "/w", True),
        ("OTHER~=/w/x", b"x", "/w", False),
    ],
)
def test_elements_of_lists(
    expression: str, value: bytes, cwd: str | None, verdict: bool | None
) -> None:
    assert accepts(parse(expression), Value(value), cwd) is verdict


def test_what_was_cut_off_is_neither_there_nor_missing() -> None:
    head = b"/first:" + b"x" * MAX_VALUE_BYTES
    whole = head + b"y:/last"
    value = Value(whole)
    assert value.truncated
    assert accepts(parse("PYTHONPATH~=/first"), value, "/w") is True
    assert accepts(parse("PYTHONPATH~=/last"), value, "/w") is None
    assert accepts(Expectation("A", Rule.EXACT, (Value(whole),)), value) is True
    assert accepts(Expectation("A", Rule.EXACT, (Value(whole + b"z"),)), value) is False
