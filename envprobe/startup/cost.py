"""What the hooks add to the start of each interpreter that inherits them: measured, not guessed."""

from __future__ import annotations

import time
from typing import Final

from envprobe.runner.started import Bounds
from envprobe.startup import interpreter
from envprobe.startup.result import Cost
from envprobe.startup.types import Launch

_NO_SITE: Final = ("-S",)
_WITH, _WITHOUT = "with", "without"


def measure(launch: Launch, bounds: Bounds, runs: int, seconds: float) -> Cost | None:
    """Start the interpreter `runs` times with its two hook modules and as often without.

    Takes about `seconds` at most, and fewer runs then. None if no pair of runs came to its end.
    Startup files run in both. Raises UndeterminedError if the interpreter cannot be started.
    """
    took: dict[str, list[float]] = {_WITH: [], _WITHOUT: []}
    deadline = time.monotonic() + seconds
    for _ in range(runs):
        for which, times in took.items():
            ended = interpreter.run(
                launch,
                interpreter.payload("startup_cost"),
                bounds,
                options=_NO_SITE,
                arguments=(which,),
            )
            if not ended.answer or ended.stopped:
                return None
            times.append(ended.seconds * 1000)
        if time.monotonic() > deadline:
            break
    import statistics  # takes 10 ms to import

    number = min(map(len, took.values()))
    if not number:
        return None
    return Cost(statistics.median(took[_WITH]), statistics.median(took[_WITHOUT]), number)
