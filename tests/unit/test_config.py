from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from envprobe import configfile
from envprobe.config import (
    Config,
    Expectation,
    HookExpectation,
    KernelExpectation,
    PatchExpectation,
    Rule,
    combine,
    did_you_mean,
)
from envprobe.errors import UsageError
from envprobe.expectations import parse
from envprobe.patchexpect import parse_patch
from tests.programs.requirement import missing

ROLES = ("scheduler", "detokenizer", "worker")
SLUGS = {"EP003": "env-missing", "EP001": "no-workers"}


def check_slug(given: str) -> str:
    if given in SLUGS.values():
        return given
    if given in SLUGS:
        return SLUGS[given]
    raise UsageError(f"there is no check {given!r}", "Did you mean 'env-missing'?")


def load(path: Path, **keywords: object) -> Config:
    return configfile.load(path, check_slug, ROLES, **keywords)  # type: ignore[arg-type]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "envprobe.toml"
    path.write_text(text, "utf-8")
    path.chmod(0o600)
    return path


FULL = """
[expect.env]
NCCL_ALGO = "Ring"
NCCL_DEBUG = ""
NCCL_PROTO = {one-of = ["LL", "Simple"]}
PYTHONPATH = {contains = "/opt/hooks"}
LD_LIBRARY_PATH = {contains = ["/a", "/b"]}
NCCL_BUFFSIZE = {set = true}
NCCL_P2P_DISABLE = {absent = true}
CUDA_DEVICE_MAX_CONNECTIONS = {same = true}

[expect.env-by-role.detokenizer]
OMP_NUM_THREADS = "1"

[expect.workers]
scheduler = 8

[expect.kernel]
arch = "sm_120"
installed = true

[ignore]
EP003 = "known, ticket 12"

[allow-unknown]
no-workers = "  container client  "
"""


def test_a_full_file(tmp_path: Path) -> None:
    config = load(written(tmp_path, FULL))
    stated = {
        (one.role, one.name, one.rule, tuple(value.reveal() for value in one.values))
        for one in config.expectations
    }
    assert stated == {
        ("", "NCCL_ALGO", Rule.EXACT, (b"Ring",)),
        ("", "NCCL_DEBUG", Rule.EXACT, (b"",)),
        ("", "NCCL_PROTO", Rule.ONE_OF, (b"LL", b"Simple")),
        ("", "PYTHONPATH", Rule.CONTAINS, (b"/opt/hooks",)),
        ("", "LD_LIBRARY_PATH", Rule.CONTAINS, (b"/a",)),
        ("", "LD_LIBRARY_PATH", Rule.CONTAINS, (b"/b",)),
        ("", "NCCL_BUFFSIZE", Rule.SET, ()),
        ("", "NCCL_P2P_DISABLE", Rule.ABSENT, ()),
        ("", "CUDA_DEVICE_MAX_CONNECTIONS", Rule.SAME, ()),
        ("detokenizer", "OMP_NUM_THREADS", Rule.EXACT, (b"1",)),
    }
    assert config.expectations[0].origin == "envprobe.toml [expect.env] NCCL_ALGO"
    assert config.workers == {"scheduler": 8}
    origin = "envprobe.toml [expect.kernel]"
    assert config.kernel == KernelExpectation("sm_120", installed=True, origin=origin)
    assert config.expects
    assert config.ignore == {"env-missing": "known, ticket 12"}
    assert config.allow_unknown == {"no-workers": "container client"}


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("[expct.env]\nA='topsecret'", "has no key 'expct'", "'expect'"),
        ("[expect.envs]\nA='topsecret'", "[expect] has no key 'envs'", "'env'"),
        ("[expect]\nenv = 3", "[expect.env] must be a table", "[expect.env]"),
        ("expect = 'topsecret'", "[expect] must be a table", ""),
        ("[expect.env]\nA = 1", "[expect.env.A] must be a string", "NAME"),
        ("[expect.env]\nA = ['topsecret']", "[expect.env.A] must be a string", "NAME"),
        ("[expect.env]\nA = {contain='topsecret'}", "no key 'contain'", "'contains'"),
        ("[expect.env]\nA = {set=true, contains='topsecret'}", "exactly one rule", ""),
        ("[expect.env]\nA = {}", "exactly one rule", ""),
        ("[expect.nccl]\nOMP_NUM_THREADS = '1'", "is no variable of NCCL", "[expect.env]"),
        ("[expect.nccl]\nNCCL_ALGO = {same=true}", "cannot be {same = true}", "[expect.env]"),
        ("[expect]\nlib = 'topsecret'", "[expect.lib] must be a list of patterns", "lib = ["),
        ("[expect]\nlib = ['']", "[expect.lib] must be a list of patterns", "lib = ["),
        ("[expect.env]\nA = {set=false}", "set can only be true", "absent"),
        ("[expect.env]\nA = {one-of='topsecret'}", "one-of needs strings", ""),
        ("[expect.env]\nA = {one-of=[]}", "one-of needs strings", ""),
        ("[expect.env]\nA = {one-of=['topsecret', 1]}", "one-of needs strings", ""),
        ("[expect.env]\nPYTHONPATH = {contains='/topsecret:/b'}", "itself a list", ""),
        ("[expect]\npatch = 3", "[expect.patch] must be a table", "[expect.patch]"),
        ("[expect.patch]\n'a:f' = 3", "[expect.patch.a:f] must be a string or a table", "from ="),
        ("[expect.patch]\n'a:f' = {}", "[expect.patch.a:f] needs from, as a string", "from ="),
        ("[expect.patch]\n'a:f' = {from=3}", "needs from, as a string", "from ="),
        ("[expect.patch]\n'a:f' = {from='x', role=3}", "needs from, as a string", ""),
        ("[expect.patch]\n'a:f' = {file='topsecret'}", "no key 'file'", "from"),
        ("[expect.patch]\n'a:f' = {from='topsecret:f'}", "neither a module nor a path", ""),
        ("[expect.patch]\n'a:f' = 'topsecret/f.py'", "a path must be absolute", ""),
        ("[expect.patch]\n'a:f' = ''", "[expect.patch.a:f]: it is not said where", ""),
        (
            "[expect.patch]\n'a:f' = {from='x', role='schedulr'}",
            "[expect.patch.a:f] there is no role 'schedulr'",
            "'scheduler'",
        ),
        ("[expect]\nsitecustomize = 'topsecret'", "[expect.sitecustomize] must be a table", ""),
        ("[expect.sitecustomize]\n", "needs file or from", "/opt/hooks"),
        ("[expect.sitecustomize]\nfile='/topsecret'\nfrom='/b'", "needs file or from", ""),
        ("[expect.sitecustomize]\nfrom='topsecret'", "a path must be absolute", ""),
        ("[expect.usercustomize]\nfil='/topsecret'", "no key 'fil'", "'file'"),
        ("[expect.sitecustomise]\nfile='/topsecret'", "no key 'sitecustomise'", "sitecustomize"),
        ('[expect.env]\nA = "topsecret\\u0000"', "NUL", ""),
        ('[expect.env]\n"A B" = "topsecret"', "'A'", ""),
        ("[expect.env]\nA.B = 'topsecret'", "no key 'B'", ""),
        ("[expect.env]\nA = 'topsecret'\nA = 'topsecret'", "no valid TOML", "Mend"),
        ("[expect.env]\nA = topsecret", "line 2", "Mend"),
        ("[expect.env]\nA = " + "9" * 5000, "too long", "quotes"),
        ("x = " + "[" * 5000, "no valid TOML", ""),
        (
            "[expect.env]\nLD_PRELOAD={contains=['topsecret.so']}\n[expect.env-by-role]\nx=1",
            "[expect.env-by-role.x] must be a table",
            "",
        ),
        ("[expect.env-by-role.schedulr]\nA='topsecret'", "no role 'schedulr'", "'scheduler'"),
        ("[expect.workers]\nschedulr = 1", "no role 'schedulr'", "'scheduler'"),
        ("[expect.workers]\nscheduler = true", "[expect.workers.scheduler] must be", "= 8"),
        ("[expect.workers]\nscheduler = 0", "[expect.workers.scheduler] must be", "= 8"),
        ("[expect.workers]\nscheduler = 1.5", "[expect.workers.scheduler] must be", "= 8"),
        ("[expect]\nkernel = 'topsecret'", "[expect.kernel] must be a table", ""),
        ("[expect.kernel]", "[expect.kernel] needs arch, or installed = true", "sm_120"),
        ("[expect.kernel]\ninstalled=false", "needs arch, or installed = true", "sm_120"),
        ("[expect.kernel]\ninstalled='topsecret'", "needs arch, or installed = true", "sm_120"),
        ("[expect.kernel]\narch='topsecret'", "names no architecture of a GPU", "sm_120"),
        ("[expect.kernel]\narch=120", "names no architecture of a GPU", "sm_120"),
        ("[expect.kernel]\narhc='sm_120'", "no key 'arhc'", "'arch'"),
        ("[ignore]\nenv-mising = 'x'", "[ignore] there is no check 'env-mising'", "env-missing"),
        ("[ignore]\nEP003 = {until=2027-01-31}", "[ignore.EP003] needs reason", "until"),
        ("[ignore]\nEP003={reason='',until=2027-01-31}", "[ignore.EP003] needs a reason", "why"),
        ("[ignore]\nEP003={reason='x',until='soon'}", "until must be a day", "2027-01-31"),
        ("[ignore]\nEP003={reason='x',until=2027-01-31T10:00:00}", "until must be a day", "until"),
        ("[ignore]\nEP003={reason='x',till=2027-01-31}", "needs reason, and takes until", "until"),
        ("[ignore]\nenv-missing = ''", "[ignore.env-missing] needs a reason", "why"),
        ("[ignore]\nenv-missing = 3", "[ignore.env-missing] needs a reason", "why"),
        ("[ignore]\nenv-missing='x'\nEP003='y'", "env-missing twice", "Keep one"),
        ("[allow-unknown]\nEP003={until=2027-01-31}", "[allow-unknown.EP003] needs", "until"),
        ("[allow-unknown]\nEP9 = 'x'", "[allow-unknown] there is no check", "env-missing"),
    ],
)
def test_a_wrong_file_names_file_and_key_and_no_value(
    tmp_path: Path, text: str, says: str, remedy: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert says in caught.value.message
    assert remedy in caught.value.remedy
    assert "topsecret" not in caught.value.message + caught.value.remedy


def test_a_file_that_is_no_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "envprobe.toml"
    path.write_bytes(b"[expect.env]\nA = '\xff'\n")
    with pytest.raises(UsageError, match="line 2 is no UTF-8"):
        load(path)


def test_without_a_path_only_the_current_directory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    written(tmp_path, "[expect.env]\nA = 'b'")
    monkeypatch.chdir(below)
    assert configfile.load(None, check_slug, ROLES) == Config()
    monkeypatch.chdir(tmp_path)
    (one,) = configfile.load(None, check_slug, ROLES).expectations
    assert one.name == "A"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load(tmp_path / "none.toml")


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="Too many levels"):
        load(loop)
    with pytest.raises(UsageError, match="Invalid argument"):
        load(Path("a\0b"))


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path):
        with pytest.raises(UsageError, match="no regular file"):
            load(path)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "# " + "x" * configfile.MAX_BYTES)
    with pytest.raises(UsageError, match="longer than"):
        load(path)


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        missing("root", "only root may change the owner of a file")


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize(
    ("owner", "group", "mode", "sudo", "says"),
    [
        (0, 0, 0o600, {}, ""),
        (1234, 1234, 0o600, {}, "belongs to another user"),
        (1234, 1234, 0o600, {"SUDO_UID": "1234"}, ""),
        (1235, 1234, 0o600, {"SUDO_UID": "1234"}, "belongs to another user"),
        (1234, 1234, 0o600, {"SUDO_UID": "1234x"}, "belongs to another user"),
        (0, 0, 0o666, {}, "can be written"),
        (0, 0, 0o664, {}, ""),
        (0, 1234, 0o664, {}, "can be written"),
        (1234, 1234, 0o664, {"SUDO_UID": "1234", "SUDO_GID": "1234"}, ""),
        (1234, 1235, 0o664, {"SUDO_UID": "1234", "SUDO_GID": "1234"}, "can be written"),
    ],
)
def test_root_takes_no_file_that_others_could_have_written(
    tmp_path: Path, owner: int, group: int, mode: int, sudo: dict[str, str], says: str
) -> None:
    path = written(tmp_path, "[expect.env]\nA = 'topsecret'")
    os.chown(path, owner, group)
    path.chmod(mode)
    if not says:
        (one,) = load(path, environ=sudo).expectations
        assert one.name == "A"
        return
    with pytest.raises(UsageError, match=says) as caught:
        load(path, environ=sudo)
    assert "topsecret" not in caught.value.message + caught.value.remedy


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
def test_root_follows_no_link_that_another_user_planted(tmp_path: Path) -> None:
    path = written(tmp_path, "[expect.env]\nA = 'b'")
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    assert load(link, environ={}).expectations
    os.lchown(link, 1234, 1234)
    with pytest.raises(UsageError, match="belongs to another user"):
        load(link, environ={})


def test_the_command_line_replaces_the_file_for_the_same_variable() -> None:
    file = Config(
        expectations=(parse("A=1"), parse("B=1"), Expectation("A", Rule.SET, role="detokenizer")),
        workers={"scheduler": 8},
        allow_unknown={"no-workers": "because"},
    )
    joined = combine(
        file,
        expectations=[parse("A=2")],
        workers={"scheduler": 2, "": 3},
        allow_unknown=["env-unknown"],
        strict=True,
    )
    assert joined.expectations == (
        parse("B=1"),
        Expectation("A", Rule.SET, role="detokenizer"),
        parse("A=2"),
    )
    assert joined.workers == {"scheduler": 2, "": 3}
    assert joined.allow_unknown == {"no-workers": "because", "env-unknown": "--allow-unknown"}
    assert joined.strict
    assert not combine(file).strict


@pytest.mark.parametrize(
    ("one", "two"), [("A=topsecret", "A=y"), ("!A", "A"), ("!A", "A=topsecret"), ("!A", "A~=x")]
)
def test_expectations_that_cannot_both_hold_are_refused(one: str, two: str) -> None:
    for pair in ((one, two), (two, one)):
        with pytest.raises(UsageError, match="A is expected in two ways") as caught:
            combine(Config(), expectations=map(parse, pair))
        assert "topsecret" not in caught.value.message


@pytest.mark.parametrize(("one", "two"), [("A=x", "A=x"), ("A=x", "A"), ("P~=a", "P~=b")])
def test_expectations_that_can_both_hold_are_kept(one: str, two: str) -> None:
    joined = combine(Config(), expectations=[parse(one), parse(two)])
    assert joined.expectations == (parse(one), parse(two))


INSIDE = """
[expect.patch]
"pkg.mod:Class.attr" = "my_kernels"
"pkg.mod:f" = {from = "/opt/kernels", role = "scheduler"}

[expect.sitecustomize]
file = "/opt/hooks/sitecustomize.py"

[expect.usercustomize]
from = "/opt/hooks"
role = "detokenizer"
"""


def test_what_is_expected_inside_the_interpreter(tmp_path: Path) -> None:
    config = load(written(tmp_path, INSIDE))
    place = "envprobe.toml [expect."
    assert config.inside == (
        PatchExpectation(
            "pkg.mod:Class.attr", "my_kernels", "", f"{place}patch] pkg.mod:Class.attr"
        ),
        PatchExpectation("pkg.mod:f", "/opt/kernels", "scheduler", f"{place}patch] pkg.mod:f"),
        HookExpectation(
            "sitecustomize", "/opt/hooks/sitecustomize.py", True, "", f"{place}sitecustomize]"
        ),
        HookExpectation(
            "usercustomize", "/opt/hooks", False, "detokenizer", f"{place}usercustomize]"
        ),
    )


def test_a_patch_of_the_command_line_replaces_that_of_the_file_for_the_same_role() -> None:
    file = Config(
        patches=(PatchExpectation("a:f", "x"), PatchExpectation("a:f", "y", "detokenizer"))
    )
    joined = combine(file, patches=[parse_patch("a:f=z"), parse_patch("b:f=z")])
    assert [(one.query, one.source, one.role) for one in joined.patches] == [
        ("a:f", "y", "detokenizer"),
        ("a:f", "z", ""),
        ("b:f", "z", ""),
    ]


def test_one_attribute_cannot_come_from_two_places() -> None:
    twice = [parse_patch("a:f=x"), parse_patch("a:f=x")]
    assert combine(Config(), patches=twice).patches == (PatchExpectation("a:f", "x"),)
    with pytest.raises(UsageError, match="a:f is expected from two places") as caught:
        combine(Config(), patches=[parse_patch("a:f=x"), parse_patch("a:f=y")])
    assert caught.value.remedy


def test_the_nearest_word_is_suggested_else_all() -> None:
    assert did_you_mean("schedulr", ROLES) == "Did you mean 'scheduler'?"
    assert did_you_mean("zzz", ROLES) == "Known: detokenizer, scheduler, worker."
    assert did_you_mean("zzz", ()) == ""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is there from 3.11 on")
def test_the_parser_of_the_standard_library_is_used(tmp_path: Path) -> None:
    sys.modules.pop("tomli", None)
    load(written(tmp_path, FULL))
    assert "tomli" not in sys.modules


def test_what_nccl_and_the_loader_are_expected_to_have(tmp_path: Path) -> None:
    path = written(
        tmp_path, '[expect]\nlib = ["*/k.so", "*/k.so"]\n[expect.nccl]\nNCCL_ALGO = "Ring"\n'
    )
    config = load(path)
    (stated,) = config.nccl
    assert (stated.name, stated.rule, stated.origin) == (
        "NCCL_ALGO",
        Rule.EXACT,
        "envprobe.toml [expect.nccl] NCCL_ALGO",
    )
    assert config.expectations == ()
    joined = combine(config, libraries=["libx.so"])
    assert [one.pattern for one in joined.libraries] == ["*/k.so", "libx.so"]
    assert joined.libraries[1].origin == "--expect-lib"
