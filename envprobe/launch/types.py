"""What is found in a launch definition: plain, frozen facts without verdicts.

Values are `Value`s, since any line may hold a credential. Lines count from 1.
"""

from __future__ import annotations

import dataclasses
import enum

from envprobe.model import Confidence
from envprobe.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, or ("", 0) where something is not written in a file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


NOWHERE = Place("")


class Kind(str, enum.Enum):
    """What a line does that its writer may not have meant."""

    # Lines of a unit.
    LINE_WITHOUT_EQUALS = "line-without-equals"
    LINE_OUTSIDE_SECTION = "line-outside-section"
    LINE_IN_OTHER_SECTION = "line-in-other-section"
    LINE_NOT_UTF8 = "line-not-utf8"
    LINE_TOO_LONG = "line-too-long"
    SECTION_UNKNOWN = "section-unknown"
    SECTION_BROKEN = "section-broken"
    KEY_UNKNOWN = "key-unknown"
    # Words of Environment= and its kin.
    WORD_WITHOUT_EQUALS = "word-without-equals"
    WORD_BAD_NAME = "word-bad-name"
    WORD_BAD_VALUE = "word-bad-value"
    WORDS_BROKEN = "words-broken"
    DOLLAR = "dollar"
    SPECIFIER = "specifier"
    SPECIFIER_REFUSED = "specifier-refused"
    LIST_RESET = "list-reset"
    # EnvironmentFile= and what is in such a file.
    PATH_IGNORED = "path-ignored"
    PATH_WITH_BLANK = "path-with-blank"
    FILE_MISSING = "file-missing"
    FILE_OPTIONAL = "file-optional"
    FILE_UNREADABLE = "file-unreadable"
    FILE_REFUSED = "file-refused"
    FILE_EXPORT = "file-export"
    FILE_BAD_NAME = "file-bad-name"
    FILE_WITHOUT_EQUALS = "file-without-equals"
    FILE_DOLLAR = "file-dollar"
    FILE_DOUBLED_PERCENT = "file-doubled-percent"
    FILE_COMMENT_IN_VALUE = "file-comment-in-value"
    FILE_COMMENT_CONTINUED = "file-comment-continued"
    FILE_QUOTE_RUNS_ON = "file-quote-runs-on"
    FILE_TEXT_AFTER_QUOTE = "file-text-after-quote"
    FILE_QUOTE_INSIDE = "file-quote-inside"
    FILE_BACKSLASH = "file-backslash"
    FILE_QUOTES_KEPT = "file-quotes-kept"
    FILE_NAME_ALONE = "file-name-alone"
    # ExecStart= and the unit as a whole.
    EXEC_SEVERAL = "exec-several"
    EXEC_MISSING = "exec-missing"
    EXEC_IGNORED = "exec-ignored"
    EXEC_NOT_ON_PATH = "exec-not-on-path"
    EXEC_DOLLAR = "exec-dollar"
    DROP_IN_IGNORED = "drop-in-ignored"
    DROP_IN_ELSEWHERE = "drop-in-elsewhere"
    PASSED_UNSET = "passed-unset"
    # Kubernetes.
    REFERENCE_LITERAL = "reference-literal"
    SERVICE_LINK = "service-link"


@dataclasses.dataclass(frozen=True, slots=True)
class Remark:
    """One thing that is ignored, or means something else than it looks.

    `about` says it in words that hold no value; `name` is the variable it concerns, "" if none;
    `text` is what is written there.
    """

    kind: Kind
    place: Place
    about: str
    name: str = ""
    text: Value | None = None


class Source(str, enum.Enum):
    """Where an entry of a declared environment comes from, in the order in which they count.

    systemd.exec(5), "Environment Variables in Spawned Processes".
    """

    MANAGER = "manager"
    CALLER = "caller's environment"
    SYSTEMD = "systemd"
    PASSED = "PassEnvironment="
    ENVIRONMENT = "Environment="
    FILE = "EnvironmentFile="
    COMMAND = "command line"
    CONTAINER = "container"

    @property
    def given(self) -> bool:
        """Whether it is there without being written in the definition."""
        return self in (Source.MANAGER, Source.CALLER, Source.SYSTEMD)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One assignment: the value is None where it cannot be told, and `reason` says why."""

    name: str
    value: Value | None
    source: Source
    place: Place = NOWHERE
    reason: str = ""
    confidence: Confidence = Confidence.PROVED


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One variable of a declared environment.

    `setting` counts, `overridden` are those before it, the oldest first. `removed` is where it is
    taken out again, and `doubt` says why it may still be another one in the end.
    """

    setting: Setting
    overridden: tuple[Setting, ...] = ()
    removed: Place | None = None
    doubt: str = ""

    @property
    def known(self) -> bool:
        """Whether it is certain what is handed over: this value, or nothing."""
        return self.removed is not None or (self.setting.value is not None and not self.doubt)
