"""The processes that a framework starts, as a tree of nodes: who stands below whom."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from envprobe.rehearsal.frameworks import Framework
from envprobe.rehearsal.types import Node


def tree(
    framework: Framework, version: str, sizes: Mapping[str, int], most: int
) -> tuple[Node, ...]:
    """Return the nodes below the first process, with at most `most` workers.

    `sizes` holds tp, pp and dp, and for SGLang nodes, node, tokenizers and detokenizers.
    """
    numbers = itertools.count(1)
    if framework.name == "sglang":
        return tuple(_sglang(framework, version, sizes, most, numbers))
    if framework.name == "vllm":
        return tuple(_vllm(sizes, most, numbers))
    return tuple(
        Node(next(numbers), "worker", worker=True, ranks={"rank": rank})
        for rank in range(min(sizes["tp"], most))
    )


def wanted(framework: Framework, sizes: Mapping[str, int]) -> int:
    """Return how many workers the framework starts on this node by these sizes."""
    local = sizes["tp"] * sizes["pp"] // sizes["nodes"]
    replicas = 1 if framework.is_on("dp_attention") else sizes["dp"]
    return max(local, 1) * replicas


def _titled(prefix: str, ranks: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    """Return a title with the ranks of which there are several."""
    parts = (f"_{kind.upper()}{rank}" for kind, rank in ranks.items() if sizes[kind] > 1)
    return prefix + "".join(parts)


# --- SGLang (srt/entrypoints/engine.py, srt/managers/data_parallel_controller.py) ----------------


def _sglang(
    framework: Framework, version: str, sizes: Mapping[str, int], most: int, numbers: Iterator[int]
) -> Iterator[Node]:
    attention = framework.is_on("dp_attention") and sizes["dp"] > 1
    schedulers = tuple(itertools.islice(_schedulers(sizes, numbers, attention=attention), most))
    if sizes["dp"] == 1:
        yield from schedulers
    else:
        below = not attention or framework.is_before(version, "controller_before")
        yield from () if below else schedulers
        title, children = "sglang::data_parallel_controller", schedulers if below else ()
        yield Node(next(numbers), "data parallel controller", title, children=children)
    if sizes["node"]:
        return
    several = sizes["detokenizers"]
    for _ in range(min(several, most)):
        yield Node(next(numbers), "detokenizer", "sglang::detokenizer")
    if several > 1:
        yield Node(next(numbers), "detokenizer router", "sglang::detokenizer_router")


def _schedulers(
    sizes: Mapping[str, int], numbers: Iterator[int], *, attention: bool
) -> Iterator[Node]:
    local = max(sizes["tp"] * sizes["pp"] // sizes["nodes"], 1)
    first = sizes["node"] * local
    for replica in range(1 if attention else sizes["dp"]):
        for number in range(first, first + local):
            pp, tp = divmod(number, sizes["tp"])
            dp = tp * sizes["dp"] // sizes["tp"] if attention else replica
            every = {"dp": dp, "pp": pp, "tp": tp}
            ranks = {kind: rank for kind, rank in every.items() if sizes[kind] > 1}
            title = _titled("sglang::scheduler", ranks, sizes)
            yield Node(next(numbers), "scheduler", title, worker=True, ranks=ranks)


# --- vLLM (v1/engine/core.py, v1/executor/multiproc_executor.py) ---------------------------------


def _vllm(sizes: Mapping[str, int], most: int, numbers: Iterator[int]) -> Iterator[Node]:
    each = sizes["tp"] * sizes["pp"]
    left = most
    for replica in range(sizes["dp"]):
        if left <= 0:
            break
        ranks = {"dp": replica} if sizes["dp"] > 1 else {}
        workers = tuple(itertools.islice(_vllm_workers(ranks, sizes, numbers), left))
        left -= each
        title = _titled("VLLM::EngineCore", ranks, sizes)
        alone = not workers
        yield Node(next(numbers), "engine core", title, alone, ranks, workers)
    if sizes["dp"] > 1:
        yield Node(next(numbers), "coordinator", "VLLM::DPCoordinator")


def _vllm_workers(
    replica: Mapping[str, int], sizes: Mapping[str, int], numbers: Iterator[int]
) -> Iterable[Node]:
    if sizes["tp"] * sizes["pp"] == 1:
        return
    for number in range(sizes["tp"] * sizes["pp"]):
        pp, tp = divmod(number, sizes["tp"])
        every = {**replica, "pp": pp, "tp": tp}
        ranks = {kind: rank for kind, rank in every.items() if sizes[kind] > 1}
        title = _titled("VLLM::Worker", ranks, sizes)
        yield Node(next(numbers), "worker", title, worker=True, ranks=ranks)
