"""The unit in front of a server as lines, and as a part of the JSON report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envprobe import redact
from envprobe.checks.who import moment
from envprobe.unitfacts import Entry, UnitFacts

_LIMIT = 400


def lines(unit: UnitFacts) -> Iterator[str]:
    """Yield what is declared and by which files, and through which programs it goes, harmless."""
    shown = redact.show_text
    yield (
        f"unit {shown(unit.name)} of {unit.manager}: {shown(unit.active)} ({shown(unit.sub)}), main"
        f" process {unit.main_pid}, started at {moment(unit.started)}"
    )
    yield f"declared in {', '.join(shown(path, _LIMIT) for path in (*unit.files, *unit.env_files))}"
    for one in unit.hops:
        told = f" {shown(one.told, _LIMIT)}" if one.told else ""
        stays = " (stays: it is the main process)" if one.child else ""
        yield f"through {shown(one.program)} at {shown(one.place, _LIMIT)}:{told}{stays}"
    if unit.opaque:
        yield f"could not tell at {shown(unit.opaque, _LIMIT)}"
    elif unit.program:
        yield f"to {shown(unit.program, _LIMIT)}"


def document(unit: UnitFacts) -> dict[str, Any]:
    """Return what the JSON report says of the unit; its values are those of the declared view."""
    shown = redact.show_text
    return {
        "name": shown(unit.name),
        "user_manager": unit.user_manager,
        "asked": unit.asked,
        "load_state": shown(unit.load_state),
        "load_error": shown(unit.load_error) or None,
        "active": shown(unit.active),
        "sub": shown(unit.sub),
        "result": shown(unit.result),
        "restarts": unit.restarts,
        "job": unit.job,
        "need_daemon_reload": unit.need_reload,
        "main_pid": unit.main_pid,
        "started": unit.started,
        "active_since": unit.active_since,
        "state_changed": unit.state_changed,
        "files": [_file(path, unit) for path in unit.files],
        "scripts": [_file(path, unit) for path in unit.scripts],
        "env_files": [_file(path, unit) for path in unit.env_files],
        "unloaded": [shown(path) for path in unit.unloaded],
        "hops": [
            {
                "program": shown(one.program),
                "place": shown(one.place),
                "told": shown(one.told),
                "child": one.child,
            }
            for one in unit.hops
        ],
        "program": shown(unit.program),
        "opaque": shown(unit.opaque) or None,
        "entries": [_entry(one) for one in unit.declared],
        "behind_wrappers": [_entry(one) for one in unit.handed] if unit.hops else [],
    }


def _file(path: str, unit: UnitFacts) -> dict[str, Any]:
    return {"path": redact.show_text(path), "changed": unit.modified.get(path)}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "name": redact.show_name(entry.name),
        "source": entry.source,
        "place": redact.show_text(entry.place) or None,
        "removed_by": redact.show_text(entry.removed) or None,
        "doubt": redact.show_text(entry.doubt) or None,
    }
