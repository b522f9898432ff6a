"""Entries of [ignore] and [allow-unknown] that end on a day.

`check = {reason = "...", until = "2027-01-31"}` counts up to and on that day.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

from envprobe.errors import UsageError

_FORM: Final = 'Write check = {reason = "why", until = "2027-01-31"}, or check = "why".'


def split(
    name: str, table: Mapping[str, Any], refuse: Callable[[str, str, str], UsageError]
) -> tuple[dict[str, Any], dict[str, datetime.date]]:
    """Return the reason of each entry as it was written, and the last day of those that end.

    `name` is that of the table. `refuse` makes the UsageError that is raised: of a key, what is
    wrong with it, and a remedy.
    """
    reasons: dict[str, Any] = {}
    ends: dict[str, datetime.date] = {}
    for check, stated in table.items():
        reasons[check] = stated
        if not isinstance(stated, dict):
            continue
        unknown = set(stated) - {"reason", "until"}
        if unknown or "reason" not in stated:
            raise refuse(f"{name}.{check}", "needs reason, and takes until besides", _FORM)
        reasons[check] = stated["reason"]
        if "until" in stated:
            day = _day(stated["until"])
            if day is None:
                raise refuse(f"{name}.{check}", "until must be a day", _FORM)
            ends[check] = day
    return reasons, ends


def ended(day: datetime.date, today: datetime.date | None = None) -> bool:
    """Return whether a last day has passed, by this machine's calendar unless `today` is given."""
    return day < (today or datetime.date.today())


def _day(stated: Any) -> datetime.date | None:
    # A datetime is a date too, and says more than a day.
    if isinstance(stated, datetime.date) and not isinstance(stated, datetime.datetime):
        return stated
    try:
        return datetime.datetime.strptime(stated, "%Y-%m-%d").date()
    except (TypeError, ValueError):
        return None
