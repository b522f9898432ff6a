"""Patches SGLang's backend when, and only where, its module is imported.

`install()` costs a few microseconds and imports neither torch nor SGLang, so it may stand in a
`sitecustomize.py`; in a running server only the schedulers import the module.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

TARGET_MODULE = "sglang.srt.layers.attention.triton_backend"


def install() -> None:
    """Patch the module now if it is imported already, else when it will be."""
    module = sys.modules.get(TARGET_MODULE)
    if module is not None:
        _apply(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _apply(module: ModuleType) -> None:
    """Patches, and says so in the log; a patch that fails must not end the server."""
    log = logging.getLogger("kernel_ext")
    try:
        from kernel_ext import patch

        if patch.apply(module):
            patch.announce(sys.argv)
    except Exception:
        log.exception("SGLang's attention backend could not be patched; its own kernel is used")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module as the other finders do, and lets the patch follow its execution."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != TARGET_MODULE:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """The module's own loader, with one step more."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, then patch it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _apply(module)


def register() -> None:
    """Do what an entry point of the group `sglang.srt.plugins` does: install the patch."""
    install()
