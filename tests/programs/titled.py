"""A target program: a tree of processes that set variables, take titles and tell the truth.

Runs on CPython 3.9 and later with the standard library alone. Each process of the tree reports its
own getenv(3) and os.environ on standard output and then lives until standard input ends. What they
do is read from a file that `tests/programs/trees.py` writes, in the words of `actions.py`.

Titles are taken with setproctitle where it can be imported. Interpreters that lack it use
`own_title`, which does through ctypes what setproctitle 1.3 does on Linux: it copies the strings of
the environment elsewhere, writes the title over the arguments and over the entries that still
follow them without a gap, and fills what is left of that area with NULs (SPT_NOENV: arguments
only; an empty environment: nothing).
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import multiprocessing.spawn
import os
import select
import socket
import subprocess
import sys
import threading
import traceback
import types
from typing import Any

CHUNK = 3500  # with its head a line stays below PIPE_BUF, so that lines of processes do not mix
_PR_SET_NAME, _PR_SET_PTRACER, _PR_SET_PTRACER_ANY = 15, 0x59616D61, ctypes.c_ulong(-1)

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
libc.strdup.restype = ctypes.c_void_p
libc.strdup.argtypes = [ctypes.c_void_p]
_kept: list[Any] = []  # buffers that the C environment points into
_area: list[int] = []


# --- titles


def _bounds() -> list[int]:
    """Return arg_start, arg_end, env_start, env_end (proc_pid_stat(5))."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return [int(field) for field in fields[45:49]]


def _take_area() -> tuple[int, int]:
    """Move the environment out of the way; return the bounds of what a title may take."""
    start, end, _, _ = _bounds()
    entries = []
    array = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
    while array and array[len(entries)]:
        entries.append(array[len(entries)])
    if not entries:
        return start, start
    if "SPT_NOENV" not in os.environ:
        for entry in entries:
            if entry == end:
                end = entry + len(ctypes.string_at(entry)) + 1
        copies = (ctypes.c_void_p * (len(entries) + 1))(*map(libc.strdup, entries), None)
        _kept.append(copies)
        ctypes.c_void_p.in_dll(libc, "environ").value = ctypes.addressof(copies)
    return start, end


def own_title(title: str) -> None:
    if not _area:
        _area.extend(_take_area())
    start, end = _area
    if start == end:
        return
    shown = os.fsencode(title)[: end - start - 2]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, shown, len(shown))
    libc.prctl(_PR_SET_NAME, shown[:15], 0, 0, 0)


def take_title(title: str, titler: str) -> str:
    """Take the title; return what was used: `setproctitle` or `own`."""
    if titler != "own":
        try:
            import setproctitle
        except ImportError:
            if titler == "setproctitle":
                raise
        else:
            setproctitle.setproctitle(title)
            return "setproctitle"
    own_title(title)
    return "own"


# --- what a process can be told to do


def _c_putenv(name: str, value: str) -> None:
    _kept.append(ctypes.create_string_buffer(os.fsencode(f"{name}={value}")))
    libc.putenv(_kept[-1])


def _churn() -> None:
    """Import and forget modules without pause."""

    def work() -> None:
        for number in itertools.count():
            name = f"churn_{number % 5000}"
            sys.modules[name] = types.ModuleType(name)
            sys.modules.pop(f"churn_{(number + 2500) % 5000}", None)

    threading.Thread(target=work, daemon=True).start()


def _execute(*command: str) -> None:
    os.execv(command[0], command)


VERBS = {
    "py_set": os.environ.__setitem__,
    "py_putenv": os.putenv,
    "py_data_set": lambda name, value: os.environ._data.update(
        {os.fsencode(name): os.fsencode(value)}
    ),
    "churn": _churn,
    "py_unset": lambda name: os.environ.pop(name, None),
    "c_setenv": lambda name, value: libc.setenv(os.fsencode(name), os.fsencode(value), 1),
    "c_unsetenv": lambda name: libc.unsetenv(os.fsencode(name)),
    "c_putenv": _c_putenv,
    "clearenv": lambda: libc.clearenv(),
    "prctl": lambda option, argument: libc.prctl(option, argument, 0, 0, 0),
    "become": lambda uid, gid: (os.setgroups([]), os.setgid(gid), os.setuid(uid)),
    "chdir": os.chdir,
    "load": importlib.import_module,
    "start_tracker": multiprocessing.resource_tracker.ensure_running,
    "start_forkserver": multiprocessing.forkserver.ensure_running,
    "exit": os._exit,
    "exec": _execute,
}


class Node:
    """One process of the tree."""

    def __init__(self, plan: dict[str, Any], node: dict[str, Any]) -> None:
        self.plan = plan
        self.node = node
        self.key = node["key"]
        self.titler = ""
        self.start = {name: os.environ.get(name) for name in plan["names"]}

    def run(self) -> None:
        """Do all that the plan says, report, and live; never returns."""
        try:
            self.follow()
        except BaseException:
            traceback.print_exc()
            os.write(1, f"\n@failed {self.key}\n".encode("ascii"))
            os._exit(1)

    def follow(self) -> None:
        libc.prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)
        self.do(self.node["before_title"])
        if self.node["title"]:
            self.title(self.node["title"])
        for child in self.node["children"]:
            self.do(child["parent_before"])
            self.start_child(child)
            self.do(child["parent_after"])
        self.do(self.node["after_title"])
        self.live()

    def do(self, steps: list[list[Any]]) -> None:
        for verb, *arguments in steps:
            if verb == "fork":
                self.fork()
            elif verb == "title":
                self.title(*arguments)
            elif verb == "leave_main_thread":
                self.leave_main_thread()
            else:
                VERBS[verb](*arguments)

    def title(self, title: str) -> None:
        self.node["title"] = title
        self.titler = take_title(title, self.plan["titler"])

    def fork(self) -> None:
        """Make a plain fork child, which keeps the title and lives as we do."""
        if not os.fork():
            self.key += ".fork"
            self.live()

    def leave_main_thread(self) -> None:
        """Live on in another thread alone: the process shows as a zombie and is none."""
        threading.Thread(target=self.live).start()
        libc.pthread_exit(None)

    def start_child(self, child: dict[str, Any]) -> None:
        if child["method"] == "subprocess":
            command = [*child["wrapper"], sys.executable, os.path.abspath(__file__)]
            _kept.append(
                subprocess.Popen([*command, self.plan["path"], child["key"]], env=child["env"])
            )
            return
        executable = multiprocessing.spawn.get_executable()
        if child["executable"]:
            multiprocessing.set_executable(child["executable"])
        context: Any = multiprocessing.get_context(child["method"])
        process = context.Process(target=run_child, args=(self.plan, child))
        process.start()
        _kept.append(process)
        multiprocessing.set_executable(executable)

    def live(self) -> None:
        """Report, then obey messages until standard input ends."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as orders:
            orders.bind(f"\0{self.plan['token']}-{os.getpid()}")
            self.report()
            if self.node["exits"]:
                os._exit(0)
            while True:
                ready, _, _ = select.select([0, orders], [], [])
                if 0 in ready:
                    os._exit(0)
                self.do(json.loads(orders.recv(1 << 18)))
                self.report()

    def report(self) -> None:
        """Write what this process's environment is at this moment."""
        names = self.plan["names"]
        values = {name: libc.getenv(os.fsencode(name)) for name in names}
        text = json.dumps(
            {
                "pid": os.getpid(),
                "key": self.key,
                "title": self.node["title"],
                "titler": self.titler,
                "libc": {n: None if v is None else os.fsdecode(v) for n, v in values.items()},
                "python": {name: os.environ.get(name) for name in names},
                "start": self.start,
                "tracker": multiprocessing.resource_tracker._resource_tracker._pid,
                "forkserver": multiprocessing.forkserver._forkserver._forkserver_pid,
            }
        )
        for begin in range(0, len(text), CHUNK):
            last = int(begin + CHUNK >= len(text))
            line = f"\n@titled {os.getpid()} {last} {text[begin : begin + CHUNK]}\n"
            os.write(1, line.encode("ascii"))


def run_child(plan: dict[str, Any], node: dict[str, Any]) -> None:
    """Be the child that multiprocessing started."""
    Node(plan, node).run()


def find(node: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the node with this key below `node`."""
    if node["key"] == key:
        return node
    for child in node["children"]:
        if key == child["key"] or key.startswith(child["key"] + "."):
            return find(child, key)
    raise KeyError(key)


def main() -> None:
    path, key = sys.argv[1:3]
    with open(path, encoding="ascii") as file:
        plan = json.load(file)
    Node(plan, find(plan["root"], key)).run()


if __name__ == "__main__":
    main()
