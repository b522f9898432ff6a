"""How a running interpreter was started, from its command line."""

from __future__ import annotations

import pytest

from envprobe.startup.target import options_of, path0_of


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        (("python", "-m", "sglang"), (), ("-m", "sglang")),
        (("python", "-I", "-c", "x", "-E"), ("-I",), ("-c", "x", "-E")),
        (("python", "-X", "dev", "-s", "run.py", "-S"), ("-s",), ("run.py", "-S")),
        (("python", "-Xdev", "-W", "error", "-"), (), ("-",)),
        (("python", "--check-hash-based-pycs", "always", "a.py"), (), ("a.py",)),
        (("python",), (), ()),
    ],
)
def test_options_before_the_program(
    words: tuple[str, ...], options: tuple[str, ...], rest: tuple[str, ...]
) -> None:
    assert options_of(words) == (options, rest)


@pytest.mark.parametrize(
    ("rest", "first"),
    [
        (("-m", "sglang"), "/srv"),
        (("-c", "pass"), ""),
        ((), ""),
        (("bin/run.py",), "/srv/bin"),
        (("/opt/x/run.py", "-m"), "/opt/x"),
    ],
)
def test_what_comes_first_on_sys_path(rest: tuple[str, ...], first: str) -> None:
    assert path0_of(rest, "/srv") == first
