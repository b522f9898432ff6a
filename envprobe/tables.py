"""The data tables that ship in `envprobe/data`: JSON files whose rows name their source."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def load(name: str) -> Any:
    """Return the parsed table `data/NAME.json`; FileNotFoundError if there is none."""
    text = resources.files("envprobe").joinpath("data").joinpath(f"{name}.json").read_text("utf-8")
    return json.loads(text)
