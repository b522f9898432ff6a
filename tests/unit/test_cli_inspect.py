"""What `envprobe inspect` makes of its arguments."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from envprobe import cli, cli_inspect, inspection, tables
from envprobe.errors import Exit, UndeterminedError


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_every_option_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[cli_inspect.Options] = []

    def run(given: cli_inspect.Options) -> Exit:
        seen.append(given)
        return Exit.UNDETERMINED

    monkeypatch.setattr(cli_inspect, "run", run)
    arguments = "inspect --pid 7 a.b c:D.e --format json -o text=t --output json=j --deadline 3.5"
    assert cli.run([*arguments.split(), "--unmask"]) == 3
    assert cli.run(["inspect", "--pid", "8"]) == 3
    assert cli.run(["inspect", "--pid", "8", "--calibrate"]) == 3
    assert cli.run(["inspect", "--pid", "8", "--calibrate-with", "/p"]) == 3
    assert seen == [
        cli_inspect.Options(7, ("a.b", "c:D.e"), "json", ("text=t", "json=j"), 3.5, True),
        cli_inspect.Options(8),
        cli_inspect.Options(8, calibrate=True),
        cli_inspect.Options(8, calibrate_with="/p"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--pid 1 a..b", "not a question about a module: 'a..b'"),
        ("--pid 1 json:", "Write pkg.mod, pkg.mod:name or pkg.mod:Class.attr."),
        ("--pid 1 json --deadline 0", "--deadline takes a number of seconds"),
        ("--pid 1 json -o yaml=x", "FORMAT is one of text, json"),
        ("--pid 1 json --format yaml", "yaml"),
        ("json", "--pid"),
        ("--pid -5 json", "-5 is no process number"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_read(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["inspect", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_an_error_is_told_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreadable(
        request: inspection.Request, tell: Callable[[str], None]
    ) -> inspection.Inspection:
        raise UndeterminedError("hidden", "Run as root.")

    monkeypatch.setattr(inspection, "inspect", unreadable)
    places = {kind: tmp_path / f"answers.{kind}" for kind in ("json", "text")}
    for place in places.values():
        place.write_text("of an earlier run")
    outputs = tuple(f"{kind}={place}" for kind, place in places.items())
    with pytest.raises(UndeterminedError):
        cli_inspect.run(cli_inspect.Options(1, ("json",), "json", outputs))
    for text in (capsys.readouterr().out, places["json"].read_text()):
        document = json.loads(text)
        jsonschema.validate(document, tables.load("inspection.schema"))
        assert document["verdict"]["exit"] == 3
        assert document["error"] == {"message": "hidden", "remedy": "Run as root."}
    assert places["text"].read_text().startswith("NO REPORT: hidden (exit 3)")
    assert sorted(tmp_path.iterdir()) == sorted(places.values())


def test_the_help_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inspect", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "envprobe inspect --pid 4711 sitecustomize" in shown
    assert "TritonAttnBackend.forward_extend" in shown
    for option in ("--format", "--output", "--deadline", "--unmask", "pkg.mod:Class.attr"):
        assert option in shown
    words = " ".join(shown.split())
    assert "--calibrate-with PYTHON" in words
    assert "With --calibrate envprobe measures it: it executes foreign code" in words
