"""The check `hook-differs`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import hooked, who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.hooked import Hooked
from envprobe.checks.patched import Status
from envprobe.config import HookExpectation
from envprobe.model import Process, Sentence
from envprobe.patchexpect import normal
from envprobe.pythonfacts import HOOKS
from envprobe.routes.types import Launch


def _run(context: Context) -> Iterator[Finding]:
    broken = [one for one in context.once(hooked.outcomes) if one.status is Status.BROKEN]
    for group in who.folded(broken, lambda one: (one.expectation, one.found)).values():
        yield _unexpected(context, group)
    stated = {one.name for one in context.config.hooks if not one.role}
    for launch in context.routing.launches:
        for name in HOOKS:
            if name not in stated:
                yield from _between_peers(context, launch, name)


def _unexpected(context: Context, group: list[Hooked]) -> Finding:
    expectation = group[0].expectation
    pids = tuple(one.pid for one in group)
    from_folder = "" if expectation.exact else "from "
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"{expectation.name} in {who.in_words(context, pids)} is {group[0].found}; expected:"
            f" {from_folder}{expectation.source}."
        ),
        pids=pids,
        evidence=(
            Sentence.of(f"Expected by {expectation.origin}."),
            *_why(expectation, who.processes(context, pids)[0]),
        ),
        remedy=Sentence.of(_REMEDY),
    )


def _why(expectation: HookExpectation, process: Process) -> Iterator[Sentence]:
    """Say what keeps the expected file from being loaded, as one of the processes shows it."""
    python = process.inside.python if process.inside is not None else None
    if python is None:
        return
    for flag, option in (("no_site", "-S"), ("no_user_site", "-s"), ("ignore_environment", "-E")):
        if python.flags.get(flag, 0) > 0 and (flag != "no_user_site" or "user" in expectation.name):
            yield Sentence.of(f"The interpreter of PID {process.pid} runs with {option} (or -I).")
    source = normal(expectation.source, None) or ""
    folder = source.rpartition("/")[0] if expectation.exact else source
    places = [normal(entry, process.cwd) for entry in python.path]
    if folder in places:
        yield Sentence.of(
            f"{folder} is entry {places.index(folder) + 1} of {len(places)} of its sys.path: the"
            " first entry that has the module wins."
        )
    else:
        yield Sentence.of(f"{folder} is not on its sys.path.")


def _between_peers(context: Context, launch: Launch, name: str) -> Iterator[Finding]:
    processes = who.processes(context, launch.workers)
    known = [(one, _loaded(one, name)) for one in processes]
    groups = who.folded([pair for pair in known if pair[1]], lambda pair: pair[1])
    if len(groups) < 2:
        return
    pids = {found: [one.pid for one, _ in group] for found, group in groups.items()}
    usual = max(pids, key=lambda found: len(pids[found]))
    ways = (f"{found} in {who.in_words(context, some)}" for found, some in pids.items())
    yield Finding(
        check=CHECK.slug,
        severity=Severity.WARNING,
        message=Sentence.of(
            f"{name} is not the same in all workers of {who.named(context, launch.launcher)}:"
            f" {'; '.join(ways)}."
        ),
        pids=tuple(pid for found, some in pids.items() if found != usual for pid in some),
        remedy=Sentence.of(_REMEDY),
    )


def _loaded(process: Process, name: str) -> str:
    return hooked.loaded(process.inside.answer(name)) if process.inside is not None else ""


_REMEDY = (
    "Compare PYTHONPATH of these processes, and look for another file of that name on the way:"
    " a distribution's own in the standard library's folder comes before that of a virtual"
    " environment. A hook that fails is not loaded either: its error is in the server's log."
)

CHECK = Check(
    id="EP027",
    slug="hook-differs",
    severity=Severity.ERROR,
    summary="A start-up hook is not the expected one, is not loaded, or differs between workers.",
    why="Only the first sitecustomize on sys.path runs; another one in front (Debian's, a"
    " profiler's, that of another PYTHONPATH entry) replaces it without a word. One that raised an"
    " error is not loaded, and the exit code stays 0; of an empty folder of that name nothing runs."
    " Workers that have another hook than their peers run other code.",
    mend="Compare PYTHONPATH and the interpreter's flags (-S, -E, -I) with those of a worker that"
    " has the hook, remove the file in front, or have it call the next one. State what is expected"
    " with [expect.sitecustomize] file = or from =.",
    run=_run,
)
