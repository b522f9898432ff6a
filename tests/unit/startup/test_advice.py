"""The ways that are open for a shadowed hook, by flags and version."""

from __future__ import annotations

import dataclasses

from envprobe.startup.advice import Way, mends
from envprobe.startup.types import Entry, EntryState, Launch, Origin, Walk

SITE = "/venv/lib/site-packages"
HOOK = f"{SITE}/sitecustomize.py"
WALK = Walk(
    version=(3, 12, 1),
    implementation="cpython",
    executable="/venv/bin/python",
    prefix="/venv",
    base_prefix="/usr",
    stdlib="/usr/lib/python3.12",
    entries=(Entry(SITE, Origin.SITE, EntryState.DIRECTORY),),
    candidates=(),
    files=(),
    user_site="",
    user_site_enabled=False,
    site_directories=("/gone", SITE),
)


def _ways(*flags: str) -> list[Way]:
    return [one.way for one in mends(WALK, Launch("python", {}, flags), HOOK)]


def test_the_ways_that_flags_leave_open() -> None:
    assert _ways() == [Way.PYTHONPATH, Way.STARTUP_FILE, Way.CHAIN]
    assert _ways("-s") == [Way.PYTHONPATH, Way.STARTUP_FILE, Way.CHAIN]
    assert _ways("-I") == _ways("-E") == [Way.STARTUP_FILE]
    assert _ways("-S") == []


def test_what_is_on_pythonpath_already_stays_behind_it() -> None:
    launch = Launch("python", {"PYTHONPATH": f"/other:{SITE}:"})
    first = mends(WALK, launch, HOOK)[0]
    assert f"PYTHONPATH={SITE}:/other " in first.text


def test_of_a_package_the_directory_that_holds_it_counts() -> None:
    first = mends(WALK, Launch("python", {}), "/opt/hooks/sitecustomize/__init__.py")[0]
    assert "PYTHONPATH=/opt/hooks " in first.text


def test_a_startup_file_is_what_the_version_reads() -> None:
    text = mends(WALK, Launch("python", {}), HOOK)[1].text
    assert f"in {SITE}, and put a file site_hook.pth with the line `import site_hook`" in text
    newer = dataclasses.replace(WALK, version=(3, 15, 0))
    assert "site_hook.start with the line `site_hook:main`" in (
        mends(newer, Launch("python", {}), HOOK)[1].text
    )
