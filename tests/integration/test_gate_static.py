"""`gate --static`: what files decide, for a machine that has no interpreter of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.gates import Place

NOT_HERE = "/nowhere/venv/bin/python"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_it_holds_and_runs_nothing(place: Place) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    found = place.gate(
        "--static", "--unit", place.unit("Environment=NCCL_ALGO=Ring", start=f"{NOT_HERE} -c 1")
    )
    assert (found.code, found.checks, found.stderr) == (0, set(), "")
    assert found.report["phase"] == "static"
    assert found.standing("env") == {"NCCL_ALGO": ("judged", ("unit",))}


def test_a_hook_that_would_tell_on_itself_is_not_run(place: Place) -> None:
    trace = place.folder / "ran"
    place.hook.write_text(f"open({str(trace)!r}, 'w')\n")
    place.expect(f'[expect.env]\nA = "1"\n[expect.sitecustomize]\nfile = "{place.hook}"\n')
    found = place.gate("--static", "--unit", place.unit("Environment=A=1"))
    assert found.code == 0
    assert not trace.exists()
    assert found.standing("sitecustomize") == {"sitecustomize": ("not_decided_by_files", ())}


def test_what_files_contradict_fails(place: Place) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n[expect.nccl]\nNCCL_PROTO = "LL"\n')
    unit = place.unit("Environment=NCCL_ALGO=Tree", "Environment=NCCL_PROTO=Simple")
    found = place.gate("--static", "--unit", unit)
    assert (found.code, found.part("unit")) == (1, 1)
    assert found.checks == {
        ("declared-unexpected", "NCCL_ALGO", ("unit",)),
        ("declared-unexpected", "NCCL_PROTO", ("unit",)),
    }
    assert {one["who"] for one in found.of("declared-unexpected")} == {"sgl.service"}


def test_what_files_do_not_decide_is_listed_and_never_counts(place: Place) -> None:
    place.expect(
        '[expect.env]\nA = "1"\nB = {same = true}\n[expect.env-by-role.scheduler]\nC = "1"\n'
        '[expect.patch]\n"engine:step" = "my_kernels"\n[expect.nccl]\nNCCL_ALGO = "Ring"\n'
        '[expect.workers]\nscheduler = 8\n[expect.kernel]\narch = "sm_120"\n'
        '[expect]\nlib = ["*/libx.so"]\n'
    )
    found = place.gate("--static", "--unit", place.unit("Environment=A=1"))
    assert (found.code, found.checks) == (0, set())
    after, files = ("only_after_the_start", ()), ("not_decided_by_files", ())
    assert found.standing("env") == {"A": ("judged", ("unit",)), "B": after, "C": after}
    assert found.standing("patch") == {"engine:step": files}
    assert found.standing("kernel") == {"sm_120": files}
    assert found.standing("nccl") == {"NCCL_ALGO": after}
    assert found.standing("workers") == {"8 scheduler": after}
    assert found.standing("lib") == {"*/libx.so": after}


def test_nothing_decided_is_no_pass(place: Place) -> None:
    place.expect(f'[expect.sitecustomize]\nfrom = "{place.hooks}"\n')
    unit = place.unit()
    found = place.gate("--static", "--unit", unit)
    assert (found.code, found.checks) == (3, {("nothing-decided", "", ("gate",))})
    (one,) = found.of("nothing-decided")
    assert one["undetermined"]
    assert one["who"] == "sgl.service"
    accepted = place.gate("--static", "--unit", unit, "--allow-unknown", "nothing-decided")
    assert accepted.code == 0
    assert accepted.report["verdict"]["counts"]["accepted"] == 1


def test_an_interpreter_without_site_rules_a_hook_out(place: Place) -> None:
    place.expect(f'[expect.sitecustomize]\nfrom = "{place.hooks}"\n')
    found = place.gate("--static", "--unit", place.unit(start=f"{NOT_HERE} -S {place.server}"))
    assert found.code == 1
    (one,) = found.of("hook-ruled-out")
    assert (one["parts"], one["who"], one["severity"]) == (["unit"], "sgl.service", "error")
    isolated = place.gate("--static", "--unit", place.unit(start=f"{NOT_HERE} -I {place.server}"))
    assert not isolated.of("hook-ruled-out")


def test_what_may_come_from_a_framework_is_not_contradicted(place: Place) -> None:
    text = '[expect.env]\nNCCL_ALGO = "Ring"\nNCCL_CUMEM_ENABLE = "0"\n'
    place.expect(text)
    line = "Environment=NCCL_ALGO=Ring"
    command = ("env", "-i", "NCCL_ALGO=Ring", NOT_HERE, "-m", "sglang.launch_server")
    found = place.gate("--static", "--", *command)
    assert found.code == 0
    assert found.standing("env")["NCCL_CUMEM_ENABLE"] == ("not_decided_by_files", ())
    other = place.gate("--static", "--", *command[:-1], "my_server")
    assert other.checks == {("declared-unexpected", "NCCL_CUMEM_ENABLE", ("unit",))}
    set_otherwise = place.gate("--static", "--", "env", "NCCL_CUMEM_ENABLE=1", *command[3:])
    assert ("declared-unexpected", "NCCL_CUMEM_ENABLE", ("unit",)) in set_otherwise.checks
    unit = place.unit(line, start=f"{NOT_HERE} -m sglang.launch_server")
    assert place.gate("--static", "--unit", unit).code == 0


def test_what_a_file_cannot_tell_is_no_pass(place: Place) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\n')
    unit = place.unit()
    found = place.gate("--static", "--unit", unit)
    assert found.code == 3
    assert [one["undetermined"] for one in found.of("declared-unexpected")] == [True]
    assert place.gate("--static", "--unit", unit, "--allow-unknown", "EP329").code == 0
    reason = "the manager of that machine has it"
    place.expect(
        f'[expect.env]\nNCCL_ALGO = "Ring"\n[allow-unknown]\ndeclared-unexpected = "{reason}"\n'
    )
    assert place.gate("--static", "--unit", unit).code == 0
    place.expect(
        '[expect.env]\nNCCL_ALGO = "Ring"\n[allow-unknown]\n'
        f'declared-unexpected = {{reason = "{reason}", until = "2001-01-31"}}\n'
    )
    over = place.gate("--static", "--unit", unit)
    assert over.code == 3
    assert f"declared-unexpected is no longer accepted: {reason}" in over.stderr


@pytest.mark.parametrize("prefix", ["", "-"])
def test_a_file_of_the_servers_machine_is_listed(place: Place, prefix: str) -> None:
    place.expect('[expect.env]\nNCCL_ALGO = "Ring"\nNCCL_PROTO = "LL"\nHF_HOME = {set = true}\n')
    lines = (
        *("Environment=NCCL_ALGO=Ring", "UnsetEnvironment=NCCL_PROTO"),
        f"EnvironmentFile={prefix}/nowhere/server.env",
    )
    found = place.gate("--static", "--unit", place.unit(*lines))
    assert found.standing("env-file") == {"/nowhere/server.env": ("not_decided_by_files", ())}
    assert found.standing("env") == {
        "NCCL_ALGO": ("judged", ("unit",)),
        "NCCL_PROTO": ("judged", ("unit",)),
        "HF_HOME": ("not_decided_by_files", ()),
    }
    # What files contradict still fails, and what is not here is no finding.
    assert (found.code, found.checks) == (1, {("declared-unexpected", "NCCL_PROTO", ("unit",))})
    before = place.gate("--unit", place.unit(*lines))
    assert [one["severity"] for one in before.of("env-file-not-found")] == [
        "warning" if prefix else "error"
    ]


def test_what_is_ignored_is_kept_apart_with_its_reason(place: Place) -> None:
    place.expect('[expect.env]\nA = "1"\n[ignore]\nunit-dollar-literal = "on purpose"\n')
    unit = place.unit("Environment=A=1 PATH=/x:$PATH")
    found = place.gate("--static", "--unit", unit)
    assert found.code == 0
    (one,) = found.report["ignored"]
    assert (one["check"], one["parts"], one["ignored_because"]) == (
        "unit-dollar-literal",
        ["unit"],
        "on purpose",
    )
    place.expect('[expect.env]\nA = "1"\n')
    assert ("unit-dollar-literal", "PATH", ("unit",)) in place.gate(
        "--static", "--unit", unit
    ).checks


USAGE = [
    ((), "nothing was named to judge"),
    (("--unit", "{unit}", "--pid", "1"), "--pid names a running server"),
    (("--live",), "--live needs --unit or --pid"),
    (("--live", "--", "true"), "--live needs --unit or --pid"),
    (("--live", "--unit", "a", "--unit", "b"), "--live takes one unit"),
    (("--static", "--pid", "1"), "--static asks files"),
    (("--static", "--unit", "{unit}", "--wait", "8"), "--wait is for a running server"),
    (("--unit", "{unit}", "--nccl-log", "x"), "--nccl-log is for a running server"),
    (("--unit", "{unit}", "--timeout", "3"), "--timeout says how long --wait waits"),
    (("--unit", "{unit}", "--", "true"), "`gate` takes one launch definition"),
    (("--unit", "{unit}", "--unit", "{unit}"), "`gate` takes one launch definition"),
    (("--static", "--unit", "{unit}", "--framework", "sglang"), "--framework is for the rehearsal"),
    (("--pid", "1", "--start-method", "spawn"), "--start-method is for the rehearsal"),
    (("--pid", "1", "--workers", "2"), "--workers is for the rehearsal"),
    (("--unit", "{unit}", "--match", "ray::*"), "--match is for a running server"),
    (("--user", "--", "true"), "--user needs --unit"),
    (("--unit", "{unit}", "--config", "{none}"), "there is no such file"),
    (("--unit", "{unit}", "--config", ""), "--config is empty"),
    (("--unit", "{unit}", "--allow-unknown", "nothing"), "there is no check 'nothing'"),
    (("--unit", "{unit}", "--allow-unknown", "hook-ruled-out"), "this check always can tell"),
    (("--unit", "/nowhere/x.service"), "/nowhere/x.service does not exist"),
]


@pytest.mark.parametrize(("words", "says"), USAGE, ids=lambda one: str(one)[:40])
def test_wrong_usage_is_2_and_says_why(place: Place, words: tuple[str, ...], says: str) -> None:
    names = {"{unit}": place.unit(), "{none}": str(place.folder / "none.toml")}
    given = [names.get(one, one) for one in words]
    if "--config" not in given:
        given = ["--config", place.expect('[expect.env]\nA = "1"\n'), *given]
    ran = envprobe("gate", *given, env=environment())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr


def test_without_a_configuration_there_is_nothing_to_pass(place: Place, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    unit = place.unit()
    ran = envprobe("gate", "--unit", unit, cwd=empty)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "there is no --config, and no ./envprobe.toml" in ran.stderr
    assert "envprobe baseline --pid PID > envprobe.toml" in ran.stderr
    (empty / "envprobe.toml").write_text('[ignore]\nenv-missing = "known"\n')
    ran = envprobe("gate", "--unit", unit, cwd=empty)
    assert ran.returncode == 2
    assert "envprobe.toml expects nothing" in ran.stderr
    (empty / "envprobe.toml").write_text("[expect.env]\nPYTHONPATH = {set = true}\n")
    assert envprobe("gate", "--static", "--unit", unit, cwd=empty).returncode == 0
