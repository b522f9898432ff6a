"""A made-up engine, kernels that patch it in every way, and the hooks that install them."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

ENGINE = """
    class Base:
        def inherited(self):
            return "original"


    class Backend(Base):
        def plain(self):
            return "original"

        def wrapped(self):
            return "original"

        def bound(self):
            return "original"

        def part(self):
            return "original"

        @staticmethod
        def static():
            return "original"

        @classmethod
        def klass(cls):
            return "original"

        @property
        def computed(self):
            return "original"


    class Replaced:
        def run(self):
            return "original"


    def function():
        return "original"


    kernels = function
    default = Backend()
"""
KERNELS = """
    import functools


    def plain(self):
        return "patched"


    def part(self, much):
        return "patched"


    def static():
        return "patched"


    class Replaced:
        def run(self):
            return "patched"


    class Callable:
        def __call__(self):
            return "patched"


    def wrapping(original):
        @functools.wraps(original)
        def wrapped(self):
            return "patched " + original(self)

        return wrapped


    def install(engine):
        backend = engine.Backend
        backend.plain = plain
        backend.wrapped = wrapping(backend.wrapped)
        backend.bound = plain.__get__(engine.default)
        backend.part = functools.partial(part, much=1)
        backend.static = staticmethod(static)
        backend.klass = classmethod(plain)
        backend.computed = property(plain)
        engine.Base.inherited = plain
        engine.Replaced = Replaced
        engine.function = static
        engine.kernels = Callable()
"""
AT_ONCE = """
    import engine
    import my_kernels.attn

    my_kernels.attn.install(engine)
"""
_LAZY = """
    import sys
    from importlib.machinery import PathFinder


    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "{target}":
                return None
            spec = PathFinder.find_spec(name, path, target)
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                import my_kernels.attn

                my_kernels.attn.install(module)

            spec.loader.exec_module = exec_module
            return spec


    sys.meta_path.insert(0, Finder)
"""
NAMES = (
    "Backend.plain",
    "Backend.wrapped",
    "Backend.bound",
    "Backend.part",
    "Backend.static",
    "Backend.klass",
    "Backend.computed",
    "Backend.inherited",
    "Replaced",
    "function",
    "kernels",
)
QUERIES = tuple(f"engine:{name}" for name in NAMES)


def lazy(target: str) -> str:
    """Return a hook that patches a module when it is imported."""
    return _LAZY.format(target=target)


@dataclasses.dataclass(frozen=True)
class Hooks:
    """Where the engine, the kernels and the hook lie; `path` is the value of PYTHONPATH."""

    engine: Path
    kernels: Path
    hook: Path

    @property
    def path(self) -> str:
        return f"{self.hook.parent}:{self.engine.parent}"


def written(folder: Path, hook: str, kernels: str = KERNELS) -> Hooks:
    """Write an engine, kernels and a hook of these texts below a folder."""
    made = Hooks(
        folder / "app" / "engine.py",
        folder / "hooks" / "my_kernels" / "attn.py",
        folder / "hooks" / "sitecustomize.py",
    )
    for path, text in ((made.engine, ENGINE), (made.kernels, kernels), (made.hook, hook)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    (made.kernels.parent / "__init__.py").touch()
    return made
