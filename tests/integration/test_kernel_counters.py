"""The kernel's counters in a real process, read from outside of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.programs import envprobe_cli

ROOT = Path(__file__).resolve().parents[2]
COUNTING = """
import sys
from kernel_ext import counters
counters.taken += 1234567
counters.recorded += 61
counters.fallen_back += 3
counters.other_modes += 70000
counters.last_reason = "logit cap"
counters.reasons["logit cap"] = 3
print("counted", flush=True)
sys.stdin.read()
"""
EXPECTED = {
    "taken": ("int", "1234567"),
    "recorded": ("int", "61"),
    "fallen_back": ("int", "3"),
    "other_modes": ("int", "70000"),
    "compared": ("int", "0"),
    "last_reason": ("str", "logit cap"),
}


def test_the_counters_of_a_process_are_read_from_outside() -> None:
    queries = [f"kernel_ext.counters:{name}" for name in EXPECTED]
    with subprocess.Popen(
        [sys.executable, "-c", COUNTING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "counted\n"
        ran = envprobe_cli.envprobe(
            *("inspect", "--format", "json", "--pid", str(process.pid), *queries)
        )
        process.communicate("")
    assert (ran.returncode, process.returncode) == (0, 0), ran.stdout + ran.stderr
    answers = envprobe_cli.parsed(ran)["answers"]
    assert [one["query"] for one in answers] == queries
    values = [(one["state"], one["value"]["kind"], one["value"]["text"]) for one in answers]
    assert values == [("value", *one) for one in EXPECTED.values()]
