"""Whether a scan slows down what it looks at: a 10 Hz scan beside two programs that never rest.

    python scripts/bench_interference.py [--pairs 40] [--seconds 0.5] [--hertz 10] [--mappings 3000]

The target (tests/programs/c/busy.c) computes, or maps, touches and unmaps memory, which needs the
lock of its address space for writing while a scan needs it for reading. It counts its rounds, and
its rate is that of the time in which it did not wait for a processor (schedstat; proc_pid_schedstat
in Documentation/scheduler/sched-stats.rst): other programs of the machine do not count, waiting for
its own lock does. The target has the last processor, the scans have the first one.

Two kinds of windows take turns (AB, BA, AB, ...); each pair gives one ratio of the two rates, so
that slow changes of the machine fall out. The mean of the ratios is shown with its 95 % interval
(bootstrap). "Noise" compares nothing with nothing. Two processors may share one core, and then any
work on one slows the other: where the windows without scans of the target have scans of an idle
process with as many mappings instead, what is left is what reading the target costs it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import platform
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from envprobe.collect import Request, collect
from envprobe.model import EnvironmentStatus, View
from envprobe.redact import DEFAULT_WANTED

SOURCE = Path(__file__).resolve().parents[1] / "tests" / "programs" / "c" / "busy.c"
RESAMPLES = 10_000
Scan = Callable[[], object]


class Target:
    """A running target that counts its rounds."""

    def __init__(self, pid: int, counter: Path) -> None:
        self.pid = pid
        self._counter = counter

    def rounds(self) -> int:
        """Return how many rounds it has worked."""
        with open(self._counter, "rb") as file:
            return int(struct.unpack("<Q", file.read(8))[0])

    def waited(self) -> float:
        """Return how many seconds it has waited for a processor, 0 where the kernel hides it."""
        try:
            with open(f"/proc/{self.pid}/schedstat", "rb") as file:
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0


@contextlib.contextmanager
def running(mode: str, mappings: int, processor: int) -> Iterator[Target]:
    """Build and start the target on one processor, and end it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("a C compiler is needed (cc or gcc)")
    with tempfile.TemporaryDirectory() as folder:
        program, counter = Path(folder, "busy"), Path(folder, "rounds")
        subprocess.run([compiler, "-O1", "-o", str(program), str(SOURCE)], check=True)
        counter.write_bytes(bytes(4096))
        command = ["sglang::scheduler_TP0", mode, str(counter), str(mappings)]
        process = subprocess.Popen(
            command, executable=str(program), stdout=subprocess.PIPE, env={"NCCL_ALGO": "Ring"}
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise SystemExit("the target did not start")
            os.sched_setaffinity(process.pid, {processor})
            yield Target(process.pid, counter)
        finally:
            process.kill()
            process.communicate()


def window(target: Target, seconds: float, scan: Scan | None, period: float) -> tuple[float, int]:
    """Return the target's rounds a second over a window, and how many scans were made in it."""
    rounds, waited, began = target.rounds(), target.waited(), time.perf_counter()
    scans, due = 0, began
    while (now := time.perf_counter()) < began + seconds:
        if scan is not None and now >= due:
            scan()
            scans += 1
            due += period
        else:
            limit = began + seconds if scan is None else min(due, began + seconds)
            time.sleep(max(0.0, limit - time.perf_counter()))
    spent = time.perf_counter() - began - (target.waited() - waited)
    return (target.rounds() - rounds) / spent, scans


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two kinds of windows: the scans in the one, the scans in the other, how often."""

    name: str
    without: Scan | None
    with_it: Scan | None
    period: float = 1.0


def ratios(
    target: Target, options: argparse.Namespace, one: Comparison
) -> tuple[list[float], float]:
    """Return the ratio of the two rates for each pair of windows, and the scans a second."""
    found: list[float] = []
    scans = 0
    for pair in range(options.pairs):
        rates: dict[bool, float] = {}
        for second in (False, True) if pair % 2 == 0 else (True, False):
            scan = one.with_it if second else one.without
            rates[second], made = window(target, options.seconds, scan, one.period)
            scans += made if second else 0
        found.append(rates[True] / rates[False])
    return found, scans / (options.pairs * options.seconds)


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval (percentile bootstrap), as changes in percent."""
    chance = random.Random(0)
    logs = [math.log(value) for value in values]
    means = sorted(statistics.fmean(chance.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    cut = RESAMPLES * 25 // 1000
    return tuple(  # type: ignore[return-value]
        (math.exp(one) - 1) * 100 for one in (statistics.fmean(logs), means[cut], means[-cut])
    )


def scan_of(target: Target) -> Scan:
    """Return a scan of one process, as `envprobe workers --pid` makes it."""
    request = Request((target.pid,), DEFAULT_WANTED)

    def scan() -> None:
        found = collect(request).process(target.pid)
        view = found.environment(View.LIBC) if found else None
        if view is None or view.status is not EnvironmentStatus.COMPLETE:
            raise SystemExit("the target could not be read")

    return scan


def report(name: str, found: list[float], rate: float) -> None:
    """Print one line of the table."""
    mean, low, high = interval(found)
    print(f"| {name} | {rate:.1f} | {mean:+.2f} % | {low:+.2f} % to {high:+.2f} % |", flush=True)


def main() -> int:
    """Measure both programs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--hertz", type=float, default=10.0)
    parser.add_argument("--mappings", type=int, default=3000)
    options = parser.parse_args()
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[0]})
    print(
        f"{time.strftime('%Y-%m-%d')}, {len(processors)} cores, Linux {platform.release()},"
        f" load before the run {os.getloadavg()[0]:.1f}; {options.pairs} pairs of windows of"
        f" {options.seconds:g} s, {options.mappings} mappings\n"
    )
    print("| target | scans/s | change of its rate | 95 % interval |\n|---|---|---|---|")
    last = processors[-1]
    for mode, name in (("loop", "busy loop"), ("faults", "mmap, touch, munmap")):
        with (
            running(mode, options.mappings, last) as target,
            running("idle", options.mappings, last) as idle,
        ):
            own, other, hertz = scan_of(target), scan_of(idle), options.hertz
            for one in (
                Comparison(f"{name}: noise", None, None),
                Comparison(f"{name}: {hertz:g} Hz against none", None, own, 1 / hertz),
                Comparison(f"{name}: {hertz:g} Hz against idle process", other, own, 1 / hertz),
                Comparison(f"{name}: without pause against idle process", other, own, 0.0),
            ):
                report(one.name, *ratios(target, options, one))
    return 0


if __name__ == "__main__":
    sys.exit(main())
