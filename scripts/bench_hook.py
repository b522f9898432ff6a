"""What a hook of `envprobe init-hook` adds to the start of an interpreter, beside an empty one.

    python scripts/bench_hook.py [--rounds 60] [--python PYTHON] [--check]

Each round starts an interpreter once for each sitecustomize.py, in another order, and measures its
import, in the state in which site imports it:

  empty          an empty file
  hook           a written hook with one patch
  hook, 20       the same with 20 patches
  no bytecode    a hook whose bytecode could not be kept, so that each start compiles it
  machinery      a file that only imports importlib.util, as hooks written by hand often do

The last column is the difference to the empty file; `--check` fails if it is 1 ms or more for the
hook.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from envprobe import inithook

GOAL_MS: Final = 1.0
PROGRAM: Final = """
import os, sys, time  # as site has done
sys.path.insert(0, sys.argv[1])
began = time.perf_counter_ns()
import sitecustomize
print(time.perf_counter_ns() - began)
"""


def write(folder: Path) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Write the files; return the directory and the options of Python for each."""
    patches = tuple(
        inithook.Patch(f"package{number}.module:Class.method", "mine.module:function")
        for number in range(20)
    )
    for name in ("empty", "machinery"):
        (folder / name).mkdir()
    (folder / "empty" / "sitecustomize.py").touch()
    (folder / "machinery" / "sitecustomize.py").write_text("import importlib.util\n")
    for name, count in (("one", 1), ("twenty", 20), ("uncached", 1)):
        inithook.write(inithook.Request(str(folder / name), patches[:count]))
    return {
        "empty": (folder / "empty", ()),
        "hook": (folder / "one", ()),
        "hook, 20": (folder / "twenty", ()),
        "no bytecode": (folder / "uncached", ("-B",)),
        "machinery": (folder / "machinery", ()),
    }


def start(python: str, folder: Path, options: tuple[str, ...]) -> float:
    """Start an interpreter once; return the milliseconds that the import took."""
    command = [python, "-I", "-S", *options, "-c", PROGRAM, str(folder)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return int(ran.stdout) / 1e6


def main() -> int:
    """Measure and print; return 1 if --check fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--check", action="store_true", help="fail if the hook costs 1 ms or more")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        ways = write(Path(name))
        times: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(options.rounds + 1):
            for way in random.sample(list(ways), len(ways)):
                taken = start(options.python, *ways[way])
                if number:  # the first round keeps the bytecode
                    times[way].append(taken)
    print("| sitecustomize.py | median ms | ratio | more than empty, ms |\n|---|---|---|---|")
    base = statistics.median(times["empty"])
    medians = {way: statistics.median(taken) for way, taken in times.items()}
    for way, median in medians.items():
        print(f"| {way} | {median:.3f} | {median / base:.1f} | {median - base:+.3f} |")
    return int(options.check and medians["hook"] - base >= GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
