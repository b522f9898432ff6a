"""`envprobe merge`: saved scans of the nodes of one job, judged together."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from envprobe import cli_workers
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.config import Config
    from envprobe.model import Snapshot


def run(options: cli_workers.Options) -> Exit:
    """Judge and report the scans of `from_facts`; return the exit code. Raises EnvprobeError."""
    if len(options.from_facts) < 2:
        raise UsageError(
            "merge joins the scans of several nodes, and fewer than two were given",
            "Save one on each node with `envprobe workers --save-facts`, and name them all;"
            " `envprobe workers --from-facts` judges a single one.",
        )
    if "" in options.from_facts:
        raise UsageError("the path of a file is empty", "Give it the path, or leave it out.")
    return cli_workers.run(dataclasses.replace(options, one_job=True), _of_different_nodes)


def _of_different_nodes(options: cli_workers.Options, config: Config) -> tuple[Snapshot, ...]:
    """Return the scans; UsageError if two are of one node, whose workers would be counted twice."""
    snapshots = cli_workers.snapshots_of(options, config)
    seen: dict[tuple[str, str], str] = {}
    for path, snapshot in zip(options.from_facts, snapshots, strict=True):
        node = (snapshot.host, snapshot.boot_id)
        if node in seen:
            raise UsageError(
                f"{seen[node]} and {path} are scans of the same node, {snapshot.host}",
                "Give one scan of each node; `envprobe diff` compares two reports of one.",
            )
        seen[node] = path
    return snapshots
