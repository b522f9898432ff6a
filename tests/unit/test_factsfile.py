"""Snapshots as files: nothing is lost, nothing secret is shown."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envprobe import cli_output, factsfile
from envprobe.collect import Request, collect
from envprobe.errors import UsageError
from envprobe.factsfile import MaskedValue, dumps, load, loads
from envprobe.model import (
    BlockState,
    Edge,
    EdgeKind,
    Environment,
    EnvironmentStatus,
    Identity,
    Interpreter,
    Process,
    Role,
    Snapshot,
    State,
    Vanished,
    View,
)
from envprobe.ncclfacts import (
    Libraries,
    Library,
    LogState,
    Membership,
    NcclLog,
    Read,
    Setting,
)
from envprobe.pythonfacts import (
    Answer,
    AnswerState,
    Datum,
    DiskState,
    FileFact,
    Inside,
    Kind,
    PythonFact,
    PythonState,
)
from envprobe.unitfacts import Entry, Hop, UnitFacts
from envprobe.values import Value
from tests.programs.trees import TitledTree

TOKEN = b"hf_abcdefghijklmnopqrstuvwx"

RAW = st.binary(max_size=40).map(bytes)
TEXTS = st.one_of(
    RAW.map(os.fsdecode),
    st.text(max_size=20),
    st.sampled_from(["base64:", "base64:!!", "text", "masked", "base64", "", "\ud800", "a\0b"]),
)
VALUES = st.one_of(
    RAW.map(Value),
    st.builds(
        lambda raw, more: Value(raw, length=len(raw) + more, digest="ab" * 32),
        RAW,
        st.integers(1, 1 << 40),
    ),
    st.just(Value(TOKEN)),
)
ENVIRONMENTS = st.builds(
    Environment,
    view=st.sampled_from(View),
    status=st.sampled_from(EnvironmentStatus),
    entries=st.dictionaries(TEXTS, st.none() | VALUES, max_size=4),
    duplicates=st.dictionaries(TEXTS, st.lists(st.none() | VALUES, max_size=3).map(tuple)),
    oddities=st.lists(VALUES, max_size=3).map(tuple),
    block=st.none() | st.sampled_from(BlockState),
    source=TEXTS,
    at=st.none() | st.floats(0, 4e9),
    reason=TEXTS,
    own=st.none()
    | st.builds(
        Environment,
        view=st.just(View.EXEC),
        status=st.sampled_from(EnvironmentStatus),
        entries=st.dictionaries(TEXTS, VALUES, max_size=2),
    ),
)
READS = st.builds(
    Read,
    name=TEXTS,
    value=VALUES,
    wording=TEXTS,
    source=TEXTS,
    file=TEXTS,
    line=st.integers(1, 9),
    member=st.none() | st.integers(0, 9),
)
LOGS = st.builds(
    NcclLog,
    state=st.sampled_from(LogState),
    files=st.lists(TEXTS, max_size=2).map(tuple),
    reason=TEXTS,
    host=TEXTS,
    pid=st.none() | st.integers(1, 9),
    members=st.lists(
        st.builds(Membership, communicator=TEXTS, rank=st.integers(0, 9), nranks=st.integers(1, 9)),
        max_size=2,
    ).map(tuple),
    reads=st.lists(READS, max_size=2).map(tuple),
    settings=st.lists(
        st.builds(Setting, name=TEXTS, value=VALUES, path=TEXTS, line=st.integers(1, 9)), max_size=2
    ).map(tuple),
    written=st.none() | st.floats(0, 4e9),
)
LIBRARIES = st.builds(
    Libraries,
    nccl=st.lists(
        st.builds(
            Library,
            path=TEXTS,
            device=st.tuples(st.integers(0, 9), st.integers(0, 9)),
            inode=st.integers(0, 9),
            base=st.integers(0, 1 << 47),
            replaced=st.none() | st.booleans(),
            version=TEXTS,
        ),
        max_size=2,
    ).map(tuple),
    plugins=st.lists(TEXTS, max_size=2).map(tuple),
    named=st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2).map(tuple), max_size=2),
    whole=st.booleans(),
)
ROLES = st.builds(
    Role,
    name=TEXTS,
    ranks=st.dictionaries(TEXTS, st.integers(0, 1 << 20), max_size=3),
    worker=st.booleans(),
)
PROCESSES = st.builds(
    Process,
    pid=st.integers(1, 1 << 22),
    identity=st.builds(Identity, pid=st.integers(1, 9), start_ticks=st.integers(0, 1 << 50)),
    ppid=st.integers(0, 1 << 22),
    state=st.sampled_from("RSDZ"),
    start_time=st.floats(0, 4e9),
    uid=st.integers(-1, 1 << 32),
    comm=TEXTS,
    title=st.lists(TEXTS, max_size=4).map(tuple),
    exe=st.none() | TEXTS,
    role=ROLES,
    edge=st.builds(
        Edge,
        kind=st.sampled_from(EdgeKind),
        parent=st.none() | st.integers(1, 9),
        evidence=st.lists(TEXTS, max_size=2).map(tuple),
    ),
    image_owner=st.integers(0, 9),
    interpreter=st.none() | st.builds(Interpreter, kind=TEXTS, version=TEXTS),
    secure=st.none() | st.booleans(),
    environments=st.dictionaries(st.sampled_from(View), ENVIRONMENTS, max_size=2),
    libraries=st.none() | LIBRARIES,
    nccl=st.none() | LOGS,
)
SAID = st.lists(
    st.builds(
        Entry, name=TEXTS, value=st.none() | VALUES, source=TEXTS, removed=TEXTS, doubt=TEXTS
    ),
    max_size=3,
).map(tuple)
TIMES = st.dictionaries(TEXTS, st.floats(0, 4e9), max_size=2)
UNITS = st.builds(
    UnitFacts,
    name=TEXTS,
    started=st.none() | st.floats(0, 4e9),
    modified=TIMES,
    touched=TIMES,
    loaded=st.dictionaries(TEXTS, VALUES, max_size=2),
    on_disk=st.dictionaries(TEXTS, st.none() | VALUES, max_size=2),
    declared=SAID,
    handed=SAID,
    hops=st.lists(st.builds(Hop, TEXTS, TEXTS, TEXTS, st.booleans()), max_size=2).map(tuple),
    opaque=TEXTS,
)
SNAPSHOTS = st.builds(
    Snapshot,
    host=TEXTS,
    boot_id=TEXTS,
    started=st.floats(0, 4e9),
    ended=st.floats(0, 4e9),
    roots=st.lists(st.integers(1, 9), max_size=3).map(tuple),
    processes=st.lists(PROCESSES, max_size=3).map(tuple),
    wanted=st.lists(TEXTS, max_size=3).map(tuple),
    vanished=st.lists(st.builds(Vanished, pid=st.integers(1, 9), role=ROLES), max_size=2).map(
        tuple
    ),
    yama_scope=st.none() | st.integers(0, 3),
    notes=st.lists(TEXTS, max_size=2).map(tuple),
    unit=st.none() | UNITS,
)
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def bare(**more: Any) -> Snapshot:
    return Snapshot(host="h", boot_id="b", started=1.0, ended=2.0, roots=(7,), processes=(), **more)


def with_entries(entries: dict[str, Value | None], pid: int = 7) -> Process:
    view = Environment(View.LIBC, EnvironmentStatus.COMPLETE, entries)
    return Process(
        pid=pid,
        identity=Identity(pid, 1),
        ppid=1,
        state="S",
        start_time=1.0,
        uid=0,
        comm="x",
        title=("python3", "serve.py", "--api-key", "sk-abcdefgh12345678"),
        exe=None,
        role=Role("scheduler"),
        edge=Edge(EdgeKind.ROOT, None),
        image_owner=pid,
        environments={View.LIBC: view},
    )


def snapshot_of(*entries: dict[str, Value | None]) -> Snapshot:
    processes = tuple(with_entries(one, 7 + number) for number, one in enumerate(entries))
    return dataclasses.replace(bare(), processes=processes)


def value_of(snapshot: Snapshot, name: str, number: int = 0) -> Value:
    found = snapshot.processes[number].environment(View.LIBC).entries[name]
    assert found is not None
    return found


def exactly(value: Value | None) -> tuple[bytes, int, str] | None:
    return value and (value.reveal(), value.length, value.digest)


@RELAXED
@given(SNAPSHOTS)
def test_an_unmasked_snapshot_survives(snapshot: Snapshot) -> None:
    found = loads(dumps(snapshot, unmask=True).encode())
    assert found == snapshot
    # Equality of values is that of their digests: here the bytes count, too.
    for one, other in zip(found.processes, snapshot.processes, strict=True):
        for view, environment in one.environments.items():
            expected = other.environments[view]
            for name, value in environment.entries.items():
                assert exactly(value) == exactly(expected.entries[name])


@RELAXED
@given(SNAPSHOTS)
def test_a_masked_snapshot_keeps_all_but_secrets(snapshot: Snapshot) -> None:
    text = dumps(snapshot)
    assert text.isascii() or text.encode()
    assert TOKEN.decode() not in text
    found = loads(text.encode())
    again = loads(dumps(found).encode())
    assert again == found
    for one, other in zip(found.processes, snapshot.processes, strict=True):
        assert one.environments == other.environments
        assert dataclasses.replace(one, title=()) == dataclasses.replace(other, title=())
    assert found.unit == snapshot.unit


def test_a_real_snapshot_survives() -> None:
    strange = {"NCCL_\udcff": "\udcfe\n", "base64:x": "1", "NCCL_ALGO": "Ring", "text": "masked"}
    with TitledTree(workers=2, env=strange) as tree:
        snapshot = collect(Request((tree.root,), ("*",)))
    found = loads(dumps(snapshot).encode())
    assert found == snapshot
    assert set(strange) <= set(found.processes[0].environment(View.LIBC).entries)


def test_what_was_read_inside_survives_without_its_credentials() -> None:
    key = Datum("str", Value(b"password"))
    kept = Datum("str", Value(b"hunter2-hunter2"), length=15)
    table = Datum("dict", items=(kept,), keys=(key,), length=1)
    words = tuple(Datum("str", Value(one)) for one in (b"serve", b"--api-key", b"hunter2-hunter2"))
    command = Datum("list", items=words, length=3)
    listed = Answer("pkg:command", AnswerState.VALUE, Kind.VALUE, value=command)
    secret = Answer("pkg:API_TOKEN", AnswerState.VALUE, Kind.VALUE, value=kept)
    plain = Answer("pkg:patched", AnswerState.VALUE, Kind.VALUE, value=Datum("int", Value(b"7")))
    hidden = Answer("pkg:settings", AnswerState.VALUE, Kind.VALUE, value=table)
    python = PythonFact("3.11.7", "release", "known", argv=("serve", "--api-key", "sk-hunter2"))
    files = {"/opt/a.py": FileFact("/opt/a.py", DiskState.MISSING)}
    inside = Inside(PythonState.READ, python, (), (secret, plain, hidden, listed), files, 1.0)
    process = dataclasses.replace(with_entries({}), inside=inside)
    snapshot = dataclasses.replace(bare(), processes=(process,))
    written = dumps(snapshot)
    assert "hunter2" not in written
    (back,) = loads(written.encode()).processes
    assert back.inside is not None
    assert back.inside.files == files
    assert back.inside.answers[1] == plain
    assert back.inside.answers[0].value is not None
    assert back.inside.answers[0].value.value == kept.value
    assert back.inside.answers[0].value.plain() is None
    assert back.inside.answers[2].value is not None
    assert back.inside.answers[2].value.plain() == {"password": None}
    assert back.inside.answers[3].value is not None
    assert back.inside.answers[3].value.plain() == ["serve", "--api-key", None]
    assert "hunter2" not in dumps(dataclasses.replace(snapshot, processes=(back,)))
    (open_,) = loads(dumps(snapshot, unmask=True).encode()).processes
    assert open_ == process


def test_values_of_nccl_s_files_are_masked_by_their_names() -> None:
    token = Setting("NCCL_X_TOKEN", Value(b"hunter2hunter2"), "/etc/nccl.conf", 1)
    read = Read("NCCL_X_PASSWORD", Value(b"hunter2-hunter2"), "text", "environment", "/l", 1)
    log = NcclLog(LogState.JOINED, reads=(read,), settings=(token,))
    process = dataclasses.replace(with_entries({}), nccl=log)
    snapshot = dataclasses.replace(bare(), processes=(process,))
    written = dumps(snapshot)
    assert "hunter2" not in written
    (back,) = loads(written.encode()).processes
    assert back.nccl is not None
    assert back.nccl.settings[0].value.hidden
    assert back.nccl.reads[0].value == read.value


def test_reads_of_nccl_beyond_the_bound_on_secrets_are_left_out() -> None:
    reads = tuple(
        Read(f"NCCL_TOKEN_{one}", Value(b"hunter%dhunter" % one), "text", "env", "/l", 1)
        for one in range(factsfile.MAX_SECRETS + 3)
    )
    process = dataclasses.replace(with_entries({}), nccl=NcclLog(LogState.JOINED, reads=reads))
    (back,) = loads(dumps(dataclasses.replace(bare(), processes=(process,))).encode()).processes
    assert back.nccl is not None
    assert len(back.nccl.reads) == factsfile.MAX_SECRETS


def test_secrets_are_masked_and_still_compare() -> None:
    snapshot = snapshot_of(
        {"HF_TOKEN": Value(TOKEN), "NCCL_ALGO": Value(b"Ring")},
        {"HF_TOKEN": Value(TOKEN)},
        {"HF_TOKEN": Value(TOKEN[::-1])},
    )
    text = dumps(snapshot)
    assert TOKEN.decode() not in text
    assert "sk-abcdefgh" not in text
    found = loads(text.encode())
    first, same, other = (value_of(found, "HF_TOKEN", number) for number in range(3))
    assert first == same
    assert first != other
    assert hash(first) == hash(same)
    assert first.length == len(TOKEN)
    assert first.truncated
    assert TOKEN not in first.reveal()
    # What is expected can still be compared, from both sides.
    assert first == Value(TOKEN)
    assert Value(TOKEN) == first
    assert first != Value(TOKEN[::-1])
    assert Value(b"short") != first
    assert value_of(found, "NCCL_ALGO").reveal() == b"Ring"


def test_masks_of_two_files_do_not_compare_as_equal() -> None:
    snapshot = snapshot_of({"HF_TOKEN": Value(TOKEN)})
    one, other = (value_of(loads(dumps(snapshot).encode()), "HF_TOKEN") for _ in range(2))
    assert isinstance(one, MaskedValue)
    assert isinstance(other, MaskedValue)
    assert one.digest != other.digest
    assert one != other


def test_a_masked_value_stays_masked_when_the_file_is_written_again() -> None:
    found = loads(dumps(snapshot_of({"HF_TOKEN": Value(TOKEN)})).encode())
    again = loads(dumps(found, unmask=True).encode())
    assert value_of(again, "HF_TOKEN") == Value(TOKEN)


def test_a_cut_secret_compares_with_itself() -> None:
    cut = Value(TOKEN, length=1 << 21, digest="cd" * 32)
    found = loads(dumps(snapshot_of({"HF_TOKEN": cut}, {"HF_TOKEN": cut})).encode())
    assert value_of(found, "HF_TOKEN") == value_of(found, "HF_TOKEN", 1) == cut


def test_very_many_secrets_cost_bounded_time_and_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(factsfile, "MAX_SECRETS", 2)
    entries: dict[str, Value | None] = {f"S{n}_TOKEN": Value(TOKEN[n:]) for n in range(4)}
    found = loads(dumps(snapshot_of(entries)).encode()).processes[0].environment(View.LIBC)
    assert [found.entries[name] == entries[name] for name in entries] == [True, True, False, False]
    assert found.reading("S3_TOKEN").state is State.NOT_ASKED


def test_unmasking_shows_everything() -> None:
    text = dumps(snapshot_of({"HF_TOKEN": Value(TOKEN)}), unmask=True)
    assert TOKEN.decode() in text
    assert "sk-abcdefgh12345678" in text


def test_a_value_that_is_no_utf_8_and_a_cut_one_are_written_as_the_schema_says() -> None:
    entries: dict[str, Value | None] = {
        "A": Value(b"\xff\0"),
        "B": Value(b"abc", length=9, digest="ef"),
        "C": None,
    }
    document = json.loads(dumps(snapshot_of(entries)))
    written = document["processes"][0]["environments"]["libc"]["entries"]
    assert written == {
        "A": {"base64": "/wA="},
        "B": {"text": "abc", "length": 9, "sha256": "ef"},
        "C": None,
    }
    assert (document["kind"], document["schema_version"]) == ("envprobe-facts", 1)


def save(snapshot: Snapshot, path: str) -> None:
    """Write a facts file as `envprobe workers --save-facts` does."""
    with cli_output.destinations({path: "facts"}, private=True) as files:
        files[path].write(dumps(snapshot))


def test_the_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text("old and longer than what comes" * 1000)
    path.chmod(0o644)
    before = os.umask(0)
    try:
        save(bare(), str(path))
        save(bare(), str(tmp_path / "new.json"))
    finally:
        os.umask(before)
    for one in (path, tmp_path / "new.json"):
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
        assert load(str(one)) == bare()


def test_a_snapshot_is_one_line() -> None:
    text = dumps(bare())
    assert loads(text.encode()) == bare()
    assert text.endswith("}\n")
    assert text.count("\n") == 1


def test_a_path_that_cannot_be_used_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        save(bare(), str(tmp_path / "none" / "x"))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no regular file"):
        load(str(tmp_path))
    with pytest.raises(UsageError, match="cannot be read: Invalid argument"):
        load("a\0b")


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="is no regular file"):
        load(str(tmp_path / "fifo"))


def test_a_file_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "facts"
    save(bare(), str(path))
    monkeypatch.setattr(factsfile, "MAX_FILE_BYTES", 10)
    with pytest.raises(UsageError, match="longer than"):
        load(str(path))


DOCUMENT: dict[str, Any] = json.loads(dumps(snapshot_of({"A": Value(b"1")})))


def changed(*path: str | int, to: Any = None) -> bytes:
    """Return the document with one thing in it replaced, or removed."""
    document = copy.deepcopy(DOCUMENT)
    here: Any = document
    for step in path[:-1]:
        here = here[step]
    if to is None:
        del here[path[-1]]
    else:
        here[path[-1]] = to
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "is no file of --save-facts"),
        (b"{}", "is no file of --save-facts"),
        (changed("kind", to="report"), "is no file of --save-facts"),
        (changed("schema_version"), "schema version None"),
        (changed("schema_version", to=99), "schema version 99, this envprobe reads 1"),
        (changed("schema_version", to="x" * 999), "schema version"),
        (changed("salt"), "is damaged"),
        (changed("salt", to="zz"), "is damaged"),
        (changed("salt", to=[1]), "is damaged"),
        (changed("processes"), "is damaged"),
        (changed("host", to=7), "is damaged"),
        (changed("host", to="base64:!"), "is damaged"),
        (changed("processes", 0, "pid", to="7"), "is damaged"),
        (changed("processes", 0, "edge", "kind", to="flight"), "is damaged"),
        (changed("processes", 0, "environments", "libc", to=[1]), "is damaged"),
        (
            changed("processes", 0, "environments", "libc", "entries", "A", to={"base64": "!"}),
            "is damaged",
        ),
        (
            changed(
                "processes",
                0,
                "environments",
                "libc",
                "entries",
                "A",
                to={"text": "a", "length": 1},
            ),
            "is damaged",
        ),
        (
            changed("processes", 0, "environments", "libc", "entries", "A", to="plain"),
            "is damaged",
        ),
    ],
)
def test_a_damaged_file_is_wrong_usage(raw: bytes, said: str) -> None:
    with pytest.raises(UsageError, match="the facts") as raised:
        loads(raw)
    assert said in raised.value.message
    assert len(raised.value.message) < 300
    assert raised.value.remedy


def test_damage_is_told_without_any_value() -> None:
    raw = changed("processes", 0, "environments", "libc", "entries", "A", to="s3cret")
    with pytest.raises(UsageError) as raised:
        loads(raw)
    assert "s3cret" not in raised.value.message
