"""Programs that start the processes of a parallel job: torchrun, srun and `ray start`.

torchrun: pytorch/pytorch, torch/distributed/run.py (010929fd), argparse_util.py (0734fe09) and
elastic/agent/server/local_elastic_agent.py (001077cb). srun: SchedMD/slurm, src/srun/launch.c,
_build_user_env (03d38544), and srun(1). ray: ray-project/ray, python/ray/_private/services.py,
start_ray_process (003280cb).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from envprobe.launch import options
from envprobe.launch.options import OpaqueError, Taken
from envprobe.launch.steps import State
from envprobe.launch.words import is_name

Words = Sequence[str]
AS_MODULE: Final = "torch.distributed.run"
"""The module that the console script torchrun runs."""

_PER_RANK: Final = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE"),
    *("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
    *("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"),
)
_ASYNC: Final = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
_THREADS: Final = "OMP_NUM_THREADS"


def torchrun(state: State, words: Words, interpreter: str) -> Words:
    """Follow torchrun: one process per rank, with variables of its own and two defaults."""
    taken = options.of("torchrun", words[1:])
    told = "passes its environment on to each rank and adds RANK, WORLD_SIZE and their kin"
    number = _number(state, taken)
    if number != "1" and state.look(_THREADS) == "":
        sure = number is not None and number.isdecimal()
        state.put(_THREADS, "1" if sure else None, "torchrun sets it to 1 for several ranks")
        told += f"; it sets {_THREADS}=1" if sure else ""
    if state.look(_ASYNC) == "":
        state.put(_ASYNC, "1", "")
        told += f"; it sets {_ASYNC}=1"
    for name in _PER_RANK:
        state.put(name, None, "torchrun sets it for each rank")
    state.hop("torchrun", told, child=True)
    return _program(state, taken, interpreter)


def _number(state: State, taken: Taken) -> str | None:
    """Return the number of ranks as it is given, None if that is not known."""
    given = taken.values("--nproc-per-node", "--nproc_per_node")
    if given:
        return given[-1]
    named = state.look("PET_NPROC_PER_NODE")
    return "1" if named == "" else named


def _program(state: State, taken: Taken, interpreter: str) -> Words:
    """Return the words of a rank."""
    rest = list(taken.rest)
    if taken.has("--run-path", "--run_path"):
        return [interpreter, *rest]
    if taken.has("--no-python", "--no_python"):
        return rest
    named = state.look("PYTHON_EXEC")
    if named is None:
        raise OpaqueError("PYTHON_EXEC, which names the interpreter of the ranks, is not known")
    module = ["-m"] if taken.has("-m", "--module") else []
    return [named or interpreter, "-u", *module, *rest]


def ray(state: State, words: Words, interpreter: str, script: str) -> Words:
    """Follow `ray`, a script of Python; of `ray start` tell what the workers get."""
    if words[1:2] == ["start"]:
        told = "passes its environment on to the raylet; Ray's workers get that of the raylet,"
        state.hop("ray start", f"{told} runtime_env and what Ray sets", child=True)
    return [interpreter, script, *words[1:]]


def srun(state: State, words: Words) -> Words:
    """Follow `srun`: the submitting environment goes along, or what --export says."""
    taken = options.of("srun", words[1:])
    if taken.has("--multi-prog"):
        raise OpaqueError("srun --multi-prog reads its programs from a file")
    if any(name.startswith("--container") for name, _ in taken.options):
        raise OpaqueError("srun starts a container")
    given = taken.values("--export")
    exported = given[-1] if given else state.look("SLURM_EXPORT_ENV")
    if exported is None:
        state.unsure("SLURM_EXPORT_ENV, which says what srun passes on, is not known")
    elif set(exported) & set("'\"\\"):
        raise OpaqueError("srun --export is given quotes or escapes")
    told = _export(state, (exported or "ALL").split(","))
    if taken.has("--task-prolog"):
        state.unsure("the task prolog may set variables")
    for folder in taken.values("-D", "--chdir"):
        state.enter(folder)
    state.hop("srun", told, child=True)
    return taken.rest


def _export(state: State, listed: Words) -> str:
    """Let only what --export lists through, and return that in words.

    With ALL what is set already counts more than an assignment in the list; after NONE nothing of
    the list counts.
    """
    upper = [one.upper() for one in listed]
    every = "ALL" in (upper[: upper.index("NONE")] if "NONE" in upper else upper)
    counting = listed[: upper.index("NONE")] if "NONE" in upper else listed
    assigned = dict(one.partition("=")[::2] for one in counting if "=" in one)
    told = "passes the submitting shell's environment on and adds SLURM_*"
    if not every:
        names = [one for one in counting if is_name(one)]
        kept = [one for one in state.builder.names if one.startswith(("SLURM_", "SPANK_"))]
        state.builder.clear(state.place, [*names, *kept])
        told = f"passes only {', '.join(names) or 'SLURM_*'} on"
        state.more("Slurm, its plugins and its prolog may set further variables")
    done = [name for name, value in assigned.items() if _assigned(state, name, value, every)]
    if done:
        told += f"; it sets {', '.join(done)}"
    return told


def _assigned(state: State, name: str, value: str, every: bool) -> bool:
    """Set what an assignment in --export sets; return whether it counts."""
    if every and state.builder.has(name):
        return False
    sure = not every or state.look(name) == ""
    state.put(name, value if sure else None, "srun sets it, if the submitting shell does not")
    return True
