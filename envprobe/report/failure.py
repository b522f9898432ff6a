"""What a report's place gets when there is no report: the error that ended the run."""

from __future__ import annotations

from envprobe import redact
from envprobe.errors import EXIT_MEANINGS, EnvprobeError
from envprobe.report import formats, pretty


def render(error: EnvprobeError, kind: str) -> str:
    """Return an error as a document of a format, or as one line of text that ends in a newline."""
    message, remedy = _line(error.message), _line(error.remedy)
    if kind in formats.MACHINE:
        return formats.failure(kind, message, remedy, error.code)
    if kind == "json":
        return pretty.dumps(
            {
                **pretty.heading(),
                "verdict": {"exit": int(error.code), "meaning": EXIT_MEANINGS[error.code]},
                "error": {"message": message, "remedy": remedy},
            }
        )
    told = f"NO REPORT: {message} (exit {int(error.code)}). {remedy}".rstrip()
    return redact.without_commands(told + "\n")


def _line(text: str) -> str:
    return " ".join(redact.show_text(line.strip()) for line in text.split("\n") if line.strip())
