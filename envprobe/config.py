"""What the user expects: the types, and how the file and the command line are joined."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator

from envprobe.errors import UsageError
from envprobe.values import Value


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
class PatchExpectation:
    """One attribute that must hold what comes from `source`, in all workers or those of a role.

    `query` is a question (`cpython.query`), `source` a module or path (`patchexpect`), `origin`
    where it was written.
    """

    query: str
    source: str
    role: str = ""
    origin: str = "--patch"


@dataclasses.dataclass(frozen=True, slots=True)
class HookExpectation:
    """One start-up hook that must be loaded from a file: `name` is one of `pythonfacts.HOOKS`.

    `source` is the path of the file if `exact`, else of a folder above it.
    """

    name: str
    source: str
    exact: bool = False
    role: str = ""
    origin: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryExpectation:
    """A shared object that every worker must have loaded: `pattern` (fnmatch) names its file."""

    pattern: str
    origin: str = "--expect-lib"


@dataclasses.dataclass(frozen=True, slots=True)
class KernelExpectation:
    """The bundled kernel must work: compiled for `arch` (`sm_NNN`, "": that of the GPU at hand).

    `installed`: the patched class must call it on the GPU at hand.
    """

    arch: str = ""
    installed: bool = False
    origin: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """Everything expected of one target, from envprobe.toml and the command line together.

    `nccl` is expected of what NCCL says that it read, `expectations` of the environment.
    `workers` maps a role's name to its expected number ("": workers of any role); `ignore` and
    `allow_unknown` a check's slug to the reason; `expired` and `unaccepted` one that is ignored or
    accepted no longer to the reason and the day on which that ended.
    """

    expectations: tuple[Expectation, ...] = ()
    patches: tuple[PatchExpectation, ...] = ()
    hooks: tuple[HookExpectation, ...] = ()
    nccl: tuple[Expectation, ...] = ()
    libraries: tuple[LibraryExpectation, ...] = ()
    kernel: KernelExpectation | None = None
    workers: dict[str, int] = dataclasses.field(default_factory=dict)
    ignore: dict[str, str] = dataclasses.field(default_factory=dict)
    allow_unknown: dict[str, str] = dataclasses.field(default_factory=dict)
    expired: dict[str, str] = dataclasses.field(default_factory=dict)
    unaccepted: dict[str, str] = dataclasses.field(default_factory=dict)
    strict: bool = False

    @property
    def inside(self) -> tuple[PatchExpectation | HookExpectation, ...]:
        """All that is expected of what is inside an interpreter."""
        return (*self.patches, *self.hooks)

    @property
    def expects(self) -> bool:
        """Whether anything is expected at all."""
        outside = (*self.expectations, *self.nccl, *self.libraries, *self.workers)
        return bool(outside or self.inside or self.kernel)

    @property
    def over(self) -> Iterator[str]:
        """What is ignored or accepted no longer, as sentences without their end."""
        for told, entries in (("ignored", self.expired), ("accepted", self.unaccepted)):
            for slug, reason in entries.items():
                yield f"{slug} is no longer {told}: {reason}"


def combine(
    config: Config,
    *,
    expectations: Iterable[Expectation] = (),
    patches: Iterable[PatchExpectation] = (),
    libraries: Iterable[str] = (),
    workers: dict[str, int] | None = None,
    allow_unknown: Iterable[str] = (),
    strict: bool = False,
) -> Config:
    """Return `config` with what the command line adds; `allow_unknown` holds slugs of checks.

    An expectation of the command line replaces those of the file for the same variable (or the same
    question) and role. Raises UsageError when two expectations cannot both hold.
    """
    added = tuple(expectations)
    replaced = {(one.name, one.role) for one in added}
    kept = tuple(one for one in config.expectations if (one.name, one.role) not in replaced)
    refuse_contradictions(added)
    patched = tuple(dict.fromkeys(patches))
    refuse_two_sources(patched)
    asked = {(one.query, one.role) for one in patched}
    unasked = tuple(one for one in config.patches if (one.query, one.role) not in asked)
    allowed = dict.fromkeys(allow_unknown, "--allow-unknown")
    return dataclasses.replace(
        config,
        expectations=kept + added,
        patches=unasked + patched,
        libraries=(*config.libraries, *map(LibraryExpectation, dict.fromkeys(libraries))),
        workers={**config.workers, **(workers or {})},
        allow_unknown={**config.allow_unknown, **allowed},
        strict=config.strict or strict,
    )


def refuse_contradictions(expectations: Iterable[Expectation]) -> None:
    """Raise UsageError if two expectations on one variable and role cannot both hold."""
    seen: dict[tuple[str, str], list[Expectation]] = {}
    for one in expectations:
        for other in seen.setdefault((one.name, one.role), []):
            if _contradict(one, other):
                raise UsageError(
                    f"{one.name} is expected in two ways that cannot both hold"
                    f" ({other.origin} and {one.origin})",
                    "Keep one of the two.",
                )
        seen[one.name, one.role].append(one)


def refuse_two_sources(patches: Iterable[PatchExpectation]) -> None:
    """Raise UsageError if one attribute is to come from two places in the same processes."""
    seen: dict[tuple[str, str], PatchExpectation] = {}
    for one in patches:
        other = seen.setdefault((one.query, one.role), one)
        if other is not one:
            raise UsageError(
                f"{one.query} is expected from two places ({other.origin} and {one.origin})",
                "Keep one of the two.",
            )


def _contradict(one: Expectation, other: Expectation) -> bool:
    rules = {one.rule, other.rule}
    if Rule.SAME in rules:
        return False
    if Rule.ABSENT in rules:
        return len(rules) > 1
    choices = [set(e.values) for e in (one, other) if e.rule in (Rule.EXACT, Rule.ONE_OF)]
    return len(choices) > 1 and not choices[0] & choices[1]


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a sentence that names the nearest choice, or else all of them."""
    import difflib

    known = sorted(choices)
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(known)}." if known else ""
