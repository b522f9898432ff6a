"""The check `entry-overridden`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found, origin
from envprobe.launch.types import Entry, Setting, Source
from envprobe.model import Sentence, Shown

_OURS = (Source.PASSED, Source.ENVIRONMENT, Source.FILE, Source.CONTAINER)


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        for entry in definition.declared.written:
            if entry.removed is None:
                for setting in _other(entry):
                    yield found(
                        CHECK,
                        definition,
                        Sentence.of(
                            f"{setting.place}: {setting.name}=",
                            *_value(setting),
                            f" does not count: {origin(entry)} sets it to ",
                            *_value(entry.setting),
                            ".",
                        ),
                        place=setting.place,
                        variable=setting.name,
                    )


def _other(entry: Entry) -> Iterator[Setting]:
    """Yield the settings of the definition itself that are overridden by another value."""
    for setting in entry.overridden:
        if setting.source in _OURS and setting.value != entry.setting.value:
            yield setting


def _value(setting: Setting) -> tuple[str | Shown, ...]:
    if setting.value is None:
        return ("(not known)",)
    return (Shown(setting.name, setting.value),)


CHECK = Check(
    id="EP309",
    slug="entry-overridden",
    severity=Severity.WARNING,
    summary="A value is overridden by another one of the same definition.",
    why="The last assignment counts, drop-ins come after the unit, and EnvironmentFile= counts more"
    " than any Environment=, wherever it stands: the line that is read and edited may not be"
    " the one that is used.",
    mend="Leave one assignment of each name.",
    run=_run,
)
