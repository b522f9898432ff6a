"""Which part judges which expectation: nothing is dropped, and nothing is judged too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from envprobe import configfile
from envprobe.checks.gate.plan import Phase, Plan, Standing, before, live
from envprobe.checks.registry import slug_of
from envprobe.config import Config
from envprobe.launch.definition import Context, Definition, of_command, of_file

EVERYTHING = b"""
[expect.env]
A = "1"
B = {same = true}
[expect.env-by-role.scheduler]
C = "1"
[expect.sitecustomize]
from = "/opt/hooks"
[expect.usercustomize]
file = "/opt/user/usercustomize.py"
role = "scheduler"
[expect.patch]
"m:f" = "mine"
"m:g" = {from = "mine", role = "scheduler"}
[expect.nccl]
NCCL_ALGO = "Ring"
NCCL_PROTO = "LL"
[expect.kernel]
arch = "sm_120"
[expect.workers]
scheduler = 8
[expect]
lib = ["*/libx.so"]
"""


def config(text: bytes = EVERYTHING) -> Config:
    return configfile.parse("envprobe.toml", text, slug_of, ("scheduler",))


def command(*words: str) -> Definition:
    return of_command(("env", "-i", *words), Context({}), "/")


def states(plan: Plan) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {f"{one.kind} {one.name}": (one.standing.value, one.parts) for one in plan.stands}


AFTER = ("only_after_the_start", ())
FILES = ("not_decided_by_files", ())


@pytest.mark.parametrize("phase", [Phase.BEFORE, Phase.STATIC])
def test_each_expectation_stands_somewhere(phase: Phase) -> None:
    definition = command("A=1", "NCCL_ALGO=Ring", "/usr/bin/python3", "serve.py")
    plan = before(config(), phase, definition)
    static = phase is Phase.STATIC
    assert states(plan) == {
        "env A": ("judged", ("unit",) if static else ("unit", "rehearse")),
        "env B": AFTER,
        "env C": AFTER,
        "nccl NCCL_ALGO": ("only_after_the_start", ("unit",)),
        "nccl NCCL_PROTO": AFTER,
        "sitecustomize sitecustomize": (
            FILES if static else ("judged", ("trace-sitecustomize", "rehearse"))
        ),
        "usercustomize usercustomize": AFTER,
        "patch m:f": FILES if static else ("judged", ("rehearse",)),
        "patch m:g": AFTER,
        "kernel sm_120": FILES if static else ("judged", ("kernel",)),
        "workers 8 scheduler": AFTER,
        "lib */libx.so": AFTER,
    }
    assert [one.name for one in plan.declared] == ["A", "NCCL_ALGO"]
    assert [one.name for one in plan.children] == ([] if static else ["A"])
    assert [one.query for one in plan.patches] == ([] if static else ["m:f"])
    assert all(one.parts or one.reason for one in plan.stands)


def test_a_running_server_shows_all_of_it() -> None:
    plan = live(config())
    assert {one.standing for one in plan.stands} == {Standing.JUDGED}
    assert {one.parts for one in plan.stands if one.kind != "kernel"} == {("workers",)}
    assert len(plan.stands) == 12


def test_what_the_definition_leaves_open_is_not_asked_of_a_rehearsal(tmp_path: Path) -> None:
    unit = tmp_path / "sgl.service"
    unit.write_text("[Service]\nEnvironment=A=1\nExecStart=/usr/bin/python3 serve.py\n")
    expected = config(b'[expect.env]\nA = "1"\nNOT_HERE = "1"\n')
    plan = before(expected, Phase.BEFORE, of_file(str(unit), (), Context({})))
    assert states(plan) == {
        "env A": ("judged", ("unit", "rehearse")),
        "env NOT_HERE": ("judged", ("unit",)),
    }


def test_what_a_framework_sets_is_left_to_the_rehearsal() -> None:
    expected = config(b'[expect.env]\nNCCL_CUMEM_ENABLE = "0"\n')
    of_sglang = ("/usr/bin/python3", "-m", "sglang.launch_server")
    name = "env NCCL_CUMEM_ENABLE"
    assert states(before(expected, Phase.BEFORE, command(*of_sglang)))[name] == (
        "judged",
        ("rehearse",),
    )
    plan = before(expected, Phase.STATIC, command(*of_sglang))
    assert states(plan)[name] == FILES
    assert plan.stands[0].reason.startswith("sglang sets it itself")
    for others in (
        command("/usr/bin/python3", "serve.py"),
        command("NCCL_CUMEM_ENABLE=1", *of_sglang),
    ):
        assert states(before(expected, Phase.STATIC, others))[name] == ("judged", ("unit",))
