"""The variables that NCCL reads, by version: data/nccl-params.json."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from typing import Any, Final, TypeVar

from envprobe import tables

Version = tuple[int, ...]
Number = TypeVar("Number", int, int | None)

_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")
_SIMILAR: Final = 0.82
_EQUALLY: Final = 0.02


class Naming(str, enum.Enum):
    """What a name is to one version of NCCL.

    READ: the library reads it. NOT_YET, REMOVED: a later or an earlier version does. DEAD: named in
    old documentation, read by no version from 2.17. TORCH: PyTorch's. OTHER: a plugin's or a
    contribution's. MADE_UP: seen in the wild and read by nothing. UNKNOWN: in no table.
    UNCERTAIN: the version is newer than the source that was read, or only the name is known.
    """

    READ = "read"
    NOT_YET = "not_yet"
    REMOVED = "removed"
    DEAD = "dead"
    TORCH = "torch"
    OTHER = "other"
    MADE_UP = "made_up"
    UNKNOWN = "unknown"
    UNCERTAIN = "uncertain"


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One variable: who reads it (`home`), how (`reader`), and how a line shows it (`prints`).

    `reader` is "number", "text", "level", "log" or "unread"; `prints` "number", "text", "level",
    "never", "other" or "" (not known). `printed_by` is "" for once in each process that reads it,
    else "every rank" (of each communicator of several ranks), "senders", "inter-node", "one rank",
    "first local rank" or "maker of the id". `last` is None while the newest version read has it.
    """

    name: str
    home: str
    reader: str
    form: str
    first: Version | None
    last: Version | None
    dead: bool
    prints: str
    silent_from: Version | None
    printed_by: str
    replaced_by: str
    allowed: str
    source: str
    defaults: tuple[tuple[Version, int | None], ...]
    choices: tuple[int, ...]
    multiple: int | None
    least: int | None
    most: tuple[tuple[Version, int], ...]

    def is_silent(self, version: Version | None) -> bool:
        """Return whether this version reads it without a line; without a version: all do."""
        if self.silent_from is not None and version is not None and version >= self.silent_from:
            return True
        return self.prints == "never"

    def default(self, version: Version | None) -> int | None:
        """Return the number that counts where it is not set; None if NCCL or a machine decides.

        Without a version it is the number that holds in all of them, if there is one.
        """
        if version is None:
            distinct = {number for _, number in self.defaults}
            return distinct.pop() if len(distinct) == 1 else None
        return _latest(self.defaults, version)

    def highest(self, version: Version | None) -> int | None:
        """Return the greatest number that is used as it is given; of all versions without one."""
        if version is None:
            return max((number for _, number in self.most), default=None)
        return _latest(self.most, version)


def _latest(steps: tuple[tuple[Version, Number], ...], version: Version) -> Number | None:
    held = [number for since, number in steps if since <= version]
    return held[-1] if held else None


@functools.lru_cache(maxsize=1024)
def version_of(text: str) -> Version | None:
    """Return the numbers of a version as in a banner (`2.28.9+cuda13.0`), None if there are none.

    Two numbers are enough: 2.28 is 2.28.0.
    """
    found = _VERSION.match(text)
    if found is None:
        return None
    return tuple(int(one or 0) for one in found.groups())


@functools.cache
def parameters() -> dict[str, Parameter]:
    """Return all known variables by name."""
    return {row["name"]: _parameter(row) for row in tables.load("nccl-params")["rows"]}


def find(name: str) -> Parameter | None:
    """Return what is known of a variable, None if it is in no table."""
    return parameters().get(name)


def newest() -> Version:
    """Return the newest version whose source was read."""
    return _parsed(tables.load("nccl-params")["newest"]) or ()


def _parameter(row: dict[str, Any]) -> Parameter:
    most = row.get("most_by_version") or ([["0.0", row["most"]]] if "most" in row else [])
    oldest = row.get("oldest", False)
    return Parameter(
        name=row["name"],
        home=row["home"],
        reader=row["reader"],
        form=row.get("type", ""),
        first=None if oldest else _parsed(row.get("first", "")),
        last=_parsed(row.get("last", "")),
        dead=row.get("dead", False),
        prints=row.get("prints", ""),
        silent_from=_parsed(row.get("silent_from", "")),
        printed_by=row.get("printed_by", ""),
        replaced_by=row.get("replaced_by", ""),
        allowed=row.get("allowed", ""),
        source=row.get("source", ""),
        defaults=tuple((_parsed(since) or (), number) for since, number in row.get("defaults", ())),
        choices=tuple(row.get("choices", ())),
        multiple=row.get("multiple"),
        least=row.get("least"),
        most=tuple((_parsed(since) or (), number) for since, number in most),
    )


def _parsed(text: str) -> Version | None:
    return version_of(text) if text else None


def naming(name: str, version: Version | None) -> Naming:
    """Return what a name is to this version; without a version, to any from 2.17 on."""
    known = find(name)
    if known is None:
        return _naming_of_unknown(name, version)
    if known.dead:
        return Naming.DEAD
    if known.home != "libnccl":
        homes = {"torch": Naming.TORCH, "nobody": Naming.MADE_UP}
        return homes.get(known.home, Naming.OTHER)
    if version is None:
        return Naming.READ
    if known.first is not None and version < known.first:
        # Between the last source read and the first binary that has the name nobody knows.
        return Naming.UNCERTAIN if version > newest() else Naming.NOT_YET
    if known.last is not None and version > known.last:
        return Naming.REMOVED
    return Naming.READ


def _naming_of_unknown(name: str, version: Version | None) -> Naming:
    if name.startswith("TORCH_NCCL_"):
        return Naming.TORCH
    return Naming.UNCERTAIN if version is not None and version > newest() else Naming.UNKNOWN


def suggestions(name: str, version: Version | None = None) -> tuple[str, ...]:
    """Return the names that may be meant: its successor, else up to two near ones that are read.

    The words of a name may be in another order: NCCL_DISABLE_P2P is NCCL_P2P_DISABLE.
    """
    known = find(name)
    if known is not None:
        return (known.replaced_by,) if known.replaced_by else ()
    # Needed for few names, and slow to import.
    import difflib

    read = [one for one in parameters() if naming(one, version) is Naming.READ]
    words = sorted(name.upper().split("_"))
    turned = tuple(one for one in read if sorted(one.split("_")) == words)
    near = difflib.get_close_matches(name.upper(), read, n=2, cutoff=_SIMILAR)
    likeness = [difflib.SequenceMatcher(None, one, name.upper()).ratio() for one in near]
    return turned or tuple(
        one for one, like in zip(near, likeness, strict=True) if like > likeness[0] - _EQUALLY
    )
