"""A command that is started with the rights of another process has those and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envprobe.errors import UndeterminedError
from envprobe.payload import bounded
from envprobe.runner.rights import Rights
from envprobe.runner.started import Bounds, start
from tests.programs.requirement import missing

NOBODY = 65534
SYSTEM = "/usr/bin/python3"
AS_SEEN = (
    "import json;"
    "print(json.dumps(dict(line.rstrip().split(':', 1) for line in open('/proc/self/status'))))"
)


def need_root() -> None:
    if os.geteuid():
        missing("root", "only root can become another user")


def seen(rights: Rights) -> dict[str, Any]:
    """Return /proc/self/status of a command with these rights."""
    command = [SYSTEM, "-I", "-S", "-c", AS_SEEN]
    with start(command, Bounds(seconds=30), {}, rights=rights) as run:
        found = json.loads(run.read_line())
    return {name: str(text).strip() for name, text in found.items()}


def own() -> Rights:
    return Rights(os.getuid(), os.getgid(), tuple(os.getgroups()))


def without_rights(found: dict[str, Any]) -> None:
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(found[name], 16) == 0, name
    assert found["NoNewPrivs"] == "1"


def test_its_own_user_without_capabilities() -> None:
    """Also root has none: it cannot read what only capabilities let it read."""
    found = seen(own())
    assert found["Uid"].split() == [str(os.getuid())] * 4
    without_rights(found)


@pytest.mark.root
def test_another_user_and_its_groups() -> None:
    need_root()
    found = seen(Rights(NOBODY, 12345, (7, 12345)))
    assert found["Uid"].split() == [str(NOBODY)] * 4
    assert found["Gid"].split() == ["12345"] * 4
    assert found["Groups"].split() == ["7", "12345"]
    without_rights(found)
    assert int(found["CapBnd"], 16) == 0
    assert seen(Rights(NOBODY, NOBODY, ()))["Groups"] == ""


def test_the_rights_of_a_process_are_read_from_its_status() -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    assert Rights.of(status) == own()
    for wrong in ({}, {**status, "Uid": "0 1 1 1"}, {**status, "Gid": "5 5 0 5"}):
        with pytest.raises(UndeterminedError, match="ids that differ") as caught:
            Rights.of(wrong)
        assert caught.value.remedy


REFUSED = """
import os, sys
from envprobe.errors import UndeterminedError
from envprobe.runner.rights import Rights
uid, gid, *groups = map(int, sys.argv[2:])
os.setgroups([int(one) for one in sys.argv[1].split(",") if one])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
try:
    Rights(uid, gid, tuple(groups)).require()
    print("granted")
except UndeterminedError as error:
    print(error.message, "=>", error.remedy)
"""


@pytest.mark.root
@pytest.mark.parametrize(
    ("groups", "wanted", "said"),
    [
        ("", "65534 65534", "granted"),
        ("7,8", "65534 65534 8 7", "granted"),
        ("", "0 0", "sudo -u '#0' envprobe"),
        ("", "65534 0", "it runs as uid 65534, gid 0, envprobe as uid 65534, gid 65534"),
        ("7", "65534 65534", "it runs with groups none, envprobe 7, 65534 => Run envprobe as root"),
    ],
)
def test_more_rights_than_the_process_has_are_refused(groups: str, wanted: str, said: str) -> None:
    """A user without capabilities can only start what has just its own ids and groups."""
    need_root()
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, groups, *wanted.split()],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert said in done.stdout


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"Uid": "0 1 0 0"}, "user id"),
        ({"Groups": "4"}, "group ids"),
        ({"CapPrm": "0000000000000001"}, "capabilities"),
        ({"NoNewPrivs": "0"}, "no_new_privs"),
    ],
)
def test_nothing_runs_unless_the_kernel_shows_the_rights(
    changes: dict[str, str], said: str, tmp_path: Path
) -> None:
    status = {"Uid": "0 0 0 0", "Gid": "0 0 0 0", "Groups": "", "NoNewPrivs": "1"}
    status |= dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), "0" * 16)
    shown = tmp_path / "thread-self" / "status"
    shown.parent.mkdir()
    shown.write_text("".join(f"{name}:\t{text}\n" for name, text in status.items()))
    bounded.require(0, 0, [], str(tmp_path))
    status.update(changes)
    shown.write_text("".join(f"{name}:\t{text}\n" for name, text in status.items()))
    with pytest.raises(SystemExit, match=said):
        bounded.require(0, 0, [], str(tmp_path))
