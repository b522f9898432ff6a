"""The check `duplicate-variable`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Sentence, Shown, View
from envprobe.values import Value

_NAMED: Final = 12


@dataclasses.dataclass(frozen=True, slots=True)
class _Duplicate:
    name: str
    pid: int
    view: View
    values: tuple[Value | None, ...]

    @property
    def harmless(self) -> bool:
        """Whether all values are known and the same."""
        return None not in self.values and len(set(self.values)) == 1


def _run(context: Context) -> Iterator[Finding]:
    relevant = set(context.routing.names)
    others: list[_Duplicate] = []
    for (name, harmless), group in who.folded(
        _duplicates(context), lambda one: (one.name, one.harmless)
    ).items():
        if name in relevant:
            yield _finding(context, group, Severity.INFO if harmless else Severity.WARNING)
        else:
            others += group
    if others:
        yield _of_other_names(context, others)


def _of_other_names(context: Context, group: list[_Duplicate]) -> Finding:
    names = tuple(dict.fromkeys(one.name for one in group))
    pids = tuple(dict.fromkeys(one.pid for one in group))
    return Finding(
        check=CHECK.slug,
        severity=Severity.INFO,
        message=Sentence.of(
            f"{who.some(names, _NAMED)} {'is' if len(names) == 1 else 'are'} there more than once"
            f" in {who.in_words(context, pids)}, but not known to matter."
        ),
        pids=pids,
        variable=names[0] if len(names) == 1 else "",
        remedy=Sentence.of("Nothing needs to be done. --var NAME shows the values of a variable."),
    )


def _duplicates(context: Context) -> Iterator[_Duplicate]:
    for process in context.routing.snapshot.processes:
        for view in (View.EXEC, View.LIBC):
            read = process.environment(view)
            for name, later in read.duplicates.items():
                values = (read.entries.get(name), *later)
                yield _Duplicate(name, process.pid, view, values)


def _finding(context: Context, group: list[_Duplicate], severity: Severity) -> Finding:
    first = group[0]
    pids = tuple(dict.fromkeys(one.pid for one in group))
    views = who.listed(dict.fromkeys(f"{one.view.value} view" for one in group))
    shown: list[str | Shown] = []
    for number, value in enumerate(first.values[: who.NAMED]):
        word = "first " if not number else ", then "
        shown += [word, "a value that was not read" if value is None else Shown(first.name, value)]
    return Finding(
        check=CHECK.slug,
        severity=severity,
        message=Sentence(
            (
                f"{first.name} is there {len(first.values)} times in the {views} of"
                f" {who.in_words(context, pids)}: ",
                *shown,
                ". getenv and Python take the first, dash and bash pass on the last.",
            )
        ),
        pids=pids,
        variable=first.name,
        remedy=Sentence.of(
            f"Find the program that builds this environment by hand (an execve with {first.name}"
            " twice) and let it set the variable once."
        ),
    )


CHECK = Check(
    id="EP015",
    slug="duplicate-variable",
    severity=Severity.WARNING,
    summary="A variable is there more than once in one environment.",
    why="The C library and Python take the first entry, dash and bash hand on the last one, and a"
    " tool that reads the block into a table keeps one or the other. So two programs of one server"
    " can see different values of one variable.",
    mend="Find the program that builds the environment by hand, and let it set the variable once.",
    run=_run,
)
