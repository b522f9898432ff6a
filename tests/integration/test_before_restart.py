"""Before a restart: each way to lose a setting is named while the old server still runs."""

from __future__ import annotations

import dataclasses
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe.checks import registry
from envprobe.launch.manager import local_version
from tests.programs import patchhooks
from tests.programs.restart import MEASURED, NAME, SIX, Change, Judged, Stage, stage

Found = frozenset[tuple[str, str | None]]
IN_UNIT = ("NCCL_ALGO", "NCCL_P2P_LEVEL", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG_FILE", "PYTHONPATH")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("restart")) as found:
        yield found


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What is changed, and what must be found: check, variable and place of the finding.

    `also` are the errors that the same change brings about besides; there may be no others.
    `warned` is a warning besides, by check and place. `arguments` are more of the gate's;
    `verify` is what systemd's own look at the same unit says.
    """

    name: str
    change: Change
    check: str
    variable: str | None = None
    place: str = ""
    also: Found = frozenset()
    warned: tuple[str, str] | None = None
    arguments: tuple[str, ...] = ()
    verify: str = "silent"


def lost(*names: str) -> Found:
    """Return that the configuration does not get these variables.

    That they are not in workers either, which the unit hands nothing, is not told once more.
    """
    return frozenset(("declared-unexpected", name) for name in names)


NO_HOOK: Found = frozenset({("hook-not-as-expected", None), ("hook-differs", None)})
"""The start-up hook that is expected does not run, at the start or in workers."""
NO_PATCH: Found = frozenset({("patch-would-not-be-applied", None)})
NO_TARGET: Found = frozenset({("patch-target-not-importable", None)})
"""The module that is to be patched is not found, so that its patch cannot be told."""
LAZY = textwrap.dedent(patchhooks.lazy("engine"))
LEAVES = (
    LAZY
    + """
import os

kept = [one for one in os.environ["PYTHONPATH"].split(":") if one != "{hooks}"]
os.environ["PYTHONPATH"] = ":".join(kept)
"""
)
EARLY = (
    LAZY
    + """
import multiprocessing.forkserver
import os

if os.environ.setdefault("FORKSERVER_OF", str(os.getpid())) == str(os.getpid()):
    multiprocessing.forkserver.ensure_running()
    os.environ["NCCL_ALGO"] = "Ring"
"""
)

SCENARIOS = (
    Scenario(
        "blanks around the equals sign",
        Change(unit=(("NCCL_ALGO=Ring", "NCCL_ALGO = Ring"),)),
        "unit-word-ignored",
        "NCCL_ALGO",
        "{unit}:6",
        also=lost("NCCL_ALGO"),
        verify="warns",
    ),
    Scenario(
        "`export` in the environment file",
        Change(env_file=(("NCCL_DEBUG=INFO", "export NCCL_DEBUG=INFO"),)),
        "env-file-line-ignored",
        "NCCL_DEBUG",
        "{folder}/nccl.env:1",
        also=lost("NCCL_DEBUG"),
    ),
    Scenario(
        "`%h.%p` in NCCL_DEBUG_FILE",
        Change(unit=(("%%h.%%p", "%h.%p"),)),
        "unit-specifier",
        "NCCL_DEBUG_FILE",
        "{unit}:9",
        also=lost("NCCL_DEBUG_FILE"),
    ),
    Scenario(
        "a literal `$PYTHONPATH`",
        Change(unit=(("PYTHONPATH={path}", "PYTHONPATH={path}:$PYTHONPATH"),)),
        "unit-dollar-literal",
        "PYTHONPATH",
        "{unit}:10",
    ),
    Scenario(
        "an edit without daemon-reload",
        Change(
            unit=(("NCCL_ALGO=Ring", "NCCL_ALGO=Ring\nEnvironment=NCCL_NTHREADS=512"),),
            loaded=False,
        ),
        "unit-not-reloaded",
        place="sgl.service was edited",
    ),
    Scenario(
        "a drop-in that resets Environment=",
        Change(drop_in="[Service]\nEnvironment=\n"),
        "declared-unexpected",
        "NCCL_ALGO",
        "sgl.service",
        also=lost(*IN_UNIT) | NO_HOOK | NO_TARGET,
        warned=("list-reset", "{unit}.d/50-change.conf:2"),
    ),
    Scenario(
        "UnsetEnvironment=",
        Change(drop_in="[Service]\nUnsetEnvironment=NCCL_ALGO\n"),
        "variable-removed",
        "NCCL_ALGO",
        "{unit}.d/50-change.conf:2",
        also=lost("NCCL_ALGO"),
    ),
    Scenario(
        "`python -I`",
        Change(unit=(("{python} {served}", "{python} -I {served}"),)),
        "python-ignores-variables",
        "PYTHONPATH",
        "{unit}:12",
        also=NO_HOOK | NO_TARGET,
    ),
    Scenario(
        "a wrapper without a main guard",
        Change(
            unit=(("{served}", "{folder}/launch.py"),),
            files={
                "launch.py": "import runpy\n\nrunpy.run_path('{served}', run_name='__main__')\n"
            },
        ),
        "main-guard-missing",
        place="{folder}/launch.py:3",
    ),
    Scenario(
        "a venv whose hook is shadowed",
        Change(
            unit=(
                ("{python} {served}", "{folder}/venv/bin/python {served}"),
                ("PYTHONPATH={path}", "PYTHONPATH={folder}/agent:{folder}/app"),
            ),
            config=(
                ("{hooks}", "{folder}/venv"),
                ('contains = "{folder}/venv', 'contains = "{folder}/app'),
            ),
            files={"agent/sitecustomize.py": "agent = True\n"},
            venv=True,
        ),
        "hook-shadowed",
        place="{folder}/venv/lib",
        also=NO_HOOK | NO_PATCH,
    ),
    Scenario(
        "a hook that raises",
        Change(hook="import my_kernels\n\nraise RuntimeError('no such device')\n"),
        "hook-raised",
        place="{hooks}/sitecustomize.py:3",
        also=NO_HOOK | NO_PATCH | {("rehearsed-hook-raised", None)},
    ),
    Scenario(
        "a hook that takes itself out of PYTHONPATH",
        Change(hook=LEAVES),
        "hook-not-run-in-child",
        place="{hooks}/sitecustomize.py does not run in worker RANK0, worker RANK1, ",
        also=NO_HOOK | NO_PATCH | {("env-wrong-value", "PYTHONPATH")},
    ),
    Scenario(
        "a forkserver that starts early",
        Change(unit=(("Environment=NCCL_ALGO=Ring\n", ""),), hook=EARLY),
        "forkserver-started-early",
        place="the fork server before the server's own code runs",
        also=lost("NCCL_ALGO") | {("env-missing", "NCCL_ALGO"), ("hook-starts-processes", None)},
        arguments=("--start-method", "forkserver"),
    ),
)


def before(here: Stage, *arguments: str) -> Judged:
    """Run the gate on the unit by its name, as a deploy job does."""
    return here.judged("gate", "-c", str(here.config), "--user", "--unit", NAME, *arguments)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_it_is_caught_before_the_restart(here: Stage, scenario: Scenario) -> None:
    running = here.identity()
    with here.changed(scenario.change):
        judged = before(here, *scenario.arguments)
        assert judged.code == 1
        told = [one for one in judged.of(scenario.check) if one["variable"] == scenario.variable]
        place = here.filled(scenario.place)
        assert any(place in f"{one['who']} {one['message']}" for one in told), told
        errors = judged.found("error")
        worst = {(one["check"], one["variable"]) for one in told if one["severity"] == "error"}
        assert errors == worst | scenario.also
        if scenario.warned is not None:
            check, place = scenario.warned
            (warning,) = judged.of(check)
            assert (warning["severity"], warning["id"]) == ("warning", registry.find(check).id)
            assert here.filled(place) in f"{warning['who']} {warning['message']}"
        if local_version(os.environ) == MEASURED:
            assert here.verify() == scenario.verify
    assert here.identity() == running


def test_the_healthy_unit_holds_before_and_after(here: Stage) -> None:
    running = here.identity()
    judged = before(here)
    assert (judged.code, judged.found("error", "warning")) == (0, set())
    standing = {one["name"]: one["standing"] for one in judged.report["expectations"]}
    assert standing.pop("8 scheduler") == "only_after_the_start"
    assert {*standing.values()} == {"judged"}
    assert standing.keys() >= {*SIX, "PYTHONPATH", "sitecustomize", "engine:Backend.plain"}
    assert here.verify() == "silent"
    after = here.live()
    # A hook was written and put back by other tests: the file's change time says so.
    assert after.found("error", "warning") <= {("code-changed-since-start", None)}
    assert (after.code, after.report["phase"]) == (0, "live")
    assert {one["standing"] for one in after.report["expectations"]} == {"judged"}
    assert here.identity() == running


def test_the_page_has_this_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "units.md"
    text = page.read_text().partition("## One change before a restart")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*) \| `([\w-]+)` \((EP\d+)\) \| (\w+) \|$", text, re.M)
    assert rows == [
        (one.name, one.check, registry.find(one.check).id, one.verify) for one in SCENARIOS
    ]
