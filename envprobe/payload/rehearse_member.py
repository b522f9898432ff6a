"""What each process of a rehearsed server does: it says what its start has made of it, and waits.

Executed by rehearse_tree.py. The first process writes lines of JSON to ANSWER: what it is, then,
once it has been told on CONTROL what to do, what each of its children says. Each has an `about`:
"first", "member" (a process of the tree), "said" (what was written to the stderr of a process),
"failed" (a process did not come up) or "ready". It is over when CONTROL or the pipe from the
parent ends. Standard library only, Python 3.9 to 3.15.
"""

import os
import sys
import time

CONTROL, ANSWER = 62, 63
SAID_BYTES = 1 << 16
READ_BYTES = 1 << 16
UNTOLD = 83
"""The exit code of a first process that is asked for nothing: no hook has ended it."""


def lead(codes: dict, began: float, member: object) -> None:
    """Be the first process, whose children run `member`."""
    probe, reach = load(codes["startup_probe"]), load(codes["startup_reach"])
    path = probe["path_now"]()
    probe["repair_path"]()
    # Before multiprocessing is imported: what a hook has imported or started is told as it is.
    server = forkserver_pid()
    first = dict(about_itself(probe, reach, path), about="first")
    probe["send"](ANSWER, dict(first, forkserver=server, began=began))
    asked_version = read_line(UNTOLD).strip()
    probe["send"](ANSWER, {"about": "version", "version": version(asked_version)})
    asked = probe["decode"](read_line(UNTOLD))
    sys.path[:0] = asked["path0"]
    asked["method"] = asked["method"] or own_method()
    os.environ.update(asked["sets"])
    for name in asked["removes"]:
        os.environ.pop(name, None)
    targets = {one: target(one) for one in asked["patches"] + asked["programs"]}
    told = {"about": "set", "environment": dict(os.environ), "targets": targets}
    probe["send"](ANSWER, dict(told, method=asked["method"]))
    start_all(codes, asked, member, asked["nodes"], lambda line: write(ANSWER, line), probe)
    probe["send"](ANSWER, {"about": "ready"})
    read_line(0)
    os._exit(0)


def serve(
    codes: dict, began: float, node: dict, asked: dict, connection: object, called: float
) -> None:
    """Be a process below the first one; `called` is when its parent began to start it."""
    probe, reach = load(codes["startup_probe"]), load(codes["startup_reach"])
    # A fork has these from the first process.
    for number in (CONTROL, ANSWER):
        try:
            if asked["method"] == "fork":
                os.close(number)
        except OSError:
            pass
    os.environ.update(node["sets"])
    for name in node["removes"]:
        os.environ.pop(name, None)
    started = max(began, called) if asked["method"] == "spawn" else time.monotonic()
    told = dict(about_itself(probe, reach, probe["path_now"]()), about="member", node=node["id"])
    told["seconds"] = started - called
    told["targets"] = {one: target(one) for one in asked["patches"]}
    told["titled"] = retitle(node["title"])
    if asked["import_target"] and node["worker"]:
        told["held"] = {one: held(one, probe) for one in asked["patches"]}
        told["torch_after"] = probe["torch_facts"]()
    # The import of a module may set variables: this is what is read from outside, too.
    told["environment"] = dict(os.environ)
    connection.send_bytes(encoded(probe, told))
    main = sys.modules["__main__"]
    start_all(codes, asked, main.member, node["children"], connection.send_bytes, probe)
    connection.send_bytes(encoded(probe, {"about": "ready"}))
    try:
        connection.recv_bytes()
    finally:
        os._exit(0)


def load(code: bytes) -> dict:
    """Return the names that a compiled payload defines."""
    import marshal

    found: dict = {"__name__": "envprobe_payload"}
    exec(marshal.loads(code), found)
    return found


def encoded(probe: dict, told: dict) -> bytes:
    """Return one line of JSON."""
    return probe["encode"](told).encode("ascii") + b"\n"


def write(descriptor: int, line: bytes) -> None:
    """Write all of a line."""
    while line:
        line = line[os.write(descriptor, line) :]


def read_line(code: int) -> str:
    """Return the next line of CONTROL; at its end, where nobody waits for an answer, exit."""
    received = b""
    while not received.endswith(b"\n"):
        chunk = os.read(CONTROL, READ_BYTES)
        if not chunk:
            os._exit(code)
        received += chunk
    return received.decode("ascii")


def about_itself(probe: dict, reach: dict, path: "list | None") -> dict:
    """Return what this process says of itself; sys.flags as a whole, not only what decides."""
    flags = {
        name: int(getattr(sys.flags, name))
        for name in dir(sys.flags)
        if not name.startswith(("_", "n_", "count", "index"))
    }
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "facts": probe["facts"](path),
        "flags": flags,
        "importable": reach["importable"](probe["HOOKS"]),
        "patches": {},
        "recorded": probe["recorded"]("patches"),
    }


def forkserver_pid() -> "int | None":
    """Return the fork server that runs already; only a hook can have started one."""
    module = sys.modules.get("multiprocessing.forkserver")
    server = getattr(module, "_forkserver", None)
    return getattr(server, "_forkserver_pid", None)


def own_method() -> str:
    """Return the start method where nobody has chosen one but perhaps a hook."""
    import multiprocessing

    return multiprocessing.get_start_method()


def version(distribution: str) -> "str | None":
    """Return the version of an installed distribution, None if there is none."""
    if not distribution:
        return None
    try:
        from importlib import metadata

        return str(metadata.version(distribution))
    except Exception:
        return None


def retitle(title: str) -> bool:
    """Give this process a title as the framework does; return whether that was possible."""
    if not title:
        return False
    try:
        import setproctitle
    except Exception:
        return False
    setproctitle.setproctitle(title)
    return True


# --- what is to be patched -----------------------------------------------------------------------


def target(patch: str) -> dict:
    """Return whether the module of an attribute could be imported; nothing is imported for it."""
    module = patch.partition(":")[0]
    found: dict = {"origin": None, "missing": "", "error": "", "imported": module in sys.modules}
    parts, search = module.split("."), None
    try:
        for number in range(1, len(parts) + 1):
            name = ".".join(parts[:number])
            spec = spec_of(name, search)
            if spec is None:
                return dict(found, missing=name)
            search = spec.submodule_search_locations
            # That of a namespace package asks for its parent, which is not imported.
            search = getattr(search, "_path", search)
            if search is None and number < len(parts):
                return dict(found, missing=".".join(parts[: number + 1]))
            found["origin"] = spec.origin
    except Exception as error:
        return dict(found, error=type(error).__name__)
    return found


def spec_of(name: str, path: object) -> object:
    """Return the spec of a module, without the import of its parents; None if there is none.

    Finders of hooks come last: some take being asked for the import that they wait for.
    """
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is not None:
        return spec
    from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

    standard = [BuiltinImporter, FrozenImporter, PathFinder]
    for finder in standard + [one for one in sys.meta_path if one not in standard]:
        find = getattr(finder, "find_spec", None)
        try:
            spec = None if find is None else find(name, path, None)
        except KeyError:
            # Of a namespace package: its search asks for the parent, which is not imported.
            spec = namespace(name, path)
        if spec is not None:
            return spec
    return None


def namespace(name: str, path: list) -> object:
    """Return the spec of a package without a file of its own; `path` is that of its parent."""
    import pkgutil
    from importlib.machinery import ModuleSpec

    found = ModuleSpec(name, None, is_package=True)
    for entry in path:
        finder = pkgutil.get_importer(entry)
        spec = None if finder is None else finder.find_spec(name)
        if spec is not None:
            found.submodule_search_locations += spec.submodule_search_locations or []
    return found


def held(patch: str, probe: dict) -> dict:
    """Return what an attribute holds once its module is imported, and in which module that runs."""
    began = time.monotonic()
    told = dict(probe["attribute"](patch))
    told["seconds"] = time.monotonic() - began
    module, _, names = patch.partition(":")
    found = sys.modules.get(module)
    told["own"] = getattr(getattr(found, "__spec__", None), "origin", None)
    for name in names.split("."):
        found = getattr(found, name, None)
    namespace = getattr(getattr(found, "__func__", found), "__globals__", None)
    told["runs_in"] = namespace.get("__name__") if isinstance(namespace, dict) else None
    told["recorded"] = probe["recorded"]("patches").get(patch, "")
    return told


# --- the children --------------------------------------------------------------------------------


class Said:
    """Takes what processes that are started meanwhile write to their stderr, up to a bound."""

    def __init__(self) -> None:
        self._file = self._before = -1

    def __enter__(self) -> "Said":
        """Put a file in the place of stderr."""
        try:
            import fcntl

            self._file = os.memfd_create("said", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self._file, SAID_BYTES)
            # F_ADD_SEALS, F_SEAL_GROW: include/uapi/linux/fcntl.h
            fcntl.fcntl(self._file, 1033, 4)
            self._before = os.dup(2)
            os.dup2(self._file, 2)
        except (AttributeError, OSError):
            # Without it they write to the stderr of the first process.
            self._file = self._before
        return self

    def __exit__(self, *error: object) -> None:
        """Put stderr back."""
        if self._before >= 0:
            os.dup2(self._before, 2)
            os.close(self._before)

    def read(self) -> str:
        """Return what was written so far."""
        if self._file < 0:
            return ""
        size = os.lseek(self._file, 0, os.SEEK_CUR)
        return os.pread(self._file, size, 0).decode("utf-8", "backslashreplace")


def start_all(
    codes: dict, asked: dict, member: object, nodes: list, tell: object, probe: dict
) -> None:
    """Start children side by side, and pass on what they and those below them say."""
    if not nodes:
        return
    import multiprocessing

    context = multiprocessing.get_context(asked["method"])
    served = list(start_helpers(asked["method"], tell, probe))
    if asked["shell"] and asked["method"] == "spawn":
        multiprocessing.set_executable(asked["shell"])
    started = []
    for node in nodes:
        ours, theirs = context.Pipe()
        given = (codes, node, dict(asked, nodes=[]), theirs, time.monotonic())
        with Said() as said:
            child = context.Process(target=member, args=given)
            try:
                child.start()
            except Exception as error:
                told = {"about": "failed", "node": node["id"], "why": type(error).__name__}
                tell(encoded(probe, told))
                continue
            finally:
                theirs.close()
        started.append((node, child, ours, said))
    for node, child, ours, said in started:
        why = pass_on(ours, tell, asked["until"])
        if why:
            child.join(1 if why == "ended" else 0)
            told = {"about": "failed", "node": node["id"], "why": why, "code": child.exitcode}
            tell(encoded(probe, told))
        tell(encoded(probe, {"about": "said", "node": node["id"], "text": said.read()}))
    for name, said in served:
        tell(encoded(probe, {"about": "said", "node": name, "text": said.read()}))
    # They end when these are closed: at the end of this process.
    KEPT.extend(started)


KEPT: list = []


def start_helpers(method: str, tell: object, probe: dict) -> object:
    """Start the helpers of multiprocessing before the first child, and yield their stderr."""
    if method == "fork":
        return
    from multiprocessing import resource_tracker

    with Said() as said:
        resource_tracker.ensure_running()
    yield "resource tracker", said
    if method == "forkserver" and forkserver_pid() is None:
        from multiprocessing import forkserver

        with Said() as said:
            forkserver.ensure_running()
        yield "forkserver", said


def pass_on(connection: object, tell: object, until: float) -> str:
    """Pass on what a child says until it is ready; return why it never was, "" if it was."""
    try:
        while connection.poll(max(until - time.monotonic(), 0)):
            line = connection.recv_bytes()
            if line.startswith(b'{"about": "ready"'):
                return ""
            tell(line)
    except (EOFError, OSError):
        return "ended"
    return "silent"
