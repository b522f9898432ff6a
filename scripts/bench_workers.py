"""How long `envprobe workers` takes on many workers, beside other tools on the same processes.

    python scripts/bench_workers.py [--rounds 9] [--workers 8 256] [--mappings 3000] [--check]

The targets are real Python processes that multiprocessing has spawned, titled as SGLang's
schedulers with setproctitle, each with 3,000 mappings more than it needs: a torch and CUDA process
has as many. The tools take turns, in another order each round; medians are shown. Times are wall
clock from the start of the process to its end; the peak of the memory is that of the largest of
its processes (wait4(2)); "cpu" is the processor time of all of them, which a busy machine changes
less. The small tree has ended before the large one starts, since every scan
looks at all processes of the machine. Needs the extra `bench`; tools that are missing are left out.

Start-up before the first read is the time of `envprobe workers --pid ZOMBIE`: all that reading
needs is imported before the number is looked up, and there the run ends (exit code 4). That is an
upper bound: saying so and ending are in it too.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import multiprocessing
import os
import platform
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

VARIABLES = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NTHREADS": "256"}
PAGE = 4096
LIMIT_S = 120
NO_PYTHON = "--no-python"
PSUTIL = (
    "import psutil, sys\n"
    "found = [psutil.Process(int(pid)).environ().get('NCCL_ALGO') for pid in sys.argv[1:]]\n"
    "print(found.count('Ring'))"
)
GDB = ("-nx", "-batch", "-ex", 'print (char*)getenv("NCCL_ALGO")')


# --- targets --------------------------------------------------------------------------------------


def spread(count: int) -> None:
    """Make `count` mappings: neighbours differ in their protection, so that none are merged."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    start = libc.mmap(None, count * PAGE, 1, 0x22, -1, 0)  # PROT_READ; private, anonymous
    for number in range(0, count, 2):
        if libc.mprotect(start + number * PAGE, PAGE, 3):
            raise OSError(ctypes.get_errno(), "mprotect")


def work(rank: int, mappings: int, ready: Any, launcher: int) -> None:
    """Be one worker until the launcher ends."""
    import setproctitle

    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER, any: for Yama
    if os.getppid() != launcher:
        os._exit(1)
    spread(mappings)
    setproctitle.setproctitle(f"sglang::scheduler_TP{rank}")
    ready.send(os.getpid())
    while True:
        signal.pause()


def launch(count: int, mappings: int, target: Callable[..., None] = work) -> None:
    """Be the launcher: start the workers, print their pids, live until standard input ends."""
    context = multiprocessing.get_context("spawn")
    pids = []
    for rank in range(count):
        ours, theirs = context.Pipe(duplex=False)
        arguments = (rank, mappings, theirs, os.getpid())
        context.Process(target=target, args=arguments, daemon=True).start()
        theirs.close()
        pids.append(ours.recv())
    print(json.dumps(pids), flush=True)
    os.read(0, 1)
    os._exit(0)


@dataclasses.dataclass(frozen=True)
class Tree:
    """A running tree: the launcher's pid and the workers' pids."""

    root: int
    workers: tuple[int, ...]


@contextlib.contextmanager
def tree(
    count: int, mappings: int, program: str = __file__, variables: Mapping[str, str] = VARIABLES
) -> Iterator[Tree]:
    """Start a tree by the --launch of `program`, and end it."""
    process = subprocess.Popen(
        [sys.executable, os.path.abspath(program), "--launch", str(count), str(mappings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), **variables},
    )
    assert process.stdout is not None
    try:
        yield Tree(process.pid, tuple(json.loads(process.stdout.readline())))
    finally:
        process.communicate(timeout=LIMIT_S)


@contextlib.contextmanager
def zombie() -> Iterator[int]:
    """Give the pid of a process that has ended and is not collected."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


# --- measuring ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Measure:
    """Commands that are run one after another, and what became of them in each round."""

    name: str
    commands: Sequence[Sequence[str]]
    answers: Callable[[list[tuple[int, str]]], str]
    seconds: list[float] = dataclasses.field(default_factory=list)
    cpu: list[float] = dataclasses.field(default_factory=list)
    peaks: list[float] = dataclasses.field(default_factory=list)
    answer: str = ""

    def run(self, *, warm_up: bool = False) -> None:
        """Run the commands; the first run of all fills the caches and is not counted."""
        began = time.perf_counter()
        done = [timed(command) for command in self.commands]
        spent = time.perf_counter() - began
        if warm_up:
            self.answer = self.answers([(code, out) for code, out, _ in done])
            return
        self.seconds.append(spent)
        self.cpu.append(sum(usage.ru_utime + usage.ru_stime for _, _, usage in done))
        self.peaks.append(max(usage.ru_maxrss for _, _, usage in done) * 1024 / 1e6)

    @property
    def median(self) -> float:
        """The median of the wall times in seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> str:
        """The lowest and the highest wall time."""
        return f"{min(self.seconds):.3f} to {max(self.seconds):.3f}"

    @property
    def peak(self) -> float:
        """The highest peak of the memory in MB."""
        return max(self.peaks)


def timed(command: Sequence[str]) -> tuple[int, str, resource.struct_rusage]:
    """Run a command; return its exit code, its output and what it used (wait4(2))."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    assert process.stdout is not None
    with process.stdout:
        out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, out.decode("utf-8", "replace"), usage


def rounds(measures: Sequence[Measure], count: int) -> None:
    """Let the measures take turns."""
    for measure in measures:
        measure.run(warm_up=True)
    order = random.Random(0)
    for _ in range(count):
        for measure in order.sample(list(measures), len(measures)):
            measure.run()


def envprobe() -> str:
    """Return the console script beside this interpreter."""
    beside = os.path.join(os.path.dirname(sys.executable), "envprobe")
    found = beside if os.path.exists(beside) else shutil.which("envprobe")
    if found is None:
        raise SystemExit("envprobe is not installed: pip install -e '.[bench]'")
    return found


def scan(target: Tree, *options: str) -> Measure:
    """Measure envprobe itself; the answer says how many workers it read rightly.

    Without --no-python the value must be right in os.environ too, and each interpreter be read.
    """
    inside = NO_PYTHON not in options

    def answers(done: list[tuple[int, str]]) -> str:
        ((code, out),) = done
        (report,) = json.loads(out)["scans"]
        (launched,) = report["launches"]
        assert (code, set(launched["workers"])) == (0, set(target.workers)), code
        (algo,) = (one for one in report["variables"] if one["name"] == "NCCL_ALGO")
        right = {
            one["pid"]
            for one in algo["readings"]
            if all(
                one["views"].get(view, {}).get("value") == {"text": "Ring"}
                for view in (("libc", "python") if inside else ("libc",))
            )
        }
        return f"{len(right.intersection(target.workers))} of {len(target.workers)} right"

    command = [envprobe(), "workers", "--pid", str(target.root), "--format", "json", *options]
    return Measure(" ".join(("envprobe workers", *options)), [command], answers)


def psutil_environ(target: Tree) -> Measure:
    """Measure psutil, all processes in one interpreter."""
    pids = map(str, target.workers)
    command = [sys.executable, "-I", "-c", PSUTIL, *pids]
    return Measure(
        "psutil.Process.environ()",
        [command],
        lambda done: f"{done[0][1].strip()} of {len(target.workers)} right",
    )


def peers(target: Tree) -> Iterator[Measure]:
    """Yield what of the other tools is installed: they take one process a run."""
    here = os.path.dirname(sys.executable)
    wanted: dict[str, tuple[str, Callable[[str], list[str]], str]] = {
        "py-spy dump --nonblocking": ("py-spy", lambda p: ["dump", "--nonblocking", "-p", p], ""),
        "pystack remote --no-block": ("pystack", lambda p: ["remote", "--no-block", p], ""),
        "gdb, getenv": ("gdb", lambda p: [*GDB[:2], "-p", p, *GDB[2:]], '"Ring"'),
    }
    for name, (program, options, right) in wanted.items():
        path = shutil.which(program, path=f"{here}:{os.environ.get('PATH', os.defpath)}")
        if path is None:
            print(f"{name}: not installed", file=sys.stderr)
            continue

        def answers(done: list[tuple[int, str]], right: str = right) -> str:
            good = sum(code == 0 and right in out and bool(out) for code, out in done)
            return f"{good} of {len(done)} {'right' if right else 'stacks'}"

        yield Measure(name, [[path, *options(str(pid))] for pid in target.workers], answers)


def start_up(dead: int) -> tuple[Measure, Measure]:
    """Measure the help, and what comes before the first read."""
    return (
        Measure("envprobe --help", [[envprobe(), "--help"]], lambda done: f"exit {done[0][0]}"),
        Measure(
            "envprobe workers --pid ZOMBIE",
            [[envprobe(), "workers", "--pid", str(dead)]],
            lambda done: f"exit {done[0][0]}",
        ),
    )


# --- report ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Goal:
    """What was aimed at and what was reached."""

    name: str
    unit: str
    limit: float
    reached: float

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.reached < self.limit

    def __str__(self) -> str:
        """Return a row of a table."""
        verdict = "met" if self.met else "MISSED"
        return (
            f"| {self.name} | {self.limit:g} {self.unit} | {self.reached:.3g} {self.unit} |"
            f" {verdict} |"
        )


def table(measures: Sequence[Measure], count: int, own: Measure) -> None:
    """Print one tree's measures, each against envprobe."""
    print(f"\n{count} workers:\n")
    print(
        "| command | median s | lowest to highest | cpu s | per worker ms | ratio | peak MB"
        " | answer |\n|---|---|---|---|---|---|---|---|"
    )
    for one in measures:
        print(
            f"| {one.name} | {one.median:.3f} | {one.spread} | {statistics.median(one.cpu):.3f}"
            f" | {one.median / count * 1e3:.1f}"
            f" | {one.median / own.median:.2f} | {one.peak:.0f} | {one.answer} |"
        )


def machine() -> str:
    """Describe where this runs."""
    load = os.getloadavg()[0]
    return (
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, Linux {platform.release()},"
        f" Python {platform.python_version()}, load before the run {load:.1f}"
    )


def measured(options: argparse.Namespace) -> list[Goal]:
    """Run everything, print the tables, and return the goals."""
    few, many = options.workers
    print(f"{machine()}; {options.rounds} rounds, {options.mappings} mappings a worker")
    with tree(few, options.mappings) as small, zombie() as dead:
        at_few, bare_few = scan(small), scan(small, NO_PYTHON)
        help_, first = start_up(dead)
        beside = [at_few, bare_few, psutil_environ(small), *peers(small)]
        rounds([*beside, help_, first], options.rounds)
    table(beside, few, at_few)
    with tree(many, options.mappings) as large:
        at_many, bare_many = scan(large), scan(large, NO_PYTHON)
        all_many = [at_many, bare_many, psutil_environ(large)]
        rounds(all_many, options.rounds)
    table(all_many, many, at_many)
    print(
        f"\nStart-up: --help {help_.spread} s, cpu {statistics.median(help_.cpu):.3f} s; before the"
        f" first read {first.spread} s, cpu {statistics.median(first.cpu):.3f} s"
    )
    slope = (at_many.median - at_few.median) / (many - few) * 1e3
    bare = (bare_many.median - bare_few.median) / (many - few) * 1e3
    return [
        Goal(f"`envprobe workers`, {few} workers", "s", 0.4, at_few.median),
        Goal(f"each further worker, {NO_PYTHON}", "ms", 3.0, bare),
        Goal("each further worker, read inside", "ms", 15.0, slope),
        Goal(f"peak memory, {many} workers", "MB", 80.0, at_many.peak),
        Goal("`envprobe --help`", "s", 0.12, help_.median),
        Goal("start-up before the first read", "s", 0.15, first.median),
    ]


def main() -> int:
    """Measure, or be a launcher; with --check a missed goal is exit code 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int, nargs=2, default=(8, 256), metavar=("FEW", "MANY"))
    parser.add_argument("--mappings", type=int, default=3000)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--launch", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch(*options.launch)
    goals = measured(options)
    print("\n| goal | at most | reached | |\n|---|---|---|---|")
    print(*goals, sep="\n")
    return int(options.check and not all(goal.met for goal in goals))


if __name__ == "__main__":
    sys.exit(main())
