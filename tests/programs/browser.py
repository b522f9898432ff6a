"""A page in a real headless Chromium: what it shows, how wide it is, and what it asked for."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.programs.requirement import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 60


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start the first Chromium found on PATH; ended with the block."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing("chromium", f"none of {', '.join(NAMES)} is on PATH (Debian: apt install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("chromium", "the package playwright, which drives it, is not installed")
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to start as root.
        started = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox"], timeout=SECONDS * 1000
        )
        try:
            yield started
        finally:
            started.close()
