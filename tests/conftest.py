"""What must hold before any test starts a process."""

from __future__ import annotations

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Have SIGINT interrupt, also where pytest runs in the background or under nohup.

    A shell without job control starts such commands with SIGINT ignored; every program that a test
    starts would inherit that, and those that are interrupted by a test would go on for ever.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
