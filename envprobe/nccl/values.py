"""What NCCL makes of the text of a variable, and which line shows it.

Sources: github.com/NVIDIA/nccl, tags 2.18.1 to 2.30.7: misc/param.cc ncclLoadParam, graph/paths.cc
ncclGetLevel, graph/tuning.cc getNthreads and parseList, misc/socket.cc, init.cc; and measurements.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Callable
from typing import Final

from envprobe.nccl import selections
from envprobe.nccl.params import Parameter, Version, find


class Effect(str, enum.Enum):
    """What becomes of a value.

    TAKEN: used as it is given. CONVERTED: the same in other words, such as a level's number.
    READ_AS: read as something else. NOT_SET: treated as if the variable were not set. FATAL: the
    communicator cannot be made or used. ODD: used, and probably not meant. UNKNOWN: not known.
    """

    TAKEN = "taken"
    CONVERTED = "converted"
    READ_AS = "read_as"
    NOT_SET = "not_set"
    FATAL = "fatal"
    ODD = "odd"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """What becomes of one text: `effect`, what NCCL then has (`meaning`), and why.

    `printed` is the text of the line that shows it, None where no line does; `printed_as` names the
    variable in that line if it is another one.
    """

    effect: Effect
    meaning: str
    printed: str | None
    why: str = ""
    printed_as: str = ""


_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")
_BLANKS: Final = " \t\n\v\f\r"
_INT64: Final = 1 << 63
_SMALLEST_BUFFER: Final = 4096
"""A size in bytes below this is a number that had a suffix: 8M is read as 8."""

_LEVELS: Final = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")
"""graph/paths.cc levelsOldToNew: what the numbers 0 to 5 mean; greater ones mean the last."""

_DISABLE_SAYS_SO: Final = (2, 23)
"""Before, NCCL_P2P_DISABLE=1 printed `NCCL_P2P_LEVEL set by environment to LOC`."""


def strtoll(text: str) -> tuple[int, str] | None:
    """Return the number that C's strtoll (base 0) reads and the rest that it ignores.

    None: out of the range of 64 bits. Text that begins with no number is 0.
    """
    found = _NUMBER.match(text)
    if found is None:
        return 0, text
    sign, sixteen, eight, ten = found.groups()
    number = int(sixteen, 16) if sixteen else int(eight, 8) if eight else int(ten)
    number = -number if sign == "-" else number
    return (number, text[found.end() :]) if -_INT64 <= number < _INT64 else None


@functools.lru_cache(maxsize=4096)
def interpret(name: str, text: str, version: Version | None) -> Reading:
    """Return what this version of NCCL makes of a value; an unknown version is taken for a new one.

    The text may be what a user gave, or what a line shows: NCCL's own words mean themselves.
    """
    parameter = find(name)
    if parameter is None or parameter.home != "libnccl" or parameter.reader == "unread":
        return Reading(Effect.UNKNOWN, text, None, "the table does not say how it is read")
    read = _SPECIAL.get(name) or _BY_READER.get(parameter.reader, _text)
    found = read(parameter, text, version)
    return dataclasses.replace(found, printed=None) if parameter.is_silent(version) else found


def _text(parameter: Parameter, text: str, version: Version | None) -> Reading:
    return Reading(Effect.TAKEN, text, text)


# --- numbers -------------------------------------------------------------------------------------


def _number(parameter: Parameter, text: str, version: Version | None) -> Reading:
    default = parameter.default(version)
    unset = "the default" if default is None else str(default)
    if not text:
        return Reading(Effect.NOT_SET, unset, None, "an empty value counts as not set")
    read = strtoll(text)
    if read is None:
        return Reading(Effect.NOT_SET, unset, None, "the number does not fit into 64 bits")
    number, rest = read
    plain = str(number)
    if rest.strip(_BLANKS):
        return Reading(Effect.READ_AS, plain, plain, _ignored(text, rest))
    bounded = _bounded(parameter, number, version)
    if bounded is not None:
        return bounded
    same = text.strip(_BLANKS).removeprefix("+") == plain
    why = "" if same else _notation(text)
    return Reading(Effect.TAKEN if same else Effect.CONVERTED, plain, plain, why)


def _ignored(text: str, rest: str) -> str:
    if rest == text:
        return "it begins with no number, and NCCL reads that as 0"
    return f"NCCL stops reading at {rest[:8]!r}: there are no suffixes"


def _notation(text: str) -> str:
    return "0x is hexadecimal" if "x" in text.lower() else "a number that begins with 0 is octal"


def _bounded(parameter: Parameter, number: int, version: Version | None) -> Reading | None:
    """Return what becomes of a number that the table does not allow, None for others."""
    plain = str(number)
    most = parameter.highest(version)
    if parameter.multiple:
        return _threads(parameter, number, most)
    if parameter.form == "int bytes" and 0 < number < _SMALLEST_BUFFER:
        why = "so few bytes are the mark of a suffix: 8M is read as 8"
        if parameter.name == "NCCL_BUFFSIZE":
            why += "; the first collective ends with SIGFPE (measured with 2.28.9)"
            return Reading(Effect.FATAL, plain, plain, why)
        return Reading(Effect.ODD, plain, plain, why)
    if parameter.choices and number not in parameter.choices and number >= 0:
        known = ", ".join(str(one) for one in parameter.choices)
        return Reading(Effect.ODD, plain, plain, f"documented are {known}")
    low = parameter.least is not None and 0 <= number < parameter.least
    if low or (most is not None and number > most):
        span = f"{parameter.least} to {most}"
        return Reading(Effect.ODD, plain, plain, f"it is outside of {span}")
    return None


def _threads(parameter: Parameter, number: int, most: int | None) -> Reading | None:
    """Return what getNthreads makes of a number that it refuses (graph/tuning.cc)."""
    plain, step, least = str(number), parameter.multiple or 1, parameter.least or 0
    if number <= 0:
        return None
    if number % step:
        why = f"it is no multiple of {step}, and then the greatest number is used"
        return Reading(Effect.READ_AS, str(most), plain, why)
    if most is not None and number > most:
        return Reading(Effect.READ_AS, str(most), plain, f"{most} is the greatest number")
    if number < least:
        return Reading(Effect.READ_AS, str(least), plain, f"{least} is the smallest number")
    return None


# --- words ---------------------------------------------------------------------------------------


def _level(parameter: Parameter, text: str, version: Version | None) -> Reading:
    known = selections.words(parameter.name, version)
    if text in known:
        return Reading(Effect.TAKEN, text, text)
    if "0" <= text[:1] <= "9":
        read = strtoll(text)
        number = min(read[0] if read else _INT64, len(_LEVELS) - 1)
        level = _LEVELS[number]
        return Reading(Effect.CONVERTED, level, level, "numbers are the levels of old versions")
    why = "this version knows no such level, and ignores it without a line"
    if text.upper() in known:
        why = "levels are in upper case; another word is ignored without a line"
    return Reading(Effect.NOT_SET, "the default", None, why)


def _p2p_disable(parameter: Parameter, text: str, version: Version | None) -> Reading:
    read = strtoll(text)
    if read is None or read[0] != 1:
        return Reading(Effect.NOT_SET, "not disabled", None, "only 1 disables, and only 1 is shown")
    if version is not None and version < _DISABLE_SAYS_SO:
        return Reading(Effect.TAKEN, "1", "LOC", printed_as="NCCL_P2P_LEVEL")
    return Reading(Effect.TAKEN, "1", "1")


def _selection(parameter: Parameter, text: str, version: Version | None) -> Reading:
    found = selections.select(parameter.name, text, version)
    if version is not None and version >= selections.UNREAD:
        return Reading(Effect.TAKEN, text, text)
    if found.fault:
        why = f"{found.fault}; the communicator fails with ncclInvalidUsage"
        return Reading(Effect.FATAL, "nothing", text, why)
    if found.unknown:
        why = f"this version ignores {found.unknown[0]} without a line"
        return Reading(Effect.READ_AS, _meant(found), text, why)
    without = selections.left_without(found) if parameter.name == "NCCL_ALGO" else ()
    if without and (version is None or version >= selections.FUNCTION_LISTS):
        why = f"no algorithm is left for {', '.join(without)}, whose calls fail"
        return Reading(Effect.ODD, _meant(found), text, why)
    if not text:
        return Reading(Effect.ODD, _meant(found) or "all stay on", text, "it is set and empty")
    return Reading(Effect.TAKEN, _meant(found), text)


def _meant(found: selections.Selection) -> str:
    return "; ".join(
        f"{function or 'all'}: {','.join(chosen) or 'nothing'}"
        for function, chosen in found.functions.items()
    )


def _launch_mode(parameter: Parameter, text: str, version: Version | None) -> Reading:
    if text.upper() == "GROUP":
        return Reading(Effect.TAKEN, "GROUP", "GROUP")
    if text.upper() == "PARALLEL":
        return Reading(Effect.TAKEN, "PARALLEL", "PARALLEL")
    return Reading(Effect.READ_AS, "PARALLEL", "PARALLEL", "anything but GROUP is read as PARALLEL")


def _family(parameter: Parameter, text: str, version: Version | None) -> Reading:
    if text in selections.words(parameter.name, version):
        return Reading(Effect.TAKEN, text, text)
    why = "it is shown, and then compared exactly with AF_INET and AF_INET6"
    return Reading(Effect.NOT_SET, "no preference", text, why)


def _debug(parameter: Parameter, text: str, version: Version | None) -> Reading:
    if text.upper() in selections.words(parameter.name, version):
        return Reading(Effect.TAKEN, text.upper(), None)
    why = "with any other word nothing is logged, and nothing says so"
    return Reading(Effect.READ_AS, "NONE", None, why)


_TRIMMED: Final = (2, 30, 7)


def _subsystems(parameter: Parameter, text: str, version: Version | None) -> Reading:
    known = selections.words(parameter.name, version)
    given = [one for one in text.removeprefix("^").split(",") if one]
    if version is not None and version >= _TRIMMED:
        given = [one.strip() for one in given]
    odd = [one for one in given if one.upper() not in known]
    if not text:
        return Reading(Effect.READ_AS, "nothing", None, "an empty list silences INFO")
    if odd:
        why = f"{odd[0]!r} is unknown to this version; blanks count as part of a name up to 2.30.4"
        return Reading(Effect.READ_AS, ",".join(one for one in given if one not in odd), None, why)
    return Reading(Effect.TAKEN, text.upper(), None)


_SPECIAL: Final[dict[str, Callable[[Parameter, str, Version | None], Reading]]] = {
    "NCCL_ALGO": _selection,
    "NCCL_PROTO": _selection,
    "NCCL_P2P_DISABLE": _p2p_disable,
    "NCCL_LAUNCH_MODE": _launch_mode,
    "NCCL_SOCKET_FAMILY": _family,
    "NCCL_IB_ADDR_FAMILY": _family,
    "NCCL_DEBUG": _debug,
    "NCCL_DEBUG_SUBSYS": _subsystems,
}
_BY_READER: Final = {"number": _number, "level": _level}
