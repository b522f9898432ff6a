"""From the records of kernel_ext's programs to facts; what is malformed is counted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from envprobe.errors import UsageError
from envprobe.kernel.architecture import Architecture
from envprobe.kernel.facts import (
    Card,
    Compiled,
    Device,
    Errors,
    Failure,
    Function,
    InClass,
    Resources,
    Run,
    Stage,
    Stopped,
    Timing,
)

_MAX_ROWS: Final = 256
_LARGEST: Final = (1 << 63) - 1
_CLASS_STAGE: Final = "class"
_Row = TypeVar("_Row")


def lines(answer: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records in what a program wrote; a line that was cut off is left out."""
    for line in answer.split(b"\n"):
        found = _record(line)
        if found is not None:
            yield found


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else None


def read(answer: bytes, run: Run) -> Run:
    """Return `run` with all that the records of its program say, and how many could not be read.

    A kind that is not known counts for nothing; a line that is no record, or cut off, counts.
    """
    reader = _Reader(run)
    unread = 0
    for line in answer.split(b"\n"):
        record = _record(line)
        if record is None:
            unread += bool(line.strip())
            continue
        try:
            reader.take(record)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, UsageError):
            # A record that another program has forged, or of another version.
            unread += record["kind"] in _KNOWN
    return dataclasses.replace(reader.result(), unread=unread)


class _Reader:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._devices: dict[int | None, Device] = {}
        self._classes: dict[int | None, InClass] = {}
        self._compiled: list[Compiled] = []

    def result(self) -> Run:
        devices = [
            dataclasses.replace(one, in_class=self._classes.get(index))
            for index, one in self._devices.items()
        ]
        return dataclasses.replace(
            self._run, devices=tuple(devices), compiled=tuple(self._compiled)
        )

    def take(self, record: Mapping[str, Any]) -> None:
        """Take one record; KeyError and the like if it is none of ours."""
        kind = record["kind"]
        if kind in _OF_RUN:
            getattr(self, _OF_RUN[kind])(record)
            return
        index = _number(record.get("device"))
        if kind == "stage" and record["stage"] == _CLASS_STAGE:
            self._classes[index] = InClass(interpreted=bool(record["interpreted"]))
            self._devices.setdefault(index, Device(index))
        elif kind in _OF_CLASS or (kind in _CLASS and index in self._classes):
            old = self._classes.get(index, InClass())
            self._classes[index] = _CLASS[kind](old, record)
            self._devices.setdefault(index, Device(index))
        elif kind in _DEVICE:
            self._devices[index] = _DEVICE[kind](self._devices.get(index, Device(index)), record)

    # --- records of the run itself

    def driver(self, record: Mapping[str, Any]) -> None:
        self._run = dataclasses.replace(self._run, driver=_whole(record["version"]))

    def compiler(self, record: Mapping[str, Any]) -> None:
        version = record["version"]
        if version is None:
            self._run = dataclasses.replace(self._run, compiler_problem=_failure(record))
        else:
            self._run = dataclasses.replace(
                self._run, compiler=(_whole(version[0]), _whole(version[1]))
            )

    def compiled(self, record: Mapping[str, Any]) -> None:
        architecture = Architecture.parse(record["architecture"])
        if "error" in record:
            made = Compiled(architecture, failure=_failure(record))
        else:
            made = Compiled(
                architecture,
                size=_whole(record["bytes"]),
                kernels={
                    str(name): Resources(
                        _whole(one["registers"]),
                        _whole(one["shared"]),
                        _whole(one["stack"]),
                        _number(one["spill_stores"]),
                        _number(one["spill_loads"]),
                    )
                    for name, one in record["kernels"].items()
                },
                shared_limit=_whole(record["shared_limit"]),
                forbidden=tuple(map(str, record["forbidden"])),
                driver_calls=tuple(map(str, record["driver_calls"])),
            )
        self._compiled.append(made)


_OF_RUN: Final = {"driver": "driver", "compiler": "compiler", "compiled": "compiled"}


def _failure(record: Mapping[str, Any]) -> Failure:
    return Failure(
        str(record["error"]), str(record["word"]), str(record["text"]), str(record.get("where", ""))
    )


def _errors(record: Mapping[str, Any]) -> Errors:
    return Errors(
        str(record["shape"]),
        float(record["absolute"]),
        float(record["relative"]),
        float(record["part"]),
        _whole(record["wrong"]),
        bool(record.get("stored", True)),
    )


def _number(value: Any) -> int | None:
    return None if value is None else _whole(value)


def _whole(value: Any) -> int:
    """Return a number that a program of ours may have told; ValueError for another.

    A text of thousands of digits is none: Python turns no more than 4300 into an int, or back.
    """
    if not isinstance(value, int) or abs(value) > _LARGEST:
        raise ValueError("no whole number of 64 bits")
    return int(value)


def _architecture(number: int) -> Architecture:
    return Architecture.parse(str(number))


def _added(rows: tuple[_Row, ...], row: _Row) -> tuple[_Row, ...]:
    """Return rows with one more; ValueError where there are too many, for it may be a wrong one."""
    if len(rows) >= _MAX_ROWS:
        raise ValueError("too many rows")
    return (*rows, row)


def _numbers(of: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in of.items()}


# --- records of a card ---------------------------------------------------------------------------


def _card(old: Device, record: Mapping[str, Any]) -> Device:
    card = Card(
        index=_whole(record["index"]),
        name=str(record["name"]),
        uuid=str(record["uuid"]),
        architecture=_architecture(10 * _whole(record["major"]) + _whole(record["minor"])),
        multiprocessors=_whole(record["multiprocessors"]),
        shared_limit=_whole(record["shared_limit"]),
        registers=_whole(record["registers"]),
        free=_number(record["free"]),
        total=_number(record["total"]),
        processes=_number(record["processes"]),
    )
    return dataclasses.replace(old, card=card)


def _stopped(old: Device, record: Mapping[str, Any]) -> Device:
    stopped = Stopped(
        str(record["reason"]),
        str(record["text"]),
        _number(record.get("free")),
        _number(record.get("need")),
    )
    return dataclasses.replace(old, stopped=stopped)


def _stage(old: Device, record: Mapping[str, Any]) -> Device:
    return dataclasses.replace(old, stage=Stage(record["stage"]), at="")


def _failed(old: Device, record: Mapping[str, Any]) -> Device:
    return dataclasses.replace(old, failure=_failure(record))


def _ended(old: Device, record: Mapping[str, Any]) -> Device:
    code = _whole(record["code"])
    return dataclasses.replace(old, ended=code) if code else old


def _packages(old: Device, record: Mapping[str, Any]) -> Device:
    major, minor = map(_whole, record["compiler"])
    found = {"torch": str(record["torch"]), "NVRTC": f"{major}.{minor}"}
    return dataclasses.replace(old, packages=found)


def _loaded(old: Device, record: Mapping[str, Any]) -> Device:
    made = Resources(_whole(record["registers"]), _whole(record["shared"]), _whole(record["local"]))
    kernels = {**old.kernels, str(record["kernel"]): made}
    architecture = _architecture(_whole(record["architecture"]))
    return dataclasses.replace(old, kernels=kernels, architecture=architecture)


def _compared(old: Device, record: Mapping[str, Any]) -> Device:
    return dataclasses.replace(old, compared=_added(old.compared, _errors(record)))


def _skipped(old: Device, record: Mapping[str, Any]) -> Device:
    return dataclasses.replace(
        old, skipped={**old.skipped, str(record["shape"]): _whole(record["need"])}
    )


def _timed(old: Device, record: Mapping[str, Any]) -> Device:
    made = Timing(
        str(record["shape"]),
        _numbers(record["microseconds"]),
        _numbers(record["part"]),
        _whole(record["key_bytes"]),
    )
    return dataclasses.replace(old, timings=_added(old.timings, made))


_DEVICE: Final[dict[str, Callable[[Device, Mapping[str, Any]], Device]]] = {
    "card": _card,
    "stopped": _stopped,
    "stage": _stage,
    "failed": _failed,
    "ended": _ended,
    "packages": _packages,
    "loaded": _loaded,
    "shape": lambda old, record: dataclasses.replace(old, at=str(record["shape"])),
    "compared": _compared,
    "skipped": _skipped,
    "memory": lambda old, record: dataclasses.replace(old, peak=_whole(record["peak"])),
    "bandwidth": lambda old, record: dataclasses.replace(old, copy=float(record["copy"])),
    "timed": _timed,
    "untimed": lambda old, record: dataclasses.replace(old, untimed=str(record["text"])),
    "unpaired": lambda old, record: dataclasses.replace(old, unpaired=str(_failure(record))),
    "neighbours": lambda old, record: dataclasses.replace(
        old, neighbours_known=bool(record["known"])
    ),
    "done": lambda old, _: dataclasses.replace(old, done=True),
}


# --- records of SGLang's class -------------------------------------------------------------------


def _sglang(old: InClass, record: Mapping[str, Any]) -> InClass:
    return dataclasses.replace(old, version=str(record["version"]))


def _installed(old: InClass, record: Mapping[str, Any]) -> InClass:
    functions = tuple(
        Function(str(one["module"]), str(one["name"]), str(one["file"]), _whole(one["line"]))
        for one in record["functions"][:_MAX_ROWS]
    )
    return dataclasses.replace(old, own_file=str(record["own_file"]), functions=functions)


def _called(old: InClass, record: Mapping[str, Any]) -> InClass:
    if record["whose"] == "own":
        return dataclasses.replace(old, own=_added(old.own, _errors(record)))
    if record["whose"] == "asked":
        return dataclasses.replace(old, asked=_added(old.asked, _errors(record)))
    raise ValueError("nobody's result")


def _counters(old: InClass, record: Mapping[str, Any]) -> InClass:
    numbers = {str(name): _whole(value) for name, value in record["numbers"].items()}
    return dataclasses.replace(old, counters=numbers, last_reason=str(record["last_reason"]))


def _undriven(old: InClass, record: Mapping[str, Any]) -> InClass:
    step = str(record.get("step", "import"))
    return dataclasses.replace(old, problem=_failure(record), step=step)


def _class_timed(old: InClass, record: Mapping[str, Any]) -> InClass:
    made = Timing(str(record["shape"]), _numbers(record["microseconds"]))
    return dataclasses.replace(old, timing=made)


def _class_ended(old: InClass, record: Mapping[str, Any]) -> InClass:
    code = _whole(record["code"])
    return dataclasses.replace(old, ended=code) if code else old


_OF_CLASS: Final = frozenset(
    {"sglang", "installed", "call", "called", "counters", "undriven", "unclassed", "class-timed"}
)
_CLASS: Final[dict[str, Callable[[InClass, Mapping[str, Any]], InClass]]] = {
    "sglang": _sglang,
    "installed": _installed,
    "call": lambda old, record: dataclasses.replace(
        old, calling=f"{record['whose']} {record['shape']}"
    ),
    "called": _called,
    "counters": _counters,
    "undriven": _undriven,
    "unclassed": _undriven,
    "class-timed": _class_timed,
    "failed": _undriven,
    "ended": _class_ended,
    "untimed": lambda old, record: dataclasses.replace(old, untimed=str(record["text"])),
    "done": lambda old, _: dataclasses.replace(old, done=True),
}

_KNOWN: Final = frozenset({*_OF_RUN, *_DEVICE, *_CLASS})
