"""The console script and `python -m envprobe`."""

from __future__ import annotations

import gc
import os
import sys

if __name__ == "__main__" and not __package__:
    # Run by path, as `isolate` does: nothing of envprobe is importable yet.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from envprobe import interrupts

interrupts.end_at_once()

from envprobe import isolation  # noqa: E402 - an interrupt may come while it is imported

_COLLECT_AFTER = 100_000
"""Containers made and kept between two collections: imports make half as many, and no garbage."""


def main() -> int:
    """Run envprobe in a process of its own making and return its exit code."""
    try:
        isolation.isolate(__file__, sys.argv[1:])
        interrupts.release()
        isolation.extend_path()
        gc.set_threshold(_COLLECT_AFTER)
        from envprobe.cli import run
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        return _tell(
            f"internal error: the module {error.name!r} cannot be imported",
            "Install envprobe again, in a virtual environment of its own.",
            70,
        )
    except OSError as error:
        # A limit on open files or on memory; what else could an import meet.
        return _tell(
            f"envprobe itself cannot be loaded: {os.strerror(error.errno or 0)}",
            "Raise the limits that `ulimit -a` shows (open files: `ulimit -n 1024`).",
            3,
        )
    code = run(sys.argv[1:])
    interrupts.end_at_once()
    return code


def _tell(message: str, remedy: str, code: int) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"envprobe: {message}\n  {remedy}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
