"""What the command line makes of its arguments, and what it says when envprobe itself fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envprobe import cli, cli_facts, cli_wait, cli_workers
from envprobe.config import Config, Expectation, Rule
from envprobe.errors import Exit, TargetGoneError, UndeterminedError, UsageError
from envprobe.model import Snapshot
from envprobe.redact import DEFAULT_WANTED, is_wanted
from envprobe.report.model import Presentation
from envprobe.values import Value
from tests.unit.checks.scene import ROOT, Scene, sglang


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[cli_workers.Options]:
    seen: list[cli_workers.Options] = []

    def run(given: cli_workers.Options) -> Exit:
        seen.append(given)
        return Exit.FINDING

    monkeypatch.setattr(cli_workers, "run", run)
    return seen


def test_every_option_arrives(options: list[cli_workers.Options]) -> None:
    arguments = (
        "workers --pid 7 --match a* --match b* --expect A=1 --expect !B --patch m:f=k --var X*"
        " --config c.toml --wait 8 --wait detokenizer=1 --timeout 9 --save-facts f --format json"
        " -o text=t --output json=j --fail-on warning --exit-zero --allow-unknown EP001 --strict"
        " --show-all --unmask --deadline 3.5"
    )
    assert cli.run(arguments.split()) == 1
    assert options == [
        cli_workers.Options(
            pid=7,
            match=("a*", "b*"),
            expect=("A=1", "!B"),
            patch=("m:f=k",),
            var=("X*",),
            config="c.toml",
            wait=("8", "detokenizer=1"),
            timeout=9.0,
            save_facts="f",
            format="json",
            output=("text=t", "json=j"),
            fail_on="warning",
            exit_zero=True,
            allow_unknown=("EP001",),
            strict=True,
            show_all=True,
            unmask=True,
            deadline=3.5,
        )
    ]


def test_without_options_the_defaults_hold(options: list[cli_workers.Options]) -> None:
    cli.run(["workers"])
    cli.run(["workers", "--cgroup", "/x", "--container", "0123", "--from-facts", "f"])
    plain = cli_workers.Options()
    assert options[0] == plain
    assert options[1] == cli_workers.Options(cgroup="/x", container="0123", from_facts=("f",))
    assert (plain.format, plain.fail_on, plain.unmask) == ("text", "error", False)


def failing(error: BaseException) -> Any:
    def run(_: object) -> Exit:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyError("topsecret"), 70), (RecursionError("topsecret"), 70), (MemoryError(), 70)],
)
def test_an_internal_error_names_type_and_place_and_no_value(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(cli_workers, "run", failing(error))
    monkeypatch.delenv("ENVPROBE_DEBUG", raising=False)
    assert cli.run(["workers"]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"envprobe: internal error: {type(error).__name__} at test_cli.py:")
    assert "in run\n" in err
    assert "topsecret" not in err
    assert "Traceback" not in err


def test_the_trace_is_shown_on_request(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr(cli_workers, "run", failing(KeyError("x")))
    monkeypatch.setenv("ENVPROBE_DEBUG", "1")
    assert cli.run(["workers"]) == 70
    assert "Traceback (most recent call last)" in capfd.readouterr().err


def test_messages_are_printable_whatever_is_in_them(
    monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    error = UsageError("bad \x1b[2J name\nsecond line", "do this\nand that")
    monkeypatch.setattr(cli_workers, "run", failing(error))
    assert cli.run(["workers"]) == 2
    assert capfd.readouterr().err == (
        "envprobe: bad \\x1b[2J name\n  second line\n  do this\n  and that\n"
    )


def test_a_keyboard_interrupt_is_130_and_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(cli_workers, "run", failing(KeyboardInterrupt()))
    assert cli.run(["workers"]) == 130
    assert capfd.readouterr() == ("", "")


# --- what is read ---------------------------------------------------------------------------------


def test_what_is_expected_is_read_and_a_name_is_no_pattern() -> None:
    config = Config(expectations=(Expectation("ODD[1]", Rule.SET), Expectation("A", Rule.SET)))
    patterns = cli_workers.wanted(config, ("MY_*",))
    assert set(DEFAULT_WANTED) < set(patterns)
    for name in ("ODD[1]", "A", "MY_X", "NCCL_ALGO"):
        assert is_wanted(name, patterns), name
    for name in ("ODD1", "HOME"):
        assert not is_wanted(name, patterns), name
    assert is_wanted("HOME", cli_workers.wanted(config, (), everything=True))


def test_a_configuration_in_the_current_directory_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "envprobe.toml").write_text('[expect.env]\nNCCL_ALGO = "Ring"\n')
    monkeypatch.chdir(tmp_path)
    config = cli_workers.config_of(cli_workers.Options(expect=("B",), wait=("scheduler=2",)))
    assert [one.name for one in config.expectations] == ["NCCL_ALGO", "B"]
    assert config.workers == {"scheduler": 2}


def test_patches_of_the_file_and_of_the_command_line_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "envprobe.toml").write_text('[expect.patch]\n"a:f" = "x"\n"b:f" = "x"\n')
    monkeypatch.chdir(tmp_path)
    config = cli_workers.config_of(cli_workers.Options(patch=("b:f=y", "c:f=/z")))
    assert [(one.query, one.source) for one in config.patches] == [
        ("a:f", "x"),
        ("b:f", "y"),
        ("c:f", "/z"),
    ]


@pytest.mark.parametrize(
    ("file", "patch", "says"),
    [
        ("", "a :f=x", "--patch: blanks in the question"),
        ("", "a:f.=x", "--patch: not a question about a module"),
        ("", ".a=x", "--patch: not a question about a module"),
        ('[expect.patch]\n"a:" = "x"', "b:f=x", "envprobe.toml [expect.patch] a:: not a question"),
    ],
)
def test_a_patch_of_what_is_no_question_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, patch: str, says: str
) -> None:
    (tmp_path / "envprobe.toml").write_text(file)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        cli_workers.config_of(cli_workers.Options(patch=(patch,)))
    assert caught.value.message.startswith(says)
    assert caught.value.remedy


# --- waiting --------------------------------------------------------------------------------------


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(cli_wait.time, "sleep", slept.append)
    return slept


def waited(scans: list[Scene | Exception], timeout: float = 60.0, **config: Any) -> Snapshot:
    """Wait over the given scans, one after the other; the last one repeats."""

    def scan() -> Snapshot:
        one = scans.pop(0) if len(scans) > 1 else scans[0]
        if isinstance(one, Exception):
            raise one
        return one.snapshot()

    def context_of(snapshot: Snapshot) -> Any:
        scene = Scene({process.pid: process for process in snapshot.processes})
        return scene.context("NCCL_ALGO", workers={"scheduler": 2}, **config)

    return cli_wait.wait(scan, context_of, timeout)


def test_it_waits_until_all_workers_are_there(naps: list[float]) -> None:
    nobody = UndeterminedError("no-workers")
    given = {"NCCL_ALGO": "Ring"}
    found = waited([nobody, sglang(0), sglang(1, server=given), sglang(2, server=given)])
    assert len(found.processes) == 4
    assert naps == pytest.approx([0.2, 0.3, 0.45])


def test_the_pauses_grow_to_one_second(naps: list[float]) -> None:
    waited([sglang(1)] * 9 + [sglang(2)])
    assert naps[0] == pytest.approx(0.2)
    assert max(naps) == 1.0
    assert naps == sorted(naps)


def test_at_the_timeout_the_last_scan_counts(naps: list[float]) -> None:
    assert len(waited([sglang(1)], timeout=1e-9).processes) == 3
    with pytest.raises(UndeterminedError, match="nobody"):
        waited([UndeterminedError("nobody")], timeout=1e-9)


def test_a_root_whose_number_is_reused_is_gone(naps: list[float]) -> None:
    later = sglang(2)
    again = Scene(dict(later.processes))
    identity = again.processes[ROOT].identity
    again.change(ROOT, identity=type(identity)(ROOT, identity.start_ticks + 1))
    with pytest.raises(TargetGoneError, match="another process"):
        waited([sglang(1), again])


def test_a_root_that_ends_is_not_waited_for(naps: list[float]) -> None:
    with pytest.raises(TargetGoneError, match=r"ended while it was waited for \(process 100\)"):
        waited([sglang(1), TargetGoneError("gone")])


def test_a_process_that_never_was_there_is_not_called_ended(naps: list[float]) -> None:
    with pytest.raises(TargetGoneError, match="never here"):
        waited([TargetGoneError("never here")])


# --- what is masked -------------------------------------------------------------------------------


def test_an_expected_part_of_a_credential_is_covered_and_still_compares() -> None:
    secret = "http://u:topsecret@host/"
    scene = sglang(2, server={"NCCL_X_URL": secret, "NCCL_ALGO": "Ring"})
    expected = [Expectation("NCCL_X_URL", Rule.CONTAINS, (Value(b"topsecret"),))]
    expected += [Expectation("NCCL_ALGO", Rule.EXACT, (Value(b"Tree"),))]
    snapshot = scene.snapshot()
    url, algo = cli_facts.covered(Config(tuple(expected)), (snapshot,)).expectations
    assert (url.values[0].hidden, algo.values[0].hidden) == (True, False)
    assert url.values == expected[0].values
    report = cli_workers.judged(
        (snapshot,), cli_facts.covered(Config(tuple(expected)), (snapshot,))
    )
    for kind in cli_workers.REPORT_FORMATS:
        shown = cli_workers.render(report, kind, Presentation())
        assert "topsecret" not in shown
        assert "Tree" in shown
