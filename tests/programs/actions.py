"""What the processes of a test's tree do: the words of tests/programs/titled.py, and `Action`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

Step = list[Any]
"""A verb of tests/programs/titled.py with its arguments; the functions below make them."""

FORK: Step = ["fork"]
"""Make a plain fork child that keeps the title and lives on."""

LEAVE_MAIN_THREAD: Step = ["leave_main_thread"]
"""End the main thread while another lives; for the last place of `after_title`."""

START_TRACKER: Step = ["start_tracker"]
START_FORKSERVER: Step = ["start_forkserver"]
CHURN: Step = ["churn"]
"""Let a thread import and forget modules without pause."""

CLEARENV: Step = ["clearenv"]


def py_set(name: str, value: str) -> Step:
    """`os.environ[name] = value`: Python's mapping and the C environ."""
    return ["py_set", name, value]


def py_unset(name: str) -> Step:
    """Remove from Python's mapping and the C environ, if there."""
    return ["py_unset", name]


def py_putenv(name: str, value: str) -> Step:
    """os.putenv: the C environ only."""
    return ["py_putenv", name, value]


def py_data_set(name: str, value: str) -> Step:
    """`os.environ._data[...] = `: Python's mapping only."""
    return ["py_data_set", name, value]


def c_setenv(name: str, value: str) -> Step:
    """setenv(3): the C environ only."""
    return ["c_setenv", name, value]


def c_unsetenv(name: str) -> Step:
    """unsetenv(3): the C environ only."""
    return ["c_unsetenv", name]


def c_putenv(name: str, value: str) -> Step:
    """putenv(3) of a buffer of its own: the C environ only."""
    return ["c_putenv", name, value]


def retitle(title: str) -> Step:
    """Take another title."""
    return ["title", title]


def load(module: str) -> Step:
    """Import a module."""
    return ["load", module]


def execute(*command: str) -> Step:
    """execv(3): become another program, which does not report."""
    return ["exec", *command]


def leave(code: int = 0) -> Step:
    """_exit(2)."""
    return ["exit", code]


def become(uid: int, gid: int) -> Step:
    """Change the user, without supplementary groups."""
    return ["become", uid, gid]


def prctl(option: int, argument: int) -> Step:
    """prctl(2)."""
    return ["prctl", option, argument]


@dataclasses.dataclass(frozen=True)
class Action:
    """One process: how its parent starts it and what it does.

    `title` None means the default one, "" none at all. `method` is spawn, fork, forkserver or
    subprocess. The parent does `parent_before` just before it starts the child and `parent_after`
    just after; the child does `before_title`, takes its title, starts `children`, does
    `after_title`, reports, and lives on, or ends if `exits` (its children are reparented).
    `executable` is what multiprocessing's spawn runs in place of the interpreter, such as a script;
    `wrapper` words before the command and `env` the whole environment, both for subprocess.
    For the root only the child's own parts count, and `wrapper`.
    """

    title: str | None = None
    method: str = "spawn"
    parent_before: Sequence[Step] = ()
    parent_after: Sequence[Step] = ()
    before_title: Sequence[Step] = ()
    after_title: Sequence[Step] = ()
    children: Sequence[Action] = ()
    exits: bool = False
    executable: str | None = None
    wrapper: Sequence[str] = ()
    env: Mapping[str, str] | None = None

    def node(self, key: str, title: str = "") -> dict[str, Any]:
        """Return the plan of this process and those below it."""
        plan = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        below = [child.node(f"{key}.{number}") for number, child in enumerate(self.children)]
        return {
            **plan,
            "key": key,
            "title": title if self.title is None else self.title,
            "children": below,
        }
