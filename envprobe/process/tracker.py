"""The witness without attach rights: the resource tracker's block in place of a worker's.

multiprocessing's spawn starts one `resource_tracker` per parent before the first child, from the
parent's C environ of that moment (CPython Lib/multiprocessing/popen_spawn_posix.py). It is never
retitled, and reading its block needs no right to attach.
"""

from __future__ import annotations

import dataclasses
import time

from envprobe.model import Confidence, Environment, EnvironmentStatus


def tracker_view(
    own: Environment,
    tracker: Environment,
    *,
    tracker_pid: int,
    tracker_start: float,
    worker_start: float,
) -> Environment:
    """Return a spawn child's exec view with its gaps filled from its tracker's exec view.

    The result is INFERRED and speaks for `tracker_start` (Unix seconds, as `worker_start`); what
    the child's own block still shows stays proved. Where nothing is missing, or the tracker's block
    is not whole, it is `own` unchanged. It never says anything of the libc view.
    """
    if own.status is EnvironmentStatus.COMPLETE or tracker.status is not EnvironmentStatus.COMPLETE:
        return own
    order = "before" if tracker_start <= worker_start else "after"
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(tracker_start))
    missing_duplicates = {
        name: values for name, values in tracker.duplicates.items() if name not in own.entries
    }
    return dataclasses.replace(
        own,
        status=EnvironmentStatus.COMPLETE,
        entries={**tracker.entries, **own.entries},
        duplicates={**missing_duplicates, **own.duplicates},
        source=f"the exec block of its sibling, resource tracker {tracker_pid}",
        at=tracker_start,
        confidence=Confidence.INFERRED,
        reason=f"{own.reason}; resource tracker {tracker_pid}, started at {moment}, "
        f"{abs(tracker_start - worker_start):.2f} s {order} it by the same parent, stands in: what "
        "the parent changed in between does not show",
        own=own,
    )
