"""Builds the kernel for the cards at hand, runs it, and says what was found.

    python -m kernel_ext.smoke '{"devices": null, "memory": 1073741824, "bundled": true, ...}'

Writes records (`kernel_ext.records`). Each card gets processes of its own, started as SGLang starts
its schedulers: with the method spawn, all of them at once, all cards visible. So a driver that ends
a process leaves the others, and ranks that compile at once are what is tried.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from kernel_ext import card, inclass, ondevice, records
from kernel_ext.records import Tell


@dataclass(frozen=True)
class Request:
    """What is asked for.

    devices: numbers of visible cards, None for the first, [] for all; memory: bytes of a card that
    may be used; bundled: run the bundled kernel; time: also against SGLang's own; in_class: run it
    in SGLang's real class; installed: run the function that is in that class as it is.
    """

    devices: list[int] | None = None
    memory: int = 1 << 30
    bundled: bool = True
    time: bool = True
    in_class: bool = True
    installed: bool = False


def main(arguments: list[str], descriptor: int) -> int:
    """Do what the first argument, a `Request` in JSON, asks for."""
    tell = records.writer(descriptor)
    request = Request(**json.loads(arguments[0]))
    usable: list[card.Card] = []
    if not inclass.interpreted():
        usable = _usable_cards(request, tell)
    elif not request.installed:
        tell("stopped", device=None, reason="interpreted", text="TRITON_INTERPRET=1 is set")
    if request.bundled:
        done = _together([(one.index, _Job(_on_device, request, one)) for one in usable], tell)
        usable = [one for one in usable if one.index in done]
    if request.installed or (request.bundled and request.in_class):
        _together([(one.index, _Job(_in_class, request, one)) for one in usable], tell)
    if request.installed and not usable:
        # Whose function it is can be told without a card, and Triton's interpreter needs none.
        _together([(None, _Job(_in_class, request, None))], tell)
    return 0


def _usable_cards(request: Request, tell: Tell) -> list[card.Card]:
    """Tell of the cards that were asked for, and return those that something can be run on."""
    try:
        version, cards = card.cards()
    except card.NoCards as problem:
        tell("stopped", device=None, reason="no-gpu", text=str(problem))
        return []
    tell("driver", version=version, cards=len(cards))
    wanted = {one.index for one in cards[:1]}
    if request.devices is not None:
        wanted = set(request.devices) or {one.index for one in cards}
    for number in sorted(wanted - {one.index for one in cards}):
        tell("stopped", device=number, reason="no-gpu", text="there is no such device")
    chosen = [one for one in cards if one.index in wanted]
    for one in chosen:
        tell("card", device=one.index, **asdict(one))
    return [one for one in chosen if _usable(one, request.memory, tell)]


def _usable(one: card.Card, memory: int, tell: Tell) -> bool:
    if one.compute_mode == card.PROHIBITED:
        text = "its compute mode is Prohibited"
        tell("stopped", device=one.index, reason="busy", text=text)
    elif one.free is not None and one.free < memory:
        tell("stopped", device=one.index, reason="memory", text="", free=one.free, need=memory)
    else:
        return True
    return False


# --- processes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Job:
    target: Callable[[Request, card.Card | None, Tell], None]
    request: Request
    card: card.Card | None


def _together(jobs: list[tuple[int | None, _Job]], tell: Tell) -> set[int | None]:
    """Run each job in a process of its own, all at once, and pass on what they tell.

    Returns the devices on which a job came to its end.
    """
    done: set[int | None] = set()
    context = multiprocessing.get_context("spawn")
    running: dict[Any, tuple[int | None, Any]] = {}
    for device, job in jobs:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(job, theirs))
        process.start()
        theirs.close()
        running[ours] = device, process
    while running:
        for ready in wait(list(running)):
            assert isinstance(ready, Connection)
            device, process = running[ready]
            try:
                kind, members = ready.recv()
                tell(kind, device=device, **members)
                done |= {device} if kind == "done" else set()
            except EOFError:
                process.join()
                tell("ended", device=device, code=process.exitcode)
                del running[ready]
    return done


def _child(job: _Job, connection: Connection) -> None:
    os.dup2(2, 1)

    def tell(kind: str, **members: Any) -> None:
        connection.send((kind, members))

    try:
        job.target(job.request, job.card, tell)
    except Exception as problem:  # each stage tells of its own errors: this one is unforeseen
        tell("failed", stage="", **records.described(problem))
        raise


def _on_device(request: Request, one: card.Card | None, tell: Tell) -> None:
    assert one is not None
    ondevice.examine(one, request.memory, request.time, tell)


def _in_class(request: Request, one: card.Card | None, tell: Tell) -> None:
    inclass.examine(one, request.installed, request.time, tell)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.dup(1)))
