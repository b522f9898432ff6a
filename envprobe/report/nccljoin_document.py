"""What a scan found of NCCL in one process, as JSON."""

from __future__ import annotations

from typing import Any

from envprobe import redact
from envprobe.model import Process
from envprobe.ncclfacts import Libraries, LogState, NcclLog
from envprobe.report.nccltable import advice_for


def of_process(process: Process) -> dict[str, Any]:
    """Return the members `libraries` and `nccl_log` of a process: those that were looked for."""
    found: dict[str, Any] = {}
    if process.libraries is not None:
        found["libraries"] = _libraries(process.libraries)
    if process.nccl is not None:
        found["nccl_log"] = _log(process, process.nccl)
    return found


def _libraries(found: Libraries) -> dict[str, Any]:
    return {
        "whole": found.whole,
        "nccl": [
            {
                "path": redact.show_text(one.path),
                "version": redact.show_text(one.version),
                "device": list(one.device),
                "inode": one.inode,
                "deleted": one.deleted,
                **({} if one.replaced is None else {"replaced": one.replaced}),
                **({"reason": redact.show_text(one.reason)} if one.reason else {}),
            }
            for one in found.nccl
        ],
        "plugins": [redact.show_text(one) for one in found.plugins],
        "named": {
            redact.show_text(pattern): [redact.show_text(one) for one in paths]
            for pattern, paths in found.named.items()
        },
        **({} if found.whole else {"reason": redact.show_text(found.reason)}),
    }


def _log(process: Process, log: NcclLog) -> dict[str, Any]:
    if log.state is LogState.JOINED:
        return {**_heading(log), **_joined(log)}
    told = advice_for(process)
    return {
        **_heading(log),
        "reason": redact.show_text(log.reason),
        "candidates": [redact.show_text(one) for one in log.candidates],
        "would_read": [redact.show_name(name) for name in told.read],
        "would_not_read": [
            {
                "name": redact.show_name(one.name),
                "reason": one.reason,
                "suggestions": list(one.suggestions),
            }
            for one in told.unread
        ],
        "to_log": told.to_log,
    }


def _heading(log: NcclLog) -> dict[str, Any]:
    return {
        "state": log.state.value,
        "asked": log.asked,
        "files": [redact.show_text(one) for one in log.files],
    }


def _joined(log: NcclLog) -> dict[str, Any]:
    return {
        "host": redact.show_text(log.host),
        "pid": log.pid,
        "versions": [redact.show_text(one) for one in log.versions],
        "communicators": [
            {
                "communicator": redact.show_text(one.communicator),
                "rank": one.rank,
                "nranks": one.nranks,
            }
            for one in log.members
        ],
        "written": log.written,
        "evidence": redact.show_text(log.evidence),
        "confidence": "proved" if log.sure else "inferred",
    }
