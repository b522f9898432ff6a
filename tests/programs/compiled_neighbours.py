"""Stand-ins for the compiled packages that SGLang's CUDA paths import beside its own code.

Where a GPU is but `sgl_kernel` and `flashinfer` are not, SGLang's Python and Triton code can be
imported with these: whatever is taken from them is a class that can be a base, and that can be made
with any arguments. Nothing of them computes anything; SGLang's own code stays whole.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

PACKAGES = ("sgl_kernel", "flashinfer")


class _Names(type):
    """Lets a stand-in have every attribute, each a stand-in again."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name, cls.__module__)


class StandIn(metaclass=_Names):
    """What every name of a stand-in module means; asked a yes-or-no question, it says no."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __bool__(self) -> bool:
        return False


def _stand_in(name: str, module: str) -> Any:
    return _Names(name, (StandIn,), {"__module__": module})


class _Module(ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _stand_in(name, self.__name__)
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> list[str]:
    """Let those packages that are not installed be answered by stand-ins; return their names."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    sys.meta_path.append(_Finder(absent))
    return absent
