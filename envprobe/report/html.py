"""The report as one HTML file: no script, nothing loaded from anywhere, light and dark.

Jinja2 escapes every value (`data/report.html` is the template); the page's own
Content-Security-Policy forbids scripts and requests.
"""

from __future__ import annotations

import html
from typing import Final

import envprobe
from envprobe import redact, tables
from envprobe.errors import Exit
from envprobe.report.outlet import Outcome, Outlet

_OPENED: Final = (Outcome.FAILS.value, Outcome.UNKNOWN.value)
_WORDS: Final = {
    Outcome.FAILS: "fails",
    Outcome.UNKNOWN: "could not tell",
    Outcome.REMARK: "remark",
    Outcome.ACCEPTED: "could not tell, accepted",
    Outcome.IGNORED: "ignored",
}


def render(outlet: Outlet) -> str:
    """Return the page; ImportError without Jinja2 (`formats.require` tells before)."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(tables.text("report.html"))
    page = template.render(
        outlet=outlet, opened=_OPENED, words=_WORDS, version=envprobe.__version__
    )
    return redact.without_commands(page) + "\n"


def failure(message: str, remedy: str, code: Exit) -> str:
    """Return the page for a run that made no report; it needs no package."""
    told = html.escape(f"{message} (exit {int(code)}). {remedy}".rstrip())
    return redact.without_commands(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<title>NO REPORT: envprobe</title>\n</head>\n"
        f"<body><h1>NO REPORT</h1><p>{told}</p></body>\n</html>\n"
    )
