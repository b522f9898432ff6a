"""How patches are stated, and which places satisfy a source."""

from __future__ import annotations

import pytest

from envprobe.config import HookExpectation, PatchExpectation
from envprobe.errors import UsageError
from envprobe.patchexpect import accepts_hook, is_below, is_within, normal, parse_patch

QUERY = "pkg.mod:Class.attr"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (f"{QUERY}=my_kernels", "my_kernels"),
        (f"{QUERY}=my_kernels.attn", "my_kernels.attn"),
        (f"{QUERY}=/opt/kernels", "/opt/kernels"),
        (f"{QUERY}=/opt/a=b/", "/opt/a=b/"),
        ("pkg.mod=sitecustomize", "sitecustomize"),
    ],
)
def test_a_patch_is_a_question_and_a_source(text: str, source: str) -> None:
    assert parse_patch(text) == PatchExpectation(text.partition("=")[0], source)


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("", "takes QUERY=PREFIX", "my_kernels"),
        (QUERY, "takes QUERY=PREFIX", "my_kernels"),
        ("=my_kernels", "takes QUERY=PREFIX", "my_kernels"),
        (f"{QUERY}=", f"{QUERY}: it is not said where", "absolute path"),
        (f"{QUERY}=my_kernels:f", "neither a module nor a path", "my_kernels.attention"),
        (f"{QUERY}=my_kernels.", "neither a module nor a path", ""),
        (f"{QUERY}=.my_kernels", "neither a module nor a path", ""),
        (f"{QUERY}=my_kernels*", "neither a module nor a path", ""),
        (f"{QUERY}=my_kernels.py", "neither a module nor a path", "what has a / is a file"),
        (f"{QUERY}=my-kernels", "neither a module nor a path", ""),
        (f"{QUERY}=my_kernels\x1b[31m", "neither a module nor a path", ""),
        (f"{QUERY}=my kernels", "neither a module nor a path", ""),
        (f"{QUERY}=kernels/attn.py", "must be absolute", "absolute path"),
        (f"{QUERY}=/opt/../kernels", "without '..'", ""),
        (f"{QUERY}=/opt/\0", "must be absolute", ""),
    ],
)
def test_what_is_no_patch_is_refused_with_a_remedy(text: str, says: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_patch(text)
    assert caught.value.message.startswith("--patch")
    assert says in caught.value.message
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("module", "prefix", "holds"),
    [
        ("my_kernels", "my_kernels", True),
        ("my_kernels.attn", "my_kernels", True),
        ("my_kernels2", "my_kernels", False),
        ("my_kernels2.attn", "my_kernels", False),
        ("other.my_kernels", "my_kernels", False),
        ("my_kernels", "my_kernels.attn", False),
    ],
)
def test_modules_match_by_whole_names(module: str, prefix: str, holds: bool) -> None:
    assert is_within(module, prefix) is holds


@pytest.mark.parametrize(
    ("path", "prefix", "holds"),
    [
        ("/opt/kernels/attn.py", "/opt/kernels", True),
        ("/opt/kernels/attn.py", "/opt/kernels/", True),
        ("/opt//kernels/./attn.py", "/opt/kernels", True),
        ("/opt/kernels/attn.py", "/opt/kernels/attn.py", True),
        ("/opt/kernels/attn.py", "/", True),
        ("/opt/kernels2/attn.py", "/opt/kernels", False),
        ("/opt/kernels/attn.pyc", "/opt/kernels/attn.py", False),
        ("/srv/opt/kernels/attn.py", "/opt/kernels", False),
    ],
)
def test_paths_match_by_whole_names(path: str, prefix: str, holds: bool) -> None:
    assert is_below(path, prefix) is holds


def test_a_relative_path_needs_the_working_directory() -> None:
    assert normal("hooks/a.py", "/opt") == "/opt/hooks/a.py"
    assert normal("hooks/a.py", None) is None


@pytest.mark.parametrize(
    ("source", "exact", "file", "cwd", "holds"),
    [
        ("/opt/h/sitecustomize.py", True, "/opt/h/sitecustomize.py", None, True),
        ("/opt//h/sitecustomize.py", True, "/opt/h/sitecustomize.py", None, True),
        ("/opt/h", True, "/opt/h/sitecustomize.py", None, False),
        ("/opt/h", False, "/opt/h/sitecustomize.py", None, True),
        ("/opt/h", False, "/opt/h2/sitecustomize.py", None, False),
        ("/opt/h", False, "h/sitecustomize.py", "/opt", True),
        ("/opt/h", False, "h/sitecustomize.py", None, None),
    ],
)
def test_a_hook_is_one_file_or_any_below_a_folder(
    source: str, exact: bool, file: str, cwd: str | None, holds: bool | None
) -> None:
    assert accepts_hook(HookExpectation("sitecustomize", source, exact), file, cwd) is holds
