"""What `kernel` found, for the formats of other programs: a grid for each card and library."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe import redact
from envprobe.checks.kernel.registry import CHECKS
from envprobe.kernel.facts import Compiled, Device, Errors, Run, Timing
from envprobe.kernel.library import Library
from envprobe.report.kernel_model import Report, headline, versions
from envprobe.report.model import Presentation
from envprobe.report.outlet import Cell, Grid, Outlet, Tone, subject

_LIMIT = 400


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    done = redact.show_text(headline(report.context))
    found = subject(
        redact.show_text(_named(report)),
        report.result,
        report.verdict,
        allow_unknown=report.allow_unknown,
        fail_on=report.fail_on,
        grids=tuple(_grids(report)),
        notes=(done,),
        unmask=presentation.unmask,
    )
    verdict, fail_on = report.verdict, report.fail_on
    return Outlet("kernel", CHECKS, (found,), verdict, fail_on, report.exit_zero, done)


def _named(report: Report) -> str:
    facts = report.context
    if facts.libraries:
        return ", ".join(one.name for one in facts.libraries[:3])
    run = facts.run or facts.compile_only
    return run.python if run is not None else "kernel"


def _grids(report: Report) -> Iterator[Grid]:
    facts = report.context
    for device in facts.run.devices if facts.run is not None else ():
        yield from _device(device)
    if facts.compile_only is not None and facts.compile_only.compiled:
        yield _compiled(facts.compile_only)
    for library in facts.libraries:
        yield _library(library)


def _cell(text: str, tone: Tone = Tone.PLAIN) -> Cell:
    return Cell(redact.show_text(text, _LIMIT), tone)


def _device(device: Device) -> Iterator[Grid]:
    card = device.card
    name = f"device {card.index}: {card.name}, {card.architecture}" if card else "no device"
    notes = (redact.show_text(versions(device)),) if device.packages else ()
    rows = [*device.compared]
    if device.in_class is not None:
        rows += device.in_class.asked
        functions = [f"forward_extend: {one}" for one in device.in_class.functions]
        notes = (*notes, *(redact.show_text(one, _LIMIT) for one in functions))
    heads = ("shape", "of the allowed error", "absolute", "relative")
    yield Grid(redact.show_text(name), heads, tuple(map(_errors, rows)), notes)
    if device.timings:
        timed = tuple(cells for one in device.timings for cells in _timed(one))
        yield Grid(redact.show_text(f"{name}: time"), ("shape", "kernel", "median"), timed)


def _errors(one: Errors) -> tuple[Cell, ...]:
    right = not one.wrong and one.part <= 1
    return (
        _cell(one.shape),
        _cell(f"{one.part:.3g}", Tone.SAME if right else Tone.LOST),
        _cell(f"{one.absolute:.3g}"),
        _cell(f"{one.relative:.3g}"),
    )


def _timed(one: Timing) -> Iterator[tuple[Cell, ...]]:
    for name, taken in one.microseconds.items():
        yield _cell(one.shape), _cell(name), _cell(f"{taken:.1f} us")


def _compiled(run: Run) -> Grid:
    heads = ("architecture", "kernel", "registers", "shared memory", "spilled")
    rows = tuple(cells for one in run.compiled for cells in _resources(one))
    return Grid("compiled, not run", heads, rows)


def _resources(one: Compiled) -> Iterator[tuple[Cell, ...]]:
    if one.failure is not None:
        failed = _cell(str(one.failure), Tone.LOST)
        yield _cell(str(one.architecture)), failed, _cell(""), _cell(""), _cell("")
    for name, kernel in one.kernels.items():
        fits = kernel.shared <= one.shared_limit
        yield (
            _cell(str(one.architecture)),
            _cell(name),
            _cell(str(kernel.registers)),
            _cell(f"{kernel.shared} of {one.shared_limit}", Tone.SAME if fits else Tone.LOST),
            _cell(f"{kernel.spill_stores} bytes" if kernel.spill_stores is not None else "?"),
        )


def _library(library: Library) -> Grid:
    heads = ("architecture", "image", "units")
    rows = tuple(
        (_cell(str(one.architecture)), _cell(one.kind.value), _cell(str(number)))
        for one, number in library.counts.items()
    )
    notes = (redact.show_text(library.problem),) if library.problem else ()
    return Grid(redact.show_text(library.name, _LIMIT), heads, rows, notes)
