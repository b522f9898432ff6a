"""What became of each expected patch and hook, as JSON."""

from __future__ import annotations

from typing import Any

from envprobe import redact
from envprobe.checks import hooked, patched
from envprobe.checks.finding import Context
from envprobe.checks.hooked import Hooked
from envprobe.checks.patched import Patched


def documents(context: Context) -> dict[str, Any]:
    """Return the members `patches` and `hooks` of a scan: one entry for each expectation."""
    patches = context.once(patched.outcomes)
    hooks = context.once(hooked.outcomes)
    return {
        "patches": [
            {
                "query": redact.show_text(stated.query),
                "from": redact.show_text(stated.source),
                "role": redact.show_text(stated.role),
                "origin": redact.show_text(stated.origin),
                "processes": [_patch(one) for one in patches if one.expectation == stated],
            }
            for stated in context.config.patches
        ],
        "hooks": [
            {
                "name": stated.name,
                "file" if stated.exact else "from": redact.show_text(stated.source),
                "role": redact.show_text(stated.role),
                "origin": redact.show_text(stated.origin),
                "processes": [_hook(one) for one in hooks if one.expectation == stated],
            }
            for stated in context.config.hooks
        ],
    }


def _patch(one: Patched) -> dict[str, Any]:
    found = one.found.said if one.found is not None else ""
    return _process(one, found)


def _hook(one: Hooked) -> dict[str, Any]:
    return _process(one, one.found)


def _process(one: Patched | Hooked, found: str) -> dict[str, Any]:
    return {
        "pid": one.pid,
        "status": one.status.value,
        "found": redact.show_text(found),
        "reason": redact.show_text(one.reason),
        "remedy": redact.show_text(one.remedy),
    }
