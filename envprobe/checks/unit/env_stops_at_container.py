"""The check `env-stops-at-container`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.checks.who import some
from envprobe.config import Rule
from envprobe.launch.steps import Container
from envprobe.launch.types import Entry
from envprobe.model import Sentence
from envprobe.redact import DEFAULT_WANTED, is_wanted

_NAMED = 8


def _run(context: UnitContext) -> Iterator[Finding]:
    expected = {one.name for one in context.expectations if one.rule is not Rule.ABSENT}
    for definition, launch in context.launches():
        container = launch.container
        if container is None:
            continue
        lost = [one for one in launch.declared.written if _is_lost(one, container, expected)]
        if not lost:
            continue
        names = [one.setting.name for one in lost]
        sure = container.image_known
        yield found(
            CHECK,
            definition,
            Sentence.of(
                f"{container.place}: {some(names, _NAMED)} stop{'s' if len(names) == 1 else ''} at"
                f" `{container.runtime} run`: nothing passes"
                f" {'it' if len(names) == 1 else 'them'} into the container."
            ),
            place=container.place,
            variable=names[0] if len(names) == 1 else "",
            evidence=()
            if sure
            else (
                Sentence.of(
                    "The image may set variables of its own: give the output of `docker inspect"
                    " IMAGE` with --image-inspect."
                ),
            ),
        )


def _is_lost(entry: Entry, container: Container, expected: Collection[str]) -> bool:
    name = entry.setting.name
    matters = name in expected or is_wanted(name, DEFAULT_WANTED)
    if entry.removed is not None or not matters:
        return False
    return name not in {one.name for one in container.passed}


CHECK = Check(
    id="EP321",
    slug="env-stops-at-container",
    severity=Severity.ERROR,
    summary="What a unit declares does not reach the container that it starts.",
    why="`docker run` and `podman run` start with the image's environment. Environment= of the unit"
    " reaches the client only, unless -e NAME, -e NAME=VALUE or --env-file passes it on.",
    mend="Add -e NAME for each variable, or put them into the file of --env-file.",
    run=_run,
)
