"""The formats that other programs read, and the one call that renders any of them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import Final

from envprobe.errors import Exit, UsageError
from envprobe.report.outlet import Outlet

MACHINE: Final = ("junit", "github", "sarif", "html")
"""The formats beside text and JSON, which every command has of its own."""

_NEEDS: Final = {"html": "jinja2"}
"""The extra that brings a package has the name of the format."""


def require(kinds: Iterable[str]) -> None:
    """Raise UsageError if a package is missing that one of these formats needs."""
    for kind in kinds:
        package = _NEEDS.get(kind)
        if package is not None and importlib.util.find_spec(package) is None:
            raise UsageError(
                f"the format {kind} needs the package {package}, which is not installed",
                f"Run `pip install 'envprobe[{kind}]'` in the environment of envprobe.",
            )


def render(kind: str, outlet: Outlet) -> str:
    """Return the report in one of the formats of `MACHINE`."""
    made: str = importlib.import_module(f"envprobe.report.{kind}").render(outlet)
    return made


def failure(kind: str, message: str, remedy: str, code: Exit) -> str:
    """Return what the report's place gets when there is no report: the error that ended the run."""
    module = importlib.import_module(f"envprobe.report.{kind}")
    made: str = module.failure(message, remedy, code)
    return made
