"""What is ignored until a day is ignored on that day, and a finding again after it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from envprobe import configfile, expiry
from envprobe.checks.registry import slug_of
from envprobe.redact import show_sentence
from tests.programs.envprobe_cli import envprobe
from tests.unit.checks.scene import Scene, sglang, worker
from tests.unit.report.sample import report

DAY = datetime.date(2027, 1, 31)


@pytest.mark.parametrize(("today", "over"), [(DAY, False), (DAY + datetime.timedelta(1), True)])
def test_the_last_day_counts(today: datetime.date, over: bool) -> None:
    assert expiry.ended(DAY, today) is over


def test_an_entry_that_ended_is_kept_apart_with_its_reason() -> None:
    config = configfile.parse(
        "envprobe.toml",
        b'[ignore]\nEP003 = {reason = "ticket 12", until = "2001-01-31"}\n'
        b'EP004 = {reason = "for ever", until = 2999-01-31}\nEP010 = {reason = "plain"}\n',
        slug_of,
    )
    assert config.ignore == {"env-wrong-value": "for ever", "peers-differ": "plain"}
    assert config.expired == {"env-missing": "ticket 12 (until 2001-01-31)"}


def test_what_is_accepted_ends_as_well() -> None:
    config = configfile.parse(
        "envprobe.toml",
        b'[allow-unknown]\nno-workers = {reason = "ticket 13", until = "2001-01-31"}\n'
        b'env-unknown = {reason = "until it is mended", until = 2999-01-31}\n'
        b'[ignore]\nEP003 = {reason = "ticket 12", until = "2001-01-31"}\n',
        slug_of,
    )
    assert config.allow_unknown == {"env-unknown": "until it is mended"}
    assert config.unaccepted == {"no-workers": "ticket 13 (until 2001-01-31)"}
    assert list(config.over) == [
        "env-missing is no longer ignored: ticket 12 (until 2001-01-31)",
        "no-workers is no longer accepted: ticket 13 (until 2001-01-31)",
    ]


def test_a_finding_that_is_no_longer_ignored_says_so() -> None:
    def scene() -> Scene:
        return worker(sglang(2, server={"A": "1"}), 111, {"A": "2"})

    made = report(scene(), "A=1", expired={"env-wrong-value": "ticket 12 (until 2001-01-31)"})
    (finding,) = [one for one in made.scans[0].result.findings if one.check == "env-wrong-value"]
    assert finding.pids == (111,)
    assert show_sentence(finding.evidence[-1]) == (
        "It is no longer ignored; [ignore] gave the reason: ticket 12 (until 2001-01-31)."
    )
    assert made.exit == 1
    ignored = report(scene(), "A=1", ignore={"env-wrong-value": "ticket 12"})
    assert ignored.exit == 0


def test_it_is_told_on_stderr_even_where_nothing_is_found(tmp_path: Path) -> None:
    path = tmp_path / "envprobe.toml"
    path.write_text('[ignore]\nenv-missing = {reason = "ticket 12", until = "2001-01-31"}\n')
    done = envprobe("workers", "--config", str(path), "--pid", "4194303")
    assert done.returncode == 4
    assert "note: env-missing is no longer ignored: ticket 12 (until 2001-01-31)" in done.stderr
