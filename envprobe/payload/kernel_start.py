"""Runs a program of kernel_ext in an interpreter that need not have that package installed.

Run as `python FLAGS kernel_start.py DIRECTORY OWN FIRST MODULE DESCRIPTOR ARGUMENT...`. DIRECTORY
is the package's; OWN is 1 if that copy is to be used in any case. Otherwise one that the
interpreter has itself, and that its hooks may have imported, goes before it, and DIRECTORY has what
that lacks.
FIRST is `=` and what the program would put first on sys.path, or `-` for nothing.
A child that multiprocessing spawns runs this file again, under another name, and so finds the
package too. Standard library only, Python 3.9 to 3.15.
"""

import importlib
import importlib.util
import os
import sys

PACKAGE = "kernel_ext"


def set_first_entry(first: str) -> None:
    """Have sys.path begin as it would for the program in whose place this one runs."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
    if first[:1] == "=":
        sys.path.insert(0, first[1:])


def make_importable(directory: str, own: str) -> None:
    """Have `kernel_ext` importable, from the directory of its package."""
    if own == "1":
        for name in [one for one in sys.modules if one.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
    elif PACKAGE in sys.modules or importlib.util.find_spec(PACKAGE) is not None:
        package = importlib.import_module(PACKAGE)
        if directory not in package.__path__:
            package.__path__ = [*package.__path__, directory]
        return
    spec = importlib.util.spec_from_file_location(
        PACKAGE,
        os.path.join(directory, "__init__.py"),
        submodule_search_locations=[directory],
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    set_first_entry(sys.argv[3])
make_importable(sys.argv[1], sys.argv[2])
if __name__ == "__main__":
    program = importlib.import_module(sys.argv[4])
    sys.exit(program.main(sys.argv[6:], int(sys.argv[5])))
