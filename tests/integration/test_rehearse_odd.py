"""`envprobe rehearse` of starts that answer oddly: what is not judged never holds."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.gates import Place, gate
from tests.programs.stages import Stage

PYTHON = sys.executable
GUARDED = "if __name__ == '__main__': pass\n"

# It writes like any other, until all have answered; then the first process is gone.
GONE = """
import os

write = os.write


def gone(descriptor, data):
    if descriptor == 63 and b'"about": "ready"' in bytes(data):
        os._exit(0)
    return write(descriptor, data)


os.write = gone
"""

NESTED = """
import os

if os.path.exists("/proc/self/fd/63") and not os.environ.get("NESTED"):
    os.environ["NESTED"] = "1"
    os.write(63, b"[" * 200000 + b"\\n")
"""


@pytest.fixture
def stage() -> Iterator[Stage]:
    # Where other users can get: what pytest makes is the own user's.
    folder = Path(tempfile.mkdtemp(prefix="stage-", dir="/tmp"))
    folder.chmod(0o755)
    made = Stage(folder)
    made.write("x.py", GUARDED)
    yield made
    shutil.rmtree(folder)


def test_a_first_process_that_is_gone_before_it_is_read_holds_nothing(stage: Stage) -> None:
    hooks = stage.hook(GONE)
    ran = stage.rehearse(
        *("--expect", "FOO=expected", "--", PYTHON, "x.py"), PYTHONPATH=hooks, FOO="wrong"
    )
    assert ran.code == 3
    assert {one["check"] for one in ran.unknown()} == {"passive-reading-disagrees"}
    (found,) = ran.unknown()
    assert "the first process never said" in str(found["message"])
    accepted = stage.rehearse(
        *("--allow-unknown", "passive-reading-disagrees", "--expect", "FOO=expected"),
        *("--", PYTHON, "x.py"),
        PYTHONPATH=hooks,
        FOO="wrong",
    )
    # What is accepted is that nothing is known, not that it holds.
    assert (accepted.code, accepted.unknown()[0]["check"]) == (3, "passive-reading-disagrees")


def test_the_gate_holds_nothing_of_it_either(tmp_path: Path) -> None:
    place = Place(tmp_path)
    Path(place.hook).write_text(GONE)
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    command = ("env", "NCCL_ALGO=Ring", f"PYTHONPATH={place.hooks}", PYTHON, str(place.server))
    found = gate("-c", str(place.config), "--", *command)
    assert found.code == 3
    assert "passive-reading-disagrees" in {check for check, *_ in found.checks}


def test_a_variable_that_is_called_like_a_pattern_reads_no_other(stage: Stage) -> None:
    def read(*options: str) -> set[str]:
        ran = stage.rehearse(*options, "--", "env", "*=1", PYTHON, "x.py")
        (scan,) = ran.document["scans"]
        return {
            one["name"]
            for one in scan["variables"]
            for each in one["readings"]
            if each["views"].get("libc", {}).get("state") == "value"
        }

    # A name that is no identifier is shown in quotes.
    assert {'"*"', "STAGED_BY"} <= read("--show-all")
    named = read()
    assert '"*"' in named
    assert "STAGED_BY" not in named, "the caller hands it over, and nobody has asked for it"


def test_an_answer_nested_without_end_is_none(stage: Stage) -> None:
    hooks = stage.hook(NESTED)
    ran = stage.rehearse("--", PYTHON, "x.py", PYTHONPATH=hooks)
    assert ran.one["processes"], ran.stderr
    assert ran.workers == {"worker RANK0", "worker RANK1"}
