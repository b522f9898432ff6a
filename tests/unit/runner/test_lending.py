"""The lender of open files, and messages that are no requests."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from envprobe.runner import lending


def test_a_message_without_its_descriptors_does_not_end_the_lender(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"lent")
    before = len(os.listdir("/proc/self/fd"))
    channel, lenders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    directory = os.open(tmp_path, os.O_RDONLY)
    lender = threading.Thread(target=lending.lend, args=(lenders,), daemon=True)
    lender.start()
    own.settimeout(20)
    channel.send(b"file")
    socket.send_fds(channel, [b"file"], [directory])
    socket.send_fds(channel, [b"file"], [directory, others.fileno()])
    _, (received,), _, _ = socket.recv_fds(own, 1, 1)
    assert os.read(received, 10) == b"lent"
    channel.close()
    lender.join(20)
    assert not lender.is_alive()
    for descriptor in (received, directory):
        os.close(descriptor)
    for one in (lenders, own, others):
        one.close()
    assert len(os.listdir("/proc/self/fd")) == before
