"""The console script and `python -m envprobe`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not __package__:
    # Run by path, as `isolate` does: nothing of envprobe is importable yet.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from envprobe import isolation


def main() -> int:
    """Run envprobe in a process of its own making and return its exit code."""
    try:
        isolation.isolate(__file__, sys.argv[1:])
        isolation.extend_path()
        from envprobe.cli import run
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        sys.stderr.write(
            f"envprobe: internal error: the module {error.name!r} cannot be imported\n"
            "  Install envprobe again, in a virtual environment of its own.\n"
        )
        return 70
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
