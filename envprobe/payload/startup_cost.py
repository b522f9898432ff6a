"""Runs `site` with its hooks or without, and ends: the time of the whole run is what counts.

Run as `python FLAGS -S -c TEXT DESCRIPTOR with|without`. Without, the two modules are there already
when site imports them. Standard library only, Python 3.9 to 3.15.
"""

import os
import sys

HOOKS = ("sitecustomize", "usercustomize")


def main(descriptor: str, which: str) -> None:
    """Run site.main as the interpreter would have run it."""
    if not (getattr(sys.flags, "safe_path", 0) or sys.flags.isolated) and sys.path[:1] == [""]:
        del sys.path[0]
    if which == "without":
        for name in HOOKS:
            sys.modules[name] = type(sys)(name)
    import site

    site.main()
    os.write(int(descriptor), b"done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
