"""The lists of NCCL_ALGO and NCCL_PROTO: what a text selects, by version.

Up to 2.23.4 a list counts for all functions, and unknown words are ignored (graph/tuning.cc
parseList, 2.18.6 and 2.23.4). From 2.24.3 on there are entries `[FUNCTION:]LIST`, joined by `;`,
and an unknown word makes the communicator fail with ncclInvalidUsage (the same, 2.24.3 to 2.30.7).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe import tables
from envprobe.nccl.params import Version, version_of

FUNCTION_LISTS: Final = (2, 24)
"""The first version with a list for each function."""

UNREAD: Final = (2, 31)
"""From this version on the source of the lists was not read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """What a list selects: for each function the words that stay on, in NCCL's own order.

    `functions` maps "" (all functions) or a function's name to the words. `unknown` are words or
    functions that this version does not know. `fault` says why the communicator cannot be made, ""
    if it can. `named` are the words that were listed without `^`, in capitals.
    """

    functions: dict[str, tuple[str, ...]]
    unknown: tuple[str, ...] = ()
    fault: str = ""
    named: tuple[str, ...] = ()


def words(kind: str, version: Version | None) -> tuple[str, ...]:
    """Return the words that a version takes as values of a variable; of all without a version."""
    return tuple(
        word
        for row in tables.load("nccl-words")["rows"]
        if kind in row["names"]
        for word, since in row["words"].items()
        if version is None or not since or (version_of(since) or ()) <= version
    )


def select(name: str, text: str, version: Version | None) -> Selection:
    """Return what the value of NCCL_ALGO or NCCL_PROTO selects; an unknown version is a new one."""
    known = words(name, version)
    if version is not None and version < FUNCTION_LISTS:
        chosen, unknown, named = _listed(text, known)
        return Selection({"": chosen}, unknown, named=named)
    return _by_function(text, known)


def left_without(found: Selection) -> tuple[str, ...]:
    """Return the functions that a selection of NCCL_ALGO leaves without an algorithm.

    Their calls fail (2.24.3 and later; before, Ring is used then). Which algorithms a function can
    use: graph/tuning.cc ncclTopoTuneModel, 2.28.9.
    """
    general = found.functions.get("")
    return tuple(
        function
        for function, usable in _USABLE.items()
        if (chosen := found.functions.get(function, general)) is not None
        and not set(chosen) & usable
    )


_GATHERING: Final = frozenset({"Ring", "PAT", "NVLS", "CollNetDirect"})
_USABLE: Final = {
    "Broadcast": frozenset({"Ring"}),
    "Reduce": frozenset({"Ring"}),
    "AllGather": _GATHERING,
    "ReduceScatter": _GATHERING,
    "AllReduce": frozenset({"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree"}),
}


def _by_function(text: str, known: tuple[str, ...]) -> Selection:
    functions: dict[str, tuple[str, ...]] = {}
    named: list[str] = []
    unknown: list[str] = []
    fault = ""
    for number, (function, listed) in enumerate(_entries(text)):
        if number and not function:
            fault = fault or "all lists but the first need a function in front of them"
            continue
        name = _known_as(function, words("functions", None))
        if function and not name:
            unknown.append(function)
            fault = fault or f"{function} is no function"
            continue
        chosen, odd, added = _listed(listed, known)
        if odd:
            unknown += odd
            fault = fault or f"{odd[0]} is unknown to this version"
        named += added
        functions[name] = chosen
    return Selection(functions, tuple(unknown), fault, tuple(dict.fromkeys(named)))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    # strtok drops empty parts, and looks at no more than two of `a:b:c`.
    for entry in filter(None, text.split(";")):
        parts = [part for part in entry.split(":") if part]
        if len(parts) == 1:
            yield "", parts[0]
        elif parts:
            yield parts[0], parts[1]


def _listed(
    text: str, known: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the words that one list leaves on, those that are unknown, and those it names."""
    inverted = text.startswith("^")
    given = [one for one in text.removeprefix("^").split(",") if one]
    named = {_known_as(one, known) for one in given} - {""}
    unknown = tuple(one for one in given if not _known_as(one, known))
    chosen = tuple(one for one in known if (one in named) is not inverted)
    return chosen, unknown, () if inverted else tuple(one.upper() for one in known if one in named)


def _known_as(word: str, known: tuple[str, ...]) -> str:
    return next((one for one in known if one.lower() == word.lower()), "")
