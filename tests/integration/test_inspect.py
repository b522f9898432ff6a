"""`envprobe inspect` on real processes: the right hook, the right function, the right exit code."""

from __future__ import annotations

import contextlib
import encodings.ascii
import io
import json
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import cli, cli_inspect, inspection, tables
from envprobe.cpython import session
from envprobe.process import syscalls
from envprobe.pythonfacts import Answer
from envprobe.report import inspection as text_report
from envprobe.report import inspection_document
from tests.programs import interpreters
from tests.programs.envprobe_cli import envprobe, parsed
from tests.programs.pytarget import PyTarget, clean_environment
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

NOBODY = 65534
VICTIM = """
class Base:
    def inherited(self):
        return "original"


class Backend(Base):
    def forward(self):
        return "original"

    def decode(self):
        return "original"
"""
HOOK = """
import functools
import victim


def forward(self):
    return "patched"


def wrapping(original):
    @functools.wraps(original)
    def around(self):
        return original(self)

    return around


victim.Backend.forward = forward
victim.Backend.decode = wrapping(victim.Backend.decode)
victim.MARKER = {"version": 3, "calls": [0, True, None]}
victim.API_KEY = "hunter2hunter2"
victim.SETTINGS = {"password": "hunter2hunter2", "mode": "fast"}
victim.HOSTILE = "\\x1b]0;owned\\x07\\n::error::x\\n##[group]x\\u202e"
"""
QUERIES = ("sitecustomize", "victim:Backend.forward", "victim:Backend.decode")
SECRET = "hunter2hunter2"
SECRETS = ("victim:API_KEY", "victim:SETTINGS")


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    """Return a folder for PYTHONPATH whose sitecustomize patches the module victim."""
    (tmp_path / "victim.py").write_text(VICTIM)
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    return tmp_path


@contextlib.contextmanager
def patched(hook: Path, python: str = "", *options: str) -> Iterator[int]:
    """Run a process under the hook."""
    command = [python or interpreters.found()[-1].path, *options]
    with PyTarget(command, {"queries": []}, clean_environment(PYTHONPATH=str(hook))) as target:
        yield target.pid


class Ran:
    """What one command line has said."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def document(self) -> Any:
        """The JSON document, whose verdict is the exit code."""
        assert self.stdout.startswith("{"), (self.code, self.stderr)
        document = json.loads(self.stdout)
        jsonschema.validate(document, tables.load("inspection.schema"))
        assert document["verdict"]["exit"] == self.code
        return document

    @property
    def answers(self) -> dict[str, Any]:
        """The answers by their questions."""
        return {one["query"]: one for one in self.document["answers"]}


def ask(pid: int, *arguments: str, kind: str = "json") -> Ran:
    """Run `envprobe inspect` in this process."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.run(["inspect", "--pid", str(pid), "--format", kind, *arguments])
    finally:
        signal.signal(signal.SIGTERM, before)
    return Ran(code, out.getvalue(), err.getvalue())


@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_a_patched_class_in_a_retitled_worker(python: interpreters.Interpreter, hook: Path) -> None:
    site, victim = str(hook / "sitecustomize.py"), str(hook / "victim.py")
    env = {"PYTHONPATH": str(hook)}
    with TitledTree(python.path, workers=1, env=env, titler="own", detokenizer=False) as tree:
        ran = ask(tree.worker(0), *QUERIES, "victim:Base.inherited", "victim:MARKER")
        shown = ask(tree.worker(0), *QUERIES, kind="text")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.document["process"]["command"].strip() == "sglang::scheduler_TP0"
    version = ".".join(map(str, python.version))
    assert ran.document["interpreter"]["version"].startswith(f"{version}.")
    hooks = {one["query"]: one for one in ran.document["hooks"]}
    assert hooks["sitecustomize"]["module"]["file"] == site
    assert hooks["usercustomize"]["state"] == "not_imported"
    assert ran.answers["sitecustomize"]["module"]["file"] == site
    forward = ran.answers["victim:Backend.forward"]["callable"]
    line = HOOK.split("\n").index("def forward(self):") + 1
    assert (forward["module"], forward["qualname"]) == ("sitecustomize", "forward")
    assert (forward["file"], forward["line"], forward["wraps"]) == (site, line, [])
    decode = ran.answers["victim:Backend.decode"]["callable"]
    assert (decode["module"], decode["qualname"]) == ("victim", "Backend.decode")
    assert (decode["file"], decode["globals_module"]) == (site, "sitecustomize")
    (link,) = decode["wraps"]
    assert (link["via"], link["inner"]["file"]) == ("__wrapped__", victim)
    inherited = ran.answers["victim:Base.inherited"]["callable"]
    assert (inherited["file"], inherited["wraps"]) == (victim, [])
    marker = ran.answers["victim:MARKER"]["value"]
    assert marker["items"][0]["key"]["text"] == "version"
    assert marker["items"][0]["value"] == {"kind": "int", "text": "3"}
    words = " ".join(shown.stdout.split())
    assert f"sitecustomize {site}" in words
    assert f"function sitecustomize.forward code at {site}:{line}" in words
    assert f"wraps, by __wrapped__: function victim.Backend.decode code at {victim}:" in words
    assert "note: " not in words


@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_what_is_ignored_is_said(python: interpreters.Interpreter, hook: Path) -> None:
    with patched(hook, python.path, "-I") as pid:
        ran, shown = ask(pid), ask(pid, kind="text")
    assert ran.code == 0
    interpreter = ran.document["interpreter"]
    assert interpreter["flags"]["isolated"] == 1
    variables = {one["name"]: one for one in interpreter["variables"]}
    assert variables["PYTHONPATH"] == {
        "name": "PYTHONPATH",
        "value": {"text": str(hook)},
        "ignored": True,
    }
    assert str(hook) not in [one["entry"] for one in interpreter["path"]]
    words = " ".join(shown.stdout.split())
    assert f"PYTHONPATH={hook} (ignored: this interpreter runs with -E or -I)" in words
    assert "usercustomize not loaded (-s (or -I): no user site directory" in words
    # Debian's interpreter has a sitecustomize of its own.
    (site, _) = ran.document["hooks"]
    assert site["state"] == "not_imported" or str(hook) not in site["module"]["file"]


def test_relative_entries_are_resolved_against_its_directory(tmp_path: Path) -> None:
    run = f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path[:0] = ['', 'rel/../lib']"
    with PyTarget([interpreters.found()[-1].path], {"run": run, "queries": []}) as target:
        path = ask(target.pid).document["interpreter"]["path"]
        shown = " ".join(ask(target.pid, kind="text").stdout.split())
    assert path[0] == {"entry": "", "resolved": str(tmp_path)}
    assert path[1] == {"entry": "rel/../lib", "resolved": str(tmp_path / "lib")}
    assert f"'' (relative, now {tmp_path})" in shown


def test_not_imported_and_absent_are_answers(hook: Path) -> None:
    with patched(hook) as pid:
        ran = ask(pid, "victim.later:Thing.method", "victim:nothing")
        shown = ask(pid, "victim.later:Thing.method", "victim:nothing", kind="text")
    assert (ran.code, shown.code) == (0, 0)
    states = [one["state"] for one in ran.answers.values()]
    assert states == ["not_imported", "absent"]
    assert "a lazy hook patches when it is first imported" in shown.stdout
    assert "absent: victim has no nothing" in shown.stdout


ODD = """
import ctypes, types
odd = sys.modules["odd"] = types.ModuleType("odd")
class Thing:
    size = property(lambda self: 1)
odd.Thing, odd.thing, odd.call, odd.mixed = Thing, Thing(), len, {b"\\xff": [1.5, None, (True,)]}
odd.damaged = object()
ctypes.c_size_t.from_address(id(odd.damaged) + 8).value = 8
"""


def test_every_state_and_kind_of_an_answer() -> None:
    expected = {
        "odd": ("value", "module"),
        "odd:Thing": ("value", "class"),
        "odd:call": ("value", "callable"),
        "odd:mixed": ("value", "value"),
        "odd:thing": ("value", "object"),
        "odd:nothing": ("absent", None),
        "odd.sub:nothing": ("not_imported", None),
        "odd:thing.size.real": ("unreadable", None),
        "odd:damaged": ("changing", None),
    }
    command = [interpreters.found()[-1].path]
    with PyTarget(command, {"run": f"import sys\n{ODD}", "queries": []}) as target:
        ran = ask(target.pid, *expected)
    assert ran.code == 3
    answers = ran.answers
    assert {name: (one["state"], one["kind"]) for name, one in answers.items()} == expected
    assert answers["odd:mixed"]["value"]["items"] == [
        {
            "key": {"kind": "bytes", "base64": "/w==", "length": 1, "cut": False},
            "value": {
                "kind": "list",
                "items": [
                    {"kind": "float", "text": "1.5"},
                    {"kind": "none"},
                    {
                        "kind": "tuple",
                        "items": [{"kind": "bool", "text": "True"}],
                        "length": 1,
                        "cut": False,
                    },
                ],
                "length": 3,
                "cut": False,
            },
        }
    ]


def test_secrets_are_masked_in_both_formats(hook: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    with patched(hook) as pid:
        said = [ask(pid, *SECRETS, kind=kind) for kind in ("text", "json")]
        clear = [ask(pid, *SECRETS, "--unmask", kind=kind) for kind in ("text", "json")]
        written = ask(pid, *SECRETS, "-o", f"text={copy}")
    for ran in (*said, written):
        assert ran.code == 0
        assert SECRET not in ran.stdout + ran.stderr
    assert "<masked, 14 bytes>" in said[0].stdout
    assert "mode: fast" in said[0].stdout
    assert said[1].answers["victim:API_KEY"]["value"]["masked"] == 14
    assert SECRET not in copy.read_text()
    assert "<masked, 14 bytes>" in copy.read_text()
    for ran in clear:
        assert ran.stdout.count(SECRET) == 2


def test_hostile_values_are_harmless(hook: Path) -> None:
    with patched(hook) as pid:
        shown, ran = ask(pid, "victim:HOSTILE", kind="text"), ask(pid, "victim:HOSTILE")
    assert "owned" in shown.stdout
    for text in (shown.stdout, ran.stdout):
        assert text.isascii()
        assert all(one.isprintable() for one in text.split("\n"))
        assert "##[" not in text
        assert not any(line.lstrip().startswith("::") for line in text.split("\n"))
    value = ran.answers["victim:HOSTILE"]["value"]
    assert value["text"] == "\x1b]0;owned\x07\n::error::x\n##[group]x\u202e"


def test_code_that_changed_since_the_start(hook: Path) -> None:
    asked = ("victim:Backend.forward", "victim:Backend.decode", "json")
    with patched(hook) as pid:
        fresh = ask(pid, *asked, kind="text")
        # Later than the start by more than a tick, as rsync -a writes it: with an old mtime.
        time.sleep(0.05)
        other = hook / "other"
        other.write_text(HOOK)
        os.utime(other, (1, 1))
        other.rename(hook / "sitecustomize.py")
        (hook / "victim.py").unlink()
        ran, shown = ask(pid, *asked), ask(pid, *asked, kind="text")
    assert "note: " not in fresh.stdout
    assert (ran.code, shown.code) == (0, 0)
    files = {one["path"]: one for one in ran.answers["victim:Backend.decode"]["files"]}
    assert files[str(hook / "sitecustomize.py")]["state"] == "changed"
    assert files[str(hook / "victim.py")]["state"] == "missing"
    assert [one["state"] for one in ran.answers["json"]["files"]] == ["unchanged"]
    (site, _) = ran.document["hooks"]
    assert [one["state"] for one in site["files"]] == ["changed"]
    words = " ".join(shown.stdout.split())
    assert f"note: {hook}/sitecustomize.py was changed at " in words
    assert "the disk has another" in words
    assert f"note: {hook}/victim.py is not there any more" in words


def test_a_process_without_python() -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"ready\n")
        process.stdin.flush()
        process.stdout.readline()
        ran, shown = ask(process.pid, "json"), ask(process.pid, kind="text")
    finally:
        process.kill()
        process.communicate()
    assert (ran.code, shown.code) == (3, 3)
    assert ran.document["interpreter"]["state"] == "no_python"
    assert ran.answers["json"]["state"] == "unreadable"
    assert "no CPython found" in ran.answers["json"]["reason"]
    assert "no_python: no CPython found" in shown.stdout


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    ran = ask(process.pid, "json", kind="text")
    assert (ran.code, ran.stdout) == (4, "")
    assert f"there is no process {process.pid}" in ran.stderr


def test_a_process_that_ends_while_it_is_asked(hook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = session.Session._answer
    with patched(hook) as pid:

        def ending(self: session.Session, query: str) -> Answer:
            if query == "json":
                os.kill(pid, signal.SIGKILL)
                while not session.has_ended(self._handle):
                    time.sleep(0.001)
            return real(self, query)

        monkeypatch.setattr(session.Session, "_answer", ending)
        ran = ask(pid, "victim", "json", "victim", kind="text")
    assert (ran.code, ran.stdout) == (4, "")
    assert "ended while it was read" in ran.stderr


def test_another_image_is_never_mixed_in(hook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.Session, "_holds", lambda self: False)
    with patched(hook) as pid:
        ran = ask(pid, "json", kind="text")
    assert (ran.code, ran.stdout) == (3, "")
    assert "became another program" in ran.stderr


def test_what_does_not_answer_is_unreadable_and_the_rest_is_told(
    hook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = session.Session._answer

    def stalling(self: session.Session, query: str) -> Answer:
        if query == "stalled":
            time.sleep(30)
        return real(self, query)

    monkeypatch.setattr(session.Session, "_answer", stalling)
    with patched(hook) as pid:
        started = time.monotonic()
        ran = ask(pid, "victim", "stalled", "victim:Backend.forward", "--deadline", "1")
        took = time.monotonic() - started
    assert ran.code == 3
    assert took < 10
    states = {query: one["state"] for query, one in ran.answers.items()}
    assert states == {
        "victim": "value",
        "stalled": "unreadable",
        "victim:Backend.forward": "value",
    }
    assert "longer than 1 s" in ran.answers["stalled"]["reason"]
    assert "--deadline" in ran.answers["stalled"]["remedy"]


def test_another_users_process(hook: Path) -> None:
    if os.geteuid():
        missing("root", "only root can become another user")
    with patched(hook) as pid:
        ran = ask_as(NOBODY, pid, "victim:Backend.forward")
        shown = ask_as(NOBODY, pid, "victim:Backend.forward", kind="text")
    assert (ran.code, shown.code) == (3, 3)
    assert ran.document["interpreter"]["state"] == "unreadable"
    answer = ran.answers["victim:Backend.forward"]
    assert answer["state"] == "unreadable"
    assert "the process runs as uid 0" in answer["reason"]
    assert answer["remedy"].startswith("Run envprobe as root")
    assert "=> Run envprobe as root" in shown.stdout


def ask_as(uid: int, pid: int, *arguments: str, kind: str = "json") -> Ran:
    """Run `ask` in a child that is another user without any capability; needs root."""
    # Imported here: the other user may not be able to read our files.
    assert encodings.ascii
    assert syscalls
    assert cli_inspect
    assert inspection
    assert text_report
    assert inspection_document
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(30)
            os.close(reading)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            with open(writing, "wb") as file:
                pickle.dump(ask(pid, *arguments, kind=kind), file)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    ran: Ran = pickle.loads(answer)
    return ran


def test_the_console_script(hook: Path) -> None:
    with patched(hook) as pid:
        ran = envprobe("inspect", "--pid", str(pid), "sitecustomize", "--format", "json")
    assert ran.returncode == 0
    (answer,) = parsed(ran)["answers"]
    assert answer["module"]["file"] == str(hook / "sitecustomize.py")


def test_files_are_those_of_its_own_mount_namespace(tmp_path: Path) -> None:
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        missing("root", "a mount namespace cannot be made here")
    outside, inside = tmp_path / "hook", tmp_path / "inside"
    for folder in (outside, inside):
        folder.mkdir()
        (folder / "victim.py").write_text(VICTIM)
        (folder / "sitecustomize.py").write_text(HOOK)
    mount = f'mount --bind {inside} {outside} && exec "$@"'
    command = ("-m", "sh", "-c", mount, "sh", interpreters.found()[-1].path)
    with patched(outside, "unshare", *command) as pid:
        time.sleep(0.05)
        (outside / "sitecustomize.py").unlink()
        before = ask(pid, "sitecustomize")
        (inside / "sitecustomize.py").write_text("")
        after = ask(pid, "sitecustomize")
    path = str(outside / "sitecustomize.py")
    for ran, state in ((before, "unchanged"), (after, "changed")):
        (file,) = ran.answers["sitecustomize"]["files"]
        assert (ran.code, file["path"], file["state"]) == (0, path, state)
