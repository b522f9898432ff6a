"""Take each rule for a cause out once: some test of the routes must fail each time.

    python scripts/mutate_causes.py [TEST ...]

Without arguments it runs the scenarios of tests/unit/routes (not the property tests, which would
notice a missing rule but do not say which verdict is wrong). Exits with 1, naming the causes, if
the tests pass without some rule, or fail with all of them. About 1 s for each rule.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from envprobe.routes import causes  # noqa: E402
from envprobe.routes.types import CauseId  # noqa: E402

SCENARIOS: Final = sorted(
    str(path)
    for path in (ROOT / "tests" / "unit" / "routes").glob("test_*.py")
    if path.name != "test_properties.py"
)


class Failures:
    """A pytest plugin that keeps the names of the tests that failed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failed test."""
        if report.failed:
            self.names.append(report.nodeid.rpartition("::")[2])


@contextlib.contextmanager
def without(identity: CauseId) -> Iterator[None]:
    """Run with the rules for one cause taken out of the list."""
    kept = list(causes.RULES)
    causes.RULES[:] = [rule for rule in kept if rule[0] is not identity]
    try:
        yield
    finally:
        causes.RULES[:] = kept


def failed(tests: Sequence[str]) -> list[str]:
    """Return the names of the tests that fail; raises RuntimeError if they could not be run."""
    seen = Failures()
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--rootdir={ROOT}"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = pytest.main([*options, *tests], plugins=[seen])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {code!r}:\n{printed.getvalue()}")
    return seen.names


def main(tests: Sequence[str]) -> int:
    """Check every cause, print what noticed its absence, and return the exit code."""
    broken = failed(tests)
    if broken:
        print(f"fails with all rules in place: {', '.join(broken)}")
        return 1
    unnoticed = []
    for identity in CauseId:
        with without(identity):
            names = failed(tests)
        noticed = f"{len(names)} tests fail, such as {names[0]}" if names else "NO TEST FAILS"
        print(f"{identity.value}: {noticed}", flush=True)
        if not names:
            unnoticed.append(identity.value)
    if unnoticed:
        print(f"no test needs the rule for: {', '.join(unnoticed)}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or SCENARIOS))
