"""Starts the C target programs, waits until they report, and asks them for their own truth."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

LIMIT_S = 30.0


class CTarget:
    """A running target program; leaving the context ends it."""

    def __init__(
        self,
        program: Path | str,
        *arguments: str,
        env: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
        before_exec: Callable[[], None] | None = None,
        argv0: str | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [argv0 or str(program), *arguments],
            executable=str(program),
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=before_exec,
        )
        self.pid = self.process.pid

    def __enter__(self) -> CTarget:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            self.close()
            raise RuntimeError(f"the target ended early: {self.process.returncode}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and reap it."""
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)

    def getenv(self, name: str) -> bytes | None:
        """Return what the target's own getenv(NAME) gives."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(os.fsencode(name) + b"\0")
        stdin.flush()
        if stdout.read(1) == b"-":
            return None
        return stdout.read(int(stdout.read(8), 16))

    def act(self, what: str) -> None:
        """Let the target do `what`, such as set:NAME=VALUE; return when it is done."""
        assert self.getenv(f"!{what}") is None
