"""What `--help` says of envprobe and of each command."""

from __future__ import annotations

from typing import Final

from envprobe.errors import EXIT_MEANINGS

EXIT_CODES: Final = "\b\nExit codes:\n" + "\n".join(
    f"  {int(code):3}  {meaning}" for code, meaning in EXIT_MEANINGS.items()
)
ABOUT: Final = """Did what I set actually reach every worker, and if not, at which step was it lost?

envprobe reads the live environment of a running server's processes. It never stops, changes or
injects into them.

\b
Example:
  envprobe workers --pid 4711 --expect NCCL_ALGO=Ring
"""

WORKERS: Final = """Show which variable reached which worker, and where it was lost on the way.

Reads the live environment of every process below --pid from memory, although setproctitle has
overwritten /proc/PID/environ, and follows each variable from the server's start to each worker.
Without --pid, --cgroup, --container or --match the only launch found on this machine is taken.
Run it as the user of the server, or as root.

\b
Examples:
  envprobe workers --pid 4711
  envprobe workers --pid 4711 --expect NCCL_ALGO=Ring --expect 'PYTHONPATH~=/opt/hooks'
  envprobe workers --pid 4711 --wait scheduler=8 --timeout 600 -o json=report.json
"""

INSPECT: Final = """\
Ask a running Python process what it has loaded: hooks, modules, functions, values.

Reads the objects of the interpreter (CPython 3.9 to 3.15) from memory; nothing is injected or
stopped. A QUERY is pkg.mod (from which file was it loaded), pkg.mod:Class.attr or pkg.mod:name (is
it the original or a patch, from which file and line, and what does it wrap; or a simple value).
Without QUERY: the version, flags and paths of the interpreter. Files that changed after the process
started are pointed out. Run it as the user of the process, or as root.

\b
Examples:
  envprobe inspect --pid 4711 sitecustomize
  envprobe inspect --pid 4711 \\
    'sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend'

Exits with 0 if each question was answered ("not imported yet" and "absent" are answers), 2 for a
malformed QUERY, 3 if something could not be read or the process holds no Python, 4 if it is gone.
"""

EXPLAIN: Final = """Say what a finding means, why it matters and how to mend it.

\b
Example:
  envprobe explain EP003

Exits with 0, or with 2 if there is no such check.
"""

CHECKS: Final = """List every check: its id, its name, its worst severity and what it finds.

\b
Example:
  envprobe checks

Exits with 0.
"""

DEMO: Final = """\
Start a small real process tree with planted faults and show what `workers` finds in it.

The tree is a launcher with five multiprocessing children titled as SGLang's, which overwrite
/proc/PID/environ as real workers do. It needs no GPU and no model, uses at most a minute, and
is ended again, also on Ctrl-C.

\b
Example:
  envprobe demo

Exits with 0 if every planted fault was found and nothing else was, else with 70.
"""
