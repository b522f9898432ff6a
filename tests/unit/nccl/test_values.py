"""What NCCL makes of a value, by version."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envprobe.nccl.params import Version, parameters
from envprobe.nccl.selections import select, words
from envprobe.nccl.values import Effect, interpret, strtoll

NOW = (2, 28, 9)
OLD = (2, 21, 5)
ALL_BUT_TREE = "all: Ring,CollNetDirect,CollNetChain,NVLS,NVLSTree,PAT"


@pytest.mark.parametrize(
    ("name", "text", "version", "effect", "meaning", "printed"),
    [
        ("NCCL_BUFFSIZE", "8388608", NOW, Effect.TAKEN, "8388608", "8388608"),
        ("NCCL_BUFFSIZE", "8M", NOW, Effect.READ_AS, "8", "8"),
        ("NCCL_BUFFSIZE", "8388608 ", NOW, Effect.TAKEN, "8388608", "8388608"),
        ("NCCL_BUFFSIZE", "'8388608'", NOW, Effect.READ_AS, "0", "0"),
        ("NCCL_BUFFSIZE", "8", NOW, Effect.FATAL, "8", "8"),
        ("NCCL_LL_BUFFSIZE", "8", NOW, Effect.ODD, "8", "8"),
        ("NCCL_BUFFSIZE", "0x800000", NOW, Effect.CONVERTED, "8388608", "8388608"),
        ("NCCL_BUFFSIZE", "", NOW, Effect.NOT_SET, "the default", None),
        ("NCCL_BUFFSIZE", "9" * 30, NOW, Effect.NOT_SET, "the default", None),
        ("NCCL_IB_TIMEOUT", "", NOW, Effect.NOT_SET, "20", None),
        ("NCCL_IB_TIMEOUT", "30", NOW, Effect.ODD, "30", "30"),
        ("NCCL_IB_GID_INDEX", "3", NOW, Effect.TAKEN, "3", "3"),
        ("NCCL_IB_DISABLE", "2", NOW, Effect.ODD, "2", "2"),
        ("NCCL_CUMEM_ENABLE", "-2", NOW, Effect.TAKEN, "-2", "-2"),
        ("NCCL_NTHREADS", "100", NOW, Effect.READ_AS, "512", "100"),
        ("NCCL_NTHREADS", "1", NOW, Effect.READ_AS, "512", "1"),
        ("NCCL_NTHREADS", "32", NOW, Effect.READ_AS, "64", "32"),
        ("NCCL_NTHREADS", "1024", NOW, Effect.READ_AS, "512", "1024"),
        ("NCCL_NTHREADS", "256", NOW, Effect.TAKEN, "256", "256"),
        ("NCCL_MAX_NCHANNELS", "64", OLD, Effect.ODD, "64", "64"),
        ("NCCL_MAX_NCHANNELS", "64", NOW, Effect.TAKEN, "64", "64"),
        ("NCCL_P2P_LEVEL", "NVL", NOW, Effect.TAKEN, "NVL", "NVL"),
        ("NCCL_P2P_LEVEL", "nvl", NOW, Effect.NOT_SET, "the default", None),
        ("NCCL_P2P_LEVEL", "PCI", NOW, Effect.NOT_SET, "the default", None),
        ("NCCL_P2P_LEVEL", "2", NOW, Effect.CONVERTED, "PXB", "PXB"),
        ("NCCL_P2P_LEVEL", "9", NOW, Effect.CONVERTED, "SYS", "SYS"),
        ("NCCL_P2P_LEVEL", "C2C", OLD, Effect.NOT_SET, "the default", None),
        ("NCCL_P2P_DISABLE", "0", NOW, Effect.NOT_SET, "not disabled", None),
        ("NCCL_P2P_DISABLE", "1", NOW, Effect.TAKEN, "1", "1"),
        ("NCCL_P2P_DISABLE", "1", OLD, Effect.TAKEN, "1", "LOC"),
        ("NCCL_LAUNCH_MODE", "parallell", NOW, Effect.READ_AS, "PARALLEL", "PARALLEL"),
        ("NCCL_SOCKET_FAMILY", "AF_INET ", NOW, Effect.NOT_SET, "no preference", "AF_INET "),
        ("NCCL_DEBUG", "information", NOW, Effect.READ_AS, "NONE", None),
        ("NCCL_DEBUG_SUBSYS", "INIT, ENV", NOW, Effect.READ_AS, "INIT", None),
        ("NCCL_DEBUG_SUBSYS", "INIT, ENV", (2, 30, 7), Effect.TAKEN, "INIT, ENV", None),
        ("NCCL_NET", "Socket", NOW, Effect.TAKEN, "Socket", None),
        ("NCCL_SOCKET_IFNAME", "=eth0", NOW, Effect.TAKEN, "=eth0", "=eth0"),
        ("NCCL_PROTO", "^LL128", NOW, Effect.TAKEN, "all: LL,Simple", "^LL128"),
        ("NCCL_PROTO", "LL129", NOW, Effect.FATAL, "nothing", "LL129"),
        ("NCCL_PROTO", "LL129,Simple", OLD, Effect.READ_AS, "all: Simple", "LL129,Simple"),
        ("NCCL_ALGO", "allreduce:tree", NOW, Effect.TAKEN, "AllReduce: Tree", "allreduce:tree"),
        ("NCCL_ALGO", "allreduce:tree", OLD, Effect.READ_AS, "all: nothing", "allreduce:tree"),
        ("NCCL_ALGO", "Tree", NOW, Effect.ODD, "all: Tree", "Tree"),
        ("NCCL_ALGO", "Tree", OLD, Effect.TAKEN, "all: Tree", "Tree"),
        ("NCCL_ALGO", "^Tree", NOW, Effect.TAKEN, ALL_BUT_TREE, "^Tree"),
        ("NCCL_ALGO", "Ring, Tree", NOW, Effect.FATAL, "nothing", "Ring, Tree"),
        ("NCCL_ALGO", "", NOW, Effect.ODD, "all stay on", ""),
        ("NCCL_BUFSIZE", "8388608", NOW, Effect.UNKNOWN, "8388608", None),
    ],
)
def test_what_becomes_of_a_value(
    name: str, text: str, version: Version, effect: Effect, meaning: str, printed: str | None
) -> None:
    found = interpret(name, text, version)
    assert (found.effect, found.meaning, found.printed) == (effect, meaning, printed)
    assert bool(found.why) or effect is Effect.TAKEN


def test_before_2_23_p2p_disable_shows_as_a_level() -> None:
    assert interpret("NCCL_P2P_DISABLE", "1", OLD).printed_as == "NCCL_P2P_LEVEL"
    assert interpret("NCCL_P2P_DISABLE", "1", NOW).printed_as == ""


@given(st.text(st.sampled_from(" \t+-0123456789abcxXfFMkG"), max_size=22))
def test_numbers_are_read_as_the_c_library_reads_them(text: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.strtoll.restype = ctypes.c_int64
    end = ctypes.c_char_p()
    raw = ctypes.create_string_buffer(text.encode())
    ctypes.set_errno(0)
    number = library.strtoll(raw, ctypes.byref(end), 0)
    if ctypes.get_errno():
        assert strtoll(text) is None
    else:
        assert strtoll(text) == (number, (end.value or b"").decode())


@given(
    st.sampled_from(sorted(parameters())),
    st.text(max_size=40),
    st.sampled_from([None, (2, 18, 1), OLD, NOW, (2, 32, 3)]),
)
def test_any_text_has_a_meaning(name: str, text: str, version: Version | None) -> None:
    found = interpret(name, text, version)
    assert found.printed is None or isinstance(found.meaning, str)


@given(
    st.sampled_from(["NCCL_ALGO", "NCCL_PROTO"]), st.text("^,;:aRingTreL128Simple ", max_size=30)
)
def test_a_list_selects_words_that_exist_or_fails(name: str, text: str) -> None:
    found = select(name, text, NOW)
    known = words(name, NOW)
    assert all(set(chosen) <= set(known) for chosen in found.functions.values())
    assert bool(found.unknown) <= bool(found.fault)


def test_lists_for_functions() -> None:
    found = select("NCCL_ALGO", "ring,tree;allreduce:tree;broadcast:^tree", NOW)
    assert found.functions[""] == ("Tree", "Ring")
    assert found.functions["AllReduce"] == ("Tree",)
    assert "Tree" not in found.functions["Broadcast"]
    assert found.named == ("TREE", "RING")
    assert select("NCCL_ALGO", "ring;tree", NOW).fault
    assert select("NCCL_ALGO", "gather:ring", NOW).unknown == ("gather",)
    assert select("NCCL_ALGO", "PAT", (2, 21, 5)).unknown == ("PAT",)
