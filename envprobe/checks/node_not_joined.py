"""The check `node-not-joined`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    if not context.beside or not context.routing.groups:
        return
    # Slow to import: only `merge` has nodes beside each other.
    from envprobe.checks import across

    joined = {part.context.node for parts in context.once(across.parts).values() for part in parts}
    others = [one.node for one in context.beside if one.node not in joined]
    if not others:
        return
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"No worker of {context.node} could be compared with one of {who.some(others, 3)}."
        ),
        pids=context.routing.workers(),
        evidence=(
            Sentence.of(
                "Workers are compared across nodes if NCCL's logs show one communicator of both, or"
                " if both nodes have exactly one peer group of the same role and replica and no log"
                " says otherwise."
            ),
        ),
        remedy=Sentence.of(
            "Scan each node with --nccl-log and --save-facts while the server runs with"
            " NCCL_DEBUG=INFO, point --pid at the one server of the job, and merge those facts."
        ),
        undetermined=True,
    )


CHECK = Check(
    id="EP045",
    slug="node-not-joined",
    severity=Severity.ERROR,
    summary="Which workers of two nodes belong together cannot be told.",
    why="The command merge compares the workers of one job across its nodes. If a node has several"
    " servers, or none with workers of the same role, nothing says which must agree with those of"
    " another node; if NCCL's logs name every communicator and none is of both nodes, the nodes are"
    " not of one job.",
    mend="Scan each node with --pid of the one server that is meant, or let NCCL's logs tell: start"
    " with NCCL_DEBUG=INFO and scan with --nccl-log. Replicas that share no communicator need no"
    " merge: `envprobe workers --from-facts` judges each node on its own.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
