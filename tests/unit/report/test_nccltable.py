from __future__ import annotations

import json

import jsonschema

from envprobe import tables
from envprobe.checks.registry import run_all
from envprobe.checks.verdict import judge
from envprobe.ncclfacts import LogState, Membership
from envprobe.report import document, nccltable, text
from envprobe.report.model import Presentation, Report, Scan
from tests.unit.checks.nccls import libraries, library, log, put, read, without
from tests.unit.checks.scene import Scene, sglang, worker


def scan_of(scene: Scene) -> Scan:
    context = scene.context()
    result = run_all(context)
    return Scan(context, result, judge(context, result))


def shown(scene: Scene) -> str:
    scan = scan_of(scene)
    report = Report((scan,), scan.context.config)
    found = json.loads(document.render(report, Presentation()))
    jsonschema.validate(found, json.loads(tables.text("report.schema.json")))
    return " ".join(text.render(report, Presentation(width=200)).split())


def rows(scene: Scene) -> dict[str, tuple[str, ...]]:
    context = scene.context()
    (launch,) = context.routing.launches
    return {row.name: row.marks for row in nccltable.build(context, launch).rows}


def test_the_table_has_a_mark_for_each_kind_of_worker() -> None:
    two = (Membership("0xabc", 4, 9), Membership("0xdef", 0, 2))
    scene = put(
        sglang(6, server={"NCCL_ALGO": "Ring"}),
        log(read("NCCL_ALGO", "Ring", member=0)),
        log(read("NCCL_ALGO", "Tree", member=0)),
        log(),
        without(LogState.NO_LOG),
        log(read("NCCL_ALGO", "Ring", member=0), members=two),
        log(read("NCCL_ALGO", "Ring", member=0)),
    )
    worker(scene, 115, {"NCCL_ALGO": "Tree"})
    assert rows(scene)["NCCL_ALGO"] == ("=", "a!", "?", ".", "*", "=!")


def test_without_a_joined_log_there_is_no_table() -> None:
    assert rows(put(sglang(1), without(LogState.NO_LOG))) == {}
    assert rows(sglang(1)) == {}


def test_libraries_logs_and_communicators_are_told() -> None:
    scene = put(
        sglang(3, server={"NCCL_ALGO": "Ring", "NCCL_ALOG": "Tree"}),
        log(read("NCCL_ALGO", "Ring", member=0)),
        without(LogState.NO_LOG, "NCCL_DEBUG is not set in it"),
        without(LogState.AMBIGUOUS, "several"),
    )
    put(scene, libraries(library()), libraries(library(deleted=True)), libraries())
    told = shown(scene)
    for words in (
        "TP0: NCCL 2.28.9+cuda12.9 (/opt/nccl/libnccl.so.2)",
        "TP1: NCCL 2.28.9+cuda12.9 (/opt/nccl/libnccl.so.2), deleted",
        "TP2: no libnccl is loaded",
        "NCCL's log (/tmp/nccl.h.7) is joined to TP0.",
        "Communicator 0xabc of 2 ranks: TP0 is rank 0.",
        "No log of NCCL for TP1: NCCL_DEBUG is not set in it.",
        "Set there now, and read by NCCL 2.28.9: NCCL_ALGO.",
        "NCCL_ALOG: no version of NCCL is known to read it (perhaps NCCL_ALGO is meant).",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV",
    ):
        assert words in told, words


def test_a_server_without_nccl_has_no_line_about_it() -> None:
    assert "NCCL" not in shown(put(sglang(2), libraries(), libraries()))
