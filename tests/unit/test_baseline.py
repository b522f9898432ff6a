"""What a baseline takes from a scan, what it leaves out, and that its TOML means what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envprobe import baseline, configfile
from envprobe.baseline import Baseline
from envprobe.checks.registry import slug_of
from envprobe.config import Rule
from envprobe.errors import UndeterminedError, UsageError
from envprobe.model import View
from envprobe.process import roletable
from envprobe.pythonfacts import Answer, AnswerState, Inside, ModuleFact, PythonState
from tests.unit.checks.scene import Scene, refused, sglang, worker

TOKEN = "hf_aBcDeFgHiJkLmNoPqRsT"


def built(scene: Scene, *queries: str) -> Baseline:
    return baseline.build(scene.context(), queries)


def test_what_all_workers_share_is_expected_and_the_rest_has_a_reason() -> None:
    server = {
        "NCCL_ALGO": "Ring",
        "NCCL_EMPTY": "",
        "HF_TOKEN": TOKEN,
        "SGLANG_RUN_ID": "one",
        "MASTER_PORT": "1",
        "NCCL_RAW": b"\xff",
        "NCCL_LONG": "x" * 5000,
    }
    scene = worker(sglang(2, server=server), 111, {**server, "NCCL_PROTO": "Simple"})
    made = built(scene)
    assert made.environment.items() >= {"NCCL_ALGO": "Ring", "NCCL_EMPTY": ""}.items()
    assert made.left_out == {
        "HF_TOKEN": "looks like a credential",
        "SGLANG_RUN_ID": "each start has its own",
        "MASTER_PORT": "each start has its own",
        "NCCL_RAW": "is no UTF-8",
        "NCCL_LONG": "is longer than 4096 bytes",
        "NCCL_PROTO": "differs between workers",
    }
    assert made.workers == {"scheduler": 2}
    assert not set(made.environment) & set(made.left_out)
    assert TOKEN not in baseline.dumps(made)


def test_the_variable_of_a_rank_is_kept_only_where_ranks_share_it() -> None:
    server = {"CUDA_VISIBLE_DEVICES": "0"}
    assert built(sglang(2, server=server)).environment == server
    assert built(sglang(1, server=server)).left_out == {
        "CUDA_VISIBLE_DEVICES": "each rank may have its own"
    }


def test_what_was_not_read_is_no_baseline() -> None:
    scene = sglang(2, server={"NCCL_ALGO": "Ring"})
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    with pytest.raises(UndeterminedError, match="NCCL_ALGO could not be read in 1 of 2 workers"):
        built(scene.change(111, environments=environments))
    with pytest.raises(UndeterminedError, match="0 workers"):
        built(Scene().add(100))


def hooked(*files: str | None) -> Scene:
    """Return a server whose workers have loaded a hook from these files."""
    scene = sglang(len(files))
    for number, file in enumerate(files):
        state = AnswerState.NOT_IMPORTED if file is None else AnswerState.VALUE
        module = None if file is None else ModuleFact("sitecustomize", "module", file=file)
        answer = Answer("sitecustomize", state, found_module=module)
        scene.change(110 + number, inside=Inside(PythonState.READ, hooks=(answer,)))
    return scene


def test_a_hook_is_expected_if_all_workers_have_the_same() -> None:
    file = "/opt/hooks/sitecustomize.py"
    assert built(hooked(file, file), "sitecustomize").hooks == {"sitecustomize": file}
    assert built(hooked(file, file)).hooks == {}
    relative = built(hooked("hooks/s.py", "/srv/hooks/s.py"), "sitecustomize")
    assert relative.hooks == {"sitecustomize": "/srv/hooks/s.py"}
    for files in ((file, "/other/sitecustomize.py"), (None, None), (file, None)):
        with pytest.raises(UsageError, match="no baseline can be made of it"):
            built(hooked(*files), "sitecustomize")
    with pytest.raises(UndeterminedError, match="sitecustomize could not be read"):
        built(sglang(2), "sitecustomize")


NAMES = st.from_regex(r"[A-Za-z_\"'#\\.-][A-Za-z0-9_\"'#\\.-]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)


@given(st.dictionaries(NAMES, TEXTS, max_size=5), st.dictionaries(NAMES, TEXTS, max_size=3))
def test_the_file_expects_exactly_what_was_taken(
    environment: dict[str, str], left_out: dict[str, str]
) -> None:
    made = Baseline("h\n[expect]", 1, environment, dict.fromkeys(left_out, "x"), {}, {}, {})
    text = baseline.dumps(made)
    config = configfile.parse("x.toml", text.encode(), slug_of, roletable.role_names())
    assert {one.name: one.values[0].reveal().decode() for one in config.expectations} == environment
    assert {one.rule for one in config.expectations} <= {Rule.EXACT}
