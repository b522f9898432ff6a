"""A target program: says what it was started with, then counts the signals that come.

Runs on the standard library alone. It writes one line of JSON to descriptor 1, installs a handler
for every signal named on its command line, writes "ready", and then each signal as it comes; at the
end of standard input it exits with the code that is its last word.
"""

from __future__ import annotations

import json
import os
import signal
import sys


def said(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def status() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def main(names: list[str], code: int) -> int:
    own = status()
    with open("/proc/self/environ", "rb") as file:
        environment = file.read().hex()
    facts = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgrp(),
        "session": os.getsid(0),
        "cwd": os.getcwd(),
        "environment": environment,
        "blocked": own["SigBlk"],
        "descriptors": sorted(
            int(one)
            for one in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{one}")
        ),
        "hangup_ignored": signal.getsignal(signal.SIGHUP) is signal.SIG_IGN,
    }
    said(json.dumps(facts))
    for name in names:
        signal.signal(getattr(signal, name), lambda number, _: said(signal.Signals(number).name))
    said("ready")
    while os.read(0, 1 << 12):
        pass
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:-1], int(sys.argv[-1])))
