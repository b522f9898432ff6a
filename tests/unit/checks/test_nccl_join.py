"""The checks on libraries and joined logs: where each fires, and beside that where it must not."""

from __future__ import annotations

import pytest

from envprobe.checks import nccl_expected
from envprobe.checks.verdict import progress
from envprobe.config import LibraryExpectation
from envprobe.model import Confidence, View
from envprobe.ncclfacts import LogState, Membership
from tests.unit.checks.nccls import (
    also,
    expect,
    libraries,
    library,
    log,
    put,
    read,
    setting,
    without,
)
from tests.unit.checks.scene import (
    Scene,
    evidence,
    of,
    one,
    refused,
    sglang,
    slugs,
    text,
    view_of,
    wiped,
    worker,
)

RING = {"NCCL_ALGO": "Ring"}
TREE_READ = read("NCCL_ALGO", "Tree", member=0)


# --- libraries ------------------------------------------------------------------------------------


def test_equal_versions_of_different_files_are_equal() -> None:
    scene = put(sglang(2), libraries(library()), libraries(library(path="/other/libnccl.so.2")))
    assert scene.run().findings == ()


def test_files_without_a_version_differ_by_inference() -> None:
    unknown = (libraries(library("", path)) for path in ("/a/libnccl.so.2", "/b/libnccl.so.2"))
    found = one(put(sglang(2), *unknown).run(), "nccl-library-differs")
    assert (found.severity, found.confidence) == ("warning", Confidence.INFERRED)


def test_a_worker_without_nccl_or_without_reading_differs_from_nobody() -> None:
    scene = put(sglang(3), libraries(library()), libraries(), libraries(whole=False, reason="no"))
    assert scene.run().findings == ()


def test_the_fewer_deviate() -> None:
    old = libraries(library("2.21.5+cuda12.4"))
    found = one(
        put(sglang(3), libraries(library()), old, libraries(library())).run(),
        "nccl-library-differs",
    )
    assert found.pids == (111,)


@pytest.mark.parametrize(
    ("named", "whole", "undetermined"),
    [({"k": ()}, True, False), ({"k": ()}, False, True), ({}, True, True)],
)
def test_a_library_is_missing_only_where_the_whole_list_was_read(
    named: dict[str, tuple[str, ...]], whole: bool, undetermined: bool
) -> None:
    found = libraries(named=named, whole=whole, reason="" if whole else "damaged")
    result = put(sglang(1), found).run(libraries=(LibraryExpectation("k"),))
    assert one(result, "library-missing").undetermined is undetermined


def test_a_library_that_is_there_is_enough_though_the_list_breaks_off() -> None:
    found = libraries(named={"k": ("/k.so",)}, whole=False, reason="damaged")
    assert put(sglang(1), found).run(libraries=(LibraryExpectation("k"),)).findings == ()


# --- the hop into NCCL ----------------------------------------------------------------------------


def hops(scene: Scene, name: str, *expected: str) -> list[tuple[str, str]]:
    """Return the change and the causes of each hop of worker 110."""
    route = scene.context(**expect(*expected)).routing.routes[110, name]
    return [
        (one.change.value if one.change else "", " ".join(cause.id for cause in one.causes))
        for one in route.nccl
    ]


def test_what_nccl_read_is_what_the_environment_says() -> None:
    scene = put(sglang(1, server=RING), log(read("NCCL_ALGO", "Ring", member=0)))
    assert hops(scene, "NCCL_ALGO") == [("", "")]
    assert scene.run().findings == ()


@pytest.mark.parametrize(
    ("name", "given", "printed"),
    [("NCCL_BUFFSIZE", "8M", "8"), ("NCCL_BUFFSIZE", "0x10", "16"), ("NCCL_P2P_LEVEL", "2", "PXB")],
)
def test_the_words_of_nccl_for_a_value_are_that_value(name: str, given: str, printed: str) -> None:
    scene = put(sglang(1, server={name: given}), log(read(name, printed, wording="integer")))
    assert hops(scene, name) == [("", "")]
    other = put(sglang(1, server={name: given}), log(read(name, "77", wording="integer")))
    assert hops(other, name) == [("changed", "changed-after-nccl-read")]


def test_a_refused_value_stands_in_the_log_as_it_was_given() -> None:
    scene = put(
        sglang(1, server={"NCCL_BUFFSIZE": "abc"}),
        log(read("NCCL_BUFFSIZE", "abc", wording="refused", meaning="0")),
    )
    assert hops(scene, "NCCL_BUFFSIZE") == [("", "")]
    found = one(scene.run(**expect("NCCL_BUFFSIZE=abc")), "nccl-not-as-expected")
    assert "does not use it" in text(found.message)


def test_a_level_that_another_variable_prints_is_no_change() -> None:
    versions = {"versions": ("2.21.5+cuda12.4",)}
    scene = put(
        sglang(1, server={"NCCL_P2P_DISABLE": "1"}),
        log(read("NCCL_P2P_LEVEL", "LOC"), **versions),
    )
    assert hops(scene, "NCCL_P2P_LEVEL") == [("", "")]
    assert hops(scene, "NCCL_P2P_DISABLE") == [("", "")]


def test_each_communicator_has_its_own_hop() -> None:
    members = (Membership("0xabc", 0, 2), Membership("0xdef", 1, 4))
    reads = (read("NCCL_ALGO", "Tree", member=0), read("NCCL_ALGO", "Ring", member=1))
    scene = put(sglang(1, server=RING), log(*reads, members=members))
    assert hops(scene, "NCCL_ALGO") == [("changed", "changed-after-nccl-read"), ("", "")]
    found = one(scene.run(), "nccl-read-otherwise")
    assert "for communicator 0xabc," in text(found.message)


def test_what_is_not_shown_is_unreadable() -> None:
    scene = put(sglang(1, server=RING), log())
    (hop,) = scene.context().routing.routes[110, "NCCL_ALGO"].nccl
    assert hop.reading.state.value == "unreadable"
    assert "does not prove" in hop.reading.reason
    assert scene.run().findings == ()


def test_what_a_plugin_wrote_is_not_what_nccl_read() -> None:
    written = read("NCCL_ALGO", "Tree", member=0, wording="written", source="NET/OFI")
    scene = put(sglang(1, server=RING), log(written))
    (hop,) = scene.context().routing.routes[110, "NCCL_ALGO"].nccl
    assert (hop.reading.state.value, hop.change) == ("unreadable", None)


def test_only_a_joined_log_makes_a_hop() -> None:
    for state in set(LogState) - {LogState.JOINED}:
        scene = put(sglang(1, server=RING), without(state))
        assert hops(scene, "NCCL_ALGO") == []


def test_a_change_back_and_forth_is_inferred() -> None:
    scene = put(sglang(1, server=RING), log(TREE_READ))
    found = one(scene.run(), "nccl-read-otherwise")
    assert (found.confidence, found.severity) == (Confidence.INFERRED, "warning")
    assert "must have been changed and changed back" in evidence(found)


def test_what_it_had_at_its_exec_proves_the_later_change() -> None:
    scene = worker(sglang(1, server={"NCCL_ALGO": "Tree"}), 110, RING)
    found = one(put(scene, log(TREE_READ)).run(), "nccl-read-otherwise")
    assert found.confidence is Confidence.PROVED
    assert "had NCCL_ALGO=Tree at its exec" in evidence(found)


def test_what_is_gone_now_is_told_as_information() -> None:
    scene = worker(sglang(1, server={"NCCL_ALGO": "Tree"}), 110, {})
    found = one(put(scene, log(TREE_READ)).run(), "nccl-read-otherwise")
    assert found.severity == "info"
    assert text(found.message).endswith("the C environ says no NCCL_ALGO now.")


def test_an_unread_environment_is_compared_with_nothing() -> None:
    scene = put(view_of(sglang(1), 110, refused(View.LIBC)), log(TREE_READ))
    assert hops(scene, "NCCL_ALGO") == [("", "")]
    assert "nccl-read-otherwise" not in slugs(scene.run())


def test_a_cut_line_is_compared_with_nothing() -> None:
    scene = put(sglang(1, server=RING), log(read("NCCL_ALGO", "Ri", member=0, whole=False)))
    assert hops(scene, "NCCL_ALGO") == [("", "")]


def test_plugins_and_files_are_causes_where_something_shows_them() -> None:
    scene = put(sglang(1, server=RING), log(TREE_READ))
    also(scene, 110, settings=(setting("NCCL_ALGO", "Tree"),))
    assert "conf-file-then-changed" in hops(scene, "NCCL_ALGO")[0][1]
    also(scene, 110, settings=(setting("NCCL_ALGO", "Other"),))
    assert "conf-file" not in hops(scene, "NCCL_ALGO")[0][1]
    also(scene, 110, plugins=("ENV/Plugin: Using mine (v1)",))
    assert "nccl-env-plugin" in hops(scene, "NCCL_ALGO")[0][1]
    also(scene, 110, plugins=("ENV/Plugin: Could not find: libnccl-env.so",))
    assert "nccl-env-plugin" not in hops(scene, "NCCL_ALGO")[0][1]
    written = read("NCCL_ALGO", "Tree", member=0, wording="written", source="NET/OFI")
    also(scene, 110, reads=(written, TREE_READ))
    assert hops(scene, "NCCL_ALGO")[0][1].startswith("nccl-net-plugin")
    put(scene, libraries(library(), library("2.21.5+cuda12.4", "/b")))
    assert "second-nccl" in hops(scene, "NCCL_ALGO")[0][1]


# --- where a value is from ------------------------------------------------------------------------


def test_a_value_of_the_launch_environment_has_no_other_origin() -> None:
    found = log(TREE_READ, settings=(setting("NCCL_ALGO", "Tree"),))
    given = put(sglang(1, server={"NCCL_ALGO": "Tree"}, wipe=True), found)
    assert "nccl-value-origin" not in slugs(given.run())
    late = put(worker(sglang(1), 110, {"NCCL_ALGO": "Tree"}), found)
    told = one(late.run(), "nccl-value-origin")
    assert (told.pids, told.variable) == ((110,), "NCCL_ALGO")
    assert "/etc/nccl.conf:1 says NCCL_ALGO=Tree" in evidence(told)


def test_a_value_that_the_framework_writes_is_attributed_to_it() -> None:
    cumem = read("NCCL_CUMEM_ENABLE", "0", wording="integer")
    scene = put(worker(sglang(1), 110, {"NCCL_CUMEM_ENABLE": "0"}), log(cumem))
    assert "sglang sets NCCL_CUMEM_ENABLE itself" in evidence(one(scene.run(), "nccl-value-origin"))
    other = read("NCCL_CUMEM_ENABLE", "7", wording="integer")
    odd = put(worker(sglang(1), 110, {"NCCL_CUMEM_ENABLE": "7"}), log(other))
    assert "nccl-value-origin" not in slugs(odd.run())


# --- expectations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "value", "status"),
    [
        ("NCCL_ALGO=Ring", "Ring", "holds"),
        ("NCCL_ALGO=Tree", "Ring", "other"),
        ("NCCL_ALGO", "Ring", "holds"),
        ("!NCCL_ALGO", "Ring", "forbidden"),
        ("!NCCL_ALGO", None, "unknown"),
        ("NCCL_ALGO=Ring", None, "unknown"),
        ("NCCL_ALGO~=Ring", "Ring,Tree", "holds"),
        ("NCCL_ALGO~=Ring", "Tree", "other"),
    ],
)
def test_an_expectation_holds_only_where_the_log_shows_it(
    stated: str, value: str | None, status: str
) -> None:
    reads = () if value is None else (read("NCCL_ALGO", value, member=0),)
    context = put(sglang(1, server=RING), log(*reads)).context(**expect(stated))
    (outcome,) = nccl_expected.outcomes(context)
    assert outcome.status == status


@pytest.mark.parametrize(("given", "status"), [("8M", "misread"), ("8388608", "other")])
def test_a_number_that_nccl_reads_as_another_does_not_hold(given: str, status: str) -> None:
    found = log(read("NCCL_BUFFSIZE", "8", wording="integer"))
    context = put(sglang(1, server={"NCCL_BUFFSIZE": given}), found).context(
        **expect(f"NCCL_BUFFSIZE={given}")
    )
    (outcome,) = nccl_expected.outcomes(context)
    assert outcome.status == status


@pytest.mark.parametrize("asked", [True, False])
def test_a_log_that_was_not_joined_is_undetermined_only_if_it_was_named(asked: bool) -> None:
    result = put(sglang(1), without(LogState.OLDER, "old", asked=asked)).run()
    found = one(result, "nccl-log-not-joined")
    assert (found.undetermined, found.severity) == (asked, "error" if asked else "info")


def test_no_log_at_all_is_no_finding_unless_something_is_expected() -> None:
    scene = put(sglang(1, server=RING), without(LogState.NO_LOG, "NCCL_DEBUG is not set in it"))
    assert scene.run().findings == ()
    (found,) = of(scene.run(**expect("NCCL_ALGO=Ring")), "nccl-expectation-unknown")
    assert "NCCL_DEBUG is not set in it." in text(found.message)


def test_wiped_blocks_do_not_hide_the_hop() -> None:
    scene = put(view_of(sglang(1, server=RING), 110, wiped()), log(TREE_READ))
    assert hops(scene, "NCCL_ALGO") == [("changed", "changed-after-nccl-read")]


def test_what_may_still_be_loaded_or_logged_is_waited_for() -> None:
    stated = {**expect("NCCL_ALGO=Ring"), "libraries": (LibraryExpectation("k"),)}
    scene = put(sglang(1, server=RING), libraries(named={"k": ()}))
    assert progress(scene.context(**stated)).undecided == ("NCCL_ALGO", "k")
    put(scene, libraries(named={"k": ("/k",)}))
    put(scene, log(read("NCCL_ALGO", "Tree", member=0)))
    assert progress(scene.context(**stated)).decided
