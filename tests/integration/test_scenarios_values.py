"""What stands in a value does no harm, is not lost, and is not told if it is a secret."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import cli
from tests.programs.actions import Action, c_setenv, py_set
from tests.programs.cli import Run
from tests.programs.trees import TitledTree

HOSTILE = {
    "NCCL_NEWLINES": "a\nb\r\n::error::gone\n\n- fake finding\n",
    "NCCL_ESCAPES": "\x1b[2J\x1b]0;owned\x07\x1b[31mred\x1b]8;;http://x\x07link",
    "NCCL_MARKUP": "[bold red]alarm[/] [link=http://x]y[/link] \\[x]",
    "NCCL_COMMAND": "::error file=a,line=1::b%0A::set-output name=x::y",
    "NCCL_NO_UTF8": os.fsdecode(b"\xff\xfe\x80abc\xc3"),
    "NCCL_BIDI": "\u202eexe.txt\u2066 \u200b\u00ad\u05d0\ufeff",
    "NCCL_C1": "\x9b31m\x85\x90q\x9c",
    "NCCL_XML": "]]><script>alert(1)</script>&amp;",
    "NCCL_EQUALS": "=a=b=",
    "NCCL_EMPTY": "",
    "NCCL_FAKE_MASK": "<masked, 12 bytes>",
    "NCCL_HUGE": "v" * 131_000,
    "NCCL_\x1b[31mNAME": "red",
    "NCCL_NEW\nLINE": "1",
    "NCCL_\u0410LGO": "cyrillic",
    os.fsdecode(b"NCCL_\xff"): "no UTF-8",
}
REORDERING = {"R", "AL", "AN", "LRE", "RLE", "LRO", "RLO", "LRI", "RLI", "FSI", "PDF", "PDI"}
SETTING = "not the value"


@pytest.fixture(scope="module")
def hostile() -> Iterator[TitledTree]:
    changes = [c_setenv(name, value + "!") for name, value in HOSTILE.items() if len(value) < 1000]
    actions: dict[int | str, Action] = {1: Action(after_title=changes)}
    with TitledTree(workers=2, env=HOSTILE, actions=actions) as tree:
        yield tree


def harmless(text: str) -> None:
    """Fail if anything but plain printable lines is in a report."""
    for line in text.split("\n"):
        assert not line.lstrip().startswith("::"), line
        for character in line:
            assert character.isprintable(), (line, hex(ord(character)))
            assert unicodedata.bidirectional(character) not in REORDERING, line
            assert not 0xD800 <= ord(character) <= 0xDFFF, line
        assert len(line) <= 200, line[:300]


def expectations() -> list[str]:
    """Expect something else of all that `--expect` can name, so that every value is told."""
    plain = [name for name in HOSTILE if name.isidentifier()]
    return [f"--expect={name}={SETTING}" for name in plain]


def test_no_value_harms_a_text_report(hostile: TitledTree) -> None:
    run = cli.judge("--pid", str(hostile.root), "--format=text", *expectations())
    assert run.code == 1
    harmless(run.stdout)
    harmless(run.stderr)
    assert run.stdout.count("env-wrong-value") >= len(expectations())
    for shown in (
        "\\x1b[2J",
        "[bold red]alarm[/]",
        "\\n::error::gone\\n",
        "\\xff\\xfe\\x80abc\\xc3",
        "\\u202eexe.txt",
        "131000 bytes",
    ):
        assert shown in run.stdout


def test_every_byte_survives_in_json(hostile: TitledTree) -> None:
    run = cli.workers("--pid", str(hostile.root), *expectations())
    assert run.stdout.isascii()
    assert run.code == 1
    names = [name for name in HOSTILE if name.isidentifier() and name.isascii()]
    for pid in hostile.workers():
        assert {name: run.text(pid, name) for name in names} == {
            name: hostile.truth[pid][name] for name in names
        }
    wrong = {one["variable"] for one in run.findings("env-wrong-value")}
    assert wrong >= set(names)
    for one in run.findings():
        for words in (one["message"], one["remedy"], *one["evidence"]):
            harmless_words(words)
    # Names that cannot be shown as they are come with their bytes.
    odd = [one for one in run.scan["variables"] if "name_base64" in one]
    assert len(odd) == len(HOSTILE) - len(names)


def harmless_words(words: str) -> None:
    assert "\n" not in words
    assert all(character.isprintable() for character in words), words


def test_a_huge_value_is_compared_as_a_whole(hostile: TitledTree) -> None:
    whole = "NCCL_HUGE=" + "v" * 131_000
    right = cli.judge("--pid", str(hostile.root), f"--expect={whole}")
    wrong = cli.judge("--pid", str(hostile.root), f"--expect={whole[:-1]}w")
    assert (right.code, right.findings("env-wrong-value")) == (0, [])
    assert (wrong.code, wrong.pids("env-wrong-value")) == (1, set(hostile.workers()))


def test_twenty_thousand_variables() -> None:
    env = {f"BULK_{number:05}": str(number) for number in range(20_000)}
    actions: dict[int | str, Action] = {0: Action(after_title=[c_setenv("BULK_19999", "changed")])}
    with TitledTree(workers=1, env=env, actions=actions, detokenizer=False) as tree:
        pid = tree.worker(0)
        run = cli.judge("--pid", str(tree.root), "--expect=BULK_19999=19999", "--var=BULK_1999*")
        assert (run.code, run.pids("env-wrong-value", "BULK_19999")) == (1, {pid})
        libc = run.process(pid)["environments"]["libc"]
        assert (libc["status"], libc["variables"]) == ("complete", len(env) + 2)
        for name in (f"BULK_1999{digit}" for digit in range(10)):
            assert run.text(pid, name) == tree.truth[pid][name]
        (found,) = run.arriving(pid, "BULK_19999")
        assert found.change == "changed"
        assert "changed-in-worker" in found.causes


# --- secrets -------------------------------------------------------------------------------------

SECRETS = {
    "SGLANG_API_KEY": "tellnobody-first-1",
    "NCCL_PASSWORD": "tellnobody-second",
    "HF_TOKEN": "hf_tellnobodyTELLNOBODY1234567890abcd",
    "HTTPS_PROXY": "http://user:tellnobody@proxy:3128/",
}
OTHER = {name: value.replace("tellnobody", "whispered!") for name, value in SECRETS.items()}


@pytest.fixture(scope="module")
def secretive() -> Iterator[TitledTree]:
    changes = [py_set(name, value) for name, value in OTHER.items()]
    actions: dict[int | str, Action] = {1: Action(after_title=changes)}
    with TitledTree(workers=2, env=SECRETS, actions=actions) as tree:
        yield tree


def tells_nothing(text: str) -> None:
    for word in ("tellnobody", "TELLNOBODY", "whispered"):
        assert word not in text


def secretly(tree: TitledTree, *arguments: str) -> Run:
    expect = [f"--expect={name}={value}" for name, value in SECRETS.items()]
    return cli.judge("--pid", str(tree.root), *expect, *arguments)


@pytest.mark.parametrize("arguments", [(), ("--show-all",)], ids=["default", "show-all"])
def test_a_secret_stays_masked_everywhere(
    secretive: TitledTree, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    files = {kind: tmp_path / kind for kind in ("text", "json", "facts")}
    run = secretly(
        secretive,
        f"--output=text={files['text']}",
        f"--output=json={files['json']}",
        f"--save-facts={files['facts']}",
        *arguments,
    )
    # Values of equal length have equal masks, and are yet told apart.
    assert run.code == 1
    pid = secretive.worker(1)
    assert {(one["variable"], *one["pids"]) for one in run.findings("env-wrong-value")} == {
        (name, pid) for name in SECRETS
    }
    for name, value in SECRETS.items():
        reading = run.reading(secretive.worker(0), name)
        assert reading["value"] == {"masked": len(value)}
    text = secretly(secretive, "--format=text", *arguments)
    assert "<masked, " in text.stdout
    for output in (run.stdout, run.stderr, text.stdout, text.stderr):
        tells_nothing(output)
    for path in files.values():
        assert path.stat().st_size
        tells_nothing(path.read_text())


def test_without_a_mask_the_secret_is_told(secretive: TitledTree) -> None:
    """What the test above looks for is there to be found."""
    for kind in ("json", "text"):
        run = secretly(secretive, "--unmask", f"--format={kind}")
        assert "tellnobody-first-1" in run.stdout
        assert "whispered!-second" in run.stdout
