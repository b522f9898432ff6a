"""The text report: verdict first and last, nothing hidden, nothing that harms a terminal."""

from __future__ import annotations

import dataclasses

import pytest

from envprobe.checks.finding import Severity
from envprobe.errors import Exit
from envprobe.model import Role, View
from envprobe.report import labels, text
from envprobe.report.model import Presentation, Report
from tests.unit.checks.scene import Scene, refused, sglang, worker
from tests.unit.report.sample import joined, report

HEALTHY = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
EVIL = "\x1b]0;owned\x07\n::error::x [bold red]y[/] <b>\u202e"


def rendered(made: Report, **presentation: object) -> str:
    return text.render(made, Presentation(**presentation))  # type: ignore[arg-type]


def broken() -> Scene:
    return worker(sglang(4, server=HEALTHY), 112, {"NCCL_ALGO": "Ring"})


def test_the_verdict_is_the_first_line_and_the_last() -> None:
    made = report(broken(), "NCCL_PROTO=Simple")
    lines = rendered(made).splitlines()
    assert made.exit is Exit.FINDING
    assert lines[0].startswith("FAILS: 1 error")
    assert "4 workers of server (PID 100) on h (exit 1)" in lines[0]
    assert lines[-1] == lines[0]


def test_a_finding_says_who_what_why_and_what_to_do() -> None:
    shown = " ".join(rendered(report(broken(), "NCCL_PROTO=Simple")).split())
    assert "error env-missing (EP003, proved) NCCL_PROTO is absent in scheduler TP2" in shown
    assert "cause: " in shown
    assert "=> " in shown


def test_when_all_holds_it_is_short_and_says_how_many_workers_were_read() -> None:
    shown = rendered(report(sglang(8, server=HEALTHY), "NCCL_ALGO=Ring"))
    assert shown.startswith("HOLDS: 1 expectation checked in all 8 workers of server (PID 100)")
    assert len(shown.splitlines()) < 25
    assert "error" not in shown


def test_no_worker_and_could_not_tell_are_verdicts_of_their_own() -> None:
    nobody = rendered(report(sglang(0, server=HEALTHY)))
    assert nobody.startswith(
        "UNDETERMINED: 1 could not be determined, no worker was found (exit 3)"
    )
    scene = sglang(2, server=HEALTHY)
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    unread = rendered(report(scene.change(111, environments=environments)))
    assert unread.startswith("UNDETERMINED: ")
    assert "unknown  worker-unreadable (EP002)" in unread
    assert "Run as root." in unread


def test_the_verdict_claims_no_more_than_was_read() -> None:
    scene = sglang(2, server=HEALTHY)
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    scene.change(111, environments=environments)
    made = report(scene, allow_unknown={"worker-unreadable": "known"})
    assert made.exit is Exit.HOLDS
    first = rendered(made).splitlines()[0]
    assert first.startswith("HOLDS: 1 unknown but accepted, the environment of 2 workers of server")


def test_every_verdict_says_why() -> None:
    wiped = sglang(2, server=HEALTHY, wipe=True)
    by_info = rendered(report(wiped, fail_on=Severity.INFO)).splitlines()[0]
    assert by_info.startswith("FAILS: 1 info in 2 workers of server (PID 100) on h (exit 1)")
    ended = rendered(report(sglang(2, server=HEALTHY).change(100, ended=True)))
    assert ended.startswith("TARGET GONE: the server has ended")
    lone = rendered(report(sglang(1, server=HEALTHY)))
    assert lone.startswith("HOLDS: the environment of the only worker of server (PID 100) on h was")


def test_what_is_accepted_or_ignored_is_still_shown_with_its_reason() -> None:
    scene = sglang(2, server=HEALTHY)
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    scene.change(111, environments=environments)
    accepted = rendered(report(scene, allow_unknown={"worker-unreadable": "known"}))
    assert "accepted  worker-unreadable (EP002)" in accepted
    ignored = rendered(report(broken(), "NCCL_PROTO=Simple", ignore={"env-missing": "ticket 7"}))
    assert "ignored  env-missing: NCCL_PROTO is absent" in ignored
    assert "because: ticket 7" in ignored


def test_infos_take_no_more_than_their_message() -> None:
    made = report(sglang(2, server=HEALTHY, wipe=True))
    short, long = rendered(made), rendered(made, show_all=True)
    assert "block-wiped (EP021" in short
    assert "=> " not in short
    assert "=> " in long


@pytest.mark.parametrize("width", [20, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal_or_80(width: int) -> None:
    scene = sglang(40, server={**HEALTHY, "PYTHONPATH": "/a/very/long/path:" * 20})
    for rank in range(0, 40, 3):
        worker(scene, 110 + rank, {"NCCL_ALGO": f"value-{rank}-" + "x" * 30})
    shown = rendered(report(scene, "NCCL_PROTO=Simple", "PYTHONPATH"), width=width)
    assert max(map(labels.width_of, shown.splitlines())) <= max(width, 80)


def test_hostile_names_values_and_titles_stay_data() -> None:
    evil = {**HEALTHY, f"NCCL_{EVIL}": EVIL, "PYTHONPATH": EVIL}
    scene = worker(sglang(2, server=evil), 111, HEALTHY)
    scene.add(300, 100, title=(EVIL,), comm=EVIL)
    scene.fields["notes"] = (EVIL,)
    shown = rendered(report(scene), show_all=True)
    assert not [one for one in shown if one != "\n" and not one.isprintable()]
    assert not [line for line in shown.splitlines() if line.startswith("::")]
    assert "\\x1b]0;owned\\x07\\n::error::x" in shown


def test_credentials_are_masked_unless_asked_for() -> None:
    made = report(worker(sglang(2, server={"HF_TOKEN": "topsecret"}), 111, {"HF_TOKEN": "another"}))
    shown = rendered(made, show_all=True)
    assert "topsecret" not in shown
    assert "<masked, 9 bytes>" in shown
    assert "topsecret" in rendered(made, show_all=True, unmask=True)


def test_colours_only_where_asked_for_and_they_change_nothing_else() -> None:
    made = report(broken(), "NCCL_PROTO=Simple")
    plain, colored = rendered(made), rendered(made, color=True)
    assert "\x1b[" not in plain
    assert "\x1b[1;31mFAILS\x1b[0m" in colored
    for code in ("\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[1m", "\x1b[0m"):
        colored = colored.replace(code, "")
    assert colored == plain


def test_several_scans_are_one_verdict_by_precedence() -> None:
    good, bad = report(sglang(2, server=HEALTHY)), report(broken(), "NCCL_PROTO=Simple")
    made = joined(good, bad)
    assert made.exit is Exit.FINDING
    assert "6 workers of 2 launches (exit 1)" in rendered(made).splitlines()[0]
    assert made.counts["error"] == bad.counts["error"]


def test_what_nobody_could_read_is_not_called_absent() -> None:
    scene = sglang(2, server=HEALTHY)
    for pid in (100, 110, 111):
        environments = {**scene.processes[pid].environments, View.LIBC: refused(View.LIBC)}
        scene.change(pid, environments=environments)
    shown = rendered(report(scene, "NCCL_X"))
    assert "NCCL_X    (not read)  ?" in shown
    assert "(not set)" not in shown
    absent = rendered(report(sglang(2, server=HEALTHY), "NCCL_X"))
    assert "NCCL_X    (not set)  -" in absent


def test_a_value_takes_the_width_that_is_free() -> None:
    value = "/one/directory/of/many:" * 5
    made = report(sglang(2, server={"PYTHONPATH": value}), "PYTHONPATH")
    wide, narrow = rendered(made, width=200), rendered(made, width=80)
    assert f"PYTHONPATH  {value}  " in wide
    assert "=: PYTHONPATH" not in wide
    assert f"PYTHONPATH  {value[:40]}" in narrow
    assert "=: PYTHONPATH is" in narrow


def test_exit_zero_is_said_beside_what_was_found() -> None:
    made = dataclasses.replace(report(broken(), "NCCL_PROTO=Simple"), exit_zero=True)
    assert "(exit 0 by --exit-zero, would be 1)" in rendered(made, width=110).splitlines()[0]
    holds = dataclasses.replace(report(sglang(2, server=HEALTHY)), exit_zero=True)
    assert rendered(holds, width=110).splitlines()[0].endswith("(exit 0)")


@pytest.mark.parametrize(
    ("comm", "exe", "name"),
    [("launch", "/bin/x", "launch"), (" ", "/bin/x", "x"), ("", None, "process")],
)
def test_a_process_without_a_title_is_still_named(comm: str, exe: str | None, name: str) -> None:
    scene = sglang(1, server=HEALTHY)
    scene.change(100, role=Role(""), title=("", " "), comm=comm, exe=exe)
    assert f"the only worker of {name} (PID 100) on h" in rendered(report(scene)).splitlines()[0]
