"""What `[expect.kernel]` demands of a run: a patched class, on the GPU that is expected."""

from __future__ import annotations

from envprobe.checks.gate import kernel_not_installed, kernel_other_gpu
from envprobe.checks.gate.about import GateContext
from envprobe.checks.gate.plan import live
from envprobe.config import Config, KernelExpectation
from envprobe.kernel.architecture import Architecture
from envprobe.kernel.facts import Card, Device, Function, InClass, KernelFacts, Question, Run
from envprobe.redact import show_sentence

OWN = "/venv/sglang/triton_backend.py"


def context(expected: KernelExpectation, *, file: str = OWN, number: int = 120) -> GateContext:
    card = Card(0, "A card", "GPU-1", Architecture(number), 1, 1, 1, None, None, None)
    function = Function("some.module", "forward_extend", file, 3)
    called = InClass(own_file=OWN, functions=(function,))
    run = Run("python3", "given", devices=(Device(0, card, in_class=called),))
    plan = live(Config(kernel=expected))
    return GateContext(plan, "a unit", kernel=KernelFacts(Question(installed=""), run))


def test_a_class_that_is_not_patched_fails_where_a_kernel_is_expected() -> None:
    expected = KernelExpectation("sm_120", installed=True, origin="envprobe.toml [expect.kernel]")
    (found,) = kernel_not_installed.CHECK.run(context(expected))
    assert (found.who, found.undetermined) == (OWN, False)
    assert f"forward_extend ({OWN}:3)" in show_sentence(found.message)
    assert not list(kernel_not_installed.CHECK.run(context(expected, file="/opt/mine.py")))
    assert not list(kernel_not_installed.CHECK.run(context(KernelExpectation("sm_120"))))


def test_another_gpu_tells_nothing_of_the_expected_one() -> None:
    expected = KernelExpectation("sm_120", installed=True)
    (found,) = kernel_other_gpu.CHECK.run(context(expected, number=90))
    assert (found.who, found.undetermined) == ("device 0", True)
    assert "(sm_90)" in show_sentence(found.message)
    assert not list(kernel_other_gpu.CHECK.run(context(expected)))
    assert not list(kernel_other_gpu.CHECK.run(context(KernelExpectation("", installed=True))))
