"""Units and environment files mean to envprobe what they mean to a real `systemd --user`."""

from __future__ import annotations

import dataclasses
import os
import shutil
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from envprobe.launch import dropins, environment, unit, unitfile
from envprobe.launch import manager as asking
from envprobe.launch.declared import Declared
from envprobe.launch.definition import Context, of_name
from envprobe.launch.execline import parse_exec, replaced
from envprobe.launch.specifiers import Scope
from envprobe.launch.types import Place
from envprobe.launch.unitfile import Assignment
from envprobe.model import EnvironmentStatus, State
from tests.programs.usermanager import UserManager, user_manager

VERSION = asking.local_version(os.environ)
OF_SYSTEMD = frozenset({"MANAGERPID", "INVOCATION_ID", "SYSTEMD_EXEC_PID", "JOURNAL_STREAM"})
MANAGERS_ONLY = ("%c", "%d", "%r", "%R")
"""The known difference: what these stand for only the manager knows, and envprobe says so."""


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserManager]:
    with user_manager(tmp_path_factory.mktemp("manager")) as found:
        yield found


def _declared(manager: UserManager, name: str) -> Declared:
    return of_name(name, Context(manager.environment, user=True)).declared


def _start(manager: UserManager, units: dict[str, str | bytes]) -> None:
    """Write units that print their environment, and start them all."""
    for name, body in units.items():
        raw = body.encode() if isinstance(body, str) else body
        head = f"[Service]\nType=oneshot\nStandardOutput=file:{manager.folder}/{name}.out\n"
        manager.write(f"{name}.service", head.encode() + b"ExecStart=/usr/bin/env -0\n" + raw)
        (manager.folder / f"{name}.out").unlink(missing_ok=True)
    manager.systemctl("daemon-reload")
    manager.systemctl("start", *(f"{name}.service" for name in units), check=False)


def _handed(manager: UserManager, name: str) -> dict[str, bytes] | None:
    """Return what a unit was really handed, without what systemd adds; None: it did not start."""
    path = manager.folder / f"{name}.out"
    if not path.exists():
        return None
    entries = [one.partition(b"=") for one in path.read_bytes().split(b"\0") if one]
    return {
        os.fsdecode(key): value for key, _, value in entries if os.fsdecode(key) not in OF_SYSTEMD
    }


def _read(manager: UserManager, name: str, base: dict[str, str]) -> tuple[Declared, bool]:
    """Return what envprobe reads in a unit's files, and whether it remarks on anything."""
    path = manager.units / f"{name}.service"
    files = [path, *sorted(path.with_name(f"{path.name}.d").glob("*.conf"))]
    scope = Scope(path.name, str(path), user_manager=True, uid=0, variables=base, version=VERSION)
    made = unit.read(scope, [unitfile.parse(str(one), one.read_bytes()) for one in files])
    declared, remarks = environment.declare(made, base, version=VERSION)
    return declared, bool(made.remarks or remarks)


def _ours(declared: Declared) -> dict[str, bytes]:
    entries = declared.environment.entries
    return {name: value.reveal() for name, value in entries.items() if value is not None}


NAMES = ("A=", "B=", "C=", "PATH=", "A", "_c", "export ", "\ufeff")
MARKS = ("=", " ", "  ", "\t", "'", '"', "\\", "\\\\", "\\\n", "\n", "\r", "#", ";", "\x01")
ESCAPES = ("\\x41", "\\101", "\\u00e9", "\\s", "\\t", "\\$", "\\0", "\\x00", "a\\ b")
PERCENTS = ("%%", "%n", "%p", "%i", "%h", "%u", "%H", "%z", "%", "%-")
TEXTS = ("$A", "${B}", "`c`", "a", "b c", "1", "/x:/y", "\u00e9", "\u20ac", "\ufdd0")
PIECES = st.sampled_from([*NAMES, *MARKS, *ESCAPES, *PERCENTS, *TEXTS])
NAMED = st.sampled_from(["", "A=", 'B="', "C='", '"D='])
LINE = st.builds(lambda name, rest: name + "".join(rest), NAMED, st.lists(PIECES, max_size=12))
FILE = st.builds(lambda lines: "\n".join(lines), st.lists(LINE, max_size=4))
PASSED = {"A": "of the manager", "P": "p $q 'r' \\", "Q": ""}
"""What the manager of these tests hands to its units, below everything else."""
WORDS = st.lists(
    st.sampled_from([*PASSED, "HOME", "NOPE", "B", "A=a", "%n", '"C', "\\x41"]), max_size=3
)
SETTING = st.one_of(
    st.builds("Environment={}".format, LINE),
    st.builds("Environment={}".format, LINE),
    st.builds(lambda words: f"PassEnvironment={' '.join(words)}", WORDS),
    st.builds(lambda words: f"UnsetEnvironment={' '.join(words)}", WORDS),
    st.builds("UnsetEnvironment={}".format, LINE),
    st.sampled_from(["Environment=", "PassEnvironment=", "UnsetEnvironment=", "EnvironmentFile="]),
    st.just("EnvironmentFile=-{folder}/{name}.second"),
)
BODY = st.lists(SETTING, max_size=4)


@dataclasses.dataclass(frozen=True)
class Case:
    """A unit's own lines, those of its drop-ins, and the text of its two environment files."""

    body: list[str]
    drop_ins: list[list[str]]
    file: str
    second: str

    def write(self, manager: UserManager, name: str) -> str:
        """Write the files and drop-ins; return what goes into the unit itself."""
        for end, text in (("env", self.file), ("second", self.second)):
            (manager.folder / f"{name}.{end}").write_bytes(text.encode())
        folder = manager.units / f"{name}.service.d"
        shutil.rmtree(folder, ignore_errors=True)
        for number, lines in enumerate(self.drop_ins):
            text = "[Service]\n" + self._lines(manager, name, lines)
            manager.write(f"{folder.name}/{number}.conf", text)
        first = f"EnvironmentFile={manager.folder}/{name}.env\n"
        return first + self._lines(manager, name, self.body)

    @staticmethod
    def _lines(manager: UserManager, name: str, lines: list[str]) -> str:
        text = "".join(f"{line}\n" for line in lines)
        return text.replace("{folder}/{name}", f"{manager.folder}/{name}")


CASE = st.builds(Case, BODY, st.lists(BODY, max_size=2), FILE, FILE)


@pytest.fixture
def passing(manager: UserManager) -> Iterator[UserManager]:
    """The manager, which has variables of its own for a while."""
    manager.systemctl("set-environment", *(f"{name}={value}" for name, value in PASSED.items()))
    yield manager
    manager.systemctl("unset-environment", *PASSED)


@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(CASE, min_size=60, max_size=60))
def test_generated_units_and_files_give_the_same_bytes(
    passing: UserManager, cases: list[Case]
) -> None:
    units: dict[str, str | bytes] = {
        f"g{number}": case.write(passing, f"g{number}") for number, case in enumerate(cases)
    }
    _start(passing, units)
    base = passing.variables()
    assert base.items() >= PASSED.items()
    started = 0
    for (name, body), case in zip(units.items(), cases, strict=True):
        handed = _handed(passing, name)
        declared, remarked = _read(passing, name, base)
        if handed is None:
            assert remarked, case
            continue
        started += 1
        assert declared.environment.status is EnvironmentStatus.COMPLETE, case
        assert _ours(declared) == handed, (body, case)
    assert started > len(cases) // 4


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"Environment=A=1\0Environment=B=2\rEnvironment=C=3", {"A": b"1", "B": b"2", "C": b"3"}),
        (b'Environment=A=1 "B=\\x80" C=2\n', {"A": b"1", "C": b"2"}),
        (
            b"Environment=A=1 \\\n# comment\n B=2 \\\n; other\nC=3\n",
            {"A": b"1", "B": b"2", "C": b"3"},
        ),
        (
            b"[Servce]\nEnvironment=A=1\n[X-y]\nEnvironment=B=1\n[Service]\nEnvironment=C=1\n",
            {"C": b"1"},
        ),
        (b"[Unit]\nEnvironment=A=1\n", {}),
        (b"Environment=A=1 B=2\nEnvironment=\nEnvironment=B=3\n", {"B": b"3"}),
        (b"Environment=A=1 B=2\nUnsetEnvironment=A B=3 HOME\n", {"B": b"2"}),
        (b'Environment=A=1 \\q B=2\nEnvironment=C=3 "D=4\n', {"A": b"1", "C": b"3"}),
        (b"environment=A=1\nEnvironment = B=2\n", {"B": b"2"}),
        (
            b"PassEnvironment=HOME NOT_THERE\nEnvironment=A=%z B=%% C=%-x D=%9\n",
            {"B": b"%", "C": b"%-x"},
        ),
        (b"Environment=A=1\\", {"A": b"1"}),
    ],
)
def test_lines_that_are_not_what_they_look(
    manager: UserManager, body: bytes, expected: dict[str, bytes]
) -> None:
    name = f"odd-{zlib.crc32(body)}"
    _start(manager, {name: body})
    handed = _handed(manager, name)
    assert handed is not None
    base = {*manager.variables()}
    assert {name: value for name, value in handed.items() if name not in base} == expected
    assert _ours(_declared(manager, name)) == handed


@pytest.mark.parametrize("line", [b"Environment=A=\xff\n", b"[Service\n"])
def test_what_ends_the_reading_of_a_file(manager: UserManager, line: bytes) -> None:
    name = f"ends-{zlib.crc32(line)}"
    body = b"Environment=B=1\n" + line + b"Environment=C=1\n"
    _start(manager, {name: body})
    found = of_name(name, Context(manager.environment, user=True))
    assert found.live is not None
    assert (found.live.load_state, _handed(manager, name)) == ("error", None)
    manager.write(f"{name}.service.d/10.conf", b"[Service]\n" + body)
    _start(manager, {name: b"Environment=A=1\n"})
    handed = _handed(manager, name)
    assert handed is not None
    assert {"A", "B", "C"} & {*handed} == {"A", "B"}
    assert _ours(_declared(manager, name)) == handed


@pytest.mark.parametrize(
    ("content", "starts"),
    [
        (b"A=1\nB=\xff\nC=2\n", False),
        (b"A=1\0\n", False),
        (b"# c \\\nA=1\nB=2\n", True),
        (b"\xef\xbb\xbfA=1\nB=2", True),
        (b"A='x\ny' z\nB=\"a\\$b\\q\\\nc\"\nC=d\\e\\\nf\n  D = 4  \nE=\n", True),
        (b'A="never closed\nB=2\n', True),
    ],
)
def test_environment_files_that_are_not_what_they_look(
    manager: UserManager, content: bytes, starts: bool
) -> None:
    name = f"file-{zlib.crc32(content)}"
    path = manager.folder / f"{name}.env"
    path.write_bytes(content)
    _start(manager, {name: f"EnvironmentFile={path}\n"})
    handed = _handed(manager, name)
    assert (handed is not None) is starts
    if handed is not None:
        assert _ours(_declared(manager, name)) == handed
    else:
        found = of_name(name, Context(manager.environment, user=True))
        assert "file-refused" in {one.kind.value for one in found.remarks}
        assert found.live is not None
        assert found.live.result == "resources"


def test_specifiers_are_those_of_the_manager(manager: UserManager) -> None:
    letters = [chr(code) for code in range(33, 127) if chr(code) not in "\"'\\"]
    lines = "".join(f'Environment="S{ord(one)}=<%{one}>"\n' for one in letters)
    _start(manager, {"spec-a@in-st": lines})
    handed = _handed(manager, "spec-a@in-st")
    assert handed is not None
    declared = _declared(manager, "spec-a@in-st")
    known = _ours(declared)
    for one in letters:
        name = f"S{ord(one)}"
        if f"%{one}" in MANAGERS_ONLY:
            assert declared.reading(name).state is State.UNREADABLE
            assert name not in known
        else:
            assert known.get(name) == handed.get(name), one


def test_drop_ins_are_found_and_ordered_as_the_manager_does(manager: UserManager) -> None:
    kinds = ("service", "a-.service", "a-b-.service", "a-b-c@.service", "a-b-c@i.service")
    kinds += ("a-b-@i.service", "a-b-@.service", "a-@.service", "a-@i.service", "other.service")
    for base in (manager.units, manager.runtime / "systemd" / "user"):
        for number, kind in enumerate(kinds):
            folder = base / f"{kind}.d"
            folder.mkdir(parents=True)
            file = f"{(number * 7) % 10}-{base.parent.name}.conf"
            (folder / file).write_text("[Service]\nEnvironment=V=1\n")
            (folder / "50-same.conf").write_text("[Service]\nEnvironment=W=1\n")
            (folder / "note.conf.bak").write_text("x")
    (manager.units / "a-.service.d" / "60-mask.conf").symlink_to("/dev/null")
    manager.write("a-b-c@.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
    manager.systemctl("daemon-reload")
    name = "a-b-c@i.service"
    theirs = manager.systemctl("show", "--value", "--property=DropInPaths", name).split()
    directories = dropins.search_path(user=True, variables=manager.environment)
    found = dropins.find((name,), directories)
    assert len(theirs) > 10
    assert list(found.paths) == theirs
    assert any(one.place.file.endswith(".bak") for one in found.remarks)
    for base in (manager.units, manager.runtime / "systemd" / "user"):
        for file in base.glob("*.d/*"):
            file.unlink()


@pytest.mark.parametrize(
    "line",
    [
        "$FOO x$FOO ${FOO} ${FOO}y $FOO/bar $$FOO $${FOO} '$FOO' \"${NOPE}\" $NOPE end \\$FOO",
        'a\\x41b \'c d\' "e\\"f" \\; g %% %i \\q',
        "one ; /usr/bin/printf [%%s] two",
    ],
)
def test_command_lines_are_split_and_replaced_as_the_manager_does(
    manager: UserManager, line: str
) -> None:
    out = manager.folder / "exec.out"
    out.unlink(missing_ok=True)
    command = f"/usr/bin/printf [%%s] {line}"
    name = f"exec{zlib.crc32(line.encode())}@i.service"
    manager.write(
        name,
        f"[Service]\nType=oneshot\nStandardOutput=append:{out}\nEnvironment=\"FOO=a  b 'c d'\"\n"
        f"ExecStart={command}\n",
    )
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name)
    scope = Scope(name, user_manager=True)
    found, _ = parse_exec(Assignment("Service", "ExecStart", command, Place("u", 1)), scope)
    ours = b""
    for one in found:
        argv = replaced(one, {"FOO": "a  b 'c d'"}, complete=True).argv
        assert argv[:2] == ("/usr/bin/printf", "[%s]")
        ours += b"".join(b"[" + os.fsencode(word) + b"]" for word in argv[2:])
    assert ours == out.read_bytes()
