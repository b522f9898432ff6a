"""What a run of the kernel's programs found: plain and frozen, with no verdicts.

Sizes are bytes, times microseconds unless a name says otherwise. All text in it comes from other
programs: it is for renderers to make it harmless.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from envprobe.kernel.architecture import Architecture
from envprobe.kernel.library import Library


class Stage(str, enum.Enum):
    """How far a run had come; the last one that began."""

    START = "start"
    PACKAGES = "packages"
    COMPILE = "compile"
    LOAD = "load"
    GRID = "grid"
    TIME = "time"


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """An error: its type, the driver's or the compiler's name for it ("": none), its text.

    `where` is the file and line that raised it, if that is known.
    """

    error: str
    word: str
    text: str
    where: str = ""

    def __str__(self) -> str:
        first = self.text.strip().splitlines()[0] if self.text.strip() else ""
        told = self.word or self.error
        return first if told in first else f"{told}: {first}" if first else told


@dataclasses.dataclass(frozen=True, slots=True)
class Stopped:
    """Why nothing more was done, as a word of the program's and in its own words."""

    reason: str
    text: str = ""
    free: int | None = None
    need: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes: 32 bit registers a thread, and bytes.

    `shared`: of a block, in all; `local`: of a thread, where what finds no register lies; the
    spills are what ptxas says a thread stores and loads for that, None where it was not asked.
    """

    registers: int
    shared: int
    local: int
    spill_stores: int | None = None
    spill_loads: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Errors:
    """How far a result is from the reference: `kernel_ext.grid.Errors`."""

    shape: str
    absolute: float
    relative: float
    part: float
    wrong: int
    stored: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Medians of one shape by kernel; `part`: the largest error of the allowed, by kernel.

    `key_bytes`: what reading every key of the prefixes once moves, 0 where it was not told.
    """

    shape: str
    microseconds: Mapping[str, float]
    part: Mapping[str, float] = dataclasses.field(default_factory=dict)
    key_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    """A card, as the driver describes it before anything runs on it."""

    index: int
    name: str
    uuid: str
    architecture: Architecture
    multiprocessors: int
    shared_limit: int
    registers: int
    free: int | None
    total: int | None
    processes: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A Python function, by the code that it runs."""

    module: str
    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"


@dataclasses.dataclass(frozen=True, slots=True)
class InClass:
    """What calling `TritonAttnBackend.forward_extend` found.

    `functions`: who stands in the class, then what it says it wraps; () if the bundled patch was
    called. `own` and `asked`: errors of SGLang's own function and of the one in question, same
    inputs. `problem` and `step` ("import", "prepare", "own", "asked"): what ended it; `ended`: the
    exit code of a process that ended before it was done, `calling` what it was calling.
    `counters`: those of the bundled patch, if that was called. `interpreted`: on the CPU.
    """

    version: str = ""
    own_file: str = ""
    functions: tuple[Function, ...] = ()
    own: tuple[Errors, ...] = ()
    asked: tuple[Errors, ...] = ()
    counters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    last_reason: str = ""
    timing: Timing | None = None
    untimed: str = ""
    problem: Failure | None = None
    step: str = ""
    calling: str = ""
    ended: int | None = None
    done: bool = False
    interpreted: bool = False

    @property
    def patched(self) -> bool:
        """Whether the class holds another function than that of SGLang's own file."""
        return bool(self.functions) and self.functions[0].file != self.own_file


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """All that was found on one card; `card` is None where none could be asked.

    `stage` is the last that began, `at` the shape that was being run; `ended` the exit code of a
    process that ended before it was done, minus a signal's number. `done`: the kernel's part went
    to its end. `skipped` maps shapes to the memory that they would have taken.
    """

    index: int | None
    card: Card | None = None
    stopped: Stopped | None = None
    failure: Failure | None = None
    stage: Stage = Stage.START
    at: str = ""
    ended: int | None = None
    packages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    architecture: Architecture | None = None
    kernels: Mapping[str, Resources] = dataclasses.field(default_factory=dict)
    compared: tuple[Errors, ...] = ()
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    peak: int | None = None
    copy: float | None = None
    timings: tuple[Timing, ...] = ()
    untimed: str = ""
    unpaired: str = ""
    neighbours_known: bool = True
    done: bool = False
    in_class: InClass | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """The kernel compiled for one architecture, not run. `failure`: it could not be compiled."""

    architecture: Architecture
    size: int = 0
    kernels: Mapping[str, Resources] = dataclasses.field(default_factory=dict)
    shared_limit: int = 0
    forbidden: tuple[str, ...] = ()
    driver_calls: tuple[str, ...] = ()
    failure: Failure | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """What one start of a program found.

    `python`: the interpreter, with how it was chosen in `chosen`; `driver`: the newest CUDA that
    the driver supports; `compiler`: the version of NVRTC, None where there is none. `problem` says
    why the program has not answered to its end, with its last words in `said`. `unread` counts
    what it told that could not be read: anything may have been in it, a wrong result too.
    """

    python: str
    chosen: str
    devices: tuple[Device, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    driver: int | None = None
    compiler: tuple[int, int] | None = None
    compiler_problem: Failure | None = None
    gaps: tuple[str, ...] = ()
    problem: str = ""
    said: str = ""
    seconds: float = 0.0
    unread: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What was asked: expectations of the command line, of which the checks judge.

    `timed` and `in_class`: True if a run without that part is no answer; `installed`: whose
    function is expected in the class (a prefix of its module, or a file), None if not asked for at
    all, "" for whoever it is; `devices`: the architectures for which a library's images must do.
    """

    installed: str | None = None
    timed: bool = False
    in_class: bool = False
    memory: int = 1 << 30
    devices: tuple[Architecture, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class KernelFacts:
    """All that one run of the command found: of each job that was asked for, the run or None."""

    question: Question
    run: Run | None = None
    compile_only: Run | None = None
    libraries: tuple[Library, ...] = ()
