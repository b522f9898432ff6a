"""Says what start-up hooks have made of the interpreter it runs in.

Run as `python FLAGS -c TEXT DESCRIPTOR REQUEST`, or executed by another payload in a child for
`facts`. REQUEST is JSON: `path0` is what the real command puts first on sys.path (null: nothing),
`patches` lists attributes as MODULE:Class.attr, `modules` what startup files import. Each answer is
a line of JSON on the descriptor: first the facts, then the patches, whose modules are imported for
it, each with what a hook of `envprobe init-hook` has recorded of it. Standard library only, Python
3.9 to 3.15; nothing is imported before what hooks have done to sys.path is known.
"""

import os
import sys

HOOKS = ("sitecustomize", "usercustomize")
MAX_REPLACED = 50
MAX_LOOKED_AT = 200000
MAX_NAMES = 200


def main(descriptor: str, request: str) -> None:
    """Answer with the facts, then with the patches."""
    path = path_now()
    repair_path()
    asked = decode(request)
    set_first_entry(asked)
    send(int(descriptor), dict(facts(path), modules=loaded_files(asked["modules"])))
    for patch in asked["patches"]:
        answer = {"patch": patch, "found": attribute(patch)}
        send(int(descriptor), dict(answer, recorded=recorded("patches").get(patch, "")))


def decode(text: str) -> dict:
    """Return what envprobe has written as JSON; a hook may have replaced the module json."""
    return eval(text, {"true": True, "false": False, "null": None})


def encode(value: object) -> str:
    """Return JSON in ASCII, for the same reason not by the module."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        pairs = (encode(str(key)) + ": " + encode(one) for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(encode(one) for one in value) + "]"
    return '"' + "".join(encode_character(one) for one in str(value)) + '"'


def encode_character(one: str) -> str:
    """Return one character as it stands between the quotes of JSON."""
    code = ord(one)
    if " " <= one <= "~" and one not in '"\\':
        return one
    if code < 0x10000:
        return "\\u%04x" % code
    code -= 0x10000
    return "\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))


def send(descriptor: int, answer: dict) -> None:
    """Write one line of JSON."""
    data = encode(answer).encode("ascii") + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def path_now() -> "list | None":
    """Return sys.path, None where a hook has made it no list."""
    path = getattr(sys, "path", None)
    return [str(entry) for entry in path] if isinstance(path, list) else None


def repair_path() -> None:
    """Make the standard library importable again if a hook has taken it away."""
    try:
        import importlib.machinery  # noqa: F401
        import resource  # noqa: F401
    except Exception:
        folder = os.path.dirname(os.__file__)
        sys.path = [folder, folder + "/lib-dynload"]


def set_first_entry(asked: dict) -> None:
    """Put what the real command would put first on sys.path there, in the place of -c's."""
    if asked.get("path") is not None:
        sys.path[:] = asked["path"]
    elif sys.path[:1] == [""] and not getattr(sys.flags, "safe_path", 0):
        sys.path[:1] = [] if asked["path0"] is None else [asked["path0"]]


def facts(path: "list | None") -> dict:
    """Return what is to be said of this interpreter."""
    return {
        "hooks": {name: hook(name) for name in HOOKS},
        "chained": recorded("chained"),
        "environment": dict(os.environ),
        "path": path,
        "cwd": working_directory(),
        "executable": sys.executable,
        "flags": {name: int(getattr(sys.flags, name, 0)) for name in FLAGS},
        "streams": [name for name in ("stdin", "stdout", "stderr") if is_replaced(name)],
        "replaced": list(replaced()),
        "torch": torch_facts(),
        "gpu_files": gpu_files(),
        "threads": count("/proc/self/task"),
        "children": children(),
        "waited_for_children": has_waited(),
    }


FLAGS = ("no_site", "isolated", "ignore_environment", "no_user_site", "safe_path")


def working_directory() -> "str | None":
    """Return the current directory, None if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return None


def hook(name: str) -> dict:
    """Return whether a hook is loaded, from where, and which names it has defined."""
    module = sys.modules.get(name)
    if module is None:
        return {"loaded": False}
    spec = getattr(module, "__spec__", None)
    loader = type(getattr(spec, "loader", None)).__name__
    names = [one for one in list(vars(module)) if not one.startswith("__")]
    return {
        "loaded": True,
        "file": text_or_none(getattr(module, "__file__", None)),
        "origin": text_or_none(getattr(spec, "origin", None)),
        "loader": "NamespaceLoader" if loader == "NoneType" else loader,
        "names": names[:MAX_NAMES],
    }


def loaded_files(names: list) -> dict:
    """Return the file of each of these modules that is loaded, as it is named and without links."""
    found = {}
    for name in names:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        path = text_or_none(getattr(spec, "origin", None) or getattr(module, "__file__", None))
        if path is not None:
            found[name] = [path, os.path.realpath(path)]
    return found


def recorded(key: str) -> dict:
    """Return what hooks of `envprobe init-hook` have recorded: of each chained hook or patch.

    A hook that failed itself counts as one that it has chained.
    """
    found = {}
    for module in list(sys.modules.values()):
        told = getattr(module, "__dict__", {}).get("ENVPROBE_HOOK")
        states = told.get(key) if isinstance(told, dict) else None
        if key == "chained" and isinstance(told, dict) and told.get("error"):
            states = {getattr(module, "__file__", ""): told["error"]}
        if isinstance(states, dict):
            found.update({str(name): str(state)[:500] for name, state in states.items()})
    return found


def text_or_none(value: object) -> "str | None":
    """Return a text as it is, None for anything else."""
    return value if isinstance(value, str) else None


def is_replaced(name: str) -> bool:
    """Return whether a standard stream is another than at the start."""
    return getattr(sys, name, None) is not getattr(sys, "__" + name + "__", None)


# --- what hooks have replaced --------------------------------------------------------------------


def hook_files() -> tuple:
    """Return the files that belong to hooks: they themselves, and what lies beside them.

    What lies beside a hook in a directory of many packages does not belong to it.
    """
    files, folders = set(), set()
    for name in HOOKS:
        path = getattr(sys.modules.get(name), "__file__", None)
        if not isinstance(path, str):
            continue
        files.add(path)
        folder = os.path.dirname(path)
        if not folder.endswith("-packages") and folder != os.path.dirname(os.__file__):
            folders.add(folder + os.sep)
    return files, tuple(folders)


def replaced() -> object:
    """Yield attributes of modules and of their classes that hold code of a hook."""
    files, folders = hook_files()
    if not files:
        return
    looked_at = shown = 0
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(module, type(sys)) or name == "__main__":
            continue
        if isinstance(path, str) and (path in files or path.startswith(folders)):
            continue
        for where, value in attributes_of(name, module):
            looked_at += 1
            place = code_of(value)
            if place is not None and (place[0] in files or place[0].startswith(folders)):
                yield {"where": where, "file": place[0], "line": place[1]}
                shown += 1
            if looked_at > MAX_LOOKED_AT or shown >= MAX_REPLACED:
                return


def attributes_of(name: str, module: object) -> object:
    """Yield the attributes of a module, and those of the classes that it defines."""
    for key, value in list(vars(module).items()):
        yield name + "." + str(key), value
        if isinstance(value, type) and value.__module__ == name:
            for inner, held in list(vars(value).items()):
                yield name + "." + str(key) + "." + str(inner), held


def code_of(value: object) -> "tuple | None":
    """Return file and line of the code behind a function or method, None if there is none."""
    value = getattr(value, "__func__", value)
    code = getattr(value, "__code__", None)
    file = getattr(code, "co_filename", None)
    return (file, code.co_firstlineno) if isinstance(file, str) else None


def attribute(patch: str) -> dict:
    """Return what an attribute holds; its module is imported."""
    import importlib

    module, _, names = patch.partition(":")
    try:
        found = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except Exception as error:
        return {"error": type(error).__name__ + ": " + str(error)[:500]}
    place = code_of(found)
    if place is None and isinstance(found, type):
        file = getattr(sys.modules.get(found.__module__), "__file__", None)
        place = (file, 0) if isinstance(file, str) else None
    return {
        "type": type(found).__name__,
        "module": text_or_none(getattr(found, "__module__", None)),
        "qualname": text_or_none(getattr(found, "__qualname__", None)),
        "file": place[0] if place else None,
        "line": place[1] if place else None,
    }


# --- what hooks have started ---------------------------------------------------------------------


def torch_facts() -> dict:
    """Return whether torch is imported and whether it has initialised CUDA."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"imported": False, "initialised": False}
    cuda = sys.modules.get("torch.cuda")
    try:
        return {"imported": True, "initialised": bool(cuda and cuda.is_initialized())}
    except Exception:
        return {"imported": True, "initialised": None}


def gpu_files() -> list:
    """Return the device files of GPUs that this process has open."""
    found = set()
    try:
        for number in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink("/proc/self/fd/" + number)
            except OSError:
                continue
            if target.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri/")):
                found.add(target)
    except OSError:
        pass
    return sorted(found)


def count(folder: str) -> "int | None":
    """Return how many entries a directory of /proc has, None if it cannot be read."""
    try:
        return len(os.listdir(folder))
    except OSError:
        return None


def children() -> "list | None":
    """Return the command lines of the living children of this process, None if unknown."""
    found = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open("/proc/self/task/" + task + "/children") as file:
                found += file.read().split()
    except OSError:
        return None
    return [command_line(pid) for pid in found]


def command_line(pid: str) -> str:
    """Return the command line of a process, its number if that cannot be read."""
    try:
        with open("/proc/" + pid + "/cmdline", "rb") as file:
            return file.read(200).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return pid


def has_waited() -> bool:
    """Return whether this process has had children that it waited for (getrusage(2))."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0


if __name__ == "__main__":
    main(*sys.argv[1:])
