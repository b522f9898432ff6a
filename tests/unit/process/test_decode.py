"""The decoder of environ arrays on memory of any content; the memory is a stand-in, see standin.py.

Real targets are in test_environ_libc.py.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe.process import decode
from envprobe.process.decode import Contents, Decoder, TooMuch
from envprobe.process.handle import MemoryFault
from envprobe.values import Value
from tests.unit.process.standin import Regions

ARRAY = 0x100000
STRINGS = 0x40000000


def laid_out(strings: list[bytes], gaps: list[int] | None = None) -> Regions:
    """Put the strings one after another, with gaps, and an array of pointers to them."""
    text = b""
    pointers = []
    for number, string in enumerate(strings):
        text += b"\xee" * (gaps[number % len(gaps)] if gaps else 0)
        pointers.append(STRINGS + len(text))
        text += string + b"\0"
    array = struct.pack(f"<{len(pointers) + 1}Q", *pointers, 0)
    return Regions({ARRAY: array, STRINGS: text + b"\0"})


def read(regions: Regions, wanted: str = "", seconds: float = 60) -> Contents:
    decoder = Decoder(
        regions, regions, lambda name: name.startswith(wanted), time.thread_time() + seconds
    )
    return decoder.contents(decoder.array(ARRAY))


def reference(strings: list[bytes]) -> Contents:
    """Decode the same strings in the plainest way."""
    contents = Contents()
    oddities: list[Value] = []
    for string in strings:
        name, equals, value = string.partition(b"=")
        if not equals or not 0 < len(name) <= 4096:
            oddities.append(Value(string[:4096]))
            continue
        text = os.fsdecode(name)
        if text in contents.entries:
            contents.duplicates[text] = (*contents.duplicates.get(text, ()), Value(value))
        else:
            contents.entries[text] = Value(value)
    contents.oddities = tuple(oddities)
    return contents


STRING = st.one_of(
    st.binary(max_size=40).map(lambda raw: raw.replace(b"\0", b"=")),
    st.builds(
        lambda name, length: name + b"=" + b"v" * length,
        st.sampled_from([b"A", b"B", b"\xff", b"N" * 4096, b"N" * 4097]),
        st.integers(0, 6000),
    ),
)


@settings(deadline=2000)
@given(st.lists(STRING, max_size=30), st.lists(st.sampled_from([0, 1, 500, 5000]), min_size=1))
def test_any_strings_decode_as_they_are(strings: list[bytes], gaps: list[int]) -> None:
    assert read(laid_out(strings, gaps)) == reference(strings)


@settings(deadline=2000)
@given(st.lists(STRING, max_size=20), st.lists(st.integers(0, 4000), max_size=20), st.data())
def test_random_pointers_end_in_a_result_or_a_fault(
    strings: list[bytes], offsets: list[int], data: st.DataObject
) -> None:
    regions = laid_out(strings)
    pointers = [
        STRINGS + offset if data.draw(st.booleans()) else data.draw(st.integers(0, 2**64 - 1))
        for offset in offsets
    ]
    regions.regions[ARRAY] = struct.pack(f"<{len(pointers)}Q", *pointers)
    try:
        contents = read(regions)
    except (MemoryFault, TooMuch):
        return
    assert len(contents.entries) + len(contents.oddities) <= len(pointers)


@settings(deadline=2000)
@given(st.binary(max_size=4096))
def test_random_arrays_end_in_a_result_or_a_fault(raw: bytes) -> None:
    regions = Regions({ARRAY: raw, STRINGS: raw})
    try:
        contents = read(regions)
    except (MemoryFault, TooMuch):
        return
    assert contents == Contents()  # no pointer of random bytes can lead into the regions


def test_names_alone_are_kept_of_what_is_not_wanted() -> None:
    strings = [b"A=secret", b"NCCL_ALGO=Ring", b"A=second"]
    contents = read(laid_out(strings), wanted="NCCL_")
    assert contents.entries == {"A": None, "NCCL_ALGO": Value(b"Ring")}
    assert contents.duplicates == {"A": (None,)}


def test_a_long_value_that_is_not_wanted_is_not_read() -> None:
    regions = laid_out([b"LONG=" + b"x" * (1 << 20), b"NCCL_ALGO=Ring"])
    contents = read(regions, wanted="NCCL_")
    assert contents.entries["LONG"] is None
    assert regions.bytes_read < 64 << 10


@pytest.mark.parametrize("extra", [-1, 0, 1, 12345])
def test_values_are_cut_at_a_mebibyte_but_hashed_whole(extra: int) -> None:
    value = bytes(range(1, 256)) * 5000
    value = value[: (1 << 20) + extra]
    contents = read(laid_out([b"LONG=" + value, b"LAST=1"]))
    found = contents.entries["LONG"]
    assert found is not None
    assert found.length == len(value)
    assert found.digest == hashlib.sha256(value).hexdigest()
    assert found.reveal() == value[: 1 << 20]
    assert contents.entries["LAST"] == Value(b"1")


def test_one_string_pointed_to_many_times_is_decoded_once() -> None:
    regions = laid_out([b"SAME=1"])
    count = 100_000
    regions.regions[ARRAY] = struct.pack("<Q", STRINGS) * count + bytes(8)
    contents = read(regions)
    (first,) = contents.entries.values()
    assert len(contents.duplicates["SAME"]) == count - 1
    assert all(value is first for value in contents.duplicates["SAME"])


def test_the_number_of_entries_is_bounded() -> None:
    regions = laid_out([b"SAME=1"])
    regions.regions[ARRAY] = struct.pack("<Q", STRINGS) * decode.MAX_ENTRIES + bytes(8)
    assert len(read(regions).duplicates["SAME"]) == decode.MAX_ENTRIES - 1
    regions.regions[ARRAY] = struct.pack("<Q", STRINGS) * 4_000_000
    regions.bytes_read = 0
    with pytest.raises(TooMuch, match="more than 200,000 entries"):
        read(regions)
    assert regions.bytes_read < 4 << 20


def test_the_bytes_are_bounded() -> None:
    regions = laid_out([b"A=" + b"x" * (20 << 20)])
    with pytest.raises(TooMuch, match="more than 16 MiB"):
        read(regions)
    assert regions.bytes_read <= decode.MAX_TOTAL_BYTES


def test_the_time_is_bounded() -> None:
    with pytest.raises(TooMuch, match="takes more than 1 s"):
        read(laid_out([b"A=1"]), seconds=-1)


@pytest.mark.parametrize("pointer", [ARRAY + 1, ARRAY + 4, 0x8, 2**63, 2**64 - 8])
def test_a_wild_array_is_a_fault(pointer: int) -> None:
    regions = laid_out([b"A=1"])
    with pytest.raises(MemoryFault):
        Decoder(regions, regions, lambda name: True, time.thread_time() + 60).array(pointer)
