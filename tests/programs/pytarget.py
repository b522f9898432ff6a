"""Python targets for the object reader, and the comparison with what they say themselves."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from envprobe.cpython import reader
from envprobe.cpython.layouts import Layout
from envprobe.process.handle import ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.process.scope import Scope
from envprobe.pythonfacts import Answer, CallableFact, Datum, Kind

PROGRAM = Path(__file__).with_name("py39") / "py_target.py"
ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 60
END_SECONDS = 10


class PyTarget:
    """A started py_target.py; `truth` is what it says of each query."""

    def __init__(
        self,
        command: Sequence[str],
        request: Mapping[str, Any],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        """Start `command` (an interpreter and its options) with the program's text."""
        self.process = subprocess.Popen(
            [*command, "-c", PROGRAM.read_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
        )
        self.pid = self.process.pid
        self.truth: dict[str, Any] = {}
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            self.truth = json.loads(self._line())["truth"]
        except BaseException:
            self.close()
            raise

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS)
        if not ready:
            raise TimeoutError("the target did not get ready")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the target ended early")
        return line

    def close(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> PyTarget:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextlib.contextmanager
def attached(pid: int, calibrated: Layout | None = None) -> Iterator[reader.PythonReader]:
    """Attach to a process and close everything afterwards."""
    with (
        ProcessHandle.open(pid) as handle,
        Memory.open(handle) as memory,
        AddressSpace(handle) as space,
    ):
        scope = Scope(handle, memory, space)
        with reader.attach(handle, memory, space, scope, calibrated) as python:
            yield python


@functools.cache
def sid_tree() -> Path | None:
    """Return the folder of Debian sid's interpreters, made if need be; None if it cannot be."""
    done = subprocess.run(
        [str(ROOT / "scripts" / "sid_chroot.sh")], capture_output=True, text=True, check=False
    )
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def in_sid(python: str) -> list[str]:
    """Return the command that runs an interpreter of the sid tree; its pid is that of Popen.

    Debug builds (python3.14d) are only in the full tree, which takes minutes to make.
    """
    full = ["--full"] if python.endswith("d") else []
    return [str(ROOT / "scripts" / "sid_chroot.sh"), *full, python]


def full_sid_tree() -> bool:
    """Return whether the tree with debug builds has been made."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")) + "/envprobe"
    return bool(list(Path(os.environ.get("ENVPROBE_CACHE", cache)).glob("sid-full/.envprobe-*")))


def datum_form(datum: Datum, depth: int = 0) -> list[Any]:
    """Return the form in which py_target.py prints a value."""
    kind = datum.kind
    raw = datum.value.reveal() if datum.value is not None else b""
    if kind == "none":
        return ["NoneType", "None"]
    if kind in ("int", "bool", "float"):
        return [kind, raw.decode()]
    if kind in ("str", "bytes"):
        return [kind, raw.hex()]
    if kind == "object":
        return ["object", datum.type_name]
    if depth >= 2:
        return [kind, datum.length]
    items = [datum_form(item, depth + 1) for item in datum.items]
    if kind == "dict":
        keys = [datum_form(key, depth + 1) for key in datum.keys]
        return [kind, [list(pair) for pair in zip(keys, items, strict=True)]]
    return [kind, items]


def differences(answer: Answer, truth: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs between an answer and the process's own word: {} if nothing does."""
    if answer.state.value != truth["state"]:
        return {"state": (answer.state.value, answer.reason, truth)}
    if truth["state"] != "value":
        return {}
    assert answer.kind is not None
    found: dict[str, Any] = {
        "address": answer.address,
        "kind": answer.kind.value,
        "owner": answer.owner,
    }
    wanted = {name: truth[name] for name in ("address", "kind", "owner")}
    if found["kind"] != wanted["kind"]:
        return {"kind": (found, wanted)}
    if answer.kind in (Kind.VALUE, Kind.OBJECT):
        assert answer.value is not None
        found["value"], wanted["value"] = datum_form(answer.value), truth["value"]
    elif answer.kind is Kind.MODULE:
        wanted.update(truth["module"])
        found.update({name: getattr(answer.found_module, name) for name in truth["module"]})
    elif answer.kind is Kind.CLASS:
        assert answer.type is not None
        wanted.update(truth["class"])
        found.update({name: getattr(answer.type, name) for name in truth["class"]})
        found["bases"] = list(answer.type.bases)
    else:
        assert answer.function is not None
        _compare_callables(answer.function, truth["callable"], found, wanted)
    return {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}


def _compare_callables(
    function: CallableFact, truth: Mapping[str, Any], found: dict[str, Any], wanted: dict[str, Any]
) -> None:
    for name, value in truth.items():
        if name in ("inner", "chain"):
            continue
        wanted[name], found[name] = value, getattr(function, name)
    if "chain" in truth:
        inner = function.wraps[0].inner if function.wraps else None
        for name, value in truth["chain"].items():
            if name != "inner":
                wanted[f"chain.{name}"] = value
                found[f"chain.{name}"] = getattr(inner, name, None)
    if truth.get("inner") is not None:
        wanted["wraps"], found["wraps"] = True, bool(function.wraps)


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without Python's own variables, and with `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **more}
