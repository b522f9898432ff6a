"""`envprobe merge`: real scans, saved as those of several nodes, judged as one job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from envprobe import tables
from tests.programs.actions import Action, py_set
from tests.programs.cli import Run
from tests.programs.envprobe_cli import envprobe
from tests.programs.trees import TitledTree

RING = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
SECRET = "hf_0123456789abcdefghijABCDEFGHIJ0123"


def saved(path: Path, host: str, env: Mapping[str, str], actions: dict[int | str, Action]) -> Path:
    """Save a scan of a real tree of two workers, and give its host another name."""
    with TitledTree(workers=2, env=env, actions=actions, detokenizer=False) as tree:
        ran = envprobe("workers", f"--pid={tree.root}", f"--save-facts={path}")
        assert ran.returncode in (0, 1), ran.stderr
        document = json.loads(path.read_text(encoding="utf-8"))
    document["host"] = host
    # Workers that other tests have left behind are of no job.
    document["processes"] = [one for one in document["processes"] if not one["orphan"]]
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three scans: of n2 the launcher sets another NCCL_PROTO before it starts its workers."""
    folder = tmp_path_factory.mktemp("facts")
    before = {0: Action(parent_before=[py_set("NCCL_PROTO", "LL")])}
    return {
        "n0": saved(folder / "n0", "n0", {**RING, "HF_TOKEN": SECRET}, {}),
        "n1": saved(folder / "n1", "n1", {**RING, "HF_TOKEN": SECRET}, {}),
        "n2": saved(folder / "n2", "n2", RING, dict(before)),
    }


def merged(*arguments: str | Path) -> Run:
    ran = envprobe("merge", *map(str, arguments), "--format=json")
    return Run(ran.returncode, ran.stdout, ran.stderr)


def loud(run: Run) -> set[tuple[str, str, str]]:
    """Return host, check and variable of each finding above info."""
    return {
        (scan["snapshot"]["host"], one["check"], one["variable"])
        for scan in run.document["scans"]
        for one in scan["findings"]
        if one["severity"] != "info"
    }


def test_equal_nodes_hold(nodes: dict[str, Path]) -> None:
    run = merged(nodes["n0"], nodes["n1"], "--expect=NCCL_ALGO=Ring")
    assert (run.code, loud(run)) == (0, set())
    assert [scan["snapshot"]["host"] for scan in run.document["scans"]] == ["n0", "n1"]


def test_the_node_that_differs_is_told_with_the_place_of_the_change(
    nodes: dict[str, Path],
) -> None:
    alone = envprobe("workers", *(f"--from-facts={path}" for path in nodes.values()))
    assert "peers-differ" not in alone.stdout
    run = merged(*nodes.values())
    assert run.code == 1
    assert ("n2", "peers-differ-critical", "NCCL_PROTO") in loud(run)
    assert not any(host != "n2" for host, *_ in loud(run))
    (scan,) = (one for one in run.document["scans"] if one["snapshot"]["host"] == "n2")
    (finding,) = (one for one in scan["findings"] if one["check"] == "peers-differ-critical")
    workers = {one["pid"] for one in scan["processes"] if one["role"]["worker"]}
    assert (set(finding["pids"]), finding["severity"]) == (workers, "error")
    assert "between n2 and other nodes" in finding["message"]
    assert "2 workers on n0 and 2 workers on n1" in finding["message"]
    assert any("Changed in launcher" in one for one in finding["evidence"])
    jsonschema.validate(run.document, tables.load("report.schema"))
    # Set on two nodes, absent on the third, and never shown.
    assert ("n2", "peers-differ", "HF_TOKEN") in loud(run)
    assert SECRET not in run.stdout


@pytest.mark.parametrize("kind", ["text", "junit", "github", "sarif", "html"])
def test_every_format_names_the_nodes(kind: str, nodes: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "report"
    ran = envprobe("merge", *map(str, nodes.values()), "-o", f"{kind}={path}")
    assert (ran.returncode, "peers-differ-critical" in ran.stdout) == (1, True)
    words = " ".join(path.read_text(encoding="utf-8").split())
    assert "NCCL_PROTO differs between n2 and other nodes" in words
    assert SECRET not in words + ran.stdout


def test_an_ignored_difference_needs_its_reason(nodes: dict[str, Path], tmp_path: Path) -> None:
    config = tmp_path / "envprobe.toml"
    config.write_text(
        '[ignore]\npeers-differ-critical = "n2 is a trial"\npeers-differ = "tokens differ"\n'
        'changed-on-the-way = "n2 is a trial"\n',
        encoding="ascii",
    )
    run = merged(*nodes.values(), f"--config={config}")
    assert (run.code, loud(run)) == (0, set())


def test_wrong_usage(nodes: dict[str, Path], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    envprobe("merge", str(nodes["n0"]), str(nodes["n1"]), "-o", f"json={report}")
    first = str(nodes["n0"])
    cases = {
        (): "fewer than two were given",
        (first,): "fewer than two were given",
        (first, first): f"{first} and {first} are scans of the same node, n0",
        (first, "/nonexistent"): "/nonexistent cannot be read",
        (first, str(report)): f"{report} is no file of --save-facts",
        (first, ""): "the path of a file is empty",
    }
    for arguments, message in cases.items():
        ran = envprobe("merge", *arguments)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert message in " ".join(ran.stderr.split())
