"""Patches attributes of modules when, and only where, these are imported.

As `sitecustomize` it also runs the sitecustomize that it hides. What it did stands in one variable:
`envprobe inspect --pid PID MODULE:ENVPROBE_HOOK`, where MODULE is the name of this file. It prints
nothing, starts nothing and raises nothing of its own. Standard library only, Python 3.9 to 3.15,
and of that only what each start has imported already.
"""

import os
import sys
from time import perf_counter

PATCHES: tuple = ()
"""Pairs such as ("pkg.mod:Class.attr", "my_pkg.my_mod:func")."""


class EnvprobeFinder:
    """Lets the finders behind it find the modules that matter, and learns when these have run."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.watched = {_module(text) for patch in PATCHES for text in patch}
        self.waiting = list(PATCHES)
        self.executed = set()
        self.next_hook = None
        self.state = {
            "file": file,
            "pid": os.getpid(),
            "microseconds": 0,
            "chained": {},
            "chained_microseconds": 0,
            "patches": {target: "waiting" for target, _ in PATCHES},
        }

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return the hook that is to run next, or a watched module with a loader that tells."""
        if self.next_hook is not None and name == self.next_hook.name:
            spec, self.next_hook = self.next_hook, None
            return spec
        if name not in self.watched:
            # A finder in front of this one may have brought a target.
            if self.waiting:
                self.settle(self.waiting)
            return None
        behind = sys.meta_path
        if self in behind:
            behind = behind[behind.index(self) + 1 :]
        for finder in behind:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def settle(self, patches: object) -> None:
        """Apply those patches whose target is there, unless a module of theirs is being executed.

        The replacement's module may be the one that is importing the target.
        """
        states = self.state["patches"]
        for target, replacement in patches:
            modules = _module(target), _module(replacement)
            if modules[0] not in sys.modules:
                continue
            try:
                if all(map(self.complete, modules)):
                    _apply(target, replacement)
                    states[target] = "applied"
            except (Exception, SystemExit) as error:
                states[target] = _failed(error)
        self.waiting = [one for one in PATCHES if states[one[0]] == "waiting"]

    def complete(self, name: str) -> bool:
        """Return whether a module is not being executed; it may not be there at all."""
        spec = getattr(sys.modules.get(name), "__spec__", None)
        return name in self.executed or not getattr(spec, "_initializing", False)


class _Loader:
    """The loader of a watched module, which tells the finder when the module has been executed."""

    def __init__(self, loader: object, finder: EnvprobeFinder) -> None:
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name: str) -> object:
        return getattr(self.__dict__["loader"], name)

    def create_module(self, spec: object) -> object:
        create = getattr(self.loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module: object) -> None:
        finder, name = self.finder, module.__spec__.name
        module.__spec__.loader = module.__loader__ = self.loader
        if hasattr(self.loader, "exec_module"):
            self.loader.exec_module(module)
        else:
            self.loader.load_module(name)  # zipimport before Python 3.10
        finder.executed.add(name)
        finder.settle([patch for patch in PATCHES if name in map(_module, patch)])


def _module(text: str) -> str:
    return text.partition(":")[0]


def _failed(error: BaseException) -> str:
    try:
        return ("failed: %s: %s" % (type(error).__name__, error))[:500]
    except Exception:
        return "failed: %s" % type(error).__name__


def _resolve(text: str) -> tuple:
    """Return the object that holds an attribute, the attribute's name, and what it is."""
    module, _, path = text.partition(":")
    if module not in sys.modules:
        __import__(module)
    owner, name, found = None, "", sys.modules[module]
    for part in path.split("."):
        owner, name = found, part
        if not hasattr(owner, name):  # CPython would blame a circular import
            raise AttributeError("there is no %r in %s" % (name, text))
        found = getattr(owner, name)
    return owner, name, found


def _apply(target: str, replacement: str) -> None:
    """Replace an attribute, which must be there, unless it is replaced already."""
    new = _resolve(replacement)[2]
    owner, name, found = _resolve(target)
    found = getattr(owner, "__dict__", {}).get(name, found)
    if isinstance(found, (staticmethod, classmethod)):
        if found.__func__ is new:
            return
        new = type(found)(new)
    if found is not new:
        setattr(owner, name, new)


# The hook that this one hides.

_hidden = []


def __getattr__(name: str) -> object:
    """Return what the hidden hook defines: its names, and its path if it is a package."""
    if _hidden:
        return getattr(_hidden[0], name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def _chain(finder: EnvprobeFinder) -> None:
    """Run the hidden hook as site would have; an error in it is told as site tells it."""
    spec = _next_hook(finder.state["chained"])
    if spec is None:
        return
    states, place = finder.state["chained"], str(spec.origin)
    states[place] = "running"
    own = sys.modules.pop(__name__)
    finder.next_hook = spec
    began = perf_counter()
    try:
        _hidden.append(__import__(__name__))
        states[place] = "ran"
    except Exception as error:
        states[place] = _failed(error)
        if not isinstance(error, ImportError) or error.name != __name__:
            _tell(error)
    finally:
        finder.next_hook = None
        sys.modules[__name__] = own
        finder.state["chained_microseconds"] = int((perf_counter() - began) * 1e6)


def _next_hook(ran: dict) -> object:
    """Return the first hook behind this one on sys.path that has not run, as its spec, or None."""
    finders = [one for one in sys.meta_path if getattr(one, "__name__", "") == "PathFinder"]
    behind = False
    for entry in sys.path if finders else ():
        spec = finders[0].find_spec(__name__, [entry])
        if spec is None or spec.loader is None:  # a namespace package has no loader and no code
            continue
        if _same(spec.origin, __spec__.origin):
            behind = True
        elif behind and not any(_same(spec.origin, one) for one in ran):
            return spec
    return None


def _same(one: object, other: object) -> bool:
    try:
        return one == other or os.path.samefile(one, other)
    except (OSError, TypeError, ValueError):
        return False


def _tell(error: Exception) -> None:
    """Say what execsitecustomize says (Lib/site.py, 3.9 to 3.15) of a hook that raises."""
    if sys.flags.verbose:
        sys.excepthook(*sys.exc_info())
    elif sys.stderr is not None:
        text = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\n%s: %s\n"
        sys.stderr.write(text % (type(error).__name__, error))


def _run() -> dict:
    """Install the finder once, then run the hidden hook; return what `ENVPROBE_HOOK` holds."""
    began = perf_counter()
    finder = _installed()
    if finder is not None:
        # A hidden hook that itself looks for the next one has come here again.
        _chain(finder)
        return finder.state
    finder = EnvprobeFinder(__file__)
    sys.meta_path.insert(0, finder)
    finder.settle(PATCHES)
    if __name__ == "sitecustomize":
        _chain(finder)
    state = finder.state
    state["microseconds"] = int((perf_counter() - began) * 1e6) - state["chained_microseconds"]
    return state


def _installed() -> "EnvprobeFinder | None":
    for finder in sys.meta_path:
        if type(finder).__name__ == EnvprobeFinder.__name__ and finder.file == __file__:
            return finder
    return None


try:
    ENVPROBE_HOOK = _run()
except Exception as error:
    ENVPROBE_HOOK = {"error": _failed(error)}

# Code of your own may follow: it runs after the hidden hook.
