"""What may be shown of the lines of startup files, and what they import."""

from __future__ import annotations

import pytest

from envprobe.startup.lines import modules, outline


@pytest.mark.parametrize(
    ("text", "shown", "names"),
    [
        ("import site_hook", "import site_hook", ("site_hook",)),
        ("import a.b, c as d;", "import a.b, c as d", ("a.b", "c")),
        ("import os; os.environ['TOKEN'] = 'x'", "import os; ...", ("os",)),
        ("import os, 'x'", "import os; ...", ("os",)),
        ("import\tos", "import\tos", ("os",)),
        ("site_hook:main", "site_hook:main", ("site_hook",)),
        ("import 'x'", "...", ()),
        ("'secret'", "...", ()),
    ],
)
def test_a_line_is_shown_up_to_its_first_import(
    text: str, shown: str, names: tuple[str, ...]
) -> None:
    assert (outline(text), modules(text)) == (shown, names)
