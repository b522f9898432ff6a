"""Starts real children from an interpreter that ran the hooks, and says what runs in each.

Run as `python FLAGS -c TEXT DESCRIPTOR REQUEST`. REQUEST is JSON: that of startup_probe.py, with
`probe` (its text), `methods` (multiprocessing start methods, and "subprocess", and "subprocess-env"
for one that is given another environment) and `seconds` for each child. The answers are lines of
JSON: the parent's facts, then one for each method. Standard library only, Python 3.9 to 3.15.
"""

from __future__ import annotations

import os
import sys

KEPT = ("PATH", "LD_LIBRARY_PATH", "HOME", "LANG")


def main(descriptor: str, request: str) -> None:
    """Answer with the parent's facts, then with those of each child."""
    probe = {"__name__": "envprobe_probe"}
    path = list(sys.path) if isinstance(getattr(sys, "path", None), list) else []
    asked = eval(request, {"true": True, "false": False, "null": None})
    exec(compile(asked["probe"], "<envprobe>", "exec"), probe)
    probe["set_first_entry"](asked)
    send = probe["send"]
    parent = reply(probe, path, asked["patches"])
    send(int(descriptor), {"method": "parent", "reply": parent})
    for method in asked["methods"]:
        start = with_subprocess if method.startswith("subprocess") else with_multiprocessing
        try:
            answer = start(method, asked)
        except Exception as error:
            answer = {"error": type(error).__name__ + ": " + str(error)[:500]}
        if isinstance(answer, bytes):
            line = b'{"method": "%s", "reply": %s}\n' % (method.encode("ascii"), answer)
            os.write(int(descriptor), line)
        else:
            send(int(descriptor), dict(answer, method=method))


def reply(probe: dict, path: list | None, patches: list) -> dict:
    """Return the facts and patches of this process."""
    found = {"facts": probe["facts"](path)}
    found["patches"] = {patch: probe["attribute"](patch) for patch in patches}
    found["importable"] = importable(probe["HOOKS"])
    return found


def importable(hooks: tuple) -> dict:
    """Return from where each hook would be imported now, by sys.path as it now is."""
    from importlib.machinery import PathFinder

    found = {}
    for name in hooks:
        try:
            spec = PathFinder.find_spec(name)
        except Exception:
            spec = None
        found[name] = getattr(spec, "origin", None)
    return found


# What runs in a child: everything it needs comes with it, as `exec` of builtins is its target.
IN_CHILD = """
import sys
path = list(sys.path)
probe, reach = {"__name__": "envprobe_probe"}, {"__name__": "envprobe_reach"}
exec(compile(asked["probe"], "<envprobe>", "exec"), probe)
exec(compile(asked["reach"], "<envprobe>", "exec"), reach)
answer = probe["encode"](reach["reply"](probe, path, asked["patches"])).encode("ascii")
"""


def with_multiprocessing(method: str, asked: dict) -> object:
    """Start a child by one start method and return its reply."""
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        return {"error": "this interpreter has no such start method"}
    context = multiprocessing.get_context(method)
    receiving, sending = context.Pipe(duplex=False)
    code = IN_CHILD + "connection.send_bytes(answer)\n"
    child = context.Process(target=exec, args=(code, {"asked": asked, "connection": sending}))
    child.start()
    sending.close()
    try:
        if not receiving.poll(asked["seconds"]):
            return {"error": "the child did not answer in time"}
        return receiving.recv_bytes()
    except EOFError:
        child.join(1)
        return {"error": "the child ended without an answer (exit code %s)" % child.exitcode}
    finally:
        receiving.close()
        end(child)


def end(child: object) -> None:
    """End a child for good."""
    child.join(1)
    if child.is_alive():
        child.kill()
        child.join(1)


def with_subprocess(method: str, asked: dict) -> object:
    """Start `python -c` without options and return its reply."""
    import subprocess

    reading, writing = os.pipe()
    code = IN_CHILD + "import os\nwhile answer:\n    answer = answer[os.write(writing, answer) :]\n"
    begin = "import sys\nasked = eval(sys.stdin.read())\nwriting = int(sys.argv[1])\n"
    given = {name: os.environ[name] for name in KEPT if name in os.environ}
    child = subprocess.Popen(
        [sys.executable, "-c", begin + code, str(writing)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=(writing,),
        env=given if method == "subprocess-env" else None,
    )
    os.close(writing)
    try:
        child.stdin.write(ascii(asked).encode("ascii"))
        child.stdin.close()
        answer = receive(reading, asked["seconds"])
    finally:
        os.close(reading)
        child.kill()
        child.wait()
    if not answer:
        return {"error": "the child ended without an answer"}
    return answer


def receive(descriptor: int, seconds: float) -> bytes:
    """Read all that a child says, for a limited time."""
    import select
    import time

    deadline = time.monotonic() + seconds
    received = b""
    while select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))[0]:
        chunk = os.read(descriptor, 65536)
        if not chunk:
            break
        received += chunk
    return received


if __name__ == "__main__":
    main(*sys.argv[1:])
