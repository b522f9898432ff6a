"""Why a hook that was expected to win does not, and the remedy that fits."""

from __future__ import annotations

import posixpath
from typing import Final

from envprobe.startup import advice
from envprobe.startup.hooks import no_user_site
from envprobe.startup.result import Outcome
from envprobe.startup.traced import Answer
from envprobe.startup.types import MODULES, SITECUSTOMIZE, EntryState, Launch, Walk

Cause = tuple[list[str], str]
"""Evidence, and a remedy; "" stands for the check's own."""

_STATES: Final = {
    EntryState.MISSING: ("there is no such file", "Give the path of a file that is there."),
    EntryState.DIRECTORY: (
        "it is a directory",
        "Name the file in it, such as --expect-winner {0}/sitecustomize.py.",
    ),
    EntryState.UNREADABLE: (
        "it cannot be read by the user that Python is started as",
        "Give that user the right to read it and to search its directories: chmod a+rX.",
    ),
}
_FLAGS: Final = {
    "S": "Start Python without -S.",
    "I": "Start Python without -I, or use a .pth file in site-packages.",
    "E": "Start Python without -E, or use a .pth file in site-packages.",
}
_USER_SITE: Final = (
    "Start Python without -s and -I and without PYTHONNOUSERSITE, and outside a virtual environment"
    " without system packages; or move the hook out of the user site."
)


def stem(path: str) -> str:
    """Return the name of the module that a file is."""
    folder, name = posixpath.split(path)
    return posixpath.basename(folder) if name.startswith("__init__.") else name.partition(".")[0]


def of(answer: Answer, path: str) -> Cause:
    """Return the cause for which a path is not that of a hook that ran."""
    walk, launch = answer.startup.walk, answer.startup.launch
    chained = path in answer.startup.hook(SITECUSTOMIZE).chained
    evidence = ["the winner has started it too"] if chained else []
    if walk is None:
        return evidence, ""
    told, remedy = _found_out(answer, walk, launch, path)
    return [*evidence, *told], remedy


def _found_out(answer: Answer, walk: Walk, launch: Launch, path: str) -> Cause:
    if walk.wanted is not None and walk.wanted.state in _STATES:
        told, remedy = _STATES[walk.wanted.state]
        return [told], remedy.format(path)
    if launch.has_flag("S"):
        return ["-S: no hook runs"], _FLAGS["S"]
    mine = [one for one in walk.candidates if path in (one.file.path, one.file.real)]
    losing = [f"it loses: {one.reason}" for one in mine if one.reason]
    if losing:
        return losing, ""
    if mine:
        hook = answer.startup.hook(mine[0].module)
        if hook.outcome is not Outcome.DISABLED:
            return [], "Mend what the finding about its failure says, and run the command again."
    if reason := _user_site(walk, launch, path):
        return [f"it lies in the user site: {reason}"], _USER_SITE
    return _elsewhere(walk, launch, path)


def _user_site(walk: Walk, launch: Launch, path: str) -> str:
    """Return why the user site does not count, "" if it does or the path is not in it."""
    inside = bool(walk.user_site) and path.startswith(walk.user_site + "/")
    return no_user_site(walk, launch) if inside or stem(path) == MODULES[1] else ""


def _elsewhere(walk: Walk, launch: Launch, path: str) -> Cause:
    folder = advice.folder_of(path)
    given = (launch.environment.get("PYTHONPATH") or "").split(":")
    if launch.ignores_variables and folder in given:
        letter = "I" if launch.has_flag("I") else "E"
        return [f"-{letter}: PYTHONPATH, which names its directory, does not count"], _FLAGS[letter]
    if stem(path) not in MODULES:
        ways = [f"a way that works here: {way}" for way in advice.importing(walk, path)]
        told = "it is neither a sitecustomize nor imported by a startup file that ran"
        return [told, *ways], "Let a startup file import it, and run this command again."
    told = "it lies in no entry of this interpreter's sys.path"
    ways = [f"a way that works here: {one.text}" for one in advice.mends(walk, launch, path)]
    return [told, *ways], "Use one of these ways, and run this command again."
