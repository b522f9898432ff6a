"""What `envprobe explain` and docs/checks.md say of a check, as structured text."""

from __future__ import annotations

import dataclasses

from envprobe.checks.finding import Check, Severity, Undetermined
from envprobe.errors import Exit

_EFFECTS = {
    Severity.ERROR: "Fails the run by default.",
    Severity.WARNING: "Fails the run with --fail-on warning.",
    Severity.INFO: "Fails the run only with --fail-on info.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """A check's documentation: a title, one line, and sections of a heading and a text each."""

    title: str
    summary: str
    sections: tuple[tuple[str, str], ...]


def explain(check: Check) -> Explanation:
    """Return the documentation of a check."""
    return Explanation(
        title=f"{check.id} {check.slug}",
        summary=check.summary,
        sections=(
            ("Severity", _severity(check)),
            ("Why it matters", check.why),
            ("How to mend it", check.mend),
            ("How to accept it", _acceptance(check)),
        ),
    )


def _severity(check: Check) -> str:
    text = f"{check.severity.value}. {_EFFECTS[check.severity]}"
    code = f"the exit code is {int(Exit.UNDETERMINED)}, whatever --fail-on says."
    if check.undetermined is Undetermined.ALWAYS:
        return f"{check.severity.value}. It means that something could not be determined: {code}"
    if check.undetermined is Undetermined.SOMETIMES:
        return f"{text} Where it means that something could not be determined, {code}"
    return text


def _acceptance(check: Check) -> str:
    ignore = f'[ignore] {check.slug} = "REASON" in envprobe.toml keeps it apart, with the reason.'
    allow = (
        f"--allow-unknown {check.slug}, or [allow-unknown] {check.slug} ="
        ' "REASON" in envprobe.toml, accepts what could not be determined.'
    )
    return {
        Undetermined.NEVER: ignore,
        Undetermined.SOMETIMES: f"{ignore} {allow}",
        Undetermined.ALWAYS: allow,
    }[check.undetermined]
