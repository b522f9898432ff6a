"""The first process of a rehearsed server, and the main module that its children import again.

Run as `python FLAGS rehearse_tree.py WORDS...`. WORDS are those behind the interpreter in the
declared command: nothing is made of them, but they stand in the command line as in the real one.
The rest is in rehearse_member.py, which a child gets compiled: a child reads this file anew, as
multiprocessing does with every main module. Standard library only, Python 3.9 to 3.15.
"""

import sys
import time

BEGAN = time.monotonic()


def member(codes: dict, *given: object) -> None:
    """Be one process below the first; `codes` are compiled payloads by name."""
    import marshal

    own: dict = {"__name__": "envprobe_member"}
    exec(marshal.loads(codes["rehearse_member"]), own)
    own["serve"](codes, BEGAN, *given)


def main() -> None:
    """Be the first process: compile the payloads, which lie beside this file."""
    import marshal
    import os

    folder = os.path.dirname(os.path.abspath(__file__))
    path = getattr(sys, "path", None)
    if isinstance(path, list) and path[:1] == [folder]:
        # What the declared program has there comes with the request.
        del path[0]
    codes = {}
    for name in ("rehearse_member", "startup_probe", "startup_reach"):
        with open(folder + "/" + name + ".py", encoding="utf-8") as file:
            codes[name] = marshal.dumps(compile(file.read(), "<envprobe>", "exec"))
    own: dict = {"__name__": "envprobe_member"}
    exec(marshal.loads(codes["rehearse_member"]), own)
    own["lead"](codes, BEGAN, member)


if __name__ == "__main__":
    main()
