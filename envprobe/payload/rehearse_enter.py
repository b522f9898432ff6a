"""Becomes the first process of a rehearsal where a service manager has started it.

Run as `python -I -S rehearse_enter.py SOCKET`. The socket says in one line of JSON which words to
execute with which environment, and becomes the descriptors that the rehearsal is told and answers
on (rehearse_member.py). No hook runs before that. Standard library only, Python 3.9 to 3.15.
"""

import json
import os
import socket
import sys

CONTROL, ANSWER = 62, 63


def main(path: str) -> None:
    """Connect, and become what is asked for."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    received = b""
    while not received.endswith(b"\n"):
        # Byte by byte: what follows is for the program that this process becomes.
        chunk = connection.recv(1)
        if not chunk:
            sys.exit(1)
        received += chunk
    asked = json.loads(received)
    for number in (CONTROL, ANSWER):
        os.dup2(connection.fileno(), number)
    os.execve(asked["words"][0], asked["words"], asked["environment"])


if __name__ == "__main__":
    main(*sys.argv[1:])
