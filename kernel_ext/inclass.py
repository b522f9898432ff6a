"""The function that stands in SGLang's real class, called there and compared with the reference.

What is called is the class's function as start-up hooks and plugins of this interpreter left it, or
the bundled patch. SGLang's own function, from a second copy of its module, is called with the same
arguments first: if that is not right, it is the driving that is wrong, and nothing is said of the
other.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernel_ext import records
from kernel_ext.card import Card
from kernel_ext.grid import Shape, compare
from kernel_ext.hook import TARGET_MODULE
from kernel_ext.ondevice import may_be_timed
from kernel_ext.patch import TARGET_CLASS, TARGET_METHOD, VARIABLE
from kernel_ext.problems import random_problem
from kernel_ext.records import Tell

if TYPE_CHECKING:
    from kernel_ext.backend import Server, Step

INTERPRET = "TRITON_INTERPRET"
SHAPES = (
    Shape([37, 5], 4, 8),
    Shape([0, 3], 4, 2),
    Shape([1000, 31, 33], 8, 8),
    Shape([300], 16, 16),
)
SMALL = SHAPES[:2]
"""For Triton's interpreter, which takes a second for each."""
SLOTS, REQUESTS, CONTEXT = 2048, 8, 1280
MOST_WRAPPED = 16


def interpreted() -> bool:
    """Return whether Triton's kernels are interpreted, on the CPU (triton/knobs.py)."""
    return os.environ.get(INTERPRET, "").lower() in ("1", "true", "on", "yes", "y")


def examine(card: Card | None, installed: bool, timed: bool, tell: Tell) -> None:
    """Tell whose function is in the class, and what it computes on this card; None: on the CPU.

    `installed`: the function that is there; otherwise the bundled patch, put into the second copy.
    """
    tell("stage", stage="class", interpreted=interpreted())
    try:
        module = _imported(tell)
    except Exception as problem:  # SGLang's import raises what its environment lacks
        tell("unclassed", **records.described(problem), where=_where(problem))
        return
    function = getattr(getattr(module, TARGET_CLASS, None), TARGET_METHOD, None)
    if function is None:
        text = f"{TARGET_MODULE} has no {TARGET_CLASS}.{TARGET_METHOD}"
        tell("unclassed", error="AttributeError", word="", text=text, where="")
        return
    if installed:
        tell("installed", own_file=str(module.__file__), functions=list(_chain(function)))
    if card is None and not interpreted():
        return  # whose function it is could be told, and without a card nothing more
    try:
        _call(module, card, installed, timed, tell)
    except _Driving as failed:
        error, where = failed.problem, _where(failed.problem)
        tell("undriven", step=failed.step, **records.described(error), where=where)
        return
    tell("done", part="class")


def _imported(tell: Tell) -> ModuleType:
    import torch

    tell("progress", text="importing SGLang")
    sglang = importlib.import_module("sglang")
    try:
        from sglang.srt.plugins import load_plugins  # from 0.5.11 on, called by every scheduler
    except ImportError:
        pass
    else:
        load_plugins()
    module = importlib.import_module(TARGET_MODULE)
    tell("sglang", version=str(getattr(sglang, "__version__", "")), torch=torch.__version__)
    return module


def _chain(function: Any) -> Iterator[dict[str, Any]]:
    """Yield who a function is, then what it wraps (`__wrapped__`)."""
    for _ in range(MOST_WRAPPED):
        code = getattr(inspect.unwrap(function, stop=lambda _: True), "__code__", None)
        yield {
            "module": str(getattr(function, "__globals__", {}).get("__name__", "")),
            "name": str(getattr(code, "co_qualname", getattr(code, "co_name", ""))),
            "file": str(getattr(code, "co_filename", "")),
            "line": int(getattr(code, "co_firstlineno", 0)),
        }
        function = getattr(function, "__wrapped__", None)
        if function is None:
            return


class _Driving(Exception):  # noqa: N818 - an outcome
    """Calling failed at a step: SGLang's own function, or the one in question."""

    def __init__(self, step: str, problem: Exception) -> None:
        super().__init__(step)
        self.step, self.problem = step, problem


def _call(module: ModuleType, card: Card | None, installed: bool, timed: bool, tell: Tell) -> None:
    import torch

    from kernel_ext import backend, patch

    on_card = card is not None and not interpreted()
    device, dtype = ("cuda", torch.bfloat16) if on_card else ("cpu", torch.float32)
    try:
        if card is not None and on_card:
            torch.cuda.set_device(card.index)
        copy = backend.unpatched(module)
        server = backend.Server(device, dtype, slots=SLOTS, requests=REQUESTS, context=CONTEXT)
    except Exception as error:  # another version of SGLang, or an environment that lacks a part
        raise _Driving("prepare", error) from error
    own = getattr(copy, TARGET_CLASS)
    if installed:
        asked = getattr(module, TARGET_CLASS)
    else:
        os.environ[VARIABLE] = "on"
        asked = type(TARGET_CLASS, (own,), {})
        setattr(asked, TARGET_METHOD, patch.replacement(getattr(own, TARGET_METHOD)))
    for shape in SHAPES if on_card else SMALL:
        tell("progress", text=f"{TARGET_CLASS}.{TARGET_METHOD}: {shape.name}")
        problem = random_problem(
            shape.prefixes, shape.drafts, shape.heads, device=device, dtype=dtype
        )
        _compared(server, own, "own", shape, problem, tell)
        _compared(server, asked, "asked", shape, problem, tell)
    _tell_counters(tell)
    if card is not None and on_card and timed and may_be_timed(card, tell):
        _time(server, own, asked, tell)


def _compared(
    server: Server, backend_class: Any, whose: str, shape: Shape, problem: Any, tell: Tell
) -> None:
    import torch

    try:
        step = server.step(backend_class, problem)
    except Exception as error:
        raise _Driving("prepare", error) from error
    tell("call", whose=whose, shape=shape.name)
    try:
        out = step.run()
        if out.is_cuda:
            torch.cuda.synchronize()
        out = out.view(*problem.q.shape[:2], -1)
        errors, stored = compare(problem, out), step.stored()
    except Exception as error:
        raise _Driving(whose, error) from error
    tell("called", whose=whose, shape=shape.name, stored=stored, **asdict(errors))


def _tell_counters(tell: Tell) -> None:
    """Tell the bundled patch's counters, if it is what was called."""
    from kernel_ext import counters

    numbers = {name: value for name, value in vars(counters).items() if isinstance(value, int)}
    if any(numbers.values()):
        tell("counters", numbers=numbers, last_reason=counters.last_reason)


def _time(server: Server, own: Any, asked: Any, tell: Tell) -> None:
    """Time one shape in the class, as a server replays it; both functions, the same inputs."""
    from kernel_ext.measure import median_us

    shape = Shape([CONTEXT - 256], 8, 8)
    problem = random_problem(shape.prefixes, shape.drafts, shape.heads)
    taken: dict[str, float] = {}
    for whose, one in (("own", own), ("asked", asked)):
        call: Callable[[], object] = functools.partial(_again, server.step(one, problem))
        try:
            taken[whose] = median_us(call)
        except Exception as error:  # not every function can be recorded in a graph
            tell("untimed", reason="graph", text=f"{whose}: {records.described(error)['text']}")
            return
    tell("class-timed", shape=shape.name, microseconds=taken)


def _again(step: Step) -> object:
    return step.run()


def _where(problem: BaseException) -> str:
    """Return the file and line where an error was raised."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
