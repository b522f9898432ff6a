"""What a check returns, and how a check describes itself."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from envprobe.config import Config
from envprobe.model import SILENCE, Confidence, Sentence
from envprobe.routes.types import Break, Routing

Made = TypeVar("Made")


class Severity(str, enum.Enum):
    """How much a finding matters, in rising order: info, warning, error."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """The severity as a number, info 0."""
        return list(Severity).index(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One verdict: which check, who, what, why, and how to mend it.

    `undetermined` marks "could not tell": it counts for exit code 3, whatever the severity says.
    `pids` are the processes it speaks of; `variable` the name it speaks of, "" if none; `who` names
    what it speaks of where that is no process of a scan: a file, a rank of a log, an interpreter.
    """

    check: str
    severity: Severity
    message: Sentence
    confidence: Confidence = Confidence.PROVED
    pids: tuple[int, ...] = ()
    variable: str = ""
    evidence: tuple[Sentence, ...] = ()
    remedy: Sentence = SILENCE
    undetermined: bool = False
    breaks: tuple[Break, ...] = ()
    who: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """All that a check may look at; `once` keeps what several checks compute from it.

    `beside` are the other nodes of the same job, if it is known to have any, and `node` is the name
    of this one then.
    """

    routing: Routing
    config: Config
    node: str = ""
    beside: tuple[Context, ...] = ()
    memo: dict[Callable[[Context], Any], Any] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, compute: Callable[[Context], Made]) -> Made:
        """Return `compute(self)`, computed at the first call only."""
        if compute not in self.memo:
            self.memo[compute] = compute(self)
        found: Made = self.memo[compute]
        return found


class Undetermined(str, enum.Enum):
    """Whether a check's findings mean "could not tell"."""

    NEVER = "never"
    SOMETIMES = "sometimes"
    ALWAYS = "always"


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A check: its id (EPnnn), slug, worst severity, documentation and the function that judges.

    `summary` is one line; `why` says what goes wrong in a server; `mend` how to mend it. The
    documentation page and `envprobe explain` are made of these. `undetermined` says whether its
    findings mean "could not tell" (exit code 3). `run` takes what the checks of its command look
    at: for `workers` a `Context`.
    """

    id: str
    slug: str
    severity: Severity
    summary: str
    why: str
    mend: str
    run: Callable[[Any], Iterable[Finding]]
    undetermined: Undetermined = Undetermined.NEVER
