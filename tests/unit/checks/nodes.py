"""Several scenes as the nodes of one job."""

from __future__ import annotations

from envprobe.checks.across import beside_each_other
from envprobe.checks.finding import Context
from envprobe.checks.registry import Result, run_all
from envprobe.expectations import parse
from tests.unit.checks.scene import Scene


def contexts(*scenes: Scene, expect: tuple[str, ...] = ()) -> tuple[Context, ...]:
    """Return what checks look at on each node: hosts n0, n1, ... unless a scene names its own."""
    for number, scene in enumerate(scenes):
        scene.fields.setdefault("host", f"n{number}")
        scene.fields.setdefault("boot_id", f"boot{number}-0123456789")
    expectations = tuple(map(parse, expect))
    return beside_each_other(tuple(one.context(*expectations) for one in scenes))


def run(*scenes: Scene, expect: tuple[str, ...] = ()) -> tuple[Result, ...]:
    """Return what all checks find on each node."""
    return tuple(run_all(one) for one in contexts(*scenes, expect=expect))
