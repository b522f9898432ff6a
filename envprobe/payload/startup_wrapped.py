"""Says which interpreter a wrapper script starts, with which options and which environment.

Run as `WRAPPER -I -S -B -c TEXT DESCRIPTOR`, so that no hook runs. The answer is one JSON object.
Standard library only, Python 3.9 to 3.15.
"""

import json
import os
import sys


def main(descriptor: str) -> None:
    """Answer."""
    words = list(getattr(sys, "orig_argv", ()))
    added = words[1 : words.index("-I")] if "-I" in words else []
    answer = {"python": sys.executable, "flags": added, "environment": dict(os.environ)}
    os.write(int(descriptor), json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    main(*sys.argv[1:])
