"""What a rehearsal of a bare interpreter with 8 spawned children takes, beside a bare spawn of 8.

    python scripts/bench_rehearse.py [--rounds 5] [--python PYTHON] [--check]

Each round starts, one after the other and alternating which is first:

  bare       a script that spawns 8 children by multiprocessing, which do nothing, and joins them
  rehearsal  `envprobe rehearse --start-method spawn --workers 8 -- PYTHON -c pass`: the same number
             of children, each of which says what it has, the reading of all of them from outside,
             and the judgement

Printed are the medians of wall time and of processor time (user and system, with all children). The
ratios are those of processor time and of wall time, in the same run: what else runs on the machine
counts for both. `--check` fails if a rehearsal takes 1 s or more of processor time beyond what a
bare spawn takes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

WORKERS: Final = 8
GOAL_SECONDS: Final = 1.0
PROGRAM: Final = f"""
import multiprocessing

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=int) for _ in range({WORKERS})]
    for child in children:
        child.start()
    for child in children:
        child.join()
"""


class Cost(NamedTuple):
    """Seconds of one run."""

    wall: float
    processor: float


def measured(command: Sequence[str], codes: tuple[int, ...]) -> Cost:
    """Run a command to its end; its exit code must be one of `codes`."""
    before, began = os.times(), time.perf_counter()
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took, after = time.perf_counter() - began, os.times()
    if ran.returncode not in codes:
        raise SystemExit(ran.stderr.decode("utf-8", "replace"))
    user = after.children_user - before.children_user
    return Cost(took, user + after.children_system - before.children_system)


def main() -> int:
    """Measure and print; return 1 if --check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rehearsal = [sys.executable, "-I", "-m", "envprobe", "rehearse", "--start-method", "spawn"]
    rehearsal += ["--workers", str(WORKERS), "--", options.python, "-c", "pass"]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "bare.py"
        script.write_text(PROGRAM)
        runs = {"bare": ([options.python, str(script)], (0,)), "rehearsal": (rehearsal, (0,))}
        found: dict[str, list[Cost]] = {name: [] for name in runs}
        for number in range(options.rounds):
            order = list(runs) if number % 2 else list(reversed(runs))
            for name in order:
                found[name].append(measured(*runs[name]))
    bare, whole = (
        Cost(*(statistics.median(column) for column in zip(*found[name], strict=True)))
        for name in runs
    )
    for name, cost in (("bare", bare), ("rehearsal", whole)):
        print(f"{name:10} wall {cost.wall:.2f} s, processor {cost.processor:.2f} s")
    beyond = whole.processor - bare.processor
    print(f"processor: {whole.processor / bare.processor:.1f} times a bare spawn, {beyond:+.2f} s")
    print(f"wall:      {whole.wall / bare.wall:.1f} times a bare spawn")
    return 1 if options.check and beyond >= GOAL_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
