"""Tallies of messages become outcomes: what NCCL set up, per rank and per process."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Iterable
from typing import Final

from envprobe.nccl import grammar, messages
from envprobe.nccl.builders import OTHER, ProcessBuilder, RankBuilder, Tally
from envprobe.nccl.outcomefacts import Call, Channels, Choice, Link, Matrix, Outcome

_LEVEL: Final = OTHER + OTHER

_CALL: Final = re.compile(rb"(\w+): ?o?p?C?o?u?n?t? ?(0x[0-9a-f]+)(?: .*)?", re.DOTALL)
"""A collective call without what changes from call to call; see scanner.Scanner."""


@functools.lru_cache(maxsize=1 << 16)
def meaning(key: bytes) -> messages.Counted:
    """Return what is counted under a key of a tally: a text, a call, or a subsystem."""
    if key.startswith(OTHER):
        return messages.Counted(key.strip(OTHER).decode() if key[1:2] != OTHER else "")
    call = _CALL.fullmatch(key)
    if call is not None:
        return messages.Called("COLL", call[1].decode(), call[2].decode())
    found = grammar.read(key)
    return found if isinstance(found, messages.Counted) else messages.UNKNOWN


def by_rank(process: ProcessBuilder) -> dict[RankBuilder | None, Tally]:
    """Return the tallies of a process's threads, one for each rank; calls by their own pointer.

    None stands for no rank. Where the process has one rank only, everything is that rank's.
    """
    only = process.ranks[0] if len(process.ranks) == 1 else None
    found: dict[RankBuilder | None, Tally] = collections.defaultdict(dict)
    for thread in process.threads.values():
        for rank, tally in thread.tallies.items():
            for key, times in tally.items():
                owner = only or rank
                message = meaning(key)
                if isinstance(message, messages.Called):
                    owner = process.by_pointer.get(message.pointer, owner)
                whole = found[owner]
                whole[key] = whole.get(key, 0) + times
    return found


def levels(tallies: Iterable[Tally]) -> dict[str, int]:
    """Return the number of messages of each level."""
    counts = {"INFO": 0}
    for tally in tallies:
        counts["INFO"] += sum(tally.values())
        for key in tally:
            if key.startswith(_LEVEL):
                level, times = key[2:].decode(), tally[key]
                counts[level] = counts.get(level, 0) + times
                counts["INFO"] -= times
    return {name: count for name, count in counts.items() if count}


def subsystems(tallies: Iterable[Tally]) -> dict[str, int]:
    """Return the number of known messages of each subsystem."""
    counts: dict[str, int] = {}
    for tally in tallies:
        for key, times in tally.items():
            name = meaning(key).subsystem
            counts[name] = counts.get(name, 0) + times
    return {name: count for name, count in sorted(counts.items()) if name and count}


def outcome(tally: Tally, matrices: Iterable[Matrix], networks: Iterable[str]) -> Outcome:
    """Return what the messages of a tally say together, with what was not counted in it."""
    rings = 0
    channels: dict[Channels, int] = {}
    links: dict[tuple[int, int, str, str], int] = {}
    said: dict[str, dict[str, int]] = collections.defaultdict(dict)
    choices: dict[tuple[str, int, str, str, str], int] = {}
    calls: dict[str, int] = {}
    for key, times in tally.items():
        message = meaning(key)
        if type(message) is messages.Counted:
            continue
        if isinstance(message, messages.Connection):
            link = (message.source, message.target, message.via, message.direction)
            links[link] = links.get(link, 0) + times
        elif isinstance(message, messages.Called):
            calls[message.function] = calls.get(message.function, 0) + times
        elif isinstance(message, messages.Ring):
            rings += times
        elif isinstance(message, messages.Said):
            texts = said[message.kind]
            texts[message.text] = texts.get(message.text, 0) + times
        elif isinstance(message, messages.Chosen):
            names = message.algorithm, message.protocol, message.channels
            choice = (message.function, message.size, *names)
            choices[choice] = choices.get(choice, 0) + times
        elif isinstance(message, messages.ChannelCounts):
            counts = _channels(message)
            channels[counts] = channels.get(counts, 0) + times
    return Outcome(
        ring_lines=rings,
        channels=channels,
        links=tuple(Link(*link, times) for link, times in sorted(links.items())),
        networks=tuple(dict.fromkeys(networks)),
        p2p_chunks={int(text): times for text, times in said["chunk"].items()},
        thread_thresholds=next(iter(said["thresholds"]), ""),
        matrices=tuple(matrices),
        choices=tuple(Choice(*choice, times) for choice, times in sorted(choices.items())),
        calls=tuple(Call(function, times) for function, times in sorted(calls.items())),
    )


def _channels(message: messages.ChannelCounts) -> Channels:
    return Channels(message.coll, message.collnet, message.nvls, message.p2p, message.p2p_per_peer)
