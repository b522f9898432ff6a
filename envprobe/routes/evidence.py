"""What speaks for and against a cause, apart from the times of other children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.model import Process, Sentence, View
from envprobe.routes.case import Case, had
from envprobe.routes.programs import filters
from envprobe.routes.witnesses import same, stand_in

_NUMA_WRAPPER: Final = "SGLANG_NUMA_BIND_V2"


def both_ends(case: Case) -> tuple[Sentence, ...]:
    """Return what was read before and after; another process's block tells nothing of this one."""
    ends = [index for index in (case.before, case.after) if case.stops[index].reading.known]
    return tuple(had(case, index) for index in ends if not _stands_in(case, index))


def came_so(case: Case, process: Process) -> tuple[Sentence, ...]:
    """Return what was read in place of a process's exec block, if that is the new state already."""
    given = [index for index, stop in enumerate(case.stops) if stop.pid == process.pid]
    alike = [index for index in given if same(case.stops[index].reading, case.new)]
    return tuple(had(case, index) for index in alike if _stands_in(case, index))


def _stands_in(case: Case, index: int) -> bool:
    return stand_in(case.stops[index].view, case.stops[index].reading)


def os_environ_alike(case: Case, child: Process, parent: Process) -> Iterator[Sentence]:
    """Say so if the child has what stands in the parent's os.environ: env=os.environ gives that."""
    python = parent.environment(View.PYTHON).reading(case.name)
    if same(python, case.new) and not same(python, case.old):
        yield Sentence.of(
            f"The os.environ of {parent.named} says the same as {child.named}:"
            " env=os.environ hands over that mapping, not the C environ."
        )


def of_edge(process: Process) -> tuple[Sentence, ...]:
    """Return what the edge into a process rests on."""
    return tuple(Sentence.of(f"{one}.") for one in process.edge.evidence)


def known_filter(case: Case, launcher: str) -> Iterator[Sentence]:
    """Say what a program is known to do to the variable without being asked."""
    known = filters(launcher, case.name)
    if known:
        yield Sentence.of(f"{known}.")


def duplicate(case: Case, parent: Process | None) -> Iterator[Sentence]:
    """Say so if a program was given the variable more than once: it may pass on another one."""
    if parent and case.name in parent.environment(View.EXEC).duplicates:
        yield Sentence.of(
            f"{parent.named} was given {case.name} more than once: a shell may pass on the last"
            " of them (dash and bash do, measured), where getenv takes the first."
        )


def program_hints(case: Case, child: Process, parent: Process) -> Iterator[Sentence]:
    """Return what speaks for a program that exec'd between a parent and its child."""
    if child.exe and parent.exe and child.exe != parent.exe:
        yield Sentence.of(f"{child.named} runs another executable than {parent.named}.")
    if any(case.family.anywhere(one, _NUMA_WRAPPER) for one in (child, parent)):
        yield Sentence.of(
            f"{_NUMA_WRAPPER} is set: SGLang then starts each scheduler through a shell script"
            " with numactl."
        )
