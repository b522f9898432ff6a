"""All differences that count: inside a node's peer groups, and between the nodes of a job."""

from __future__ import annotations

from envprobe.checks import peers
from envprobe.checks.finding import Context


def all_differences(context: Context) -> tuple[peers.Difference, ...]:
    """Return the differences inside the peer groups, and those to the other nodes of a job."""
    if not context.beside:
        return context.once(peers.differences)
    # Slow to import: only `merge` has nodes beside each other.
    from envprobe.checks import across

    return (*context.once(peers.differences), *context.once(across.differences))


def told_of(context: Context) -> frozenset[tuple[int, str]]:
    """Return the (pid, variable) pairs of which a finding about a difference speaks."""
    return frozenset(
        (pid, one.name)
        for one in context.once(all_differences)
        if not one.told and peers.SLUGS[one.kind] not in context.config.ignore
        for pid in one.pids
    )
