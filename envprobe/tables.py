"""The data tables that ship in `envprobe/data`: JSON files whose rows name their source."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

_FOLDER = os.path.join(os.path.dirname(__file__), "data")


@functools.cache
def load(name: str) -> Any:
    """Return the parsed table `data/NAME.json`; OSError if there is none."""
    return json.loads(text(f"{name}.json"))


def text(file: str) -> str:
    """Return a file of `data` as text; OSError if there is none."""
    # This module's loader reads from a zip file too, as importlib.resources would, which takes 4 ms
    # to import.
    loader: Any = __spec__.loader
    found: bytes = loader.get_data(os.path.join(_FOLDER, file))
    return found.decode("utf-8")
