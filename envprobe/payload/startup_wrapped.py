"""Says which interpreter a wrapper script starts, with which options and which environment.

Run as `WRAPPER -B -I -S -c TEXT DESCRIPTOR`, so that no hook runs. The answer is one JSON object.
Standard library only, Python 3.9 to 3.15.
"""

import json
import os
import sys

MINE = ["-B", "-I", "-S"]


def main(descriptor: str) -> None:
    """Answer."""
    words = list(getattr(sys, "orig_argv", ()))
    mine = [place for place in range(1, len(words)) if words[place : place + 3] == MINE]
    added = words[1 : mine[0]] if mine else []
    answer = {"python": sys.executable, "flags": added, "environment": dict(os.environ)}
    os.write(int(descriptor), json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    main(*sys.argv[1:])
