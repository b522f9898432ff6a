"""The command line of `unit` without a manager: files, command lines, formats, wrong usage."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from tests.programs.envprobe_cli import environment, envprobe

PYTHON = os.path.realpath(sys.executable)
WAIT = f'ExecStart={PYTHON} -c "import signal; signal.pause()"'


def _json(*arguments: str, **more: str) -> Any:
    ran = envprobe("unit", "--format", "json", *arguments, env=environment(**more))
    found = json.loads(ran.stdout)
    jsonschema.Draft202012Validator(tables.load("unit.schema")).validate(found)
    assert ran.returncode == found["verdict"]["exit"]
    return found


def _file(folder: Path, *lines: str, start: str = WAIT) -> str:
    path = folder / "sgl.service"
    path.write_text("\n".join(["[Service]", *lines, start, ""]))
    return str(path)


def _checks(found: Any) -> set[str]:
    return {one["check"] for one in found["findings"]}


LINES = [
    ("Environment=NCCL_ALGO = Ring", "unit-word-ignored", "NCCL_ALGO"),
    ("Environment=export NCCL_ALGO=Ring", "unit-word-ignored", None),
    ("Environment=NCCL_ALGO=Ring Tree", "unit-word-ignored", "NCCL_ALGO"),
    ("Environment=NCCL_ALGO=Ring # why", "unit-word-ignored", "NCCL_ALGO"),
    ("Environment=NCCL_DEBUG_FILE=/x.%z", "unit-word-ignored", "NCCL_DEBUG_FILE"),
    ('Environment="NCCL_ALGO=Ring', "unit-word-ignored", None),
    ("Environment=PYTHONPATH=/a:$PYTHONPATH", "unit-dollar-literal", "PYTHONPATH"),
    ("Environment=NCCL_DEBUG_FILE=/x.%h.%p", "unit-specifier", "NCCL_DEBUG_FILE"),
    ("Enviroment=A=1", "unit-line-ignored", None),
    ("Environment A=1", "unit-line-ignored", None),
    ("[Unit]\nEnvironment=A=1\n[Service]", "unit-line-ignored", None),
    ("[Servce]\nEnvironment=A=1\n[Service]", "unit-line-ignored", None),
    ("EnvironmentFile=/nothing/here", "env-file-not-found", None),
    ('EnvironmentFile="/etc/hostname"', "env-file-not-found", None),
    ("EnvironmentFile=nccl.env", "env-file-not-found", None),
    ("Environment=A=1\nUnsetEnvironment=A", "variable-removed", "A"),
    ("ExecStart=/bin/true", "exec-line-odd", None),
    ("ExecStart=bin/python3 x.py", "exec-line-odd", None),
    ("ExecStart=/usr/bin/ x.py", "exec-line-odd", None),
]


def _by_file(found: Any, path: str) -> list[dict[str, Any]]:
    return [one for one in found["findings"] if one["who"].startswith(f"{path}:")]


def test_each_line_that_is_not_what_it_looks_is_an_error(tmp_path: Path) -> None:
    units = []
    for number, (line, _, _) in enumerate(LINES):
        folder = tmp_path / str(number)
        folder.mkdir()
        units.append(_file(folder, line))
    found = _json("--allow-unknown=launch-unknown", *units)
    assert found["verdict"]["exit"] == 1
    for unit, (line, check, variable) in zip(units, LINES, strict=True):
        told = [one for one in _by_file(found, unit) if one["severity"] == "error"]
        assert {(one["check"], one["variable"]) for one in told} == {(check, variable)}, line


FILE_LINES = [
    ("export A=1", "env-file-line-ignored", "error"),
    ("A-B=1", "env-file-line-ignored", "error"),
    ("A 1", "env-file-line-ignored", "error"),
    ("A=$HOME/x", "env-file-not-shell", "error"),
    ("A=1 # note", "env-file-not-shell", "error"),
    ('A="1', "env-file-not-shell", "error"),
    ('A="1" 2', "env-file-not-shell", "warning"),
    ("A=a'b'", "env-file-not-shell", "warning"),
    ("A=a\\b", "env-file-not-shell", "warning"),
    ("A=%%h", "env-file-not-shell", "warning"),
    ("# x \\\nB=1", "env-file-not-shell", "warning"),
]


def test_each_line_of_an_environment_file(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.env" for number, _ in enumerate(FILE_LINES)]
    for path, (line, _, _) in zip(files, FILE_LINES, strict=True):
        path.write_text(f"OK=1\n{line}\n")
    found = _json(_file(tmp_path, *(f"EnvironmentFile={path}" for path in files)))
    for path, (line, check, severity) in zip(files, FILE_LINES, strict=True):
        told = {(one["check"], one["severity"], one["who"]) for one in found["findings"]}
        assert (check, severity, f"{path}:2") in told, line


def test_a_plain_unit_holds_and_an_unreadable_file_does_not(tmp_path: Path) -> None:
    path = tmp_path / "x.env"
    path.write_text("# fine\nNCCL_ALGO=Ring\nB='a $x'\n")
    unit = _file(tmp_path, "Environment=C=1", f"EnvironmentFile={path}")
    found = _json(unit, "--expect", "NCCL_ALGO=Ring", "--expect", "C=1")
    assert (found["verdict"]["exit"], found["findings"]) == (0, [])
    path.unlink()
    path.mkdir()
    found = _json(unit, "--expect", "C=1")
    assert found["verdict"]["exit"] == 3
    assert _checks(found) == {"declared-unknown", "declared-unexpected"}
    assert all(one["undetermined"] for one in found["findings"])
    accepted = ["--allow-unknown=declared-unknown", "--allow-unknown=declared-unexpected"]
    assert _json(unit, *accepted)["verdict"]["exit"] == 0


def test_drop_ins_beside_the_file_and_given_with_it(tmp_path: Path) -> None:
    unit = _file(tmp_path, "Environment=A=unit B=unit C=unit")
    (tmp_path / "sgl.service.d").mkdir()
    (tmp_path / "sgl.service.d" / "20.conf").write_text("[Service]\nEnvironment=B=twenty\n")
    extra = tmp_path / "30.conf"
    extra.write_text("[Service]\nEnvironment=C=thirty\n")
    found = _json(unit, str(extra), "--expect=A=unit", "--expect=B=twenty", "--expect=C=thirty")
    assert found["verdict"]["exit"] == 0
    assert _checks(found) == {"entry-overridden"}
    entry = {one["name"]: one for one in found["definitions"][0]["entries"]}["C"]
    assert entry["place"] == {"file": str(extra), "line": 2}
    assert [one["value"] for one in entry["overrides"]] == [{"text": "unit"}]


def test_the_launch_of_the_story_is_refused_from_its_file_alone(tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        'import runpy\nrunpy.run_module("sglang.launch_server", run_name="__main__")\n'
    )
    found = _json(_file(tmp_path, start=f"ExecStart={PYTHON} {script} --tp 8"))
    (one,) = found["findings"]
    assert (found["verdict"]["exit"], one["check"]) == (1, "main-guard-missing")
    assert one["message"].startswith(f"{script}:2: runpy.run_module")
    found = _json(_file(tmp_path, "Environment=PYTHONPATH=/x", start=f"ExecStart={PYTHON} -I x.py"))
    assert "python-ignores-variables" in _checks(found)


@pytest.mark.parametrize(
    ("start", "check", "code"),
    [
        ("/usr/bin/sudo -u nobody {python} -c pass", "lost-in-launch", 1),
        ("/usr/bin/env -i {python} -c pass", "lost-in-launch", 1),
        ("/usr/bin/docker run --gpus all image:1 python3 x.py", "env-stops-at-container", 1),
        ("/bin/bash -c 'export A=$$(date); exec {python} -c pass'", "launch-unknown", 3),
        ("/bin/bash -lc 'exec {python} -c pass'", "lost-in-launch", 3),
    ],
)
def test_what_is_lost_on_the_way_to_the_interpreter(
    tmp_path: Path, start: str, check: str, code: int
) -> None:
    unit = _file(
        tmp_path,
        "Environment=PYTHONPATH=/opt/hooks",
        start="ExecStart=" + start.format(python=PYTHON),
    )
    found = _json(unit)
    assert (found["verdict"]["exit"], check in _checks(found)) == (code, True), found["findings"]


def test_docker_with_what_it_passes_and_the_image_holds(tmp_path: Path) -> None:
    start = "ExecStart=/usr/bin/docker run -e NCCL_ALGO -e PYTHONPATH image:1 python3 x.py"
    unit = _file(tmp_path, "Environment=PYTHONPATH=/opt/hooks NCCL_ALGO=Ring", start=start)
    assert _json(unit)["findings"] == []


def test_a_command_line_and_other_definitions(tmp_path: Path) -> None:
    found = _json("--", "env", "NCCL_ALGO=Ring", PYTHON, "-c", "pass", PYTHONPATH="/opt/hooks")
    assert found["verdict"]["exit"] == 0
    assert found["definitions"][0]["origin"] == "command"
    env = tmp_path / "x.env"
    env.write_text('NCCL_ALGO="Ring"\n')
    compose = tmp_path / "compose.json"
    services = {"sgl": {"environment": {"NCCL_ALGO": "Ring"}, "command": ["python3", "x.py"]}}
    compose.write_text(json.dumps({"services": services}))
    pod = tmp_path / "pod.json"
    container = {"name": "c", "env": [{"name": "A", "value": "$(B)"}], "command": ["python3", "x"]}
    spec = {"enableServiceLinks": False, "containers": [container]}
    pod.write_text(json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    found = _json("--env-file", str(env), "--compose", str(compose), "--kube", str(pod))
    assert found["verdict"]["exit"] == 1
    assert _checks(found) == {"env-file-not-shell", "pod-reference-literal"}
    assert [one["origin"] for one in found["definitions"]] == ["env-file", "compose", "pod"]
    inspect = tmp_path / "inspect.json"
    inspect.write_text(json.dumps([{"Config": {"Env": ["PATH=/usr/bin", "NCCL_ALGO=Tree"]}}]))
    found = _json("--compose", str(compose), "--image-inspect", str(inspect), "--expect", "!X")
    assert (found["verdict"]["exit"], found["findings"]) == (0, [])


def test_a_manifest_in_yaml_with_its_service_and_config(tmp_path: Path) -> None:
    manifest = tmp_path / "sgl.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: vllm}\n"
        "spec: {clusterIP: 10.0.0.7, ports: [{port: 8000}]}\n---\n"
        "kind: ConfigMap\nmetadata: {name: nccl}\ndata: {NCCL_ALGO: Ring}\n---\n"
        "kind: StatefulSet\nmetadata: {name: sgl}\nspec:\n  template:\n    spec:\n"
        "      containers:\n      - name: server\n        envFrom: [{configMapRef: {name: nccl}}]\n"
        "        command: [python3, -m, vllm.entrypoints.openai.api_server]\n"
    )
    found = _json("--kube", str(manifest), "--container", "server", "--expect", "NCCL_ALGO=Ring")
    assert (found["verdict"]["exit"], _checks(found)) == (0, {"pod-service-link"})
    (one,) = found["findings"]
    assert (one["variable"], one["severity"]) == ("VLLM_PORT", "warning")
    assert found["definitions"][0]["subject"] == "StatefulSet/sgl/server"
    ran = envprobe("unit", "--kube", str(manifest), "--container", "other")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "it has no container other; it has" in ran.stderr


def test_values_cannot_break_the_report_and_secrets_stay_in(tmp_path: Path) -> None:
    unit = _file(
        tmp_path,
        "Environment=API_KEY=hunter2hunter2 HF_TOKEN = hunter3hunter3 hunter4hunter4",
        'Environment="NCCL_X=\\x1b[31m::error::x"',
        "hunter5hunter5",
        start=f"ExecStart={PYTHON} -c pass --api-key hunter6hunter6",
    )
    for kind in ("text", "json"):
        ran = envprobe("unit", unit, "--format", kind, "--show-all")
        assert ran.returncode == 1
        assert "\x1b" not in ran.stdout
        assert not any(line.lstrip().startswith("::") for line in ran.stdout.splitlines())
        for number in "23456":
            assert f"hunter{number}" not in ran.stdout + ran.stderr, number
    assert "hunter2hunter2" in envprobe("unit", unit, "--unmask").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "nothing was named to look at"),
        (("--",), 2, "no command follows"),
        (("/nothing/x.service",), 2, "/nothing/x.service does not exist"),
        (("/etc",), 2, "/etc is no regular file"),
        (("x.conf",), 2, "x.conf is a drop-in without its unit"),
        (("x.socket",), 2, "x.socket is no service"),
        (("",), 2, "the name of a unit is empty"),
        (("--kube", "/etc/hostname"), 2, "/etc/hostname"),
        (("--compose", "/etc/hostname"), 2, "/etc/hostname is no JSON"),
        (("--service", "x", "--", "true"), 2, "--service needs --compose"),
        (("--expect", "=", "--", "true"), 2, "="),
        (("--allow-unknown", "unit-failed", "--", "true"), 2, "nothing would be accepted"),
    ],
)
def test_wrong_usage_is_one_clear_error(arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = envprobe("unit", *arguments)
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_a_manager_a_name_cannot_be_told(tmp_path: Path) -> None:
    ran = envprobe("unit", "--user", "x", env=environment(XDG_RUNTIME_DIR=str(tmp_path)))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "cannot be asked" in ran.stderr


def test_a_configuration_ignores_and_accepts(tmp_path: Path) -> None:
    unit = _file(tmp_path, "Environment=A=$B", start="ExecStart=/bin/sh -c 'eval x'")
    found = _json(unit)
    assert (found["verdict"]["exit"], _checks(found)) == (
        1,
        {"unit-dollar-literal", "launch-unknown"},
    )
    config = tmp_path / "envprobe.toml"
    config.write_text('[ignore]\nunit-dollar-literal = "meant so"\n')
    found = _json(unit, "--config", str(config))
    assert (found["verdict"]["exit"], _checks(found)) == (3, {"launch-unknown"})
    (one,) = found["ignored"]
    assert (one["check"], one["ignored_because"]) == ("unit-dollar-literal", "meant so")
    config.write_text(config.read_text() + '[allow-unknown]\nlaunch-unknown = "a wrapper"\n')
    assert _json(unit, "--config", str(config))["verdict"]["exit"] == 0
    ran = envprobe("unit", unit, "--config", str(tmp_path / "none.toml"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "none.toml" in ran.stderr


def test_the_sandbox_of_a_unit_is_reported(tmp_path: Path) -> None:
    unit = _file(tmp_path, "PrivateTmp=yes", "BindPaths=/a:/b")
    (definition,) = _json(unit)["definitions"]
    assert definition["sandbox"] == [
        {"property": "PrivateTmp=yes", "place": {"file": unit, "line": 2}},
        {"property": "BindPaths=/a:/b", "place": {"file": unit, "line": 3}},
    ]
    text = envprobe("unit", unit).stdout
    assert f"changes which files are seen: PrivateTmp=yes ({unit}:2)" in text.replace("\n    ", "")


# --- what a new user tries -----------------------------------------------------------------------


def test_a_program_that_systemd_refuses_is_not_followed_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    ran = tmp_path / "ran"
    program = tmp_path / "bin" / "python3"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    (tmp_path / "x.py").write_text("")
    lines = (f"WorkingDirectory={tmp_path}", "User=root")
    found = _json(_file(tmp_path, *lines, start="ExecStart=bin/python3 x.py"))
    assert (found["verdict"]["exit"], _checks(found)) == (1, {"exec-line-odd"})
    assert "systemd refuses the unit" in found["findings"][0]["message"]
    assert found["definitions"][0]["launches"] == []
    assert not ran.exists()
    dashed = _json(_file(tmp_path, *lines, start="ExecStart=-bin/python3 x.py"))
    assert "systemd ignores the line" in dashed["findings"][0]["message"]


def test_a_doubled_dollar_is_no_variable(tmp_path: Path) -> None:
    start = f'ExecStart={PYTHON} -c "a $$HOME" $$Z b$$$$c'
    assert _checks(_json(_file(tmp_path, start=start))) == set()
    found = _json(_file(tmp_path, start=f"ExecStart={PYTHON} -c a$$$HOME"))
    assert _checks(found) == {"exec-line-odd"}


def test_a_shell_prefix_is_no_plain_start(tmp_path: Path) -> None:
    found = _json(_file(tmp_path, start=f"ExecStart=|{PYTHON} -c pass"))
    assert (found["verdict"]["exit"], _checks(found)) == (3, {"launch-unknown"})


def test_an_interpreter_that_is_not_here_is_said_and_never_announced(tmp_path: Path) -> None:
    here = _json("--", "/nothing/here/python3", "-c", "pass")
    assert (here["verdict"]["exit"], _checks(here)) == (3, {"launch-unknown"})
    assert "/nothing/here/python3 is not on this machine" in here["findings"][0]["message"]
    nowhere = _json("--", "python3", "-c", "pass", PATH="/nothing/here")
    assert (nowhere["verdict"]["exit"], _checks(nowhere)) == (3, {"launch-unknown"})
    # A file may be of another machine: what is declared can still be told.
    unit = _file(tmp_path, start="ExecStart=/nothing/here/python3 -c pass")
    found = _json(unit)
    assert (found["verdict"]["exit"], _checks(found)) == (0, set())
    assert found["definitions"][0]["launches"][0]["missing"] == "not on this machine"
    ran = envprobe("unit", unit)
    assert "interpreter /nothing/here/python3 (not on this machine)" in ran.stdout
    assert ran.stderr == ""


def test_what_is_run_is_announced_only_where_it_is(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("")
    told = f"envprobe: this runs {PYTHON} -I -S to parse the program's first file\n"
    assert envprobe("unit", _file(tmp_path)).stderr == ""
    unit = _file(tmp_path, start=f"ExecStart={PYTHON} {script}")
    assert envprobe("unit", unit).stderr == told
    assert envprobe("unit", "--no-interpreter", unit).stderr == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sgl*", "sgl* is a pattern"),
        ("sgl@?", "sgl@? is a pattern"),
        ("[red]", "[red] is a pattern"),
        ("sgl@", "sgl@.service is a template"),
        ("sgl@.service", "sgl@.service is a template"),
        ("a b", "a b is no name of a unit"),
        ("\x1b[31mx", "is a pattern"),
        ("x" * 300, "is no name of a unit"),
        (".timer", ".timer is no service"),
        ("@1", "@1 is no name of a unit"),
    ],
)
def test_a_name_that_is_none_is_one_clear_error(name: str, said: str) -> None:
    for command in (("unit", name), ("trace-sitecustomize", "--unit", name)):
        ran = envprobe(*command)
        assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
        assert said in ran.stderr
        assert "\x1b" not in ran.stderr


def test_an_expectation_is_of_what_the_container_is_handed(tmp_path: Path) -> None:
    image = tmp_path / "image.json"
    image.write_text('[{"Config": {"Env": ["FROM_IMAGE=1"]}}]')
    words = ("--", "env", "MYVAR=1", "A=1", "docker", "run", "-e", "A", "img", "python3", "x.py")
    stopped = {"env-stops-at-container", "declared-unexpected"}
    lost = _json("--expect", "MYVAR=1", *words)
    assert (lost["verdict"]["exit"], _checks(lost)) == (1, stopped)
    (one,) = [each for each in lost["findings"] if each["check"] == "declared-unexpected"]
    assert (one["undetermined"], one["variable"]) == (True, "MYVAR")
    sure = _json("--expect", "MYVAR=1", "--image-inspect", str(image), *words)
    (one,) = [each for each in sure["findings"] if each["check"] == "declared-unexpected"]
    assert (one["undetermined"], one["severity"]) == (False, "error")
    assert "MYVAR is not handed over, against --expect: expected 1" in one["message"]
    assert _json("--expect", "A=1", *words)["verdict"]["exit"] == 0
    of_image = ("--image-inspect", str(image), "--expect", "FROM_IMAGE=1", "--expect", "!MYVAR")
    assert _json(*of_image, *words)["verdict"]["exit"] == 0


def test_words_of_a_command_line_can_be_told_apart() -> None:
    ran = envprobe("unit", "--", PYTHON, "-c", "import os; os.nice(0)", "", "a b")
    assert f"starts (the command line): {PYTHON} -c" in " ".join(ran.stdout.split())
    assert "-c 'import os; os.nice(0)' '' 'a b'" in " ".join(ran.stdout.split())


@pytest.mark.parametrize(
    ("option", "document", "said"),
    [
        ("--kube", {"kind": "Pod", "spec": {"containers": [{"env": 5}]}}, "its env is no list"),
        ("--kube", {"kind": "Pod", "spec": {"containers": [7]}}, "its containers holds something"),
        (
            "--kube",
            {"kind": "Pod", "metadata": 5, "spec": {"containers": [{}]}},
            "its metadata is no object",
        ),
        (
            "--kube",
            {"kind": "Pod", "spec": {"containers": [{"envFrom": [{"secretRef": 3}]}]}},
            "its secretRef is no object",
        ),
        (
            "--kube",
            {"kind": "Pod", "spec": {"containers": [{"env": [{"name": "A", "valueFrom": 1}]}]}},
            "its valueFrom is no object",
        ),
        (
            "--kube",
            {"kind": "Pod", "spec": {"containers": [{"command": "sh"}]}},
            "its command is no list",
        ),
        ("--compose", {"services": {"a": {"environment": [1]}}}, "list of NAME=VALUE"),
        ("--compose", {"services": {"a": {"environment": {"A": []}}}}, "no object of texts"),
        ("--compose", {"services": {"a": {"command": {"a": 1}}}}, "a command is a text"),
        ("--compose", {"services": {"a": {}, "b": {}}}, "Name one of them with --service"),
    ],
)
def test_a_document_of_another_shape_is_one_clear_error(
    tmp_path: Path, option: str, document: Any, said: str
) -> None:
    path = tmp_path / "given.json"
    path.write_text(json.dumps(document))
    ran = envprobe("unit", option, str(path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_a_value_that_is_no_text_is_refused_by_the_cluster(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "kind: Pod\nmetadata: {name: p}\nspec:\n  enableServiceLinks: false\n  containers:\n"
        "  - {name: a, env: [{name: NCCL_X, value: 3}, {name: NCCL_Y, value: '3'}]}\n"
    )
    found = _json("--kube", str(path))
    (one,) = found["findings"]
    assert (one["check"], one["variable"]) == ("env-file-line-ignored", "NCCL_X")
    assert found["verdict"]["exit"] == 1


def test_what_mends_a_value_that_is_not_known_hangs_on_where_it_is(tmp_path: Path) -> None:
    env_file = tmp_path / "nccl.env"
    env_file.write_text("NCCL_ALGO\n")
    (one,) = [
        each
        for each in _json("--env-file", str(env_file))["findings"]
        if each["check"] == "declared-unknown"
    ]
    assert one["remedy"].startswith("Write NAME=VALUE into the file")
    compose = tmp_path / "compose.json"
    compose.write_text('{"services": {"a": {"environment": ["NCCL_ALGO", "A=1"]}}}')
    (one,) = _json("--compose", str(compose))["findings"]
    assert (one["check"], one["variable"]) == ("declared-unknown", "NCCL_ALGO")
    assert one["remedy"].startswith("Set it where `docker compose config` is run")
