"""What the user expects: the types, and the command line's expressions."""

from __future__ import annotations

import dataclasses
import enum

from envprobe.model import Value


class Rule(str, enum.Enum):
    """What an expectation demands of one variable."""

    EXACT = "exact"
    SET = "set"
    ABSENT = "absent"
    CONTAINS = "contains"
    ONE_OF = "one_of"
    SAME = "same"


@dataclasses.dataclass(frozen=True, slots=True)
class Expectation:
    """One demand on one variable, for all workers or for the processes of one role.

    `values` holds the value (EXACT), the list element (CONTAINS) or the choices (ONE_OF);
    `origin` says where it was written (`--expect` or file and key).
    """

    name: str
    rule: Rule
    values: tuple[Value, ...] = ()
    role: str = ""
    origin: str = "--expect"


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """Everything expected of one target, from envprobe.toml and the command line together.

    `workers` maps a role's name to its expected number; `ignore` and `allow_unknown` a check's slug
    to the reason.
    """

    expectations: tuple[Expectation, ...] = ()
    workers: dict[str, int] = dataclasses.field(default_factory=dict)
    ignore: dict[str, str] = dataclasses.field(default_factory=dict)
    allow_unknown: dict[str, str] = dataclasses.field(default_factory=dict)
    strict: bool = False
