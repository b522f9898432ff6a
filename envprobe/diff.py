"""Two JSON reports of `workers` compared: processes by role and ranks, and never by number.

A masked value says nothing but its length: two of the same length may be equal or not. What was not
read in one of the two is no difference either. Both are "could not tell".
"""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from envprobe import inputfile, redact
from envprobe.errors import Exit, UsageError, decide
from envprobe.routes import variables

MAX_BYTES: Final = 1 << 28
_VIEW: Final = "libc"
_REMEDY: Final = "Make it with `envprobe workers --pid PID -o json=FILE`."


class _Role(msgspec.Struct):
    name: str
    label: str
    worker: bool


class _Environment(msgspec.Struct):
    status: str


class _Process(msgspec.Struct):
    pid: int
    role: _Role
    start_time: float
    environments: dict[str, _Environment]


class _Reading(msgspec.Struct):
    state: str
    value: dict[str, Any] | None = None


class _OfProcess(msgspec.Struct):
    pid: int
    views: dict[str, _Reading]


class _Variable(msgspec.Struct):
    name: str
    readings: list[_OfProcess]


class _Finding(msgspec.Struct):
    id: str
    check: str
    severity: str
    undetermined: bool
    message: str
    pids: list[int]
    variable: str | None = None


class _Scan(msgspec.Struct):
    processes: list[_Process]
    variables: list[_Variable]
    findings: list[_Finding]


class Document(msgspec.Struct):
    """What is compared of a report; the rest of the JSON is not looked at."""

    schema_version: int
    scans: list[_Scan]


class Kind(str, enum.Enum):
    """What a difference is about."""

    PROCESS = "process"
    VARIABLE = "variable"
    FINDING = "finding"


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not alike: in the first report `before`, in the second `after`.

    `unknown` marks what may be alike and may be not; `reason` says why that cannot be told.
    """

    kind: Kind
    subject: str
    before: str
    after: str
    unknown: bool = False
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """All differences; `left_out` are the variables that were not compared, with the reason."""

    differences: tuple[Difference, ...]
    left_out: dict[str, str]
    compared: int

    @property
    def exit(self) -> Exit:
        """0 if all is alike, 1 if anything differs, 3 if that cannot be told."""
        outcomes = {Exit.UNDETERMINED if one.unknown else Exit.FINDING for one in self.differences}
        return decide({Exit.HOLDS, *outcomes})


def load(path: str, schema_version: int) -> Document:
    """Return one report from a file; UsageError if it is none, or has another schema version."""
    try:
        raw = inputfile.read(path, MAX_BYTES, remedy=_REMEDY)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file", _REMEDY) from None
    try:
        heading = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise UsageError(f"{path} is no JSON document", _REMEDY) from None
    version = heading.get("schema_version")
    if version != schema_version or "scans" not in heading:
        missing = "is no report of `envprobe workers`"
        problem = f"has schema_version {version}" if isinstance(version, int) else missing
        if version == schema_version:
            problem = "holds the error that ended a run" if "error" in heading else missing
        raise UsageError(f"{path} {problem}", _REMEDY)
    try:
        return msgspec.convert(heading, Document)
    except msgspec.ValidationError:
        raise UsageError(f"{path} is no report of `envprobe workers`", _REMEDY) from None


def compare(
    before: Document, after: Document, *, ignore: tuple[str, ...] = (), every: bool = False
) -> Comparison:
    """Return how two reports differ.

    `ignore` are patterns (fnmatch) of variables that are left out; so are those that each start has
    of its own, unless `every`.
    """
    first, second = _Side(before), _Side(after)
    names = sorted(set(first.readings) | set(second.readings))
    left_out = {name: reason for name in names if (reason := _left_out(name, ignore, every))}
    kept = [name for name in names if name not in left_out]
    found = [
        *_processes(first, second),
        *_variables(first, second, kept),
        *_findings(first, second, left_out),
    ]
    return Comparison(tuple(found), left_out, len(kept))


_Key = tuple[str, str, tuple[str, ...], bool]


class _Side:
    """One report: its workers, its helpers by role, and what is known of each.

    Workers are named by role and ranks, of several alike by their order too. Of helpers of one role
    the first stands for all: how many there are may change from one minute to the next.
    """

    def __init__(self, document: Document) -> None:
        self.whole: dict[str, bool] = {}
        self.readings: dict[str, dict[str, _Reading]] = {}
        self.findings: Counter[_Key] = Counter()
        self.messages: dict[_Key, str] = {}
        seen: Counter[str] = Counter()
        for scan in document.scans:
            named: dict[int, str] = {}
            for one in sorted(scan.processes, key=lambda each: (each.start_time, each.pid)):
                label = redact.show_text(one.role.label, 120)
                seen[label] += 1
                if one.role.name and (one.role.worker or seen[label] == 1):
                    named[one.pid] = label if seen[label] == 1 else f"{label} ({seen[label]})"
                    view = one.environments.get(_VIEW)
                    self.whole[named[one.pid]] = view is not None and view.status == "complete"
            self._take(scan, named)

    @property
    def processes(self) -> set[str]:
        return set(self.whole)

    def reading(self, name: str, process: str) -> _Reading:
        """Return a reading; a name that was looked for and is not there is absent."""
        found = self.readings.get(name, {}).get(process)
        if found is not None:
            return found
        looked = redact.is_wanted(name, redact.DEFAULT_WANTED) and self.whole[process]
        return _Reading("absent" if looked else "not_asked")

    def _take(self, scan: _Scan, named: dict[int, str]) -> None:
        for variable in scan.variables:
            found = self.readings.setdefault(variable.name, {})
            for reading in variable.readings:
                view = reading.views.get(_VIEW)
                if view is not None and reading.pid in named:
                    found[named[reading.pid]] = view
        for finding in scan.findings:
            whom = tuple(sorted({named.get(pid, "another process") for pid in finding.pids}))
            key = (finding.check, finding.variable or "", whom, finding.undetermined)
            self.findings[key] += 1
            self.messages[key] = redact.show_text(finding.message)


def _left_out(name: str, ignore: Iterable[str], every: bool) -> str:
    pattern = next((one for one in ignore if fnmatch.fnmatchcase(name, one)), None)
    if pattern is not None:
        return f"--ignore {redact.show_text(pattern)}"
    design = variables.by_design(name)
    launch = design is not None and design.scope == "launch"
    return "each start has its own" if launch and not every else ""


def _processes(first: _Side, second: _Side) -> Iterator[Difference]:
    for name in sorted(first.processes ^ second.processes):
        there = name in first.processes
        before, after = ("there", "gone") if there else ("not there", "new")
        yield Difference(Kind.PROCESS, name, before, after)


def _variables(first: _Side, second: _Side, names: Iterable[str]) -> Iterator[Difference]:
    both = first.processes & second.processes
    for name in names:
        spoken = {*first.readings.get(name, ()), *second.readings.get(name, ())}
        for process in sorted(both & spoken):
            one, other = first.reading(name, process), second.reading(name, process)
            alike, reason = _compared(one, other)
            if alike is not True:
                subject = f"{redact.show_text(name)} in {process}"
                shown = _shown(one), _shown(other)
                yield Difference(Kind.VARIABLE, subject, *shown, alike is None, reason)


def _compared(one: _Reading, other: _Reading) -> tuple[bool | None, str]:
    """Return whether two readings are alike; None and the reason if that cannot be told."""
    if not {one.state, other.state} <= {"value", "absent"}:
        return None, "it was not read in each of the two"
    if one.state != other.state:
        return False, ""
    if one.value is None or other.value is None:
        return one.value == other.value, ""
    if _length(one.value) != _length(other.value):
        return False, ""
    if "masked" in one.value or "masked" in other.value:
        return None, "it is masked, and as long in both"
    if one.value == other.value:
        return (None, "only its first bytes are in the reports") if _cut(one.value) else (True, "")
    return False, ""


def _length(value: dict[str, Any]) -> int:
    """Return the length of a whole value in bytes."""
    for key in ("masked", "length"):
        if isinstance(value.get(key), int):
            return int(value[key])
    if "base64" in value:
        return len(str(value["base64"])) * 3 // 4 - str(value["base64"]).count("=")
    return len(str(value.get("text", "")).encode("utf-8", "surrogatepass"))


def _cut(value: dict[str, Any]) -> bool:
    return bool(value.get("truncated"))


def _shown(reading: _Reading) -> str:
    if reading.state != "value" or reading.value is None:
        return reading.state
    if "masked" in reading.value:
        length = reading.value["masked"]
        return redact.masked(length) if isinstance(length, int) else "<masked>"
    text = reading.value.get("text", reading.value.get("base64", ""))
    return redact.show_text(str(text), redact.VALUE_LIMIT)


def _findings(first: _Side, second: _Side, left_out: Iterable[str]) -> Iterator[Difference]:
    skipped = set(left_out)
    keys = sorted(set(first.findings) | set(second.findings))
    for key in keys:
        check, variable, whom, undetermined = key
        if variable in skipped or first.findings[key] == second.findings[key]:
            continue
        subject = ", ".join(part for part in (check, variable, *whom[:3]) if part)
        word = "could not be told" if undetermined else "found"
        before = f"{word}: {first.messages[key]}" if first.findings[key] else "not found"
        after = f"{word}: {second.messages[key]}" if second.findings[key] else "not found"
        yield Difference(Kind.FINDING, subject, before, after)
