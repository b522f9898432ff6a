"""Which units of a library a device runs: what the checks of images share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.kernel.architecture import Architecture, compiles_ptx, runs_machine_code
from envprobe.kernel.facts import KernelFacts
from envprobe.kernel.fatbin import Image, Kind
from envprobe.kernel.library import Library


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """How many units of a library a device runs as they are, by compiling PTX, and not at all."""

    library: Library
    device: Architecture
    as_it_is: int
    by_driver: int
    missing: int

    @property
    def units(self) -> int:
        """All units of the library."""
        return self.as_it_is + self.by_driver + self.missing


def match(library: Library, device: Architecture) -> Match:
    """Return how a device runs a library's units."""
    as_it_is = sum(_runs(unit, device) for unit in library.units)
    either = sum(_runs(unit, device) or _compiles(unit, device) for unit in library.units)
    return Match(library, device, as_it_is, either - as_it_is, len(library.units) - either)


def matches(facts: KernelFacts) -> Iterator[Match]:
    """Yield each library that has code, for each device that was asked about."""
    for library in facts.libraries:
        for device in facts.question.devices if library.units else ():
            yield match(library, device)


def _runs(unit: frozenset[Image], device: Architecture) -> bool:
    return any(
        one.kind is Kind.SASS and runs_machine_code(one.architecture, device) for one in unit
    )


def _compiles(unit: frozenset[Image], device: Architecture) -> bool:
    return any(one.kind is Kind.PTX and compiles_ptx(one.architecture, device) for one in unit)
