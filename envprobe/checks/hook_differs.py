"""The check `hook-differs`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from envprobe.checks import hooked, who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.hooked import Hooked
from envprobe.checks.patched import Status
from envprobe.model import Confidence, EdgeKind, Process, Reading, Sentence, Shown, State, View
from envprobe.patchexpect import normal
from envprobe.pythonfacts import HOOKS, PythonFact
from envprobe.routes.types import Launch


def _run(context: Context) -> Iterator[Finding]:
    broken = [one for one in context.once(hooked.outcomes) if one.status is Status.BROKEN]
    groups = who.folded(broken, lambda one: (one.expectation, one.found, _cause(context, one)))
    for group in groups.values():
        yield _unexpected(context, group)
    stated = {one.name for one in context.config.hooks if not one.role}
    for launch in context.routing.launches:
        for name in HOOKS:
            if name not in stated:
                yield from _between_peers(context, launch, name)


def _cause(context: Context, outcome: Hooked) -> tuple[object, ...]:
    """Return what tells apart processes that have not loaded a hook for other reasons."""
    (process,) = who.processes(context, (outcome.pid,))
    if outcome.found != hooked.NOT_LOADED:
        return ()
    options = _options(process, outcome.expectation.name)
    return (*options, _variable(context, process).value)


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
            *_why(context, group[0], who.processes(context, pids)[0]),
        ),
        remedy=Sentence.of(_remedy(who.processes(context, pids)[0], expectation.name)),
    )


def _why(context: Context, outcome: Hooked, process: Process) -> Iterator[Sentence]:
    """Say what keeps the expected file from being loaded, as one of the processes shows it."""
    python = process.inside.python if process.inside is not None else None
    if python is None:
        return
    expectation = outcome.expectation
    yield from _by_option(process, expectation.name)
    source = normal(expectation.source, None) or ""
    folder = source.rpartition("/")[0] if expectation.exact else source
    yield from _by_variable(context, process, folder)
    places = [normal(entry, process.cwd) for entry in python.path]
    if folder not in places:
        yield Sentence.of(f"{folder} is not on its sys.path.")
        return
    entry = f"{folder} is entry {places.index(folder) + 1} of {len(places)} of its sys.path"
    if _is_spawned(process, python):
        yield Sentence.of(
            f"{entry} now: multiprocessing copied that from the parent after the hooks were loaded,"
            " so that it does not tell what was there before."
        )
    elif outcome.found == hooked.NOT_LOADED:
        yield Sentence.of(
            f"{entry}, yet no {expectation.name} is loaded: {folder} has none, or it raised an"
            " error, which is in the server's log."
        )
    else:
        yield Sentence.of(f"{entry}: the first entry that has the module wins.")


def _by_option(process: Process, hook: str) -> Iterator[Sentence]:
    for option in _options(process, hook):
        yield Sentence.of(
            f"The interpreter of PID {process.pid} runs with {option}: {_SAYS[option]}."
        )


def _options(process: Process, hook: str) -> list[str]:
    """Return the options of the interpreter that keep a hook out (Python/initconfig.c)."""
    python = process.inside.python if process.inside is not None else None
    flags = python.flags if python is not None else {}
    isolated = flags.get("isolated", 0) > 0
    found = ["-S"] if flags.get("no_site", 0) > 0 else []
    if isolated:
        found.append("-I")
    elif flags.get("ignore_environment", 0) > 0:
        found.append("-E")
    if flags.get("no_user_site", 0) > 0 and not isolated and hook == HOOKS[1]:
        found.append("-s")
    return found


def _by_variable(context: Context, process: Process, folder: str) -> Iterator[Sentence]:
    """Say what PYTHONPATH was when the process was started, or is where that is lost."""
    owner = who.process_of(context, process.image_owner) or process
    reading = _variable(context, process)
    if reading.state is State.ABSENT:
        yield Sentence.of(f"There is no PYTHONPATH in the environment of PID {owner.pid}.")
    elif reading.value is not None and not reading.value.truncated:
        entries = os.fsdecode(reading.value.reveal()).split(":")
        names = folder in [normal(entry, process.cwd) for entry in entries]
        yield Sentence(
            (
                "PYTHONPATH=",
                Shown("PYTHONPATH", reading.value),
                f" of PID {owner.pid} {'names' if names else 'does not name'} {folder}; of its"
                " folders the first that has the module counts, also if the module fails there.",
            )
        )


def _variable(context: Context, process: Process) -> Reading:
    """Return PYTHONPATH as the process's image was given it, else as its environ has it now.

    What was given to a sibling, from which a lost block is inferred, may be another value.
    """
    owner = who.process_of(context, process.image_owner) or process
    given = owner.environment(View.EXEC).reading("PYTHONPATH")
    proved = given.known and given.confidence is Confidence.PROVED
    return given if proved else process.environment(View.LIBC).reading("PYTHONPATH")


def _is_spawned(process: Process, python: PythonFact) -> bool:
    """Return whether multiprocessing.spawn has set sys.path (Lib/multiprocessing/spawn.py)."""
    return process.edge.kind is EdgeKind.SPAWN or "--multiprocessing-fork" in python.orig_argv


def _remedy(process: Process, hook: str) -> str:
    options = _options(process, hook)
    if not options:
        return _REMEDY
    return (
        f"Start the process without {' and '.join(options)}; multiprocessing passes the options of"
        " the parent on to the children that it spawns."
    )


def _between_peers(context: Context, launch: Launch, name: str) -> Iterator[Finding]:
    processes = who.processes(context, launch.workers)
    known = [(one, _loaded(one, name)) for one in processes]
    groups = who.folded([pair for pair in known if pair[1]], lambda pair: pair[1])
    if len(groups) < 2:
        return
    pids = {found: [one.pid for one, _ in group] for found, group in groups.items()}
    usual = max(pids, key=lambda found: len(pids[found]))
    without = who.processes(context, pids.get(hooked.NOT_LOADED, ()))
    ways = (f"{found} in {who.in_words(context, some)}" for found, some in pids.items())
    yield Finding(
        check=CHECK.slug,
        severity=Severity.WARNING,
        message=Sentence.of(
            f"{name} is not the same in all workers of {who.named(context, launch.launcher)}:"
            f" {'; '.join(ways)}."
        ),
        pids=tuple(pid for found, some in pids.items() if found != usual for pid in some),
        evidence=tuple(_by_option(without[0], name) if without else ()),
        remedy=Sentence.of(_remedy(without[0], name) if without else _REMEDY),
    )


def _loaded(process: Process, name: str) -> str:
    return hooked.loaded(process.inside.answer(name)) if process.inside is not None else ""


_SAYS = {
    "-S": "site, which loads the hooks, is not imported at its start",
    "-I": "PYTHONPATH and the user's folder do not count",
    "-E": "PYTHONPATH does not count",
    "-s": "the user's folder does not count",
}
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
