"""The causes by which the C environ and `os.environ` of one process come to disagree.

Python copies the C environ into `os.environ` when it imports os (Modules/posixmodule.c,
`convertenviron`). From then on `os.environ[...] = ` changes both, and everything else only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.model import Confidence, Reading, Sentence, State
from envprobe.routes.case import Case, Verdict, cause
from envprobe.routes.hops import Hop, HopKind
from envprobe.routes.types import CauseId, Change
from envprobe.routes.variables import set_by_library
from envprobe.routes.witnesses import same

_DONE: Final = {Change.LOST: "set", Change.CHANGED: "changed", Change.APPEARED: "removed"}
"""What was done in the C environ alone; in `os.environ` alone it was the reverse."""

_DONE_IN_PYTHON: Final = {
    Change.LOST: "removed",
    Change.CHANGED: "changed",
    Change.APPEARED: "set",
}


def c_level_setenv(case: Case) -> Iterator[Verdict]:
    """Judge whether C code changed the C environ: Python does not see that."""
    for hop in _c_side(case):
        function = "unsetenv(3)" if case.change is Change.APPEARED else "setenv(3)"
        library = set_by_library(case.name)
        known = (Sentence.of(f"{library}."),) if library else ()
        yield _on_c_side(
            case,
            hop,
            CauseId.C_LEVEL_SETENV,
            f"C code in {hop.process.named} (a library, or a call through ctypes)"
            f" {_DONE[case.change]} {case.name} with {function}, which os.environ does not see.",
            f"If a library does this for itself, nothing needs to be done. Else set {case.name} in"
            " the launch environment, or through os.environ, which changes both.",
            known,
        )


def os_putenv(case: Case) -> Iterator[Verdict]:
    """Judge whether Python code called os.putenv or os.unsetenv, which change the C environ only.

    Source: the documentation of os.putenv; since 3.9 it is setenv(3).
    """
    for hop in _c_side(case):
        function = "os.unsetenv" if case.change is Change.APPEARED else "os.putenv"
        yield _on_c_side(
            case,
            hop,
            CauseId.OS_PUTENV,
            f"Python code in {hop.process.named} {_DONE[case.change]} {case.name} with {function},"
            " which changes the C environ and not os.environ.",
            f"Use os.environ instead of {function}: that changes both.",
        )


def nccl_conf_file(case: Case) -> Iterator[Verdict]:
    """Judge whether NCCL took it from its configuration files, which it applies with setenv(3).

    It does so when it starts, and replaces no value (src/misc/param.cc: initEnvFunc, setEnvFile).
    """
    if not case.name.startswith("NCCL_") or case.change is Change.APPEARED:
        return
    for hop in _c_side(case):
        sentence = (
            f"NCCL in {hop.process.named} took {case.name} from a configuration file"
            " (/etc/nccl.conf, ~/.nccl.conf or that of NCCL_CONF_FILE)."
        )
        if case.change is Change.CHANGED:
            reason = Sentence.of(
                f"NCCL's files replace no value, and os.environ says that {case.name} was set."
            )
            yield Verdict(cause(CauseId.NCCL_CONF_FILE, sentence, (), (reason,)), fits=False)
            continue
        yield _on_c_side(
            case,
            hop,
            CauseId.NCCL_CONF_FILE,
            sentence,
            "For NCCL nothing needs to be done. Look into these files for what it is to use.",
        )


def os_environ_edited(case: Case) -> Iterator[Verdict]:
    """Judge whether Python code changed os.environ without the C environ."""
    for hop in case.of(HopKind.MIRROR):
        sentence = (
            f"Python code in {hop.process.named} {_DONE_IN_PYTHON[case.change]} {case.name} in"
            " os.environ alone: through os.environ._data, or with another object in its place."
        )
        start = _at_start(case, hop)
        if same(start, case.new) and _libc(case, hop).known:
            made = cause(CauseId.OS_ENVIRON_EDITED, sentence, (), (_kept(case, hop, "os.environ"),))
            yield Verdict(made, fits=False)
            continue
        kept = same(start, _libc(case, hop))
        yield Verdict(
            cause(
                CauseId.OS_ENVIRON_EDITED,
                sentence,
                (_kept(case, hop, "the C environ"),) if kept else (),
                (),
                f"Let that code assign to os.environ[{case.name!r}] or delete it there, which"
                " changes both: libraries such as NCCL see the C environ only.",
            )
        )


# --- evidence ------------------------------------------------------------------------------------


def _c_side(case: Case) -> Iterator[Hop]:
    """Return the hop from the C environ to os.environ, if both are known to differ."""
    for hop in case.of(HopKind.MIRROR):
        libc = _libc(case, hop)
        if libc.known and not same(libc, case.new):
            yield hop


def _on_c_side(
    case: Case,
    hop: Hop,
    identity: CauseId,
    sentence: str,
    remedy: str,
    known: tuple[Sentence, ...] = (),
) -> Verdict:
    start = _at_start(case, hop)
    if same(start, _libc(case, hop)):
        against = (_kept(case, hop, "the C environ"),)
        return Verdict(cause(identity, sentence, (), against), fits=False)
    kept = (_kept(case, hop, "os.environ"),) if same(start, case.new) else ()
    return Verdict(cause(identity, sentence, (*known, *kept), (), remedy))


def _libc(case: Case, hop: Hop) -> Reading:
    return case.stops[hop.first].reading


def _at_start(case: Case, hop: Hop) -> Reading:
    """Return what os.environ was made of, if that is sure: the exec block of the image."""
    reading = case.family.at_exec(hop.process, case.name)
    sure = reading.confidence is Confidence.PROVED
    return reading if sure else Reading(State.NOT_ASKED)


def _kept(case: Case, hop: Hop, what: str) -> Sentence:
    return Sentence.of(
        f"In {hop.process.named} {what} still has what there was of {case.name} at the exec: the"
        " other one was changed."
    )
