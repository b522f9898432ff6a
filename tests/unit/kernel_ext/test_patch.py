"""What the patch decides without torch: the mode, and whether the class is used at all."""

from __future__ import annotations

import logging
from types import ModuleType

import pytest

from kernel_ext import patch


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "off"), ("off", "off"), ("on", "on"), (" Validate ", "validate"), ("1", "off")],
)
def test_mode(
    value: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv(patch.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(patch.VARIABLE, value)
    with caplog.at_level(logging.ERROR, logger="kernel_ext"):
        assert patch.mode() == expected
    assert bool(caplog.records) == (value == "1")


def test_a_module_without_the_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(patch.VARIABLE, "on")
    with pytest.raises(AttributeError, match="TritonAttnBackend"):
        patch.apply(ModuleType("other"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--attention-backend", "triton"], None),
        (["--attention-backend=triton", "--tp", "8"], None),
        (["--attention-backend", "fa3", "--prefill-attention-backend", "triton"], None),
        (
            ["--attention-backend", "fa3", "--decode-attention-backend", "triton"],
            "verify steps go to the backend fa3",
        ),
        (
            [
                "--attention-backend",
                "fa3",
                "--decode-attention-backend",
                "triton",
                "--speculative-attention-mode",
                "decode",
            ],
            None,
        ),
        (["--attention-backend", "flashinfer"], "verify steps go to the backend flashinfer"),
        (["--model-path", "m"], "names no --attention-backend"),
    ],
)
def test_the_command_line_tells_whether_the_class_is_used(
    words: list[str], reason: str | None
) -> None:
    found = patch.unused_because(["launch_server.py", *words])
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)
