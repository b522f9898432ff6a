"""Whether SGLang's class could be driven at all: without that nothing is said of a function."""

from __future__ import annotations

from typing import Final

from envprobe.checks.kernel.about import class_crashed, ending
from envprobe.kernel.facts import Device, InClass, Run

_UNCOMPARED: Final = {
    True: "nothing was compared: there is no result of the function in question",
    False: "nothing was compared: there is no result of SGLang's own function",
}


def control_fails(called: InClass) -> str:
    """Return why SGLang's own function is not right when called so; "" if it is."""
    wrong = [one for one in called.own if one.wrong or not one.part <= 1 or not one.stored]
    if not wrong:
        return ""
    return (
        f"SGLang's own function, called the same way, is {wrong[0].part:.3g} times the allowed"
        f" error off at {wrong[0].shape}"
    )


def judgeable(called: InClass) -> bool:
    """Return whether results of the function in question mean anything."""
    return bool(called.own) and not control_fails(called)


def undriven(run: Run, device: Device) -> str:
    """Return why the function in question was not called, or its results mean nothing.

    "" where it was, where SGLang could not even be imported, and where it was not tried.
    """
    called = device.in_class
    if called is None or called.step == "import" or device.stopped is not None:
        return ""
    if failing := control_fails(called):
        return failing
    if called.problem is not None:
        return _raised(called)
    at = called.calling.partition(" ")[2] or "before any call"
    if called.ended is not None:
        told = f"the process that prepared it ended with {ending(called.ended)}, {at}"
        return "" if class_crashed(called) else told
    if not called.done:
        return f"{run.problem or 'it did not end'}, {at}"
    return "" if called.own and called.asked else _UNCOMPARED[bool(called.own)]


def _raised(called: InClass) -> str:
    problem = called.problem
    assert problem is not None
    told = f"{problem}, at {problem.where}" if problem.where else str(problem)
    if called.step == "asked":
        return f"it raised {told}"
    if called.step == "own":
        return f"SGLang's own function raised {told}"
    return f"SGLang {called.version} cannot be set up outside a server: {told}"
