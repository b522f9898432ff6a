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
Inside the interpreters of the workers it sees which sitecustomize each has loaded, and with --patch
whether an attribute holds the patched function or the original.
It shows which NCCL each worker has loaded, joins NCCL's own log to the worker that wrote it, and
says where NCCL read something else than the environment says now.
With --unit, and for the main process of a service, every route starts at what the unit declares:
an edit that was not loaded, a restart not done and a changed EnvironmentFile are told apart.
If nothing is pointed at, the only launch found on this machine is taken.
Run it as the user of the server, or as root.

\b
Examples:
  envprobe workers --pid 4711
  envprobe workers --pid 4711 --expect NCCL_ALGO=Ring --expect 'PYTHONPATH~=/opt/hooks'
  envprobe workers --pid 4711 --nccl-log '/tmp/nccl.*' --expect-lib 'libmy_kernels*.so'
  envprobe workers --unit sglang --expect NCCL_ALGO=Ring --wait scheduler=8
  envprobe workers --pid 4711 --wait scheduler=8 --timeout 600 -o json=report.json
  envprobe workers --pid 4711 --patch \\
    'sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend=my_kernels'
"""

INSPECT: Final = """\
Ask a running Python process what it has loaded: hooks, modules, functions, values.

Reads the objects of the interpreter (CPython 3.9 to 3.15) from memory; nothing is injected or
stopped. A QUERY is pkg.mod (from which file was it loaded), pkg.mod:Class.attr or pkg.mod:name (is
it the original or a patch, from which file and line, and what does it wrap; or a simple value).
Without QUERY: the version, flags and paths of the interpreter. Files that changed after the process
started are pointed out. Run it as the user of the process, or as root.

An unknown build of CPython is refused. With --calibrate envprobe measures it: it executes foreign
code, the interpreter that the process runs, once, with the rights of the process and none besides
(no capabilities, no_new_privs), isolated (-I -S -B), with 30 seconds and no GPU. It does not do so
across a user or mount namespace; there --calibrate-with names an exact copy on this side.

\b
Examples:
  envprobe inspect --pid 4711 sitecustomize
  envprobe inspect --pid 4711 \\
    'sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend'

Exits with 0 if each question was answered ("not imported yet" and "absent" are answers), 2 for a
malformed QUERY, 3 if something could not be read or the process holds no Python, 4 if it is gone.
"""

NCCL: Final = """\
Say what each rank read from NCCL's variables, what it then used, and which ranks differ.

Reads logs of NCCL 2.14 to 2.32 (NCCL_DEBUG=INFO): files, globs, .gz, .zst, .xz, .bz2, or - for the
standard input, with whatever a launcher or container runtime wrote in front of the lines. Give the
files of all nodes at once: NCCL never compares its settings across ranks, and ranks that differ
compute wrong sums, hang or fail.

No line proves nothing: what is not shown may still be set. NCCL's own configuration files are read
where the log is of this machine; --conf names copies of another node's.

\b
Examples:
  envprobe nccl job.log
  envprobe nccl 'logs/nccl.*.log' --expect NCCL_ALGO=Ring --expect NCCL_BUFFSIZE=8388608
  kubectl logs job/train --all-pods --prefix | envprobe nccl - -o json=nccl.json
"""

TRACE: Final = """\
Say which start-up hook an interpreter runs, which it hides and why, and whether children run it.

Runs the interpreter with `-v -X importtime` under the environment in question, and so EXECUTES its
start-up hooks: with the rights of the process for --pid, of the declared user for --unit, with
yours for --python; no bytecode is written, GPUs are hidden unless --with-gpu, number and time are
bounded and everything is ended. Then it asks that interpreter what is in sys.modules, what changed,
and starts real children.

With --pid two questions are answered: what this process ran, and what its next spawned child will
run. With --unit, or a command line behind `--`, what would be started: with the declared
environment, flags, directory and user; no wrapper is run, and the unit's sandbox is not reproduced.
What is not known makes the answer inferred, and "could not tell" where it decides which hook runs.

\b
Examples:
  envprobe trace-sitecustomize --python /opt/venv/bin/python
  envprobe trace-sitecustomize --pid 4711 --expect-reach spawn
  envprobe trace-sitecustomize --unit deploy/sglang.service --unit deploy/10-nccl.conf
  envprobe trace-sitecustomize --python python3 --env PYTHONPATH=/opt/hooks \\
    --expect-winner /opt/hooks/sitecustomize.py --patch json.encoder:JSONEncoder.encode
"""

UNIT: Final = """\
Show the environment that a systemd unit will hand over, line by line, and what it starts.

A NAME is asked of the running manager (systemctl show, which changes nothing) and read from its
files, so that an edit without daemon-reload, a restart that was forgotten and an environment file
changed since are told apart. A FILE is read without a manager, with its drop-ins. Lines that are
ignored or mean something else than they look are pointed out. ExecStart= is followed through env,
nice, numactl, sudo, shells, conda, uv, torchrun, srun and docker run to the interpreter; a wrapper
is never run.

The program's first file is parsed for statements that a spawned child would run again. To parse it
with its own grammar the declared interpreter is EXECUTED, isolated (-I -S), as the declared user,
bounded in time; nothing of the program runs. --no-interpreter leaves that out.

\b
Examples:
  envprobe unit sglang.service
  envprobe unit --user sglang --expect NCCL_ALGO=Ring --expect 'PYTHONPATH~=/opt/hooks'
  envprobe unit deploy/sglang.service deploy/10-nccl.conf -o json=unit.json
  envprobe unit --env-file nccl.env --kube pod.json -- sudo -E /opt/venv/bin/python serve.py
"""

REHEARSE: Final = """\
Rehearse a start before a restart: the declared interpreter and environment, with real children.

Starts the declared interpreter in exactly the declared environment, with its flags, in its
directory, as its user: a first process and real children by the framework's start method, nested
and titled as the framework's (SGLang, vLLM), with the variables set that the framework itself sets.
This EXECUTES the interpreter and its start-up hooks, without GPUs unless --with-gpu, bounded in
number, memory and time. The program of the definition, and a wrapper around it, is never run: its
first file is parsed for what spawned children would run again.

Each process says from inside which hooks ran and what it has, and all are read from outside as
`envprobe workers` does: its findings are told of the rehearsed workers, before there are real ones.

\b
Examples:
  envprobe rehearse --unit sglang.service --expect NCCL_ALGO=Ring
  envprobe rehearse --unit deploy/sglang.service --unit deploy/10-nccl.conf -o json=rehearsal.json
  envprobe rehearse --import-target --patch \\
    'sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend=my_kernels' \\
    -- env PYTHONPATH=/opt/hooks /opt/venv/bin/python -m sglang.launch_server --tp 8
"""

GATE: Final = """\
Judge all that envprobe.toml expects, before a restart or after it: one verdict, one exit code.

Before (--unit NAME|FILE, or `-- COMMAND...`): what the definition hands to its interpreter (as
`envprobe unit`), which hooks that interpreter runs (`trace-sitecustomize`), and what real children
get (`rehearse`). This EXECUTES the declared interpreter and its hooks, as the declared user,
bounded in number and time, without GPUs; what is run is said on stderr. No wrapper is run, and
nothing of the program's own file; [expect.kernel] also compiles the bundled kernel or, with
`installed = true`, runs what is in SGLang's class on the GPU. What only the running server shows
([expect.workers], lib, what NCCL reads) is listed and left to the gate after the start: it changes
no exit code. What is found of the process that runs now, which the restart ends, is kept apart.

After (--pid PID, or --unit NAME --live): as `envprobe workers`; with --wait it scans until
everything is decided.

--static is for a machine without the server's interpreter: nothing is run, and only what files
decide is judged. What files contradict fails. What they do not decide is listed, never counts as
holding and does not fail; if files decide nothing of it at all, the gate could not tell (3).

What could not be told is 3, unless its check is named with --allow-unknown or, with the reason,
under [allow-unknown]. Without a configuration that expects something it is 2.

\b
Examples:
  envprobe gate --config /etc/sglang/envprobe.toml --unit sglang.service
  systemctl restart sglang
  envprobe gate --config /etc/sglang/envprobe.toml --unit sglang.service --live \\
    --wait scheduler=8 --timeout 600
  envprobe gate --static --unit deploy/sglang.service -o junit=gate.xml
  envprobe gate -- /opt/venv/bin/python -m sglang.launch_server --tp 8
"""

TRIAGE: Final = """\
Name the cause of a start that failed, with its line, from its log.

Reads a log file (plain, compressed, or as docker, Kubernetes and journalctl print it), the standard
input, or with --unit the journal of the unit's last start and the files that its StandardOutput=
and StandardError= name. The first sign of a cause in time is the cause; what follows from it is
listed below it. For a unit it also says how often it was restarted and whether `reset-failed` is
needed. Of a log beyond 96 MB the first 32 MB and the last 64 MB are read. Nothing is executed but
systemctl and journalctl, which only ask. Credentials in lines of the log are masked.

\b
Examples:
  envprobe triage --unit sglang.service
  envprobe triage --unit sglang --user -o json=cause.json
  kubectl logs --previous sglang-0 | envprobe triage -

Exits with 1 if a cause is named, 0 only for a unit that runs and whose log has no failure, 2 if
there is no such unit or file, and 3 if the cause is not recognised or the log cannot be read.
"""

INIT_HOOK: Final = """\
Write a start-up hook: a sitecustomize.py in DIR that patches modules when they are imported.

The hook runs the sitecustomize that it hides (Debian's, a virtual environment's, an agent's), then
waits: an attribute is replaced when its module is first imported, in this process or in any child
that inherits PYTHONPATH, and the replacement is imported only then. It starts nothing, prints
nothing, and records a failure instead of raising it: `envprobe inspect --pid PID
sitecustomize:ENVPROBE_HOOK` says of each patch whether it is waiting, applied or failed, and why.

With --pth, DIR is the site-packages directory of a virtual environment. The hook then has a name of
its own, and no other sitecustomize can hide it.

A file that envprobe did not write, or that was changed since, is overwritten with --force only.

\b
Examples:
  envprobe init-hook /opt/hooks --patch 'engine.attention:Backend.forward=my_kernels:forward'
  envprobe init-hook /opt/venv/lib/python3.12/site-packages --pth --patch engine:step=my_step:step
"""

BASELINE: Final = """\
Print a configuration that holds for a running server: what its workers share is what is expected.

The configuration goes to stdout, for `envprobe gate` and `envprobe workers`. It holds the relevant
variables that are the same in all workers, and how many workers there are. Left out, and listed in
comments, is what each start or each rank has of its own (SGLANG_RUN_ID, INVOCATION_ID, ports,
ranks) and what looks like a credential. With --patch it also expects the attribute to come from
where it comes from now, and with --patch sitecustomize the file of that hook.

Nothing is printed unless `envprobe workers` finds the server healthy, and the configuration holds
for it. Run it as the user of the server, or as root.

\b
Examples:
  envprobe baseline --pid 4711 > envprobe.toml
  envprobe baseline --pid 4711 --patch sitecustomize \\
    --patch 'sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend'
"""

DIFF: Final = """\
Compare two JSON reports of `envprobe workers`: processes, variables, findings.

Processes are compared by role and ranks, never by number; values are those of the C environ of each
worker and of the first helper of each role. What each start has of its own is left out. A masked
value tells its length only: two of the same length cannot be told apart, and --ignore leaves such a
variable out.

\b
Examples:
  envprobe workers --pid 4711 -o json=before.json
  envprobe diff before.json after.json --ignore HF_TOKEN

Exits with 0 if all is the same, 1 if something differs, 2 if a file is no such report, and 3 if it
cannot be told.
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

KERNEL: Final = """\
Build the bundled attention kernel for the GPU at hand, run it, and say if it is right and fast.

Compiles it (NVRTC; no nvcc), compares it with a reference in fp32 over a grid of shapes, calls the
patch in SGLang's real class, and measures it against SGLang's own kernel in the same run. At most
1 GiB of the GPU is taken (--memory), so that this can run beside a server; only where nobody else
uses the GPU is time judged, which takes up to 6 GiB. What could not be run is exit 3, never a
failure of the kernel.

With --installed it EXECUTES the interpreter of --python, --unit or `-- COMMAND` with its start-up
hooks and plugins, imports SGLang, says whose forward_extend is in the class, and calls that one, a
kernel of your own included. Device work runs in processes of their own, bounded in number and time.

--compile-only and --archs-of need no GPU: the first compiles and inspects, the second answers "no
kernel image is available" for a library such as sgl_kernel, flashinfer or libtorch_cuda.

\b
Examples:
  envprobe kernel
  envprobe kernel --all-devices --memory 8GiB -o json=kernel.json
  envprobe kernel --installed --unit sglang.service --expect-installed my_kernels
  envprobe kernel --installed --python /opt/venv/bin/python --env PYTHONPATH=/opt/hooks
  envprobe kernel --compile-only --arch sm_120,sm_90,sm_80
  envprobe kernel --archs-of /opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so \\
    --arch sm_120
"""
