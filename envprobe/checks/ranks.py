"""Which ranks a launch should have: from its command line, else from gaps in its titles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

MAX_RANKS: Final = 4096

_MAX_WORDS: Final = 4096


class Rank(NamedTuple):
    """One worker's place: data-parallel replica, pipeline stage, tensor-parallel rank."""

    dp: int
    pp: int
    tp: int


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """The ranks that one launch should have on this host, and the options that say so.

    `role` is the name of the role that holds them; `replicas` is False where a data-parallel index
    in a title does not tell workers apart (SGLang's attention data parallelism).
    """

    role: str
    ranks: frozenset[Rank]
    replicas: bool
    source: str


_ALIASES: Final[Mapping[str, str]] = {
    "--tp": "tp",
    "-tp": "tp",
    "--tp-size": "tp",
    "--tensor-parallel-size": "tp",
    "--pp": "pp",
    "-pp": "pp",
    "--pp-size": "pp",
    "--pipeline-parallel-size": "pp",
    "--dp": "dp",
    "-dp": "dp",
    "--dp-size": "dp",
    "--data-parallel-size": "dp",
    "--data-parallel-size-local": "dp_local",
    "-dpl": "dp_local",
    "--nnodes": "nodes",
    "--node-rank": "node",
    "--nproc-per-node": "processes",
}
_ELSEWHERE: Final = (
    "--config",
    "--use-ray",
    "--data-parallel-rank",
    "--data-parallel-start-rank",
    "--data-parallel-hybrid-lb",
    "--data-parallel-external-lb",
    "--prefill-context-parallel-size",
    "--headless",
)
"""Options under which sizes stand in a file, workers run elsewhere, or ranks do not start at 0."""
_BACKENDS: Final = ("--distributed-executor-backend", "--data-parallel-backend")
_HERE: Final = ("mp", "uni")
_ATTENTION: Final = "--enable-dp-attention"


def from_command(argv: Sequence[str], framework: str) -> Expected | None:
    """Return the ranks that a launcher's command line asks for on this host.

    None if it does not say: no option names a size, a file may (`--config`), or workers run
    elsewhere. Sources: SGLang 0.5.23 server_args.py and engine.py `_launch_scheduler_processes`;
    vLLM 0.33.0 engine/arg_utils.py; torch 2.14 distributed/run.py.
    """
    options = _options(argv)
    sizes = _sizes(options)
    if sizes is None or not _asks(sizes, framework):
        return None
    tp, pp, dp = (sizes.get(kind, 1) for kind in ("tp", "pp", "dp"))
    if framework == "torchrun":
        count = sizes["processes"]
        return _expected("rank", (Rank(0, 0, rank) for rank in range(count)), count, options)
    if framework == "sglang":
        return _sglang(options, sizes)
    if framework == "vllm" and sizes.get("nodes", 1) == 1:
        dp = sizes.get("dp_local", dp)
        role = "engine core" if tp * pp == 1 else "worker"
        return _expected(role, _grid(range(dp), range(pp), range(tp)), dp * pp * tp, options)
    return None


def _asks(sizes: Mapping[str, int], framework: str) -> bool:
    if framework == "torchrun":
        return "processes" in sizes
    return not sizes.keys().isdisjoint(("tp", "pp", "dp"))


def _options(argv: Sequence[str]) -> dict[str, str]:
    """Return the last value of each option; long ones with `-` for `_`, `=` taken apart."""
    words = list(argv[:_MAX_WORDS])
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if not word.startswith("-"):
            continue
        option, sign, value = word.partition("=")
        if option.startswith("--"):
            option = option.replace("_", "-")
        found[option] = value if sign else following
    return found


def _sizes(options: Mapping[str, str]) -> dict[str, int] | None:
    backends = {options[one] for one in _BACKENDS if one in options}
    if not backends <= set(_HERE) or not options.keys().isdisjoint(_ELSEWHERE):
        return None
    sizes: dict[str, int] = {}
    for option, kind in _ALIASES.items():
        if option not in options:
            continue
        text = options[option]
        if not (text.isascii() and text.isdecimal() and len(text) < 6):
            return None
        sizes[kind] = int(text)
    if any(size < 1 for kind, size in sizes.items() if kind != "node"):
        return None
    return sizes


def _sglang(options: Mapping[str, str], sizes: Mapping[str, int]) -> Expected | None:
    tp, pp, dp, nodes = (sizes.get(kind, 1) for kind in ("tp", "pp", "dp", "nodes"))
    node = sizes.get("node", 0)
    attention = _ATTENTION in options
    if nodes > 1 and dp > 1 and not attention:
        return None
    per_stage = max(nodes // pp, 1)
    tps = _share(tp // per_stage, node % per_stage)
    pps = _share(max(pp // nodes, 1), node // per_stage)
    replicas = range(1 if attention else dp)
    count = len(replicas) * len(pps) * len(tps)
    return _expected("scheduler", _grid(replicas, pps, tps), count, options, replicas=not attention)


def _share(size: int, place: int) -> range:
    return range(size * place, size * (place + 1))


def _grid(dps: range, pps: range, tps: range) -> Iterable[Rank]:
    return (Rank(dp, pp, tp) for dp in dps for pp in pps for tp in tps)


def _expected(
    role: str,
    ranks: Iterable[Rank],
    count: int,
    options: Mapping[str, str],
    *,
    replicas: bool = True,
) -> Expected | None:
    if not 0 < count <= MAX_RANKS:
        return None
    named = [f"{option} {options[option]}" for option in _ALIASES if option in options]
    return Expected(role, frozenset(ranks), replicas, " ".join(named))


def rank_of(ranks: Mapping[str, int], *, replicas: bool = True) -> Rank:
    """Return a worker's place from the ranks in its title; what a title leaves out is 0."""
    return Rank(ranks.get("dp", 0) if replicas else 0, ranks.get("pp", 0), ranks.get("tp", 0))


def gaps(titles: Iterable[Mapping[str, int]]) -> frozenset[Rank]:
    """Return the ranks between the titles of one launch's workers of one role that nobody has.

    The lowest and highest rank of each kind are those that are there: a host may hold only a part
    of a launch. Where each tensor-parallel rank has one data-parallel index only (SGLang's
    attention data parallelism), that index tells no workers apart.
    """
    found = list(titles)
    places = {rank_of(one) for one in found}
    pairs = {(one.pp, one.tp) for one in places}
    replicas = len(places) > len(pairs)
    seen = {rank_of(one, replicas=replicas) for one in found}
    spans = [range(min(kind), max(kind) + 1) for kind in zip(*seen, strict=True)]
    size = 1
    for span in spans:
        size *= len(span)
    if not seen or size > MAX_RANKS:
        return frozenset()
    return frozenset(_grid(*spans)) - seen


def labels(missing: Iterable[Rank], every: Iterable[Rank]) -> list[str]:
    """Return ranks in the words of the titles, naming only the kinds that tell workers apart."""
    whole = list(every)
    kinds = [kind for kind in Rank._fields if len({getattr(one, kind) for one in whole}) > 1]
    return [
        " ".join(f"{kind.upper()}{getattr(one, kind)}" for kind in kinds or ["tp"])
        for one in sorted(missing)
    ]
