"""Runs `site` without its two hooks and says where each of them would be looked for, and found.

Run as `python FLAGS -S -c TEXT DESCRIPTOR [PATH]`: -S keeps site from running before it can be
watched; it is then run here as the interpreter would have run it. What `.pth` files import is
executed. The answer, one line of JSON, is written to the descriptor; it says what is at PATH too.
Before it comes a line for each startup file that is begun with: the answer may never come.
Standard library only, Python 3.9 to 3.15.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator

HOOKS = ("sitecustomize", "usercustomize")
MAX_NAMES = 10000
MAX_FILE_BYTES = 1 << 20


def main(descriptor: str, wanted: str = "") -> None:
    """Answer with the paths, the candidates and the startup files."""
    if not (getattr(sys.flags, "safe_path", 0) or sys.flags.isolated) and sys.path[:1] == [""]:
        del sys.path[0]  # -c has put it there; site runs before anything is
    answer = {
        "version": list(sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "hooks": {},
        "wanted": at_path(wanted) if wanted else None,
    }
    site = run_site(answer, int(descriptor))
    # Before CPython 3.14 it is site that makes the prefix that of a virtual environment.
    answer["prefix"], answer["base_prefix"] = sys.prefix, sys.base_prefix
    answer["stdlib"] = os.path.dirname(os.__file__)
    answer["user_site"] = site.USER_SITE
    answer["user_site_enabled"] = site.ENABLE_USER_SITE
    sites = site_directories(site)
    answer["site_directories"] = sites
    answer["files"] = [one for folder in sites for one in startup_files(folder)]
    send(int(descriptor), answer)


def send(descriptor: int, answer: dict) -> None:
    """Write one line of JSON; what hooks have done to sys.stdout does not matter."""
    data = json.dumps(answer).encode("ascii") + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def at_path(path: str) -> dict:
    """Return what is at a path, with the rights of this process, and its path without links."""
    state = describe_entry(path)["state"]
    if state == "archive" or (state == "file" and not os.access(path, os.R_OK)):
        state = "file" if state == "archive" else "unreadable"
    return {"path": path, "state": state, "real": os.path.realpath(path)}


def run_site(answer: dict, descriptor: int) -> object:
    """Run site.main with recorders in the place of the two functions that import the hooks."""
    import site

    def recorder(hook: str) -> Callable:
        def record() -> None:
            answer["hooks"][hook] = found(hook)

        return record

    add = site.addpackage

    def adding(folder: str, name: str, *more: object, **others: object) -> object:
        send(descriptor, {"reading": os.path.join(folder, name)})
        return add(folder, name, *more, **others)

    site.addpackage = adding
    for hook in HOOKS:
        setattr(site, "exec" + hook, recorder(hook))
    site.main()
    return site


def found(hook: str) -> dict:
    """Return what would be found for one hook at this moment: the path and all candidates."""
    entries = [str(entry) for entry in sys.path]
    candidates = list(other_finders(hook))
    for number, entry in enumerate(entries):
        candidates += [dict(one, entry=number) for one in in_entry(hook, entry)]
    return {
        "loaded": hook in sys.modules,
        "path": [describe_entry(entry) for entry in entries],
        "candidates": candidates,
    }


def other_finders(hook: str) -> Iterator:
    """Yield what finders other than that of sys.path would give: editable installs, agents."""
    from importlib.machinery import PathFinder

    before = True
    for finder in list(sys.meta_path):
        if finder is PathFinder:
            before = False
            continue
        try:
            spec = finder.find_spec(hook, None)
        except Exception:
            spec = None
        if spec is not None:
            name = getattr(finder, "__name__", None) or type(finder).__name__
            yield dict(of_spec(spec), entry=None, finder=name, before_path=before)


def in_entry(hook: str, entry: str) -> Iterator:
    """Yield the candidates in one entry of sys.path, in the order in which it is searched."""
    from importlib.machinery import PathFinder

    try:
        spec = PathFinder.find_spec(hook, [entry])
    except Exception as error:
        yield {"path": entry, "kind": "error", "error": type(error).__name__}
        return
    first = None
    if spec is not None:
        one = of_spec(spec)
        first = one["path"]
        yield one
    for path, kind in others_in_directory(hook, entry):
        if path != first:
            yield dict(of_file(path), path=path, kind=kind, same_entry=first is not None)


def of_spec(spec: object) -> dict:
    """Return the facts of what a finder has found."""
    loader = type(spec.loader).__name__ if spec.loader is not None else "NamespaceLoader"
    if spec.origin is None or "Namespace" in loader:
        places = list(spec.submodule_search_locations or [])
        return {"path": places[0] if places else "", "kind": "namespace", "loader": loader}
    kind = {
        "SourceFileLoader": "source",
        "SourcelessFileLoader": "sourceless",
        "ExtensionFileLoader": "extension",
        "zipimporter": "zip",
    }.get(loader, "other")
    if kind == "source" and spec.submodule_search_locations is not None:
        kind = "package"
    one = dict(of_file(spec.origin), path=spec.origin, kind=kind, loader=loader)
    if kind in ("source", "package") and spec.cached:
        one["cached"] = spec.cached
        one["bytecode"] = of_bytecode(spec.cached, spec.origin)
    return one


def others_in_directory(hook: str, entry: str) -> Iterator:
    """Yield every file of a directory that could be the hook, in the order of FileFinder."""
    from importlib import machinery

    try:
        names = set(os.listdir(entry or "."))
    except (OSError, ValueError):
        return
    kinds = [(suffix, "extension") for suffix in machinery.EXTENSION_SUFFIXES]
    kinds += [(suffix, "source") for suffix in machinery.SOURCE_SUFFIXES]
    kinds += [(suffix, "sourceless") for suffix in machinery.BYTECODE_SUFFIXES]
    folder = os.path.join(entry, hook)
    if hook in names and os.path.isdir(folder):
        inits = [suffix for suffix, _ in kinds if os.path.isfile(folder + "/__init__" + suffix)]
        yield (folder + "/__init__" + inits[0], "package") if inits else (folder, "namespace")
    for suffix, kind in kinds:
        if hook + suffix in names:
            yield os.path.join(entry, hook + suffix), kind


def of_file(path: str) -> dict:
    """Return owner, mode, size and times of a file, and whether it can be read; {} if none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return {}
    return {
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "size": found.st_size,
        "mtime": found.st_mtime,
        "ctime": found.st_ctime,
        "readable": os.access(path, os.R_OK),
        "real": os.path.realpath(path),
        "owner": distribution_of(path),
    }


def of_bytecode(cached: str, source: str) -> str:
    """Return the state of a cached bytecode file, as importlib judges it (PEP 552)."""
    import importlib.util

    try:
        with open(cached, "rb") as file:
            header = file.read(16)
    except OSError as error:
        return "absent" if isinstance(error, FileNotFoundError) else "unreadable"
    if len(header) < 16 or header[:4] != importlib.util.MAGIC_NUMBER:
        return "other-version"
    flags = int.from_bytes(header[4:8], "little")
    try:
        with open(source, "rb") as file:
            text = file.read()
        about = os.stat(source)
    except OSError:
        return "unreadable"
    if flags & 1:
        same = importlib.util.source_hash(text) == header[8:16]
        if flags & 2:
            return "fresh" if same else "stale"
        return "unchecked" if same else "unchecked-stale"
    mtime = int.from_bytes(header[8:12], "little")
    size = int.from_bytes(header[12:16], "little")
    if (mtime, size) != (int(about.st_mtime) & 0xFFFFFFFF, about.st_size & 0xFFFFFFFF):
        return "stale"
    return of_code(cached, text, source)


def of_code(cached: str, text: bytes, source: str) -> str:
    """Return whether bytecode is what its source compiles to; "fresh" if that cannot be told."""
    import marshal

    try:
        with open(cached, "rb") as file:
            code = marshal.loads(file.read()[16:])
    except OSError:
        return "unreadable"
    except Exception:
        return "corrupt"
    try:
        wanted = compile(text, source, "exec", dont_inherit=True)
        return "fresh" if same(code, wanted) else "agrees-but-differs"
    except Exception:
        return "fresh"


def same(one: object, other: object) -> bool:
    """Compare two code objects by what they do; their file names may differ."""
    if one.co_code != other.co_code or one.co_names != other.co_names:
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    for left, right in zip(one.co_consts, other.co_consts):  # noqa: B905 - new in 3.10
        if hasattr(left, "co_code") and hasattr(right, "co_code"):
            if not same(left, right):
                return False
        elif type(left) is not type(right) or left != right:
            return False
    return True


def describe_entry(entry: str) -> dict:
    """Return one entry of sys.path and what is there."""
    one = {"entry": entry}
    try:
        found = os.stat(entry or ".")
    except FileNotFoundError:
        one["state"] = "missing"
    except NotADirectoryError:
        # An archive's inner folder: it is searched if the archive is one.
        one["state"] = "in-file"
    except (OSError, ValueError) as error:
        one["state"], one["error"] = "unreadable", type(error).__name__
    else:
        if stat.S_ISDIR(found.st_mode):
            usable = os.access(entry or ".", os.R_OK | os.X_OK)
            one["state"] = "directory" if usable else "unreadable"
        else:
            one["state"] = "archive" if is_archive(entry) else "file"
    return one


def is_archive(path: str) -> bool:
    """Return whether a file can be imported from."""
    import zipimport

    try:
        zipimport.zipimporter(path)
    except Exception:
        return False
    return True


# --- what a site directory holds -----------------------------------------------------------------


def site_directories(site: object) -> list:
    """Return the directories whose startup files site reads, in its order (Lib/site.py)."""
    folders = []
    if site.ENABLE_USER_SITE and site.USER_SITE:
        folders.append(site.USER_SITE)
    folders += site.getsitepackages()
    if sys.prefix != sys.base_prefix:
        # venv() reads those of the environment before the user's.
        own = site.getsitepackages([sys.prefix])
        folders = own + [folder for folder in folders if folder not in own]
    known = []
    for folder in folders:
        if folder not in known and os.path.isdir(folder):
            known.append(folder)
    return known


def startup_files(folder: str) -> Iterator:
    """Yield the .pth and .start files of a directory, in the order in which they are read."""
    suffixes = (".pth", ".start") if sys.version_info >= (3, 15) else (".pth",)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for suffix in suffixes:
        hidden = sys.version_info >= (3, 13)
        for name in sorted(one for one in names[:MAX_NAMES] if one.endswith(suffix)):
            if not (hidden and name.startswith(".")):
                yield startup_file(os.path.join(folder, name), name.endswith(".start"), names)


def startup_file(path: str, entry_points: bool, names: list) -> dict:
    """Return one file with the lines that are executed, by number."""
    one = dict(of_file(path), path=path, kind="start" if entry_points else "pth", lines=[])
    partner = os.path.basename(path)[: -len(".pth")] + ".start"
    one["suppressed"] = not entry_points and sys.version_info >= (3, 15) and partner in names
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_FILE_BYTES).decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        one["error"] = type(error).__name__
        return one
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if entry_points or line.startswith(("import ", "import\t")):
            one["lines"].append([number, stripped[:1000]])
    return one


# --- what has brought a file ---------------------------------------------------------------------


def distribution_of(path: str) -> str:
    """Return the name of the installed distribution that lists a file (RECORD), "" if none."""
    folder = os.path.dirname(path)
    for _ in range(4):
        for record in records_in(folder):
            name = listed_by(record, os.path.relpath(path, folder))
            if name:
                return name
        folder = os.path.dirname(folder)
        if os.path.basename(path) == path or folder in ("/", ""):
            break
    return ""


def records_in(folder: str) -> Iterator:
    """Yield the RECORD files of a site-packages directory."""
    if not folder.endswith("-packages"):
        return
    try:
        names = sorted(os.listdir(folder))[:MAX_NAMES]
    except OSError:
        return
    for name in names:
        if name.endswith(".dist-info"):
            yield os.path.join(folder, name, "RECORD")


def listed_by(record: str, relative: str) -> str:
    """Return the distribution's name if its RECORD lists the file, else ""."""
    wanted = (relative + ",").encode("utf-8", "surrogateescape")
    try:
        with open(record, "rb") as file:
            if any(line.startswith(wanted) for line in file):
                return os.path.basename(os.path.dirname(record))[: -len(".dist-info")]
    except OSError:
        pass
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
