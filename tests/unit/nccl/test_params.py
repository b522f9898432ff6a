"""The table of NCCL's variables: generated, complete, and asked by version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envprobe import tables
from envprobe.nccl import params
from envprobe.nccl.params import Naming, naming, suggestions, version_of

ROOT = Path(__file__).resolve().parents[3]
NOW = (2, 28, 9)


def test_the_data_is_what_the_generator_makes_of_the_source_table() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/gen_nccl_params.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_row_of_the_source_table_is_there_once() -> None:
    lines = (ROOT / "scripts" / "nccl_params.tsv").read_text("utf-8").splitlines()
    named = [line.split("\t")[0] for line in lines if line[:1] != "#"][1:]
    assert len(named) == len(set(named)) == len(params.parameters()) == 359


def test_successors_and_tables_that_name_variables_name_those_that_are_known() -> None:
    known = params.parameters()
    for parameter in known.values():
        if parameter.replaced_by and parameter.home != "torch":
            assert naming(parameter.replaced_by, None) is Naming.READ, parameter.name
    for table in ("rank-critical", "known-defaults"):
        for row in tables.load(table)["rows"]:
            assert row["name"] in known, (table, row["name"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.28.9+cuda13.0", (2, 28, 9)),
        ("2.19", (2, 19, 0)),
        ("2.30.7-master", (2, 30, 7)),
        ("", None),
        ("master", None),
    ],
)
def test_versions(text: str, expected: tuple[int, ...] | None) -> None:
    assert version_of(text) == expected


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("NCCL_BUFFSIZE", NOW, Naming.READ),
        ("NCCL_BUFFSIZE", (2, 14, 3), Naming.READ),
        ("NCCL_BUFFSIZE", None, Naming.READ),
        ("NCCL_CUMEM_ENABLE", (2, 17, 1), Naming.NOT_YET),
        ("NCCL_CUMEM_ENABLE", (2, 18, 1), Naming.READ),
        ("NCCL_MNNVL", (2, 20, 5), Naming.READ),
        ("NCCL_MNNVL", (2, 21, 5), Naming.REMOVED),
        ("NCCL_TREE_THRESHOLD", NOW, Naming.DEAD),
        ("NCCL_BLOCKING_WAIT", NOW, Naming.TORCH),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", NOW, Naming.TORCH),
        ("NCCL_PROFILE_DUMP_FILE", NOW, Naming.OTHER),
        ("NCCL_P2P_NET_DISABLE", NOW, Naming.MADE_UP),
        ("NCCL_BUFSIZE", NOW, Naming.UNKNOWN),
        ("NCCL_BUFSIZE", (2, 40, 0), Naming.UNCERTAIN),
        ("NCCL_CE_CHUNK_SIZE", NOW, Naming.NOT_YET),
        ("NCCL_CE_CHUNK_SIZE", (2, 32, 3), Naming.READ),
    ],
)
def test_what_a_name_is_to_a_version(
    name: str, version: params.Version | None, expected: Naming
) -> None:
    assert naming(name, version) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NCCL_BUFSIZE", ("NCCL_BUFFSIZE",)),
        ("NCCL_DISABLE_P2P", ("NCCL_P2P_DISABLE",)),
        ("nccl_algo", ("NCCL_ALGO",)),
        ("NCCL_LL_THRESHOLD", ("NCCL_PROTO",)),
        ("NCCL_IB_GDR_LEVEL", ("NCCL_NET_GDR_LEVEL",)),
        ("NCCL_BLOCKING_WAIT", ("TORCH_NCCL_BLOCKING_WAIT",)),
        ("NCCL_P2P_NET_DISABLE", ()),
        ("PATH", ()),
    ],
)
def test_suggestions(name: str, expected: tuple[str, ...]) -> None:
    assert suggestions(name, NOW) == expected


def test_defaults_that_moved_are_told_by_version() -> None:
    timeout = params.find("NCCL_IB_TIMEOUT")
    assert timeout is not None
    assert [timeout.default(one) for one in ((2, 22, 3), (2, 23, 4), None)] == [18, 20, None]
    channels = params.find("NCCL_MAX_NCHANNELS")
    assert channels is not None
    assert [channels.highest(one) for one in ((2, 21, 5), (2, 25, 1), None)] == [32, 64, 64]
    chunk = params.find("NCCL_P2P_NET_CHUNKSIZE")
    assert chunk is not None
    assert chunk.default(NOW) == chunk.default(None) == 131072
