"""What the checks share that say of an expectation: it could not be told whether it holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

from envprobe.checks import who
from envprobe.checks.finding import Check, Finding
from envprobe.model import Sentence

ONE_BY_ONE: Final = 6
"""How many names a sentence lists; of more it says how many there are."""


class Unknown(Protocol):
    """An expectation of one process that is neither kept nor broken, and why."""

    @property
    def pid(self) -> int:
        """The process."""

    @property
    def expectation(self) -> Hashable:
        """What is expected."""

    @property
    def reason(self) -> str:
        """Why it could not be told."""

    @property
    def remedy(self) -> str:
        """What to do about that."""


One = TypeVar("One", bound=Unknown)


def together(unknown: Iterable[One]) -> Iterator[list[list[One]]]:
    """Yield what one finding tells: expectations of the same processes, unknown for one reason.

    Each holds a list for an expectation, with an item for a process, in the same order.
    """
    by_demand = who.folded(unknown, lambda one: (one.expectation, one.reason, one.remedy))
    yield from who.folded(
        by_demand.values(),
        lambda group: (tuple(one.pid for one in group), group[0].reason, group[0].remedy),
    ).values()


def no_process(check: Check, role: str, names: list[str], variable: str = "") -> Finding:
    """Return the finding on what is expected of a role that no process of the scan has."""
    return Finding(
        check=check.slug,
        severity=check.severity,
        message=Sentence.of(
            f"Cannot tell whether what is expected of {who.some(names, ONE_BY_ONE)} holds: no"
            f" process of the scan has the role {role}."
        ),
        variable=variable,
        remedy=Sentence.of(
            f"Wait for it with `--wait {role}=1`, or remove the expectation for this role."
        ),
        undetermined=True,
    )
