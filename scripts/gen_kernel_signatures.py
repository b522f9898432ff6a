"""How each SGLang release declares its extend kernel and calls it, from the wheels' syntax trees.

    python -m pip download --no-deps --dest WHEELS sglang==0.5.21   # once for each release
    python scripts/gen_kernel_signatures.py WHEELS > tests/unit/kernel_ext/sglang-signatures.json

Nothing is installed or imported. The tests of kernel_ext declare a kernel with each signature, call
it in that release's way, and look whether the patch reads the call right.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from pathlib import Path

BACKEND = "sglang/srt/layers/attention/triton_backend.py"
KERNELS = (
    "sglang/kernels/ops/attention/extend_attention.py",
    "sglang/srt/layers/attention/triton_ops/extend_attention.py",
)
KERNEL = "extend_attention_fwd"


# Since 0.5.23 a method that takes the layer first passes the rest on to the kernel.
CALLERS = {f"self.{KERNEL}": 0, "self._forward_extend_kernel": 1}


def function(tree: ast.AST, name: str) -> ast.FunctionDef:
    """Return the first function or method of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"no function {name}")


def kernel_call(method: ast.FunctionDef) -> tuple[ast.Call, list[ast.expr]]:
    """Return the call of the kernel that ends forward_extend, and its positional arguments."""
    calls = [
        (node, node.args[CALLERS[ast.unparse(node.func)] :])
        for node in ast.walk(method)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLERS
    ]
    return max(calls, key=lambda call: call[0].lineno)


def signatures(wheel: Path) -> dict[str, object]:
    """Return what one wheel declares and calls."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        module = next(name for name in KERNELS if name in names)
        method = function(ast.parse(archive.read(BACKEND)), "forward_extend")
        kernel = function(ast.parse(archive.read(module)), KERNEL)
    call, positional = kernel_call(method)
    return {
        "forward_extend": ast.unparse(method.args),
        "kernel_module": module,
        "kernel": ast.unparse(kernel.args),
        "positional": [ast.unparse(argument) for argument in positional],
        "keywords": {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg},
    }


def main() -> None:
    """Print a JSON object with one entry for each wheel of the directory."""
    wheels = sorted(Path(sys.argv[1]).glob("sglang-*.whl"))
    found = {wheel.name.split("-")[1]: signatures(wheel) for wheel in wheels}
    ordered = dict(sorted(found.items(), key=lambda item: int(item[0].split(".")[2])))
    print(json.dumps(ordered, indent=1))


if __name__ == "__main__":
    main()
