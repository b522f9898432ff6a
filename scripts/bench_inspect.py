"""How long three questions to each of 8 workers take, beside tools that read stacks.

    python scripts/bench_inspect.py [--rounds 9] [--workers 8] [--modules 2000] [--mappings 3000]
                                    [--check]

The targets are those of bench_workers.py, and each has imported 2,000 modules from files; a
sitecustomize has replaced a method of a class in the last one. The questions are which
sitecustomize was loaded, what the method is, and the value of a counter. Three ways to ask:

  reader       one program that asks all workers, as a scan does: envprobe.cpython alone
  inspection   the same with what `envprobe inspect` adds: sys.path and flags, both hooks,
               os.environ, the files on the disk, and all reads in children that can be killed
  inspect      the command `envprobe inspect`, once for each worker

py-spy and pystack read stacks, one worker a run: they stand for what reading a process's memory
costs other tools. All take turns; medians are shown, wall clock and processor time from start to
end, start-up included. Needs the extra `bench`; tools that are missing are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bench_workers as common

ASKER = Path(__file__).resolve().with_name("bench_inspect_asker.py")
FOLDER = "ENVPROBE_BENCH_FOLDER"
PACKAGE = "models"
FAMILIES = 20
GOAL_MS = 60.0
MODULE = """
import functools

TABLE = {name: len(name) for name in ("alpha", "beta", "gamma", "delta")}
COUNTER = 5


class Backend:
    def forward(self, batch):
        return [TABLE.get(one) for one in batch]

    def decode(self, batch):
        return self.forward(batch)


@functools.lru_cache
def size(name, scale=1):
    return TABLE[name] * scale
"""
HOOK = """
def forward(self, batch):
    return []


def patch(module):
    module.Backend.forward = forward
"""


# --- targets --------------------------------------------------------------------------------------


def module_name(number: int) -> str:
    """Return the name of one module; their lengths differ as those of real ones do."""
    return f"{PACKAGE}.family_{number % FAMILIES}.{'layer' * (number % 7)}_{number}"


def write_modules(folder: Path, count: int) -> list[str]:
    """Write the modules and the hook; return the modules' names in the order of import."""
    names = [module_name(number) for number in range(count)]
    for name in names:
        file = folder.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(MODULE)
    (folder / "sitecustomize.py").write_text(HOOK)
    (folder / "names.json").write_text(json.dumps(names))
    return names


def work(rank: int, mappings: int, ready: Any, launcher: int) -> None:
    """Import all modules, have the hook replace a method in the last one, be a worker."""
    names = json.loads(Path(os.environ[FOLDER], "names.json").read_text())
    modules = [importlib.import_module(name) for name in names]
    importlib.import_module("sitecustomize").patch(modules[-1])
    common.work(rank, mappings, ready, launcher)


@contextlib.contextmanager
def tree(options: argparse.Namespace) -> Iterator[tuple[common.Tree, list[str]]]:
    """Start the workers and end them; give the questions too."""
    with tempfile.TemporaryDirectory() as folder:
        last = write_modules(Path(folder), options.modules)[-1]
        questions = ["sitecustomize", f"{last}:Backend.forward", f"{last}:COUNTER"]
        variables = {"PYTHONPATH": folder, FOLDER: folder}
        with common.tree(options.workers, options.mappings, __file__, variables) as target:
            yield target, questions


# --- envprobe -------------------------------------------------------------------------------------


def in_one_process(
    name: str, how: str, pids: Sequence[int], questions: list[str]
) -> common.Measure:
    """Measure one program that asks all the processes."""
    command = [sys.executable, str(ASKER), how, json.dumps(questions), *map(str, pids)]
    return common.Measure(
        name, [command], lambda done: f"{done[0][1].strip()} of {len(pids)} right"
    )


def commands(pids: Sequence[int], questions: list[str]) -> common.Measure:
    """Measure the command line, one run for each process."""

    def answers(done: list[tuple[int, str]]) -> str:
        right = 0
        for code, out in done:
            hook, method, counter = json.loads(out)["answers"]
            assert code == 0, code
            right += (
                method["callable"]["file"] == hook["module"]["file"]
                and counter["value"]["text"] == "5"
            )
        return f"{right} of {len(done)} right"

    command = [common.envprobe(), "inspect", *questions, "--format", "json", "--pid"]
    return common.Measure("envprobe inspect", [[*command, str(pid)] for pid in pids], answers)


# --- report ---------------------------------------------------------------------------------------


def table(measures: Sequence[common.Measure], count: int, own: common.Measure) -> None:
    """Print the measures for one worker, each against the reader."""
    print(
        "| command | wall ms | lowest to highest | cpu ms | wall ratio | cpu ratio | peak MB"
        " | answer |\n|---|---|---|---|---|---|---|---|"
    )
    base = statistics.median(own.cpu)
    for one in measures:
        cpu = statistics.median(one.cpu)
        low, high = (1e3 * limit(one.seconds) / count for limit in (min, max))
        print(
            f"| {one.name} | {one.median / count * 1e3:.1f} | {low:.1f} to {high:.1f}"
            f" | {cpu / count * 1e3:.1f} | {one.median / own.median:.2f} | {cpu / base:.2f}"
            f" | {one.peak:.0f} | {one.answer} |"
        )


def measured(options: argparse.Namespace) -> common.Goal:
    """Run everything, print the table, and return the goal."""
    count = options.workers
    print(
        f"{common.machine()}; {options.rounds} rounds, {count} workers,"
        f" {options.modules} modules and {options.mappings} mappings each;"
        f" for one worker, start-up included:\n"
    )
    with tree(options) as (target, questions):
        pids = target.workers
        reader = in_one_process("reader, one process for all", "reader", pids, questions)
        alone = in_one_process("start-up alone", "reader", (), questions)
        beside = [
            reader,
            in_one_process("inspection, one process for all", "inspection", pids, questions),
            commands(pids, questions),
            *(one for one in common.peers(target) if not one.name.startswith("gdb")),
        ]
        common.rounds([*beside, alone], options.rounds)
    table(beside, count, reader)
    further, work_of = (
        (statistics.median(whole) - statistics.median(start)) / count * 1e3
        for whole, start in ((reader.seconds, alone.seconds), (reader.cpu, alone.cpu))
    )
    print(
        f"\nThe reader's program without its start-up ({alone.median:.3f} s, cpu"
        f" {statistics.median(alone.cpu):.3f} s): {further:.1f} ms a worker, cpu {work_of:.1f} ms"
    )
    return common.Goal(
        "reader, three questions, each worker", "ms", GOAL_MS, reader.median / count * 1e3
    )


def main() -> int:
    """Measure, or be a launcher; with --check a missed goal is exit code 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--modules", type=int, default=2000)
    parser.add_argument("--mappings", type=int, default=3000)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--launch", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        count, mappings = options.launch
        common.launch(count, mappings, work)
    goal = measured(options)
    print("\n| goal | at most | reached | |\n|---|---|---|---|")
    print(goal)
    return int(options.check and not goal.met)


if __name__ == "__main__":
    sys.exit(main())
