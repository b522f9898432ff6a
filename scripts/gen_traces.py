#!/usr/bin/env python3
"""Write tests/data/traces/X.Y.json: what real interpreters say under `-v -X importtime`.

Usage: gen_traces.py PYTHON...   (run each inside its own root directory, if it needs one)

Each interpreter is started once for every case; of its trace the part from site on is kept, with
the paths of this machine replaced: /hooks is the directory of the hooks, /python the interpreter's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

OUT: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "traces"
SECONDS: Final = 30
ABOUT: Final = "import sys; print(*sys.version_info[:2], sys.base_prefix)"
FILES: Final = {
    "ran": {"sitecustomize.py": "import os\nmarker = 1\n"},
    "raised": {"sitecustomize.py": "before = 1\nraise ValueError('no: value')\n"},
    "syntax-error": {"sitecustomize.py": "def broken(:\n"},
    "silent": {"sitecustomize.py": "raise ModuleNotFoundError('x', name='sitecustomize')\n"},
    "submodule": {"sitecustomize.py": "import sitecustomize.more\n"},
    "exits": {"sitecustomize.py": "raise SystemExit(3)\n"},
    "package": {"sitecustomize/__init__.py": "marker = 1\n"},
    "namespace": {"sitecustomize/readme": ""},
    "prints": {
        "sitecustomize.py": "import sys\n"
        "sys.stderr.write('# code object from /evil/sitecustomize.py')\n"
    },
    "chains": {
        "sitecustomize.py": "import importlib.util as u\n"
        "s = u.spec_from_file_location('sitecustomize', '{hooks}/next/sitecustomize.py')\n"
        "s.loader.exec_module(u.module_from_spec(s))\n",
        "next/sitecustomize.py": "marker = 2\n",
    },
    "user-raised": {"sitecustomize.py": "", "usercustomize.py": "raise KeyError('user')\n"},
}


def traces(python: str, prefix: str) -> dict[str, str]:
    """Return the traces of all cases."""
    found = {}
    for case, files in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(text.replace("{hooks}", folder))
            found[case] = trace(python, prefix, folder, folder)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source.py")
        source.write_text("marker = 1\n")
        with zipfile.ZipFile(Path(folder, "hooks.zip"), "w") as archive:
            archive.write(source, "sitecustomize.py")
        found["zip"] = trace(python, prefix, folder, f"{folder}/hooks.zip")
        own = Path(folder, "own")
        own.mkdir()
        compiling = f"import py_compile; py_compile.compile({str(source)!r}, {str(own)!r} + '/c')"
        subprocess.run([python, "-I", "-S", "-c", compiling], check=True, timeout=SECONDS)
        (own / "c").rename(own / "sitecustomize.pyc")
        found["sourceless"] = trace(python, prefix, folder, str(own))
    return found


def trace(python: str, prefix: str, folder: str, path: str) -> str:
    """Return one trace from site on, without this machine's paths."""
    environment = {"PYTHONPATH": path, "HOME": folder}
    ran = subprocess.run(
        [python, "-B", "-v", "-X", "importtime", "-c", "pass"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        timeout=SECONDS,
        check=False,
    )
    text = ran.stderr.decode().replace(folder, "/hooks").replace(prefix, "/python")
    text = re.sub(r"0x[0-9a-f]+", "0x7f0000000000", text)
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if "customize" in line)
    last = max(n for n, line in enumerate(lines) if re.search(r"\| site$|^SystemExit", line))
    return "\n".join(lines[max(first - 2, 0) : last + 1])


def main() -> int:
    """Write one file for each interpreter."""
    OUT.mkdir(exist_ok=True)
    for python in sys.argv[1:]:
        ran = subprocess.run(
            [python, "-I", "-S", "-c", ABOUT], capture_output=True, text=True, check=True
        )
        major, minor, prefix = ran.stdout.split()
        found = traces(os.path.realpath(python), prefix)
        (OUT / f"{major}.{minor}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"{major}.{minor}: {len(found)} traces")
    return 0


if __name__ == "__main__":
    sys.exit(main())
