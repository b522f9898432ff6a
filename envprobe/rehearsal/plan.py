"""What is rehearsed for one start: which framework, how many workers, by which start method."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from envprobe.errors import UsageError
from envprobe.rehearsal import frameworks, layout
from envprobe.rehearsal.frameworks import Framework
from envprobe.rehearsal.types import Choice, Plan
from envprobe.startup.declared import Start

_OPTIONS_FILE: Final = "--config"
_SIZES: Final = ("tp", "pp", "dp", "nodes", "tokenizers", "detokenizers")


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What of a plan was given; None: it is told from the command line.

    `expected` workers and the `otherwise` method count where neither it nor the framework tells.
    """

    workers: int | None = None
    framework: str | None = None
    method: str | None = None
    expected: int | None = None
    otherwise: str = ""


def make(start: Start, wanted: Wanted, version: str = "") -> Plan:
    """Return what to rehearse; `version` is that of the framework, "" for the newest known.

    A start method of "" is for the interpreter to choose. Raises UsageError for a framework or
    method that is not known, or a number of workers out of range.
    """
    python = start.declared.python
    assert python is not None
    chosen = _framework(wanted, frameworks.told_by(python))
    framework = frameworks.of(chosen.value, python)
    method = _method(framework, wanted, start.launch.environment)
    sizes, workers = _sizes(framework, wanted)
    most = frameworks.most_workers()
    nodes = layout.tree(framework, version or framework.newest, sizes, most)
    shell = framework.starts_through_shell(start.launch.environment)
    return Plan(
        framework=chosen,
        method=method,
        workers=workers,
        nodes=nodes,
        shell="hop" if shell and method.value == "spawn" else "",
        limits=tuple(_limits(framework, sizes, most)),
    )


def _framework(wanted: Wanted, told: str) -> Choice:
    if wanted.framework is None:
        return Choice(told, "by the command line")
    if wanted.framework not in frameworks.names():
        raise UsageError(
            f"--framework {wanted.framework}: it is not known how it starts its workers",
            f"Name one of {', '.join(frameworks.names())}.",
        )
    return Choice(wanted.framework, "--framework")


def _method(framework: Framework, wanted: Wanted, environment: Mapping[str, str]) -> Choice:
    if wanted.method is not None:
        if wanted.method not in frameworks.METHODS:
            raise UsageError(
                f"--start-method {wanted.method}: multiprocessing has no such start method",
                f"Name one of {', '.join(frameworks.METHODS)}.",
            )
        return Choice(wanted.method, "--start-method")
    value, told = framework.method(environment)
    if framework.name == frameworks.NONE and wanted.otherwise:
        return Choice(wanted.otherwise, "as SGLang and vLLM do, where nothing tells it")
    return Choice(value, told if value else "multiprocessing's own")


def _sizes(framework: Framework, wanted: Wanted) -> tuple[dict[str, int], Choice]:
    """Return how many ranks of each kind there are, and the number of workers with its reason."""
    if wanted.workers is not None:
        most = frameworks.most_workers()
        if not 0 < wanted.workers <= most:
            raise UsageError(f"--workers takes a number from 1 to {most}", "Write --workers 8.")
        sizes = dict.fromkeys(_SIZES, 1) | {"tp": wanted.workers, "node": 0}
        return sizes, Choice(str(wanted.workers), "--workers")
    given = {name: size for name in _SIZES if (size := framework.size(name)) is not None}
    if wanted.expected is not None and not given:
        sizes = dict.fromkeys(_SIZES, 1) | {"tp": wanted.expected, "node": 0}
        return sizes, Choice(str(wanted.expected), "[expect.workers]")
    if not framework.row:
        number = frameworks.default_workers()
        sizes = dict.fromkeys(_SIZES, 1) | {"tp": number, "node": 0}
        return sizes, Choice(str(number), "nothing tells how many there are")
    sizes = {**dict.fromkeys(_SIZES, 1), **{name: max(size, 1) for name, size in given.items()}}
    sizes["node"] = min(framework.size("node") or 0, sizes["nodes"] - 1)
    told = ", ".join(f"{name} {size}" for name, size in given.items() if name in ("tp", "pp", "dp"))
    told = told or f"no option of {framework.name} says more"
    return sizes, Choice(str(layout.wanted(framework, sizes)), told)


def _limits(framework: Framework, sizes: Mapping[str, int], most: int) -> Iterator[str]:
    there = layout.wanted(framework, sizes)
    if there > most:
        yield f"{most} of {there} workers are started: the others would start as these do"
    if sizes["nodes"] > 1:
        yield f"only the workers of node {sizes['node']} of {sizes['nodes']} are started here"
    if frameworks.has_option(framework.python.arguments, (_OPTIONS_FILE,)):
        yield "options in the file that --config names are not read"
    if sizes["tokenizers"] > 1:
        yield "tokenizer workers are not started: uvicorn starts them as it starts its own workers"
