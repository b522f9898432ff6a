"""NCCL's configuration files: which are read, in which order, and how each line is read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envprobe.nccl import conf
from envprobe.nccl.conf import Oddity, State

NOW = (2, 28, 9)
BEFORE_COMMENTS = (2, 21, 5)
NEWEST = (2, 30, 3)


def lines(text: bytes, version: tuple[int, ...] = NOW) -> dict[int, tuple[str, bytes | None]]:
    return {
        one.number: (one.name, None if one.value is None else one.value.reveal())
        for one in conf.parse(text, version)
    }


def oddities(text: bytes, version: tuple[int, ...] = NOW) -> tuple[Oddity, ...]:
    (line,) = conf.parse(text, version)
    return line.oddities


def test_a_line_is_a_name_and_all_after_the_first_equals_sign() -> None:
    found = lines(b"NCCL_ALGO=Ring\n\n# a comment\nNCCL_X=a=b\nNCCL_EMPTY=\nlast=1")
    assert found == {
        1: ("NCCL_ALGO", b"Ring"),
        4: ("NCCL_X", b"a=b"),
        5: ("NCCL_EMPTY", b""),
        6: ("last", b"1"),
    }


def test_what_a_shell_would_understand_becomes_part_of_the_name_or_value() -> None:
    assert lines(b"export NCCL_ALGO=Ring") == {1: ("export NCCL_ALGO", b"Ring")}
    assert oddities(b"export NCCL_ALGO=Ring") == (Oddity.EXPORT,)
    assert oddities(b" NCCL_ALGO =Ring") == (Oddity.BLANK_IN_NAME,)
    assert lines(b"NCCL_ALGO=Ring # all") == {1: ("NCCL_ALGO", b"Ring # all")}
    assert oddities(b"NCCL_ALGO=Ring # all") == (Oddity.TRAILING_COMMENT,)
    assert oddities(b"NCCL_ALGO=Ring  ") == (Oddity.TRAILING_BLANK,)
    assert oddities(b'NCCL_ALGO="Ring"') == (Oddity.QUOTED,)
    assert oddities(b"NCCL_ALGO") == (Oddity.IGNORED,)
    assert oddities(b"=Ring") == (Oddity.EMPTY_NAME,)
    (line,) = conf.parse(b"export NCCL_ALGO=Ring", NOW)
    assert line.meant == "NCCL_ALGO"


def test_comments_are_known_from_2_26_2_on() -> None:
    assert lines(b"#NCCL_ALGO=Ring", (2, 26, 2)) == {}
    assert lines(b"#NCCL_ALGO=Ring", BEFORE_COMMENTS) == {1: ("#NCCL_ALGO", b"Ring")}
    assert oddities(b"#NCCL_ALGO=Ring", BEFORE_COMMENTS) == (Oddity.COMMENT,)
    assert lines(b"# only words", BEFORE_COMMENTS) == {}


def test_a_carriage_return_stays_before_2_30_3() -> None:
    assert lines(b"NCCL_ALGO=Ring\r\n") == {1: ("NCCL_ALGO", b"Ring\r")}
    assert oddities(b"NCCL_ALGO=Ring\r\n") == (Oddity.CARRIAGE_RETURN,)
    assert lines(b"NCCL_ALGO=Ring\r\n", NEWEST) == {1: ("NCCL_ALGO", b"Ring")}


def test_long_lines_are_cut_and_from_2_30_3_on_go_on_as_another_line() -> None:
    long = b"NCCL_A=" + b"x" * 2000
    assert lines(long) == {1: ("NCCL_A", b"x" * 1023)}
    assert oddities(long) == (Oddity.CUT,)
    split = b"NCCL_A=" + b"x" * 4088 + b"NCCL_B=1"
    assert [one.name for one in conf.parse(split, NOW)] == ["NCCL_A"]
    assert [one.name for one in conf.parse(split, NEWEST)] == ["NCCL_A", "NCCL_B"]
    assert lines(b"NCCL_A=1\0NCCL_B=2") == {1: ("NCCL_A", b"1")}


def test_the_first_line_of_a_name_counts_and_the_environment_before_all() -> None:
    first = conf.File("/a", State.READ, conf.parse(b"A=1\nA=2\nB=1", NOW))
    second = conf.File("/b", State.READ, conf.parse(b"A=3\nC=3\nB=4", NOW))
    found = conf.settings((first, second), {"B": "0"})
    assert {name: (one.value.reveal(), one.path) for name, one in found.items()} == {
        "A": (b"1", "/a"),
        "C": (b"3", "/b"),
    }
    assert first.lines[1].oddities == (Oddity.AGAIN,)


def test_which_files_by_version() -> None:
    environment = {"HOME": "/env", "NCCL_CONF_FILE": "/named"}
    assert conf.paths((2, 21, 5), environment, "/db") == ["/db/.nccl.conf", conf.SYSTEM]
    assert conf.paths((2, 23, 4), environment, "/db") == ["/named", conf.SYSTEM]
    empty = {"HOME": "/env", "NCCL_CONF_FILE": ""}
    assert conf.paths((2, 29, 7), empty, "/db") == ["/db/.nccl.conf", conf.SYSTEM]
    assert conf.paths((2, 30, 3), empty, "/db") == ["/env/.nccl.conf", conf.SYSTEM]
    both = ["/db/.nccl.conf", "/env/.nccl.conf", conf.SYSTEM]
    assert conf.paths(None, empty, "/db") == both
    assert conf.paths((2, 30, 3), {}, "/db") == [conf.SYSTEM]


def test_an_unreadable_file_is_not_an_absent_one() -> None:
    def opened(path: str) -> bytes:
        if path == "/gone":
            raise FileNotFoundError(path)
        if path == "/closed":
            raise PermissionError(13, "Permission denied")
        return b"x" * (conf.MAX_BYTES + 1) if path == "/long" else b"A=1"

    found = conf.load(["/gone", "/closed", "/long", "/good"], NOW, opened)
    assert [one.state for one in found] == [
        State.ABSENT,
        State.UNREADABLE,
        State.UNREADABLE,
        State.READ,
    ]
    assert found[1].reason == "Permission denied"


@given(st.binary(max_size=300), st.sampled_from([None, (2, 18, 1), BEFORE_COMMENTS, NOW, NEWEST]))
def test_any_bytes_are_read(data: bytes, version: tuple[int, ...] | None) -> None:
    for line in conf.parse(data, version):
        assert (line.value is None) == (not line.name)
        assert line.value is None or len(line.value.reveal()) <= 1023
