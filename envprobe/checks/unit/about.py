"""What the checks of `unit` look at, and how they tell of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.since import Told
from envprobe.config import Expectation
from envprobe.launch.definition import Definition
from envprobe.launch.entry import EntryLook
from envprobe.launch.steps import Launch
from envprobe.launch.types import Entry, Kind, Place, Remark
from envprobe.model import Confidence, Sentence, Shown


@dataclasses.dataclass(frozen=True, slots=True)
class UnitContext:
    """All that a check of `unit` may look at.

    `entries` are looks at the launches' own files, `causes` say why failed units have failed, each
    by the number of its definition.
    """

    definitions: tuple[Definition, ...]
    expectations: tuple[Expectation, ...] = ()
    entries: Mapping[int, tuple[EntryLook, ...]] = dataclasses.field(default_factory=dict)
    causes: Mapping[int, Sentence] = dataclasses.field(default_factory=dict)

    def launches(self) -> Iterator[tuple[Definition, Launch]]:
        """Yield each command that is started."""
        for definition in self.definitions:
            for launch in definition.launches:
                yield definition, launch

    def remarks(self, kinds: Iterable[Kind]) -> Iterator[tuple[Definition, Remark]]:
        """Yield the remarks of these kinds, those of wrappers and files as well."""
        wanted = frozenset(kinds)
        for definition in self.definitions:
            found = [*definition.remarks]
            found += [one for launch in definition.launches for one in launch.remarks]
            for remark in dict.fromkeys(found):
                if remark.kind in wanted:
                    yield definition, remark


def pids(definition: Definition) -> tuple[int, ...]:
    """Return the unit's main process, if there is one."""
    live = definition.live
    return (live.main_pid,) if live is not None and live.running else ()


def of_remark(
    check: Check, definition: Definition, remark: Remark, severity: Severity | None = None
) -> Finding:
    """Return a finding that tells a remark as it is."""
    subject = f"{remark.name}: " if remark.name else ""
    parts: list[str | Shown] = [f"{remark.place}: {subject}{remark.about}"]
    if remark.text is not None and remark.text.length:
        parts += [": ", Shown(remark.name, remark.text)]
    return Finding(
        check=check.slug,
        severity=severity or check.severity,
        message=Sentence.of(*parts, "."),
        pids=pids(definition),
        variable=remark.name,
        remedy=Sentence.of(check.mend),
        who=str(remark.place),
    )


def found(
    check: Check,
    definition: Definition,
    message: Sentence,
    *,
    place: Place | None = None,
    variable: str = "",
    severity: Severity | None = None,
    evidence: Iterable[Sentence] = (),
    remedy: str = "",
    undetermined: bool = False,
    confidence: Confidence = Confidence.PROVED,
) -> Finding:
    """Return a finding about a definition, or about one place of it."""
    return Finding(
        check=check.slug,
        severity=severity or check.severity,
        message=message,
        confidence=confidence,
        pids=pids(definition),
        variable=variable,
        evidence=tuple(evidence),
        remedy=Sentence.of(remedy or check.mend),
        undetermined=undetermined,
        who=str(place) if place is not None and str(place) else definition.subject,
    )


def of_told(check: Check, definition: Definition, told: Told) -> Finding:
    """Return the finding of one thing that has changed since the load or the start."""
    return found(
        check,
        definition,
        Sentence.of(told.message),
        severity=told.severity,
        evidence=(*told.evidence, *(Sentence.of(one) for one in (told.attempt,) if one)),
        remedy=told.remedy,
    )


def origin(entry: Entry) -> str:
    """Return where an entry comes from, in words."""
    setting = entry.setting
    return str(setting.place) or setting.source.value
