"""The check `unit-not-reloaded`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.checks.unit.loaded import differing, is_stale, unloaded
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        live = definition.live
        if live is None or not is_stale(definition):
            continue
        names = differing(definition)
        told = f"differ in {', '.join(names)}" if names else "agree in Environment="
        evidence = [Sentence.of(f"What is loaded and what the files say {told}.")]
        for path in unloaded(definition):
            gone = path in live.drop_ins
            evidence.append(Sentence.of(f"{path} is {'gone since' if gone else 'not loaded'}."))
        if not live.need_reload:
            evidence.append(Sentence.of("systemd itself says NeedDaemonReload=no."))
        user = " --user" if definition.user_manager else ""
        yield found(
            CHECK,
            definition,
            Sentence.of(
                f"{live.name} was edited and not loaded again: a restart uses the old definition."
            ),
            evidence=evidence,
            remedy=f"Run `systemctl{user} daemon-reload`, then restart the unit.",
        )


CHECK = Check(
    id="EP315",
    slug="unit-not-reloaded",
    severity=Severity.ERROR,
    summary="The unit's files were changed after the manager loaded them.",
    why="systemd reads units when it is told to. A restart alone starts the service with the"
    " definition that it read before.",
    mend="Run `systemctl daemon-reload`, then restart the unit.",
    run=_run,
)
