"""What counts as a credential, and that nothing printed can harm a terminal or a log."""

from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe import credentials, redact
from envprobe.model import Sentence, Shown
from envprobe.values import Value

PEM = b"-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----"
JWT = b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlLWhlcmU"

SECRETS = [
    ("HF_TOKEN", b"anything"),
    ("HUGGING_FACE_HUB_TOKEN", b"x"),
    ("OPENAI_API_KEY", b"x"),
    ("openaiApiKey", b"x"),
    ("MYAPIKEY", b"x"),
    ("AWS_SECRET_ACCESS_KEY", b"x"),
    ("SSH_PRIVATE_KEY", b"x"),
    ("DB_PASSWORD", b"123456"),
    ("DB_PASS", b"x"),
    ("DB_PWD", b"x"),
    ("RAY_AUTH_TOKEN", b"x"),
    ("VLLM_API_KEY", b"x"),
    ("GITHUBTOKEN", b"x"),
    ("SENTRY_DSN", b"x"),
    ("SESSION_COOKIE", b"x"),
    ("GOOGLE_APPLICATION_CREDENTIALS", b"/secret.json"),
    ("PROXY", b"http://user:word@proxy:3128"),
    ("PIP_INDEX_URL", b"https://sometoken@index.example/simple"),
    ("EXTRA", b"sk-proj-abcdefghij0123456789"),
    ("EXTRA", b"prefix ghp_abcdefghij0123456789abcdefghij012345"),
    ("EXTRA", b"hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"),
    ("EXTRA", b"AKIAIOSFODNN7EXAMPLE"),
    ("EXTRA", PEM),
    ("EXTRA", JWT),
    ("EXTRA", b"Authorization: Bearer abcdefghijkl"),
    ("EXTRA", b"Server=db;Password=x1;Encrypt=true"),
    ("EXTRA", b"https://host/path?api_key=abcdef"),
    ("EXTRA", b"c5f1d8a07be94e7d8a2a5b1e4f60c3d2"),
    ("EXTRA", b"uJ7xK2mQ9vR4tY8wB3nC6zD1fG5hL0pS"),
    ("EXTRA", b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE"),
    ("SGLANG_EXTRA_ARGS", b"--port 1 --api-key abcdef"),
    ("NCCL_SOMETHING", b"sk-proj-abcdefghij0123456789"),
    ("SGLANG_MODEL_URL", b"https://u:p@host/model"),
    ("SSHPASS", b"x"),
    ("USERPASS", b"x"),
    ("MYPASS", b"x"),
    ("GH_PAT", b"x"),
    ("LDAP_BIND_PW", b"x"),
    ("ADMIN_PW", b"x"),
    ("PRIVKEY", b"x"),
    ("CERT_PEM", b"x"),
    ("NETRC", b"x"),
    ("S3_SIG", b"x"),
    ("SERVICE_ACCOUNT_JSON", b"{}"),
    ("SALT", b"x"),
    ("VLLM_MYCREDS", b"x"),
    ("DB_CRED", b"x"),
    ("NCCL_LICENSE", b"x"),
    ("EXTRA", b"u:pw@host:3128"),
    ("HTTPS_PROXY", b"someone:p:w@[2001:db8::1]:3128"),
    ("EXTRA", b"--proxy me:pw@host"),
    ("EXTRA", b"curl -u me:pw x"),
    ("EXTRA", b"curl -ume:pw x"),
    ("EXTRA", b"curl --user=me:pw x"),
    ("EXTRA", b"sshpass -p pw ssh host"),
]

ORDINARY = [
    ("PYTHONHASHSEED", b"0"),
    ("TOKENIZERS_PARALLELISM", b"false"),
    ("NCCL_ALGO", b"Ring"),
    ("NCCL_SOCKET_IFNAME", b"^docker0,lo"),
    ("NCCL_COMM_ID", b"10.0.0.1:5000"),
    ("NCCL_TOPO_FILE", b"/opt/topologies/H200x8NVSwitchTopology4Rails.xml"),
    ("NCCL_HOSTID", b"c5f1d8a07be94e7d8a2a5b1e4f60c3d2"),
    ("CUDA_VISIBLE_DEVICES", b"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-1"),
    ("PYTORCH_CUDA_ALLOC_CONF", b"expandable_segments:True,max_split_size_mb:512"),
    ("PYTHONPATH", b"/opt/Hooks2Use/ABC123def456GHI789jkl012:/srv/lib/python3.11"),
    ("LD_LIBRARY_PATH", b"/usr/local/cuda-12.8/lib64:/usr/lib/x86_64-linux-gnu"),
    ("TRITON_CACHE_DIR", b"/root/.triton/uJ7xK2mQ9vR4tY8wB3nC6zD1fG5hL0pS"),
    ("TORCHELASTIC_RUN_ID", b"c5f1d8a07be94e7d8a2a5b1e4f60c3d2"),
    ("SGLANG_INIT_NEW_TOKEN_RATIO", b"0.7"),
    ("SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION", b"4096"),
    ("VLLM_USE_TOKEN_CACHE", b"true"),
    ("SGLANG_EXTRA_ARGS", b"--max-new-token=512 token: 5"),
    ("HF_HOME", b"/data/hf_home"),
    ("HF_HUB_OFFLINE", b"1"),
    ("RAY_ADDRESS", b"10.0.0.1:6379"),
    ("MASTER_ADDR", b"node-0"),
    ("PWD", b"/srv"),
    ("OLDPWD", b"/srv"),
    ("GIT_AUTHOR_NAME", b"somebody"),
    ("EXTRA", b"e0f1d8a0-7be9-4e7d-8a2a-5b1e4f60c3d2"),
    ("EXTRA", b"/usr/local/lib/python3.11/site-packages/some_package/file"),
    ("EXTRA", b"http://proxy.example:3128"),
    ("DB_PASSWORD", b""),
    ("PATH", b"/usr/local/bin:/usr/bin"),
    ("LIBRARY_PATH", b".:/opt/openssl@1.1/lib"),
    ("MODEL_PATH", b"/models/x"),
    ("GPU_PASSTHROUGH", b"enabled"),
    ("PROXY_BYPASS", b"localhost"),
    ("COMPASS", b"north"),
    ("NCCL_PATTERN", b"ring"),
    ("SIGNAL_HANDLING", b"default"),
    ("BASALT_MODE", b"fast"),
    ("TORCHINDUCTOR_FIRST_PASS", b"1"),
    ("SGLANG_SALT", b"7"),
    ("OMP_PLACES", b"{0:4}:8"),
    ("IMAGE", b"vllm/vllm-openai:v0.6@sha256:0a1"),
    ("IMAGE", b"server:v0.6@sha256:0a1"),
    ("EXTRA", b"docker run -u 1000:1000 x"),
    ("EXTRA", b"git@github.com:some/project"),
    ("EXTRA", b"python -u http://host:80/x"),
    ("NCCL_IB_HCA", b"mlx5_0:1,mlx5_1:1"),
]


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_credentials_are_masked_with_their_length_only(name: str, value: bytes) -> None:
    assert credentials.is_secret(name, value)
    assert redact.show(name, Value(value)) == f"<masked, {len(value)} bytes>"


@pytest.mark.parametrize(("name", "value"), ORDINARY)
def test_ordinary_variables_are_shown(name: str, value: bytes) -> None:
    assert not credentials.is_secret(name, value)
    assert "masked" not in redact.show(name, Value(value))


def test_unmask_shows_a_credential() -> None:
    assert redact.show("HF_TOKEN", Value(b"abc"), unmask=True) == "abc"


def test_a_value_cannot_look_like_a_mask_nor_an_absent_mark() -> None:
    assert redact.show("X", Value(b"<masked, 3 bytes>")) == '"<masked, 3 bytes>"'
    assert redact.show("X", Value(b"")) == '""'
    assert redact.show("X", Value(b'say "hi"')) == r'"say \"hi\""'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"a\nb", r'"a\nb"'),
        (b"\x1b[31mred\x07", r'"\x1b[31mred\x07"'),
        (b"\xff\xfe", r'"\xff\xfe"'),
        (b"back\\slash\n", r'"back\\slash\n"'),
        ("\u202eevil".encode(), r'"\u202eevil"'),
        ("z\u0335".encode(), r'"z\u0335"'),
        ("\u05d0\u05d1".encode(), r'"\u05d0\u05d1"'),
        ("\U000e0041".encode(), r'"\U000e0041"'),
        ("caf\u00e9".encode(), '"caf\u00e9"'),
        (b"[bold]x[/bold]", '"[bold]x[/bold]"'),
        (b"::error::x", "::error::x"),
    ],
)
def test_hostile_bytes_become_visible_escapes(value: bytes, shown: str) -> None:
    assert redact.show("X", Value(value)) == shown


def test_long_and_cut_values_say_how_long_they_are() -> None:
    assert redact.show("X", Value(b"a" * 300), limit=5) == '"aaaaa"... (300 bytes)'
    cut = Value(b"abc", length=2_000_000, digest="0")
    assert redact.show("X", cut, limit=None) == '"abc"... (2000000 bytes)'


def test_names_of_other_scripts_and_controls_are_escaped() -> None:
    assert redact.show_name("NCCL_ALGO") == "NCCL_ALGO"
    assert redact.show_name("NCCL_\u0410LGO") == r'"NCCL_\u0410LGO"'
    assert redact.show_name("A\x1b]0;x\x07") == r'"A\x1b]0;x\x07"'
    assert redact.show_name("x" * 500) == '"' + "x" * 120 + '"... (500 characters)'


def test_command_lines_hide_what_follows_a_telling_option() -> None:
    argv = ("python", "-m", "sglang.launch_server", "--api-key", "abc", "--tp", "2")
    assert redact.show_command(argv) == "python -m sglang.launch_server --api-key <masked> --tp 2"
    assert redact.show_command(("x", "--admin-api-key=abc")) == "x --admin-api-key=<masked>"
    assert redact.show_command(("x", "--max-total-tokens", "4096")) == "x --max-total-tokens 4096"
    assert redact.show_command(("x", "u://a:b@c", "\x1b[2J")) == "x <masked> \\x1b[2J"
    assert redact.show_command(("x" * 50,), limit=10) == "xxxxxxx..."


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        ("sshpass -p pw ssh host", "sshpass -p <masked> ssh host"),
        ("/usr/bin/sshpass -ppw ssh", "/usr/bin/sshpass -p<masked> ssh"),
        ("mysql -ppw -P 3306", "mysql -p<masked> -P 3306"),
        ("tool -p pw", "tool -p <masked>"),
        ("curl -u me:pw https://h/", "curl -u <masked> https://h/"),
        ("curl --proxy-user me:pw h", "curl --proxy-user <masked> h"),
        ("curl -ume:pw h", "curl <masked> h"),
        ("x --proxy u:pw@host:3128", "x --proxy <masked>"),
        ("ssh -p 22 host", "ssh -p 22 host"),
        ("docker run -p 8080:80/tcp -u 1000:1000 x", "docker run -p 8080:80/tcp -u 1000:1000 x"),
        ("mkdir -p /srv/x", "mkdir -p /srv/x"),
        ("python -u -m sglang", "python -u -m sglang"),
        ("tool -pages all", "tool -pages all"),
    ],
)
def test_passwords_after_short_options_are_hidden(argv: str, shown: str) -> None:
    assert redact.show_command(argv.split()) == shown
    assert redact.mask_words(argv.split()) == shown.split()


def test_a_covered_value_compares_and_shows_nothing_even_unmasked() -> None:
    covered = redact.Covered(b"part")
    assert covered == Value(b"part")
    assert Value(b"part") == covered
    assert covered != Value(b"Part")
    assert hash(covered) == hash(Value(b"part"))
    assert redact.show("X", covered, unmask=True) == "<masked, 4 bytes>"


def test_sentences_show_values_by_the_rules_of_their_names() -> None:
    sentence = Sentence.of(
        "pid 1\x1b[2J has ",
        Shown("NCCL_ALGO", Value(b"Ring")),
        ", ",
        Shown("HF_TOKEN", Value(b"t")),
    )
    assert redact.show_sentence(sentence) == "pid 1\\x1b[2J has Ring, <masked, 1 bytes>"
    assert redact.show_sentence(sentence, unmask=True).endswith(", t")


_FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me", "Mc"}


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_whatever_the_bytes_one_printable_line_comes_out(value: bytes) -> None:
    for shown in (
        redact.show("X", Value(value), unmask=True, limit=None),
        redact.show_name(value.decode("utf-8", "surrogateescape")),
        redact.show_text(value.decode("utf-8", "surrogateescape")),
        redact.show_command(value.decode("utf-8", "surrogateescape").split("\0")),
    ):
        assert not {unicodedata.category(character) for character in shown} & _FORBIDDEN
        shown.encode("utf-8")


@given(st.binary(max_size=60), st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_values_that_differ_are_shown_differently_unless_masked(one: bytes, two: bytes) -> None:
    shown = [redact.show("X", Value(value), unmask=True, limit=None) for value in (one, two)]
    assert (one == two) == (shown[0] == shown[1])


@pytest.mark.parametrize(
    "piece",
    [
        b"a",
        b"eyJ",
        b"eyJ-",
        b"sk-",
        b"://",
        b"://a",
        b"token ",
        b"password",
        b"bearer  ",
        b"A1b",
        b" ",
        b",a:b@c",
        b",a:",
        b" -u a",
        b" a:" + b"b" * 250,
        b"sshpass -p ",
    ],
)
def test_the_cost_of_a_hostile_value_grows_with_its_length_alone(piece: bytes) -> None:
    quarter, whole = cost(piece, 1 << 18), cost(piece, 1 << 20)
    # In proportion it is 4 times as much, with the square of the length 16 times.
    assert whole < 8 * max(quarter, 0.05)


def cost(piece: bytes, length: int) -> float:
    """Return the seconds of CPU time that masking a value made of `piece` takes."""
    value = (piece * length)[:length]
    started = time.process_time()
    credentials.is_secret("X", value)
    redact.show("X", Value(value))
    return time.process_time() - started


def test_wanted_patterns_cover_the_frameworks_and_name_their_sources() -> None:
    for name in ("NCCL_ALGO", "PYTHONPATH", "SGLANG_RUN_ID", "VLLM_PORT", "LD_PRELOAD", "RANK"):
        assert redact.is_wanted(name, redact.DEFAULT_WANTED), name
    for name in ("HOME", "SHELL", "nccl_algo", "PATH"):
        assert not redact.is_wanted(name, redact.DEFAULT_WANTED), name
    rows = redact.tables.load("relevant-names")["wanted"]
    assert len({row["pattern"] for row in rows}) == len(rows)
    assert all(re.fullmatch(r"[A-Z0-9_]+\*?", row["pattern"]) and row["source"] for row in rows)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::error::x", "\\x3a:error::x"),
        (" \t ::error::x", " \t \\x3a:error::x"),
        ('"##[error]x', '"#\\x23[error]x'),
        ("a ##vso[task.complete]", "a #\\x23vso[task.complete]"),
        ("sglang::scheduler_TP0 ::", "sglang::scheduler_TP0 ::"),
        ("## heading", "## heading"),
    ],
)
def test_no_line_of_output_is_a_command_to_a_ci_system(line: str, shown: str) -> None:
    assert redact.without_commands(f"first\n\n{line}\nlast\n") == f"first\n\n{shown}\nlast\n"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer <masked>"),
        ("api_key = hunter2abc, next", "api_key = <masked> next"),
        ("GET / Cookie: session=abc; csrf=xyz", "GET / Cookie: <masked>"),
        ("password: hunter2 rest", "password: <masked> rest"),
        ("curl -u me:word host", "curl -u <masked> host"),
        ("token: 5 tokens", "token: 5 tokens"),
    ],
)
def test_a_credential_behind_its_name_and_a_blank_is_masked(line: str, shown: str) -> None:
    assert redact.show_text(line) == shown
