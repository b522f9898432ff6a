"""What `envprobe init-hook` has written and how it is used, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

from envprobe import redact
from envprobe.errors import Exit
from envprobe.inithook import VARIABLE, Note, Written
from envprobe.report import pretty

_NOTES: Final = {
    Note.LOSES_IN_SITE_PACKAGES: "this is a site-packages directory: a sitecustomize.py in the"
    " standard library's directory is found first (Debian and Ubuntu ship one); with --pth there is"
    " no such contest",
    Note.NO_SITE_DIRECTORY: ".pth files are read in site-packages directories only, which this does"
    " not seem to be",
}


def render(written: Written, kind: str) -> str:
    """Return the report in the format "text" or "json", with a newline at its end."""
    if kind == "json":
        return pretty.dumps(document(written))
    return redact.without_commands("\n".join(_lines(written)) + "\n")


def document(written: Written) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        **pretty.heading(),
        "verdict": {"exit": int(Exit.HOLDS), "meaning": "the hook was written"},
        "directory": written.directory,
        "module": written.module,
        "pth": written.pth,
        "files": [{"path": path, "replaced": path in written.replaced} for path in written.files],
        "patches": [
            {"target": one.target, "replacement": one.replacement} for one in written.patches
        ],
        "use": None if written.pth else {"unit": _unit(written), "shell": _shell(written)},
        "trial": _trial(written),
        "trace": _trace(written),
        "query": written.query,
        "notes": [{"note": note.value, "text": _NOTES[note]} for note in written.notes],
    }


def _lines(written: Written) -> Iterator[str]:
    for path in written.files:
        verb = "replaced" if path in written.replaced else "wrote"
        yield f"{verb} {redact.show_text(path)}"
    for one in written.patches:
        yield f"  {one.target} becomes {one.replacement} once its module is imported"
    for note in written.notes:
        yield f"note: {_NOTES[note]}"
    yield ""
    if written.pth:
        yield "Every interpreter that uses this site-packages directory runs it."
    else:
        yield "Use it, in front of what PYTHONPATH already holds, in the unit or in the shell:"
        yield f"  {redact.show_text(_unit(written))}"
        yield f"  {redact.show_text(_shell(written))}"
    yield "Try it, once as the owner of the directory, so that the bytecode is kept:"
    yield f"  {redact.show_text(_trial(written))}"
    yield "See that it wins, and what it did in a worker:"
    yield f"  {redact.show_text(_trace(written))}"
    yield f"  envprobe inspect --pid PID {written.query}"


def _unit(written: Written) -> str:
    """Return the line of a unit file, quoted as systemd.syntax(7) and systemd.unit(5) say."""
    path = written.directory.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'Environment="PYTHONPATH={path}"'


def _shell(written: Written) -> str:
    # Without a PYTHONPATH before, a trailing colon would add the current directory.
    return f"export PYTHONPATH={shlex.quote(written.directory)}${{PYTHONPATH:+:$PYTHONPATH}}"


def _trial(written: Written) -> str:
    code = f"import {written.module} as hook; print(hook.{VARIABLE})"
    python = shlex.quote(written.python) if written.python else "python3"
    return f"{_variable(written)}{python} -c {shlex.quote(code)}"


def _trace(written: Written) -> str:
    winner = f"--expect-winner {shlex.quote(written.files[0])}"
    if written.pth:
        python = shlex.quote(written.python) if written.python else "PYTHON"
        return f"envprobe trace-sitecustomize --python {python} {winner}"
    path = shlex.quote(f"PYTHONPATH={written.directory}")
    return f"envprobe trace-sitecustomize --env {path} {winner}"


def _variable(written: Written) -> str:
    return "" if written.pth else f"PYTHONPATH={shlex.quote(written.directory)} "
