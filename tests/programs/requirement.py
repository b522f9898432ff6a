"""What a test needs from the machine: skipped with a reason where it is missing, failed in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(name: str, reason: str) -> NoReturn:
    """Skip the test because `name` is missing; fail it if ENVPROBE_REQUIRE promised `name`.

    ENVPROBE_REQUIRE is a comma-separated list, such as `gcc,musl,root,sglang`.
    """
    promised = os.environ.get("ENVPROBE_REQUIRE", "").split(",")
    if name in promised:
        pytest.fail(f"{name} was promised by ENVPROBE_REQUIRE but is missing: {reason}")
    pytest.skip(f"{name}: {reason}")
