"""A configuration made from a server as it is: what all its workers share is what is expected."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe import redact
from envprobe.checks import hooked, who
from envprobe.checks.finding import Context
from envprobe.checks.sources import Source, sources_of
from envprobe.errors import UndeterminedError, UsageError
from envprobe.expectations import checked_name
from envprobe.model import Process, Reading, State, View
from envprobe.patchexpect import normal
from envprobe.pythonfacts import HOOKS, AnswerState
from envprobe.routes import variables
from envprobe.values import Value

_MAX_TEXT: Final = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """What is expected from now on, and what was left out, with the reason.

    `hooks` maps the name of a start-up hook to its file, `patches` a question to a module or path.
    """

    host: str
    pid: int
    environment: dict[str, str]
    left_out: dict[str, str]
    workers: dict[str, int]
    hooks: dict[str, str]
    patches: dict[str, str]


def build(context: Context, queries: Iterable[str] = ()) -> Baseline:
    """Return what all workers of a scan share.

    `queries` are what was asked besides: a question about an attribute, or the name of a start-up
    hook. Raises UndeterminedError if anything that is needed was not read in every worker.
    """
    workers = who.workers(context)
    launches = context.routing.launches
    if not workers or len(launches) != 1:
        raise UndeterminedError(
            f"{len(launches)} launches with {len(workers)} workers were found: a baseline is made"
            " of one server with workers",
            "Name the server's launcher with --pid.",
        )
    environment: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name in context.routing.names:
        readings = _readings(name, workers)
        if any(one.state is not State.ABSENT for one in readings):
            text, reason = _shared(name, readings)
            if text is None:
                left_out[name] = reason
            else:
                environment[name] = text
    asked = tuple(dict.fromkeys(queries))
    return Baseline(
        host=context.routing.snapshot.host,
        pid=launches[0].launcher,
        environment=environment,
        left_out=left_out,
        workers=dict(Counter(one.role.name for one in workers)),
        hooks={one: _hook(one, workers) for one in asked if one in HOOKS},
        patches={one: _patch(one, workers) for one in asked if one not in HOOKS},
    )


def dumps(baseline: Baseline) -> str:
    """Return the configuration as TOML; what was left out is listed in comments."""
    return "\n".join(_lines(baseline)) + "\n"


# --- the environment -----------------------------------------------------------------------------


def _readings(name: str, workers: tuple[Process, ...]) -> list[Reading]:
    """Return what is known of a variable in each worker; UndeterminedError if it is not in one."""
    readings = [one.environment(View.LIBC).reading(name) for one in workers]
    unread = [one for one in readings if not one.known]
    if unread:
        shown = redact.show_name(name)
        raise UndeterminedError(
            f"{shown} could not be read in {len(unread)} of {len(workers)} workers",
            unread[0].remedy or "Run envprobe as root or as the user of the server.",
        )
    return readings


def _shared(name: str, readings: list[Reading]) -> tuple[str | None, str]:
    """Return the one value of a variable, or None and why it is left out."""
    design = variables.by_design(name)
    if design is not None and design.scope == "launch":
        return None, "each start has its own"
    values = {one.value for one in readings}
    if len(values) > 1:
        return None, "differs between workers"
    if design is not None and design.scope == "rank" and len(readings) == 1:
        return None, "each rank may have its own"
    return _text(name, values.pop())


def _text(name: str, value: Value | None) -> tuple[str | None, str]:
    assert value is not None
    if value.hidden or redact.holds_secret(name, value):
        return None, "looks like a credential"
    if value.truncated or value.length > _MAX_TEXT:
        return None, f"is longer than {_MAX_TEXT} bytes"
    try:
        text = value.reveal().decode("utf-8")
        checked_name(name, "baseline").encode("utf-8")
    except UnicodeError:
        return None, "is no UTF-8"
    except UsageError:
        return None, "a configuration cannot name it"
    return text, ""


# --- what is inside ------------------------------------------------------------------------------


def _hook(name: str, workers: tuple[Process, ...]) -> str:
    """Return the file of a start-up hook that every worker has loaded."""
    found = set()
    for process in workers:
        answer = process.inside.answer(name) if process.inside is not None else None
        file = hooked.loaded(answer)
        if not file:
            raise _unread(name, process)
        found.add(file if file == hooked.NOT_LOADED else normal(file, process.cwd) or file)
    return _only(name, found)


def _patch(query: str, workers: tuple[Process, ...]) -> str:
    """Return the module, else the file, that an attribute comes from in every worker."""
    found = set()
    for process in workers:
        answer = process.inside.answer(query) if process.inside is not None else None
        if answer is None or answer.state in (AnswerState.UNREADABLE, AnswerState.CHANGING):
            raise _unread(query, process)
        if answer.state is not AnswerState.VALUE:
            word = answer.state.value.replace("_", " ")
            raise UsageError(
                f"{query} is {word} in {process.named}: nothing can be expected of it",
                "Ask again after the first request, or leave it out.",
            )
        found.add(_origin(query, process, sources_of(answer).own))
    return _only(query, found)


def _origin(query: str, process: Process, own: tuple[Source, ...]) -> str:
    source = own[-1]
    for place in (*source.modules, *source.files):
        if source.is_from(place, process.cwd):
            return place
    raise UndeterminedError(
        f"where {query} in {process.named} comes from cannot be told",
        f"`envprobe inspect --pid {process.pid}` shows what it is.",
    )


def _only(what: str, found: set[str]) -> str:
    if len(found) == 1 and next(iter(found)) != hooked.NOT_LOADED:
        return found.pop()
    places = " and ".join(sorted(redact.show_text(one) for one in found))
    raise UsageError(
        f"{what} is {places} in the workers: no baseline can be made of it", "Leave it out."
    )


def _unread(what: str, process: Process) -> UndeterminedError:
    inside = process.inside
    return UndeterminedError(
        f"{what} could not be read in {process.named}",
        (inside.remedy if inside is not None else "") or "Run envprobe as root.",
    )


# --- as TOML -------------------------------------------------------------------------------------


def _lines(baseline: Baseline) -> Iterator[str]:
    host = redact.show_text(baseline.host, 40)
    yield f"# What all workers of PID {baseline.pid} on {host} shared: `envprobe workers --config`"
    yield "# holds a server to it. Take out what may change."
    if baseline.left_out:
        yield "#"
        yield "# Left out:"
    for name, reason in sorted(baseline.left_out.items()):
        yield f"#   {redact.show_name(name)}: {reason}"
    for table, entries in (
        ("expect.env", {_key(key): _quoted(text) for key, text in baseline.environment.items()}),
        ("expect.patch", {_key(key): _quoted(text) for key, text in baseline.patches.items()}),
        ("expect.workers", {_key(key): str(count) for key, count in baseline.workers.items()}),
    ):
        if entries:
            yield from ("", f"[{table}]")
        for key, text in sorted(entries.items()):
            yield f"{key} = {text}"
    for name, file in baseline.hooks.items():
        yield from ("", f"[expect.{name}]", f"file = {_quoted(file)}")


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return name if bare else _quoted(name)


def _quoted(text: str) -> str:
    """Return a basic string of TOML 1.0: JSON's escapes, and one for DEL, which TOML refuses."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
