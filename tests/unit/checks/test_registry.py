from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable

import pytest

import envprobe.checks
from envprobe.checks.explain import explain
from envprobe.checks.finding import Check, Finding, Undetermined
from envprobe.checks.registry import CHECKS, Result, find, run_all, slug_of
from envprobe.config import LibraryExpectation
from envprobe.errors import UsageError
from envprobe.model import Confidence, Role, Sentence, View
from envprobe.ncclfacts import LogState
from envprobe.pythonfacts import AnswerState, DiskState, FileFact
from envprobe.values import Value
from tests.unit.checks import nccls, nodes, units
from tests.unit.checks.insides import (
    BACKEND,
    HOOK_FILE,
    ORIGINAL,
    expect,
    function,
    holds,
    inside,
    looked_into,
    mirrored,
    no_answer,
    no_hook,
    put,
)
from tests.unit.checks.scene import (
    BASE,
    ROOT,
    Scene,
    exec_view,
    libc_view,
    of,
    one,
    refused,
    scheduler,
    sglang,
    slugs,
    text,
    view_of,
    wiped,
    worker,
)

RING = {"NCCL_ALGO": "Ring"}


def _unstable() -> Result:
    scene = sglang(1)
    scene.fields.update(stable=False)
    return scene.run()


def _duplicate() -> Result:
    view = libc_view({**BASE, **RING}, duplicates={"NCCL_ALGO": (Value(b"Tree"),)})
    return view_of(sglang(1, server=RING), 110, view).run()


def _orphan() -> Result:
    return sglang(1).add(300, None, role=scheduler(0), orphan=True).run()


def _inferred() -> Result:
    view = exec_view(BASE, confidence=Confidence.INFERRED, source="resource tracker", at=1.0)
    return view_of(sglang(1), 110, view).run()


FIRING: dict[str, Callable[[], Result]] = {
    "no-workers": lambda: Scene().add(ROOT).run(),
    "worker-unreadable": lambda: view_of(sglang(1), 110, refused(View.LIBC)).run(),
    "env-missing": lambda: sglang(1).run("NCCL_ALGO"),
    "env-wrong-value": lambda: sglang(1, server=RING).run("NCCL_ALGO=Tree"),
    "env-forbidden": lambda: sglang(1, server=RING).run("!NCCL_ALGO"),
    "env-unknown": lambda: view_of(sglang(1), 110, refused(View.LIBC)).run("NCCL_ALGO"),
    "set-too-late": lambda: worker(sglang(1), 110, {"PYTHONPATH": "/x"}, exec={}).run("PYTHONPATH"),
    "set-late-unproven": lambda: worker(sglang(1), 110, RING, exec={}).run("NCCL_ALGO"),
    "peers-differ-critical": lambda: worker(sglang(2, server=RING), 111, {}, exec={}).run(),
    "peers-differ": lambda: worker(sglang(2, server=RING), 111, {}).run(),
    "peers-differ-default": lambda: worker(
        sglang(2, server={"NCCL_P2P_DISABLE": "0"}), 111, {}, exec={}
    ).run(),
    "lost-on-the-way": lambda: worker(sglang(1, server=RING), 110, {}).run(),
    "changed-on-the-way": lambda: worker(sglang(1, server=RING), 110, {"NCCL_ALGO": "x"}).run(),
    "framework-wrote": lambda: sglang(
        1, server={"CUDA_DEVICE_MAX_CONNECTIONS": "8"}, server_exec={}
    ).run(),
    "duplicate-variable": _duplicate,
    "orphan-worker": _orphan,
    "workers-missing": lambda: sglang(1).run(workers={"scheduler": 2}),
    "worker-vanished": lambda: sglang(2).change(111, ended=True).run(),
    "unstable-tree": _unstable,
    "exec-view-inferred": _inferred,
    "block-wiped": lambda: view_of(sglang(1), 110, wiped()).run(),
    "c-and-python-disagree": lambda: mirrored(
        sglang(1, server=RING), 110, {"NCCL_ALGO": "Tree"}
    ).run(),
    "pythonpath-ignored": lambda: looked_into(
        sglang(1, server={"PYTHONPATH": "/opt/hooks"}), 110, flags={"ignore_environment": 1}
    ).run(),
    "other-interpreter": lambda: looked_into(
        looked_into(sglang(2), 110), 111, prefix="/opt/other"
    ).run(),
    "patch-missing": lambda: put(sglang(1), inside(holds(ORIGINAL))).run(**expect()),
    "patch-not-imported": lambda: put(
        sglang(1), inside(no_answer(AnswerState.NOT_IMPORTED, "it is not imported"))
    ).run(**expect()),
    "hook-differs": lambda: put(sglang(2), inside(), inside(hooks=(no_hook(),))).run(),
    "code-changed-since-start": lambda: put(
        sglang(1), inside(files=(FileFact(HOOK_FILE, DiskState.CHANGED, 1.0),))
    ).run(),
    "module-twice": lambda: put(
        sglang(1), inside(holds(function(BACKEND, "/old/srv/backend.py")))
    ).run(),
    "patch-unknown": lambda: put(sglang(1), None).run(**expect()),
    "nccl-library-differs": lambda: nccls.put(
        sglang(2),
        nccls.libraries(nccls.library("2.21.5+cuda12.4")),
        nccls.libraries(nccls.library()),
    ).run(),
    "nccl-library-twice": lambda: nccls.put(
        sglang(1), nccls.libraries(nccls.library(), nccls.library("2.21.5+cuda12.4", "/b"))
    ).run(),
    "nccl-library-replaced": lambda: nccls.put(
        sglang(1), nccls.libraries(nccls.library(deleted=True, replaced=True))
    ).run(),
    "library-missing": lambda: nccls.put(sglang(1), nccls.libraries(named={"*/k.so": ()})).run(
        libraries=(LibraryExpectation("*/k.so"),)
    ),
    "nccl-read-otherwise": lambda: nccls.put(
        sglang(1, server=RING), nccls.log(nccls.read("NCCL_ALGO", "Tree", member=0))
    ).run(),
    "nccl-not-as-expected": lambda: nccls.put(
        sglang(1, server=RING), nccls.log(nccls.read("NCCL_ALGO", "Ring", member=0))
    ).run(**nccls.expect("NCCL_ALGO=Tree")),
    "nccl-expectation-unknown": lambda: nccls.put(sglang(1, server=RING), nccls.log()).run(
        **nccls.expect("NCCL_ALGO=Ring")
    ),
    "nccl-log-not-joined": lambda: nccls.put(
        sglang(1), nccls.without(LogState.AMBIGUOUS, asked=True, candidates=("h:7",))
    ).run(),
    "nccl-value-origin": lambda: nccls.put(
        sglang(1),
        nccls.log(
            nccls.read("NCCL_ALGO", "Tree", member=0),
            settings=(nccls.setting("NCCL_ALGO", "Tree"),),
        ),
    ).run(),
    "definition-not-loaded": lambda: units.put(
        sglang(1, server=RING), units.entries(RING), need_reload=True
    ).run(),
    "server-not-restarted": lambda: units.put(
        sglang(1, server=RING), units.entries({"NCCL_ALGO": "Tree"}), edited=5.0
    ).run(),
    "env-file-changed": lambda: units.put(
        sglang(1, server=RING), units.entries({"NCCL_ALGO": "Tree"}, units.FILE), file_edited=5.0
    ).run(),
    "declared-not-handed-over": lambda: units.put(
        sglang(1), units.entries(RING), handed=(), hops=units.STRIPPED
    ).run(),
    "declaration-not-told": lambda: units.put(
        sglang(1), units.entries({"NCCL_ALGO": None}), asked=True
    ).run(),
    "node-not-joined": lambda: nodes.run(sglang(1), Scene().add(ROOT))[0],
}


def sentences(finding: Finding) -> list[Sentence]:
    return [finding.message, *finding.evidence, finding.remedy]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.slug)
def test_each_check_fires_in_its_scene_and_says_all_that_a_finding_must(check: Check) -> None:
    result = FIRING[check.slug]()
    found = of(result, check.slug)
    assert found, slugs(result)
    for finding in found:
        assert finding.severity.rank <= check.severity.rank
        assert text(finding.remedy), "a finding without a remedy"
        for sentence in sentences(finding):
            assert text(sentence).endswith("."), text(sentence)
            assert ".." not in text(sentence)
        if check.undetermined is not Undetermined.SOMETIMES:
            assert finding.undetermined is (check.undetermined is Undetermined.ALWAYS)


def test_every_check_is_tried() -> None:
    assert list(FIRING) == [check.slug for check in CHECKS]


def test_a_healthy_server_gives_no_finding_at_all() -> None:
    assert sglang(4, server={**RING, "PYTHONPATH": "/x"}).run().findings == ()


def test_every_module_that_has_a_check_is_registered_under_its_name() -> None:
    modules = [
        importlib.import_module(f"envprobe.checks.{found.name}")
        for found in pkgutil.iter_modules(envprobe.checks.__path__)
    ]
    having = {
        module.__name__.rpartition(".")[2]: module.CHECK
        for module in modules
        if hasattr(module, "CHECK")
    }
    assert {name.replace("_", "-"): check for name, check in having.items()} == {
        check.slug: check for check in CHECKS
    }


IDS = {
    "EP001": "no-workers",
    "EP002": "worker-unreadable",
    "EP003": "env-missing",
    "EP004": "env-wrong-value",
    "EP005": "env-forbidden",
    "EP006": "env-unknown",
    "EP007": "set-too-late",
    "EP008": "set-late-unproven",
    "EP009": "peers-differ-critical",
    "EP010": "peers-differ",
    "EP011": "peers-differ-default",
    "EP012": "lost-on-the-way",
    "EP013": "changed-on-the-way",
    "EP014": "framework-wrote",
    "EP015": "duplicate-variable",
    "EP016": "orphan-worker",
    "EP017": "workers-missing",
    "EP018": "worker-vanished",
    "EP019": "unstable-tree",
    "EP020": "exec-view-inferred",
    "EP021": "block-wiped",
    "EP022": "c-and-python-disagree",
    "EP023": "pythonpath-ignored",
    "EP024": "other-interpreter",
    "EP025": "patch-missing",
    "EP026": "patch-not-imported",
    "EP027": "hook-differs",
    "EP028": "code-changed-since-start",
    "EP029": "module-twice",
    "EP030": "patch-unknown",
    "EP031": "nccl-library-differs",
    "EP032": "nccl-library-twice",
    "EP033": "nccl-library-replaced",
    "EP034": "library-missing",
    "EP035": "nccl-read-otherwise",
    "EP036": "nccl-not-as-expected",
    "EP037": "nccl-expectation-unknown",
    "EP038": "nccl-log-not-joined",
    "EP039": "nccl-value-origin",
    "EP040": "definition-not-loaded",
    "EP041": "server-not-restarted",
    "EP042": "env-file-changed",
    "EP043": "declared-not-handed-over",
    "EP044": "declaration-not-told",
    "EP045": "node-not-joined",
}


def test_ids_never_change_their_meaning() -> None:
    assert {check.id: check.slug for check in CHECKS} == IDS


@pytest.mark.parametrize("given", ["EP003", "ep003", "env-missing", "ENV-MISSING"])
def test_a_check_is_found_by_id_and_by_slug(given: str) -> None:
    assert find(given).slug == slug_of(given) == "env-missing"


@pytest.mark.parametrize(
    ("given", "suggested"),
    [
        ("env-mising", "'env-missing'"),
        ("EP099", "'EP"),
        ("EP22", "'EP"),
        ("epic", "no-workers"),
        ("12345", "no-workers"),
        ("zzzz", "no-workers"),
    ],
)
def test_an_unknown_check_is_refused_with_a_suggestion(given: str, suggested: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(given)
    assert given in caught.value.message
    assert suggested in caught.value.remedy


def test_what_is_ignored_is_kept_apart_with_its_reason() -> None:
    result = sglang(2).run("NCCL_ALGO", ignore={"env-missing": "ticket 12"})
    assert result.findings == ()
    ((finding, reason),) = result.ignored
    assert (finding.check, finding.pids, reason) == ("env-missing", (110, 111), "ticket 12")


def test_what_could_not_be_determined_is_never_ignored() -> None:
    scene = view_of(sglang(1), 110, refused(View.LIBC))
    result = scene.run(ignore={"worker-unreadable": "I do not care"})
    assert one(result, "worker-unreadable").undetermined
    assert result.ignored == ()


def test_the_worst_findings_come_first_and_else_in_the_order_of_the_checks() -> None:
    scene = worker(
        sglang(2, server={**RING, "NCCL_DEBUG": "INFO", "NCCL_PROTO": "LL"}, wipe=True), 111, {}
    )
    result = scene.run("NCCL_ALGO")
    order = [check.slug for check in CHECKS]
    keys = [(-one.severity.rank, order.index(one.check)) for one in result.findings]
    assert len(keys) > 3
    assert keys == sorted(keys)


@pytest.mark.parametrize(("number", "told"), [(99, 99), (100, 100), (101, 100), (1000, 100)])
def test_thousands_of_variables_do_not_give_thousands_of_findings(number: int, told: int) -> None:
    given = {f"NCCL_X{place:04}": "1" for place in range(number)}
    scene = worker(sglang(2, server=given), 111, {}, exec={})
    found = of(scene.run(), "peers-differ")
    assert len(found) == told
    last = found[-1]
    assert last.pids == (111,)
    if number > told:
        assert text(last.message).startswith(f"{number - 99} more findings of this kind about ")
        assert "NCCL_X0099" in text(last.message)
        assert last.variable == ""


def test_very_many_findings_about_no_variable_are_merged_without_a_name() -> None:
    scene = sglang(150)
    for place in range(150):
        scene = view_of(scene, 110 + place, refused(View.LIBC, f"reason {place}"))
    found = of(scene.run(), "worker-unreadable")
    assert len(found) == 100
    assert text(found[-1].message) == "51 more findings of this kind."
    assert found[-1].undetermined
    assert found[-1].pids == tuple(range(209, 260))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.slug)
def test_each_check_explains_itself(check: Check) -> None:
    told = explain(check)
    assert told.title == f"{check.id} {check.slug}"
    headings = [heading for heading, _ in told.sections]
    assert headings == ["Severity", "Why it matters", "How to mend it", "How to accept it"]
    sections = dict(told.sections)
    for part in (told.summary, *sections.values()):
        assert re.fullmatch(r"[A-Z\[/a-z-].*\.", part), part
        assert "  " not in part
    assert check.severity.value in sections["Severity"]
    accepts = sections["How to accept it"]
    assert (f"--allow-unknown {check.slug}" in accepts) is (
        check.undetermined is not Undetermined.NEVER
    )
    assert ("[ignore]" in accepts) is (check.undetermined is not Undetermined.ALWAYS)
    assert ("exit code is 3" in sections["Severity"]) is (
        check.undetermined is not Undetermined.NEVER
    )


def test_several_checks_share_what_is_computed_from_one_context() -> None:
    context = sglang(1).context("NCCL_ALGO")
    calls: list[object] = []

    def compute(given: object) -> int:
        calls.append(given)
        return 7

    assert [context.once(compute), context.once(compute)] == [7, 7]
    assert calls == [context]
    assert run_all(context).findings


def test_a_role_without_workers_is_named_in_the_messages_of_nobody_else() -> None:
    scene = sglang(1).add(120, ROOT, role=Role("detokenizer", "sglang"))
    assert "detokenizer" not in text(one(scene.run("NCCL_ALGO"), "env-missing").message)
