#!/usr/bin/env python3
"""Make a real SGLang on CPU PyTorch, with a tiny model, for the tests marked ``sglang``.

The directory then holds ``venv/`` (Python 3.11, every package at a fixed version), ``models/opt/``
(an OPT model of two layers; only its configuration, SGLang makes up the weights) and a marker file
with a hash of all that; the hash is written last. Where it is missing or another, all is made anew.

SGLang itself is unchanged, and the environment has no start-up hook (``.pth``) of ours.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PYTHON_VERSION = (3, 11)
TORCH = "torch==2.13.0"
SGLANG = "sglang==0.5.21"

# All that SGLang imports to serve a model on a CPU, and all that these packages import in turn.
# They are installed without their dependencies: SGLang's are gigabytes of kernels for GPUs.
PACKAGES = f"""
{SGLANG} triton==3.7.0 torchvision==0.28.0 transformers==5.12.1 setproctitle==1.3.8
aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0 annotated-doc==0.0.7 annotated-types==0.8.0
anyio==4.16.0 apache-tvm-ffi==0.1.11 asttokens==3.0.2 attrs==26.1.0 certifi==2026.10.19.post1
cffi==2.1.1 charset-normalizer==3.5.3 click==8.5.1 compressed-tensors==0.18.0 dill==0.4.1
distro==1.9.0 einops==0.8.2 executing==2.3.0 fastapi==0.165.0 filelock==4.3.1 frozenlist==1.8.0
fsspec==2026.9.0 gguf==0.19.0 h11==0.16.0 hf-xet==1.8.0 httpcore==1.0.9 httpx==0.28.1
huggingface_hub==1.33.0 idna==3.20 ipython==9.18.1 ipython_pygments_lexers==1.1.1 jedi==0.20.1
jinja2==3.1.6 jiter==0.19.0 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 loguru==0.7.3
markdown-it-py==4.3.0 markupsafe==3.0.4 matplotlib-inline==0.2.2 mdurl==0.1.2 mpmath==1.3.0
msgspec==0.23.0 multidict==7.2.1 networkx==3.6.1 numpy==2.4.6 openai==2.6.1 orjson==3.13.0
opentelemetry-api==1.45.2 packaging==26.4 parso==0.8.7 partial-json-parser==0.2.1.1.post7
pexpect==4.9.0 pillow==13.0.0 prompt_toolkit==3.0.53 propcache==0.5.4 psutil==7.2.2
ptyprocess==0.7.0 pure_eval==0.2.4 pybase64==1.5.1 pycparser==3.12 pydantic==2.14.4
pydantic_core==2.50.5 pygments==2.21.0 python-multipart==0.0.34 pyyaml==6.0.4 pyzmq==27.3.0
referencing==0.37.0 regex==2026.11.19 requests==2.34.2 rich==15.0.0 rpds-py==2026.9.1
safetensors==0.8.0 sentencepiece==0.2.1 shellingham==1.5.4 sniffio==1.3.1 soundfile==0.13.1
stack-data==0.6.3 starlette==1.10.0 sympy==1.14.0 tokenizers==0.22.2 tqdm==4.70.1 traitlets==5.16.1
typer==0.29.2 typing-inspection==0.4.5 typing_extensions==4.16.0 urllib3==2.8.0 uvicorn==0.54.0
uvloop==0.23.0 wcwidth==0.9.4 xgrammar==0.2.7 yarl==1.25.1
""".split()

# torchvision's wheel is linked against the CUDA build of PyTorch. Beside a CPU build its library
# does not load, and its import stops at "operator torchvision::nms does not exist". With the two
# schemas declared first, its Python part imports, and SGLang needs no more than that.
TORCHVISION_ADDITION = """
# Added by envprobe's scripts/sglang_env.py: schemas only, there is no code behind them.
_schemas = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    _schemas.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
OPT_CONFIG: dict[str, Any] = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "torch_dtype": "float32",
    "vocab_size": 320,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 258,
    "hidden_size": 256,
    "word_embed_proj_dim": 256,
    "ffn_dim": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "max_position_embeddings": 1024,
}

# What a server imports.
IMPORT_CHECK = """
import setproctitle
import sglang.srt.entrypoints.http_server
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
"""

MARKER = "envprobe-sglang.json"
STEP_TIMEOUT_S = 1800
TAIL_LINES = 12


class SetupError(Exception):
    """A step failed: what happened, what to do about it, and what the step printed."""

    def __init__(self, what: str, remedy: str, output: str = "") -> None:
        super().__init__(f"{what}; {remedy}")
        self.output = output


def default_directory() -> Path:
    """Return where the environment lives when no directory is named."""
    cache = os.environ.get("ENVPROBE_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "envprobe") / "sglang"


def fingerprint() -> str:
    """Return a hash of all that decides what the directory holds."""
    parts = [PYTHON_VERSION, TORCH, PACKAGES, TORCHVISION_ADDITION, OPT_CONFIG, SPECIAL]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_complete(directory: Path) -> bool:
    """Tell whether this version of the script finished its work in the directory."""
    try:
        marker = json.loads((directory / MARKER).read_text())
    except (OSError, ValueError):
        return False
    pins = marker.get("pins") if isinstance(marker, dict) else None
    return pins == fingerprint() and (directory / "venv" / "bin" / "python").exists()


def find_python(name: str) -> str:
    """Return the path of an interpreter of the version that the packages are for."""
    wanted = ".".join(map(str, PYTHON_VERSION))
    remedy = f"install Python {wanted} with its venv module, or name it with --python"
    path = shutil.which(name)
    if path is None:
        raise SetupError(f"{name} was not found", remedy)
    found = run([path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], name, remedy)
    if found.strip() != wanted:
        raise SetupError(f"{path} is Python {found.strip()}, not {wanted}", remedy)
    return path


def run(command: list[str], what: str, remedy: str, **settings: str) -> str:
    """Run one step without the caller's PYTHON* variables and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment | settings,
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{what} failed ({error})", remedy) from error
    if done.returncode != 0:
        raise SetupError(f"{what} failed (exit {done.returncode})", remedy, done.stdout)
    return done.stdout


def pip_install(python: Path, packages: list[str], what: str) -> None:
    """Install exactly these packages, from wheels, without their dependencies."""
    remedy = "read pip's last lines above: most often the package index or the disk is the cause"
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    command = [str(python), "-m", "pip", "install", *options, "--only-binary=:all:", *packages]
    run(command, what, remedy)


def require_cpu_torch(site_packages: Path) -> None:
    """Fail if the index gave a CUDA build; read from its version file, for it may not import."""
    cuda = runpy.run_path(str(site_packages / "torch" / "version.py"))["cuda"]
    if cuda is not None:
        raise SetupError(
            f"pip installed {TORCH} built for CUDA {cuda}, and the tests need the CPU build",
            "point PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL at a place that has it (version +cpu)",
        )


def byte_alphabet() -> list[str]:
    """Return the 256 characters by which byte-level tokenizers write bytes, sorted."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    return [chr(code) for code in sorted({*printable, *range(256, 512 - len(printable))})]


def write_model(directory: Path) -> None:
    """Write an OPT model's configuration and a tokenizer with one token for each byte."""
    tokens = [*byte_alphabet(), *SPECIAL.values()]
    unknown = SPECIAL["unk_token"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    files: dict[str, dict[str, Any]] = {
        "config": OPT_CONFIG,
        "tokenizer": {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "unk_token": unknown, "vocab": vocabulary, "merges": []},
        },
        "tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL},
    }
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content, indent=1))


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say on stderr what begins, and how long it took."""
    print(f"sglang_env: {name} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    yield
    print(f"sglang_env: {name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


def build(directory: Path, base_python: str) -> None:
    """Fill an empty directory; the marker comes last."""
    venv = directory / "venv"
    python = venv / "bin" / "python"
    site_packages = venv / "lib" / "python{}.{}".format(*PYTHON_VERSION) / "site-packages"
    with step("virtual environment"):
        remedy = "install the venv module of that Python (Debian: python3.11-venv)"
        run([base_python, "-m", "venv", str(venv)], "making the virtual environment", remedy)
    with step(TORCH):
        pip_install(python, [TORCH], "installing PyTorch")
        require_cpu_torch(site_packages)
    with step(f"{SGLANG} and {len(PACKAGES) - 1} other packages"):
        pip_install(python, PACKAGES, "installing SGLang's packages")
        with (site_packages / "torchvision" / "extension.py").open("a") as extension:
            extension.write(TORCHVISION_ADDITION)
    with step("tiny OPT model"):
        write_model(directory / "models" / "opt")
    with step("import check"):
        remedy = "read its last lines above; the versions in this script may need a change"
        run([str(python), "-c", IMPORT_CHECK], "importing SGLang", remedy, TRITON_INTERPRET="1")
    write_marker(directory, fingerprint())


def write_marker(directory: Path, pins: str) -> None:
    """Mark the directory as made by this script; with no pins, as not finished."""
    marker = {"made_by": "envprobe scripts/sglang_env.py", "pins": pins}
    (directory / MARKER).write_text(json.dumps(marker, indent=1) + "\n")


def clear(directory: Path) -> None:
    """Empty the directory but for a marker that says it is not finished."""
    write_marker(directory, "")
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARKER:
            entry.unlink()


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make the directory and hold it against other runs of this script."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        what = f"cannot use {directory}: {error.strerror}"
        raise SetupError(what, "name another directory with --dir") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step(f"waiting for another run on {directory}"):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def ensure(directory: Path, python: str) -> None:
    """Make the environment unless it is there already; on failure leave none of it."""
    with locked(directory):
        if is_complete(directory):
            return
        if any(directory.iterdir()) and not (directory / MARKER).exists():
            what = f"{directory} holds files that this script did not make"
            raise SetupError(what, "name a new or an empty directory with --dir")
        base_python = find_python(python)
        clear(directory)
        try:
            build(directory, base_python)
        except BaseException:
            clear(directory)
            raise


def stop_on_signal(number: int, _frame: object) -> None:
    """Turn SIGTERM into an exception, so that the half-made directory is emptied."""
    raise SystemExit(128 + number)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--dir",
        type=Path,
        default=default_directory(),
        help="where to make it (default: $ENVPROBE_CACHE/sglang or ~/.cache/envprobe/sglang)",
    )
    parser.add_argument("--python", default="python3.11", help="the Python 3.11 to build on")
    parser.add_argument("--check", action="store_true", help="make nothing; exit 1 if not made")
    return parser.parse_args()


def main() -> int:
    """Make the environment and print its path."""
    arguments = parse_arguments()
    directory = arguments.dir.absolute()
    signal.signal(signal.SIGTERM, stop_on_signal)
    try:
        if arguments.check and not is_complete(directory):
            remedy = f"run scripts/sglang_env.py --dir {directory}"
            raise SetupError(f"no SGLang environment of these versions in {directory}", remedy)
        if not arguments.check:
            ensure(directory, arguments.python)
    except SetupError as error:
        for line in error.output.splitlines()[-TAIL_LINES:]:
            print(f"    {line}", file=sys.stderr)
        print(f"sglang_env: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sglang_env: interrupted", file=sys.stderr)
        return 130
    print(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
