"""What the text of `kernel` says first, and in which words."""

from __future__ import annotations

import json

import pytest

from envprobe.checks import verdict
from envprobe.checks.kernel.registry import CHECKS
from envprobe.checks.registry import run_checks
from envprobe.kernel.facts import KernelFacts
from envprobe.report import github, junit, kernel, kernel_outlet, sarif
from envprobe.report.kernel_model import Report, compared, headline
from envprobe.report.model import Presentation
from tests.unit.checks.test_kernel import (
    BUSY,
    CARD,
    CLASS_DONE,
    DONE,
    DRIVER,
    ENDED,
    GOOD,
    IN_CLASS,
    OWN_FILE,
    SGLANG,
    WHOLE,
    called,
    facts,
    installed,
    stage,
    stopped,
)

NOT_RUN = (DRIVER, CARD, stopped("busy"))


def report(found: KernelFacts) -> Report:
    result = run_checks(CHECKS, found, {})
    return Report(found, result, verdict.of_findings(result, frozenset()))


def function(file: str) -> KernelFacts:
    calls = (*called("own"), *called("asked"), CLASS_DONE, ENDED)
    return facts(DRIVER, CARD, IN_CLASS, SGLANG, installed(file), *calls, installed="")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (facts(*WHOLE), "the bundled kernel ran on device 0, 1 shape"),
        (
            function(OWN_FILE),
            "no patch is there: the class holds SGLang's own function, and it ran on device 0",
        ),
        (
            function("/opt/my_kernels/verify.py"),
            "the class holds the function of my_kernels.verify, and it ran on device 0",
        ),
        (
            facts(*NOT_RUN, IN_CLASS, SGLANG, installed(OWN_FILE), installed=""),
            "no patch is there: the class holds SGLang's own function; not run on device 0",
        ),
        (facts(*NOT_RUN), "not run on device 0"),
    ],
)
def test_the_first_line_says_what_was_done_and_whose_function_is_there(
    found: KernelFacts, said: str
) -> None:
    assert headline(found) == said
    text = kernel.render(report(found), Presentation(width=300, color=False))
    assert said in " ".join(text.partition("\n\n")[0].split())


def test_the_verdict_line_of_other_formats_says_what_was_done() -> None:
    found = report(facts(*NOT_RUN))
    outlet = kernel_outlet.build(found, Presentation(width=80, color=False))
    assert outlet.summary.endswith("; not run on device 0 (exit 3)")
    assert "not run on device 0" in github.render(outlet).splitlines()[-1]
    assert "<system-out>not run on device 0</system-out>" in junit.render(outlet)
    summary = json.loads(sarif.render(outlet))["runs"][0]["properties"]["summary"]
    assert summary == outlet.summary


@pytest.mark.parametrize(
    ("faster", "said"),
    [(32.54, "32.5 times faster"), (1.03, "as fast"), (0.98, "as fast"), (0.5, "2.0 times slower")],
)
def test_times_are_compared_in_words(faster: float, said: str) -> None:
    assert compared(faster) == said


def test_one_neighbour_is_one() -> None:
    found = report(facts(*GOOD, stage("time"), BUSY, DONE, ENDED))
    assert "another process uses the card" in kernel.render(found, Presentation(width=300))
    assert "of the 232448 that a block may have here" in kernel.render(
        found, Presentation(width=300)
    )
