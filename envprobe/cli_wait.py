"""`--wait`: scan again and again until everything that is expected has been decided."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from envprobe import cli_output
from envprobe.errors import NotYetError, TargetGoneError, UndeterminedError

if TYPE_CHECKING:
    from envprobe.checks.finding import Context
    from envprobe.checks.verdict import Progress
    from envprobe.model import Snapshot

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 1.0


def wait(
    scan: Callable[[], Snapshot], context_of: Callable[[Snapshot], Context], timeout: float
) -> Snapshot:
    """Return the first scan in which all is decided, or the last one before `timeout` seconds.

    Progress goes to stderr. A launch that is not there yet is waited for; once a root has been
    seen, its end raises TargetGoneError, which says so, also when its number belongs to another
    process by then.
    """
    from envprobe.checks.verdict import progress

    started = time.monotonic()
    teller = _Teller(timeout)
    pause = _FIRST_PAUSE
    roots: dict[int, int] = {}
    while True:
        snapshot = _attempt(scan, roots, out_of_time=_left(started, timeout) <= 0)
        if snapshot is not None:
            _same_roots(snapshot, roots)
            found = progress(context_of(snapshot))
            if not found.decided:
                teller.tell(_words(found), time.monotonic() - started)
            if found.decided or _left(started, timeout) <= 0:
                teller.end()
                return snapshot
        else:
            teller.tell("no worker yet", time.monotonic() - started)
        time.sleep(max(min(pause, _left(started, timeout)), 0))
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _left(started: float, timeout: float) -> float:
    return started + timeout - time.monotonic()


def _attempt(
    scan: Callable[[], Snapshot], seen: dict[int, int], *, out_of_time: bool
) -> Snapshot | None:
    """Return one scan, or None if there is nothing to scan yet and time is left."""
    try:
        return scan()
    except NotYetError:
        if out_of_time:
            raise
        return None
    except TargetGoneError:
        if not seen:
            raise
        raise _ended(seen) from None
    except UndeterminedError:
        if seen and not any(os.path.exists(f"/proc/{pid}") for pid in seen):
            raise _ended(seen) from None
        if out_of_time:
            raise
        return None


def _ended(pids: Iterable[int]) -> TargetGoneError:
    named = ", ".join(str(pid) for pid in pids)
    return TargetGoneError(
        f"the server ended while it was waited for (process {named})",
        "Look in its log for the reason, start it again, and run envprobe with its new number.",
    )


def _same_roots(snapshot: Snapshot, seen: dict[int, int]) -> None:
    """Raise TargetGoneError if the number of a root now belongs to another process."""
    for pid in snapshot.roots:
        process = snapshot.process(pid)
        if process is None:
            continue
        ticks = process.identity.start_ticks
        if seen.setdefault(pid, ticks) != ticks:
            raise TargetGoneError(
                f"the server ended while it was waited for: the number {pid} now belongs to another"
                " process",
                "Look in its log for the reason, and give the number of the server that runs now.",
            )


def _words(found: Progress) -> str:
    counts = [
        f"{have} of {number} {role or ('worker' if number == 1 else 'workers')}"
        for role, (have, number) in found.counts.items()
    ]
    if found.undecided:
        counts.append(f"not decided yet: {len(found.undecided)}")
    return ", ".join(counts)


class _Teller:
    """Says how far it has come: one line that is rewritten on a terminal, else a line a change."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.terminal = sys.stderr.isatty()
        self.last = ""

    def tell(self, words: str, elapsed: float) -> None:
        if self.terminal:
            line = f"\r\x1b[Kwaiting: {words} ({elapsed:.0f} of {self.timeout:g} s)"
            cli_output.note(line, end="")
        elif words != self.last:
            cli_output.note(f"waiting: {words} ({elapsed:.0f} of {self.timeout:g} s)")
        self.last = words

    def end(self) -> None:
        if self.terminal and self.last:
            cli_output.note("\r\x1b[K", end="")
