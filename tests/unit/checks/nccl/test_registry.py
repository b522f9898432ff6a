"""The checks of `nccl`: ids, documentation, and that each one fires in some test of this folder."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import envprobe.checks.nccl
from envprobe.checks import registry
from envprobe.checks.finding import Check
from envprobe.checks.nccl.registry import CHECKS

IDS = {
    "EP201": "nccl-no-communicator",
    "EP202": "nccl-ranks-missing",
    "EP203": "nccl-environment-not-logged",
    "EP204": "nccl-ranks-differ-critical",
    "EP205": "nccl-ranks-differ",
    "EP206": "nccl-ranks-differ-default",
    "EP207": "nccl-value-refused",
    "EP208": "nccl-value-misread",
    "EP209": "nccl-unexpected-value",
    "EP210": "nccl-not-shown",
    "EP211": "nccl-unread-name",
    "EP212": "nccl-value-odd",
    "EP213": "nccl-ll128-forced",
    "EP214": "nccl-conf-file",
    "EP215": "nccl-set-elsewhere",
    "EP216": "nccl-not-completed",
    "EP217": "nccl-failure",
    "EP218": "nccl-versions-differ",
    "EP219": "nccl-log-damaged",
    "EP220": "nccl-no-effect",
}


def test_ids_never_change_their_meaning() -> None:
    assert {check.id: check.slug for check in CHECKS} == IDS


def test_every_check_of_the_folder_is_registered_and_found() -> None:
    modules = [
        importlib.import_module(f"envprobe.checks.nccl.{one.name}")
        for one in pkgutil.iter_modules(envprobe.checks.nccl.__path__)
    ]
    found = [one.CHECK for one in modules if isinstance(getattr(one, "CHECK", None), Check)]
    assert {one.id for one in found} == set(IDS)
    assert all(registry.find(check.id) is check for check in CHECKS)


def test_every_check_is_stated_as_a_finding_in_a_test() -> None:
    folder = Path(__file__).parent
    texts = "".join(
        one.read_text("utf-8") for one in folder.glob("test_*.py") if one != Path(__file__)
    )
    named = set(re.findall(r'"(nccl-[a-z0-9-]+)"', texts))
    assert set(IDS.values()) - named == set()


def test_the_documentation_is_sentences() -> None:
    for check in CHECKS:
        for text in (check.summary, check.why, check.mend):
            assert text == text.strip(), check.slug
            assert text.endswith("."), check.slug
