"""The generated pages are those of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from envprobe.checks.registry import every

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "gen_docs.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_pages_in_the_repository_are_not_stale() -> None:
    done = run("--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_stale_page_fails_the_check_and_is_mended_by_writing(tmp_path: Path) -> None:
    at = ("--root", str(tmp_path))
    missing = run("--check", *at)
    assert missing.returncode == 1
    assert "docs/checks.md is stale" in missing.stdout
    assert not (tmp_path / "docs").exists()
    assert run(*at).returncode == 0
    assert run("--check", *at).stdout == ""
    page = tmp_path / "docs" / "exit-codes.md"
    page.write_text(page.read_text("utf-8") + "by hand\n", "utf-8")
    stale = run("--check", *at)
    assert stale.returncode == 1
    assert stale.stdout == "docs/exit-codes.md is stale: run scripts/gen_docs.py\n"


def test_every_check_has_a_row_and_a_section() -> None:
    page = (ROOT / "docs" / "checks.md").read_text("utf-8")
    for check in every():
        assert page.count(f"| {check.id} | [{check.slug}](#") == 1
        assert page.count(f"\n## {check.id} {check.slug}\n") == 1
        assert check.why in page
        assert check.mend in page
