"""What a scan's or a file's facts mean for what may be shown and what was asked for."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from envprobe import cli_output

if TYPE_CHECKING:
    from envprobe.config import Config
    from envprobe.model import Snapshot


@contextlib.contextmanager
def keeper(path: str | None, *, unmask: bool) -> Iterator[Callable[[Snapshot], None]]:
    """Open the file of --save-facts before the scan, and yield what writes a snapshot to it."""
    if path is None:
        yield lambda _: None
        return
    from envprobe import factsfile

    with cli_output.destinations({path: "facts"}, private=True) as files:
        yield lambda snapshot: files[path].write(factsfile.dumps(snapshot, unmask=unmask))


def covered(config: Config, snapshots: tuple[Snapshot, ...]) -> Config:
    """Return `config` with what is expected of a variable hidden where its value is a credential.

    The expected element of a list may be a part of the credential, and tell nothing by itself.
    """
    from envprobe.redact import Covered

    secret = {
        name for name in {one.name for one in config.expectations} if _is_secret(name, snapshots)
    }
    expectations = (
        dataclasses.replace(
            one,
            values=tuple(
                Covered(value.reveal(), length=value.length, digest=value.digest)
                for value in one.values
            ),
        )
        if one.name in secret
        else one
        for one in config.expectations
    )
    return dataclasses.replace(config, expectations=tuple(expectations))


def _is_secret(name: str, snapshots: tuple[Snapshot, ...]) -> bool:
    """Return whether any process has a value of the variable that is not shown."""
    from envprobe.redact import holds_secret

    values = {
        environment.reading(name).value
        for snapshot in snapshots
        for process in snapshot.processes
        for environment in process.environments.values()
    }
    return any(value.hidden or holds_secret(name, value) for value in values if value is not None)


def note_unread(path: str, snapshot: Snapshot, asked: dict[str, str]) -> None:
    """Say which options ask for values that were not read when the facts were saved.

    `asked` maps an option as it was given to its pattern (fnmatch) of names.
    """
    from envprobe.redact import show_text

    unread = {
        name
        for process in snapshot.processes
        for environment in process.environments.values()
        for name, value in environment.entries.items()
        if value is None
    }
    for option, pattern in asked.items():
        number = sum(fnmatch.fnmatchcase(name, pattern) for name in unread)
        if number:
            what = "the value of a variable" if number == 1 else f"the values of {number} variables"
            cli_output.note(
                f"note: {show_text(option)}: {show_text(path)} does not hold {what}; scan again"
                f" with {show_text(option)} and --save-facts to have them read"
            )
