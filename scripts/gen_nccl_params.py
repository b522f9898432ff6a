"""Write envprobe/data/nccl-params.json from scripts/nccl_params.tsv.

With --check it writes nothing and fails if the file is stale. The table's first lines say where its
facts come from and what its columns mean.
"""

from __future__ import annotations

import argparse
import ast
import json
import operator
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "scripts" / "nccl_params.tsv"
TARGET: Final = ROOT / "envprobe" / "data" / "nccl-params.json"

PROVENANCE: Final = (
    "NCCL_* variables. Written by scripts/gen_nccl_params.py from scripts/nccl_params.tsv, which"
    " says which tags of NCCL were read. home: who reads it (libnccl, a plugin, a contribution,"
    " torch, nobody). reader: number = strtoll with base 0, text, level, log = a setting of the log"
    " itself, unread = only its name is known. first, last: the oldest and the newest version that"
    " reads it (oldest: perhaps earlier; no last: still there in the newest one read). defaults:"
    " since when which number counts where the variable is not set; null = NCCL decides. prints:"
    " number, text or level as `set by environment to`, never, or other words; from silent_from on"
    " nothing. choices, least, most"
    " and multiple are what the value may be."
)
OLDEST: Final = "2.17.1"
NEWEST: Final = "2.30.7"
"""The versions between which the source was read."""

_HOMES: Final = {"libnccl": "libnccl", "not-nccl": "nobody"}
_CHANNELS: Final = 32
"""MAXCHANNELS up to 2.24; 64 from 2.25.1 (nccl src/include/device.h)."""

_ARITHMETIC: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.LShift: operator.lshift,
    ast.Mult: operator.mul,
}


def table() -> Iterator[dict[str, str]]:
    """Return the rows of the source table as they are written."""
    lines = [line for line in SOURCE.read_text("utf-8").splitlines() if line[:1] != "#"]
    heads = lines[0].split("\t")
    for line in lines[1:]:
        yield dict(zip(heads, line.split("\t"), strict=True))


def number(text: str) -> int | None:
    """Return the number that C source states, None for a name or for what leaves it to NCCL."""
    plain = re.sub(r"/\*.*?\*/|(?<=\d)L+", "", text).strip()
    try:
        found = _computed(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError):
        return None
    return None if found == -2 else found


def _computed(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_computed(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_computed(node.left), _computed(node.right))
    raise ValueError("no number")


def defaults(row: dict[str, str]) -> list[tuple[str, int | None]]:
    """Return since which version which default counts, the oldest first."""
    first = row["first_seen"].removeprefix("<=") or OLDEST
    if not row["default_history"]:
        return [(first, number(row["default"]))] if row["reader"].endswith("NCCL_PARAM") else []
    history = []
    for step in row["default_history"].split("; "):
        version, _, text = step.partition(":")
        history.append((version.removeprefix("<="), number(text)))
    return history


def reader(row: dict[str, str]) -> str:
    """Return how the text is read."""
    if row["component"] != "libnccl" or row["reader"] in ("docs-only", "binary-string"):
        return "unread"
    by_registry = "registry" in row["reader"] and not row["log_line"].startswith("P")
    if by_registry or row["name"].startswith("NCCL_DEBUG"):
        return "log"
    if row["reader"] == "ncclGetLevel":
        return "level"
    return "number" if "NCCL_PARAM" in row["reader"] else "text"


def prints(row: dict[str, str]) -> str:
    """Return which words show that it was read."""
    line = row["log_line"]
    if row["reader"] == "ncclGetLevel":
        return "level"
    for mark, words in (("P", "number"), ("E", "text"), ("S", "text")):
        if line == mark or line.startswith(f"{mark} "):
            return words
    return "never" if not line or line.startswith(("none", "only on")) else "other"


def silent_from(row: dict[str, str]) -> str:
    """Return the version from which on no line shows it any more, "" if there is none."""
    found = re.search(r"none (\d+\.\d+\.\d+)", row["log_line"])
    return found.group(1) if found else ""


def bounds(row: dict[str, str]) -> dict[str, Any]:
    """Return what the value may be, as far as the table says it in numbers."""
    allowed = row["allowed_values"]
    if row["reader"] != "NCCL_PARAM":
        return {}
    found: dict[str, Any] = {}
    if step := re.match(r"multiple of (\d+), ", allowed):
        found["multiple"] = int(step.group(1))
        allowed = allowed[step.end() :]
    if span := re.match(r"(\d+)\.\.(\d+|MAXCHANNELS)", allowed):
        found["least"] = int(span.group(1))
        if span.group(2).isdecimal():
            found["most"] = int(span.group(2))
        else:
            found["most_by_version"] = [[OLDEST, _CHANNELS], ["2.25.1", 2 * _CHANNELS]]
    elif "|" in allowed:
        found["choices"] = [int(one) for one in re.findall(r"(?:^|\|)(-?\d+)", allowed)]
    return found


def converted(row: dict[str, str]) -> dict[str, Any]:
    """Return one row of the data file."""
    home = _HOMES.get(row["component"], row["component"])
    if row["replaced_by"].startswith("TORCH_"):
        home = "torch"
    last = row["last_seen"]
    first = row["first_seen"].split("..")[0]
    known = home == "libnccl" and row["reader"] != "binary-string"
    still = last.endswith(("+master", "current")) or not first
    made = {
        "name": row["name"],
        "home": home,
        "reader": reader(row),
        "type": row["type"],
        "first": first.removeprefix("<=").replace("current", NEWEST),
        "oldest": first.startswith("<="),
        "last": last if known and not still else "",
        "dead": row["reader"] == "docs-only",
        "unverified": row["reader"] == "binary-string",
        "defaults": defaults(row),
        "prints": prints(row) if known else "",
        "silent_from": silent_from(row),
        "printed_by": row["printed_by"],
        "read": row["read_when"],
        "replaced_by": row["replaced_by"],
        "allowed": row["allowed_values"],
        **bounds(row),
        "source": row["source"],
    }
    return {key: value for key, value in made.items() if value not in ("", False, [])}


def text() -> str:
    """Return the data file."""
    rows = ",\n".join(f"    {json.dumps(converted(row))}" for row in table())
    head = json.dumps(PROVENANCE)
    return (
        f'{{\n  "provenance": {head},\n  "oldest": "{OLDEST}",\n  "newest": "{NEWEST}",\n'
        f'  "rows": [\n{rows}\n  ]\n}}\n'
    )


def main() -> int:
    """Write the file, or with --check return 1 if it is stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    options = parser.parse_args()
    if TARGET.exists() and TARGET.read_text("utf-8") == text():
        return 0
    if options.check:
        print(f"{TARGET.name} is stale: run scripts/gen_nccl_params.py")
        return 1
    TARGET.write_text(text(), "utf-8")
    print(f"{TARGET.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
