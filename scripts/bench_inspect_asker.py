"""The program that bench_inspect.py measures: asks processes, prints how many answered rightly.

    python scripts/bench_inspect_asker.py reader|inspection JSON-LIST-OF-QUESTIONS [PID...]

A program of its own, so that no import of the benchmark counts as envprobe's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from envprobe.pythonfacts import Answer

Asked = list[tuple[Answer, ...]]


def read(questions: Sequence[str], pids: Sequence[int]) -> Asked:
    """Ask each process in turn by the reader alone; return the answers, process by process."""
    from envprobe.cpython.reader import attach
    from envprobe.process.handle import ProcessHandle
    from envprobe.process.maps import AddressSpace
    from envprobe.process.memory import Memory
    from envprobe.process.scope import Scope

    found = []
    for pid in pids:
        with (
            ProcessHandle.open(pid) as handle,
            Memory.open(handle) as memory,
            AddressSpace(handle) as space,
            attach(handle, memory, space, Scope(handle, memory, space)) as reader,
        ):
            found.append(tuple(reader.query(question) for question in questions))
    return found


def inspect(questions: Sequence[str], pids: Sequence[int]) -> Asked:
    """Ask each process in turn as `envprobe inspect` does; return the answers."""
    from envprobe import inspection

    requests = [inspection.Request(pid, tuple(questions)) for pid in pids]
    return [inspection.inspect(request).answers for request in requests]


def right(hook: Answer, method: Answer, counter: Answer) -> bool:
    """Return whether the hook is there, the method comes from it and the counter is 5."""
    assert hook.found_module is not None
    assert method.function is not None
    assert counter.value is not None
    from_hook = method.function.file == hook.found_module.file
    return from_hook and counter.value.plain() == 5


def main() -> int:
    """Ask all the processes."""
    ways: dict[str, Callable[[Sequence[str], Sequence[int]], Asked]] = {
        "reader": read,
        "inspection": inspect,
    }
    how, questions, *pids = sys.argv[1:]
    answers = ways[how](json.loads(questions), [int(pid) for pid in pids])
    print(sum(right(*one) for one in answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
