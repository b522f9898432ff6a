"""Running an interpreter with one of envprobe's payload files, as a launch says.

The payload is handed over as text (`-c`), not as a path: another user may not be able to read
envprobe's own files, and another root directory does not hold them. Like a path it is nothing that
a hook could import, and what `-c` puts on sys.path is taken off by the payload.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, Final

from envprobe.errors import UndeterminedError
from envprobe.runner import supervised
from envprobe.runner.started import Bounds
from envprobe.startup.result import Run
from envprobe.startup.types import Launch

_REMEDY: Final = (
    "Give an interpreter and a directory (--cwd) that are there and that its user may enter; a"
    " process whose directory is gone must be restarted."
)
_SAID: Final = 400
_OF_TRACE: Final = ("# ", "import ", "Processing .pth file", "Exec'ing from", "Executing entry")


@functools.cache
def payload(name: str) -> str:
    """Return the text of envprobe/payload/`name`.py."""
    file = resources.files("envprobe").joinpath("payload").joinpath(f"{name}.py")
    return file.read_text("utf-8")


def run(
    launch: Launch,
    program: str,
    bounds: Bounds,
    *,
    options: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
) -> supervised.Ended:
    """Run the text `program` with `options` added to the launch's; no bytecode is written.

    Its arguments are the descriptor for its answer, and `arguments`.
    Raises UndeterminedError if the interpreter cannot be started.
    """
    words = [launch.python, *launch.flags, "-B", *options, "-c", program, str(supervised.ANSWER)]
    words += arguments
    command = supervised.Command(
        path=launch.python,
        words=tuple(words),
        environment=launch.environment,
        cwd=launch.cwd,
        root=launch.root,
        rights=launch.rights,
    )
    try:
        return supervised.run(command, bounds, name=f"the interpreter {launch.python}")
    except UndeterminedError as error:
        raise UndeterminedError(error.message, error.remedy or _REMEDY) from None


def answers(ended: supervised.Ended) -> list[dict[str, Any]]:
    """Return the lines of JSON of an answer; one that was cut off is left out."""
    found = []
    for line in ended.answer.split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def described(ended: supervised.Ended, *, said: str = "") -> Run:
    """Return how a run ended, without what it said; `said` are its last words, if any matter."""
    return Run(
        code=ended.code,
        stopped=ended.stopped,
        seconds=ended.seconds,
        answered=bool(ended.answer),
        cut=ended.cut,
        said=said[-_SAID:],
        started=ended.seen,
        left=ended.left,
        printed=len(ended.stdout),
    )


def last_words(ended: supervised.Ended) -> str:
    """Return the last line of stderr that is not a line of the trace."""
    lines = ended.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    said = (line for line in reversed(lines) if line.strip() and not line.startswith(_OF_TRACE))
    return next(said, "")[:_SAID]
