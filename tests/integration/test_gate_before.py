"""`gate` before a start: all parts together, and what one part shows that another does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import consumers, patchhooks
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.gates import PYTHON, Gate, Place, gate


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def command(place: Place, *more: str) -> tuple[str, ...]:
    return (
        "--",
        "env",
        "NCCL_ALGO=Ring",
        f"PYTHONPATH={place.hooks}",
        *more,
        PYTHON,
        *start(place),
    )


def start(place: Place) -> tuple[str, ...]:
    return (str(place.server),)


def run(place: Place, *arguments: str) -> Gate:
    return gate("-c", str(place.config), *arguments, env=environment())


HOOK = '[expect.{name}]\n{how} = "{path}"\n'


def test_all_parts_hold_and_say_what_they_run(place: Place) -> None:
    place.expect(
        '[expect.env]\nNCCL_ALGO = "Ring"\n'
        + HOOK.format(name="sitecustomize", how="file", path=place.hook)
    )
    found = run(place, *command(place))
    assert (found.code, found.checks) == (0, set())
    assert [one["name"] for one in found.report["parts"]] == [
        "unit",
        "trace-sitecustomize",
        "rehearse",
    ]
    assert found.standing("env") == {"NCCL_ALGO": ("judged", ("unit", "rehearse"))}
    told = found.stderr.splitlines()
    assert [line for line in told if f"this runs {PYTHON} with its start-up hooks" in line]
    assert [line for line in told if f"this runs {PYTHON} and with it its start-up hooks" in line]


@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
@pytest.mark.parametrize("how", ["file", "from"])
def test_a_hook_that_another_one_hides_fails_whatever_is_expected(
    place: Place, name: str, how: str
) -> None:
    first = place.folder / "first"
    first.mkdir()
    (first / f"{name}.py").write_text("")
    (place.hooks / f"{name}.py").write_text("")
    path = place.hooks / f"{name}.py" if how == "file" else place.hooks
    place.expect(HOOK.format(name=name, how=how, path=path))
    assert run(place, *command(place)).code == 0
    hidden = run(place, *command(place, f"PYTHONPATH={first}:{place.hooks}"))
    assert hidden.code == 1
    by_trace = (
        "winner-unexpected"
        if (name, how) == ("sitecustomize", "file")
        else ("hook-not-as-expected")
    )
    errors = {(check, parts) for check, _, parts in hidden.checks}
    assert (by_trace, ("trace-sitecustomize",)) in errors
    assert ("hook-differs", ("rehearse",)) in errors
    (differs,) = hidden.of("hook-differs")
    assert any("RANK0" in one for one in differs["processes"])
    assert str(first / f"{name}.py") in hidden.of(by_trace)[0]["message"]


def test_a_hook_that_leaves_pythonpath_is_seen_in_the_children(place: Place) -> None:
    place.hook.write_text('import os\n\ndel os.environ["PYTHONPATH"]\n')
    for how, path in (("file", place.hook), ("from", place.hooks)):
        place.expect(HOOK.format(name="sitecustomize", how=how, path=path))
        found = run(place, *command(place))
        assert found.code == 1
        assert {one["parts"][0] for one in found.of("hook-not-run-in-child")} == {"rehearse"}
        assert found.part("trace-sitecustomize") == found.part("rehearse") == 1


def test_what_a_hook_sets_need_not_be_declared(place: Place) -> None:
    place.hook.write_text('import os\n\nos.environ["SET_BY_HOOK"] = "1"\n')
    place.expect('[expect.env]\nSET_BY_HOOK = "1"\nNCCL_ALGO = "Ring"\n')
    found = run(place, *command(place))
    assert (found.code, found.checks) == (0, set())
    (one,) = found.report["ignored"]
    assert (one["check"], one["variable"], one["parts"]) == (
        "declared-unexpected",
        "SET_BY_HOOK",
        ["unit"],
    )
    assert one["ignored_because"].startswith("each rehearsed worker has what is expected")
    place.hook.write_text('import os\n\nos.environ["SET_BY_HOOK"] = "2"\n')
    found = run(place, *command(place))
    assert found.code == 1
    assert {("declared-unexpected", "SET_BY_HOOK", ("unit",))} <= found.checks
    assert found.of("env-wrong-value")[0]["parts"] == ["rehearse"]


def test_a_hook_that_changes_what_is_declared_is_found(place: Place) -> None:
    place.hook.write_text('import os\n\nos.environ["NCCL_ALGO"] = "Tree"\n')
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    found = run(place, *command(place))
    assert (found.code, found.part("unit")) == (1, 0)
    (one,) = found.of("env-wrong-value")
    assert (one["variable"], one["parts"]) == ("NCCL_ALGO", ["rehearse"])
    assert len(one["pids"]) == len(one["processes"]) == 2


def test_a_patch_is_judged_in_rehearsed_workers(place: Place) -> None:
    hooks = patchhooks.written(place.folder / "patched", patchhooks.lazy("engine"))
    place.expect('[expect.patch]\n"engine:Backend.plain" = "my_kernels"\n')
    given = ("--", "env", f"PYTHONPATH={hooks.path}", PYTHON, str(place.server))
    found = run(place, *given)
    assert (found.code, found.checks) == (0, set())
    place.expect('[expect.patch]\n"engine:Backend.plain" = "other_kernels"\n')
    found = run(place, *given)
    assert found.code == 1
    assert found.of("patch-missing")[0]["parts"] == ["rehearse"]
    hooks.hook.write_text("")
    place.expect('[expect.patch]\n"engine:Backend.plain" = "my_kernels"\n')
    found = run(place, *given)
    assert (found.code, found.checks) == (1, {("patch-would-not-be-applied", "", ("rehearse",))})


def test_what_two_parts_say_is_said_once(place: Place) -> None:
    wrapper = place.folder / "launch.py"
    wrapper.write_text("import runpy\n\nrunpy.run_path('serve.py', run_name='__main__')\n")
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    found = run(place, "--", "env", "NCCL_ALGO=Ring", PYTHON, str(wrapper))
    assert found.code == 1
    (one,) = found.of("main-guard-missing")
    assert one["parts"] == ["unit", "rehearse"]
    assert f"{wrapper}:3" in one["message"]
    assert found.report["verdict"]["counts"]["error"] == 1


@pytest.mark.parametrize("given", [(), ("NCCL_ALGO=Tree",)], ids=["absent", "another"])
def test_what_the_definition_hands_over_is_said_once(place: Place, given: tuple[str, ...]) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    report = place.folder / "report.xml"
    found = run(place, f"-ojunit={report}", "--", "env", *given, PYTHON, str(place.server))
    assert found.checks == {("declared-unexpected", "NCCL_ALGO", ("unit", "rehearse"))}
    assert (found.code, found.part("unit"), found.part("rehearse")) == (1, 1, 1)
    assert found.report["verdict"]["counts"]["error"] == 1
    # The part that comes second fails by what is told in the first, and not in its verdict.
    cases = consumers.cases(report.read_text())
    broken = {name for name, one in cases.items() if one.result}
    assert {name.split(":")[0] for name in broken} == {"EP329 declared-unexpected"}
    assert not [name for name in cases if name.startswith("EP004" if given else "EP003")]


def test_what_happens_on_the_way_is_told_besides(place: Place) -> None:
    place.hook.write_text("import os\nos.environ['NCCL_ALGO'] = 'CollnetDirect'\n")
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    given = ("env", "NCCL_ALGO=Tree", f"PYTHONPATH={place.hooks}", PYTHON, str(place.server))
    found = run(place, "--", *given)
    assert found.of("declared-unexpected")[0]["parts"] == ["unit"]
    assert found.of("env-wrong-value")[0]["parts"] == ["rehearse"]


def test_as_many_workers_are_rehearsed_as_are_expected(place: Place) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n[expect.workers]\nscheduler = 3\n')
    found = run(place, *command(place))
    notes = {part["name"]: part["notes"] for part in found.report["parts"]}
    assert "workers: 3 ([expect.workers])" in notes["rehearse"]
    assert not [one for one in notes["rehearse"] if "--start-method" in one]
    found = run(place, "--workers", "1", *command(place))
    notes = {part["name"]: part["notes"] for part in found.report["parts"]}
    assert "workers: 1 (--workers)" in notes["rehearse"]


def test_what_cannot_be_asked_is_no_pass(place: Place) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    found = run(place, "--", "env", "NCCL_ALGO=Ring", "/nowhere/python3", str(place.server))
    asked = {one["check"] for one in found.report["findings"] if one["undetermined"]}
    assert found.code == 3
    assert asked >= {"startup-not-judged", "rehearsal-not-judged"}
    ran = envprobe(
        *("gate", "-c", str(place.config), "--allow-unknown=startup-not-judged"),
        *("--allow-unknown=launch-unknown", "--allow-unknown=rehearsal-not-judged"),
        *("--", "env", "NCCL_ALGO=Ring"),
        *("/nowhere/python3", str(place.server)),
        env=environment(),
    )
    assert ran.returncode == 0, ran.stdout
    assert "accepted  startup-not-judged (EP702)" in ran.stdout


def test_a_kernel_that_is_expected_never_holds_untried(place: Place, tmp_path: Path) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n[expect.kernel]\narch = "sm_120"\n')
    outputs = {kind: tmp_path / f"report.{kind}" for kind in ("text", "github", "junit", "sarif")}
    found = run(place, *(f"-o{kind}={path}" for kind, path in outputs.items()), *command(place))
    assert found.standing("kernel") == {"sm_120": ("judged", ("kernel",))}
    # Whether the compiler is installed here is for another test to say.
    untold = {one["check"] for one in found.report["findings"] if "kernel" in one["parts"]}
    assert (found.code, found.part("kernel")) == ((3, 3) if untold else (0, 0))
    (part,) = (one for one in found.report["parts"] if one["name"] == "kernel")
    assert part["notes"] == ["nothing was compiled" if untold else "compiled, not run: sm_120"]
    for path in outputs.values():
        assert part["notes"][0] in path.read_text(), path.name
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n[expect.kernel]\ninstalled = true\n')
    found = run(place, *command(place))
    assert (found.code, found.part("kernel")) == (3, 3)
    (one,) = (one for one in found.report["findings"] if one["parts"] == ["kernel"])
    assert (one["check"], one["undetermined"]) == ("kernel-not-run", True)


def test_nothing_that_is_known_before_the_start_is_no_pass(place: Place) -> None:
    place.expect("[expect.workers]\nscheduler = 2\n")
    found = run(place, *command(place))
    assert (found.code, found.checks) == (3, {("nothing-decided", "", ("gate",))})
