"""The report on a log of NCCL as JSON: data/nccl.schema.json says what is in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from envprobe import redact
from envprobe.checks.nccl import origins, used
from envprobe.checks.nccl.cells import Cell, Shown
from envprobe.checks.nccl.reasons import reasons
from envprobe.nccl import conf
from envprobe.nccl.facts import Communicator, Process, Rank, VariableRead
from envprobe.report import findings, nccl_table, pretty, values
from envprobe.report.nccl_model import Report
from envprobe.values import Value


def render(report: Report, *, unmask: bool = False) -> str:
    """Return the report as one JSON document in ASCII."""
    return pretty.dumps(_Document(report, unmask).whole())


class _Document:
    def __init__(self, report: Report, unmask: bool) -> None:
        self.report = report
        self.context = report.context
        self.unmask = unmask

    def whole(self) -> dict[str, Any]:
        report, log = self.report, self.context.log
        return {
            **pretty.heading(),
            "verdict": {
                **findings.verdict_document(report.verdict),
                "fail_on": report.fail_on.value,
                "exit_zero": report.exit_zero,
            },
            "expectations": [
                {
                    "name": redact.show_name(one.name),
                    "rule": one.rule.value,
                    "values": [self.value(one.name, value) for value in one.values],
                    "origin": redact.show_text(one.origin),
                }
                for one in self.context.config.expectations
            ],
            "files": [
                {**dataclasses.asdict(one), "name": redact.show_text(one.name)} for one in log.files
            ],
            "configuration_files": [_conf(one) for one in self.context.conf],
            "messages": log.messages,
            "damage": {kind.value: count for kind, count in log.damage_counts.items()},
            "left_out": log.left_out,
            "launchers": [redact.show_text(name) for name in log.launchers],
            "processes": [self.process(one) for one in log.processes],
            "communicators": [
                self.communicator(table, one)
                for table in nccl_table.build(self.context)
                for one in table.communicators
            ],
            **findings.documents(
                report.result, self.context.config.allow_unknown, unmask=self.unmask
            ),
        }

    def value(self, name: str, value: Value) -> dict[str, Any]:
        return values.document((name,), value, unmask=self.unmask)

    def process(self, process: Process) -> dict[str, Any]:
        return {
            "index": process.index,
            "host": redact.show_text(process.host),
            "pid": process.pid,
            "generation": process.generation,
            "family": process.family,
            "versions": [redact.show_text(one) for one in process.versions],
            "messages": process.messages,
            "variables": [self.read(one) for one in process.variables],
            "config": [
                {"field": redact.show_text(one.field), "value": redact.show_text(one.value)}
                for one in process.config
            ],
            "warnings": [
                {
                    "text": redact.show_text(one.text, 1000),
                    "file": redact.show_text(one.place.file),
                    "line": one.place.line,
                    "times": one.times,
                }
                for one in process.warnings
            ],
            "environment_plugin": redact.show_text(origins.foreign_environment(process)),
        }

    def read(self, one: VariableRead) -> dict[str, Any]:
        meaning = one.meaning if one.meaning is None else redact.show_text(str(one.meaning))
        return {
            "name": redact.show_name(one.name),
            "value": self.value(one.name, one.value),
            "meaning": meaning,
            "wording": one.wording.value,
            "source": redact.show_text(one.source),
            "file": redact.show_text(one.place.file),
            "line": one.place.line,
            "times": one.times,
            "whole": one.whole,
        }

    def communicator(self, table: nccl_table.Table, one: Communicator) -> dict[str, Any]:
        return {
            "comm_id": redact.show_text(one.comm_id),
            "nranks": one.nranks,
            "joined": one.joined,
            "function": redact.show_text(one.function),
            "parent": one.parent,
            "missing": list(one.missing),
            "ranks": [self.rank(one, rank) for rank in one.ranks],
            "variables": [
                {"name": redact.show_name(row.name), "cells": list(self.cells(row))}
                for row in table.rows
            ],
        }

    def rank(self, communicator: Communicator, rank: Rank) -> dict[str, Any]:
        return {
            "rank": rank.rank,
            "process": rank.process,
            "device": rank.device,
            "nvml_device": rank.nvml_device,
            "bus_id": redact.show_text(rank.bus_id),
            "started": rank.started is not None,
            "completed": rank.completed is not None,
            "ended": rank.ended is not None,
            "nodes": rank.nodes,
            "local_ranks": rank.local_ranks,
            "used": [redact.show_text(told) for told in used.summary(communicator, rank)],
            "attributed": rank.attributed,
        }

    def cells(self, row: nccl_table.Row) -> Iterator[dict[str, Any]]:
        for group in row.groups:
            shown: dict[str, Any] = {
                "ranks": list(group.numbers),
                "shown": group.cell.shown.value,
                "used": redact.show_text(group.used) or None,
            }
            if group.cell.shown is Shown.NOT_SHOWN:
                shown["reasons"] = list(reasons(self.context, group.ranks[0], row.name))
            yield shown | self.content(group.cell)

    def content(self, cell: Cell) -> dict[str, Any]:
        if cell.value is None:
            return {}
        found: dict[str, Any] = {"value": self.value(cell.name, cell.value)}
        if cell.meaning:
            found["meaning"] = redact.show_text(cell.meaning)
        if cell.why:
            found["why"] = redact.show_text(cell.why)
        if cell.others:
            found["other_values"] = [self.value(cell.name, one) for one in cell.others]
        writers = origins.writers(cell.name, cell.value)
        if writers:
            found["also_written_by"] = list(writers)
        return found


def _conf(file: conf.File) -> dict[str, Any]:
    return {
        "path": redact.show_text(file.path),
        "state": file.state.value,
        "reason": redact.show_text(file.reason),
        "lines": [
            {
                "line": one.number,
                "name": redact.show_name(one.name),
                "oddities": [odd.value for odd in one.oddities],
            }
            for one in file.lines
        ],
    }
