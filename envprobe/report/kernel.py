"""The report of `kernel` as text: the cards, what was compiled, how right and how fast it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from envprobe import redact
from envprobe.checks.kernel.images import match
from envprobe.kernel.facts import Card, Compiled, Device, Errors, InClass, Resources, Run, Timing
from envprobe.kernel.library import Library
from envprobe.report.findings import Prose, counted
from envprobe.report.kernel_model import Report, compared, headline, speedup, versions
from envprobe.report.model import Presentation

_MIB: Final = 1 << 20
_NOT_RUN_ON: Final = (
    "compiled and inspected, not run: that it works on such a card is shown by a run there only"
)

_SMALLEST: Final = "the smallest cards it is for"


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as text of at least 80 columns, ending with a newline."""
    return redact.without_commands("\n".join(_Text(report, presentation).lines()) + "\n")


class _Text(Prose):
    def __init__(self, report: Report, presentation: Presentation) -> None:
        super().__init__(presentation.width, color=presentation.color, unmask=presentation.unmask)
        self.report = report
        self.all = presentation.show_all

    def lines(self) -> Iterator[str]:
        report, facts = self.report, self.report.context
        found = [*counted(report.verdict.counts, report.fail_on), headline(report.context)]
        summary = redact.show_text("; ".join(found))
        verdict = self.verdict(report.verdict.exit, summary, exit_zero=report.exit_zero)
        yield from verdict
        for run in (facts.run, facts.compile_only):
            if run is not None:
                yield ""
                yield from self.run(run)
        for library in facts.libraries:
            yield ""
            yield from self.library(library)
        yield from self.findings(report.result, report.allow_unknown, details=self.all)
        yield ""
        yield from verdict

    def plain(self, text: str, below: str = "    ", first: str = "  ") -> list[str]:
        return self.wrapped(redact.show_text(text), below, first)

    def run(self, run: Run) -> Iterator[str]:
        yield self.style("interpreter", "title")
        yield from self.plain(f"{run.python} ({run.chosen})")
        if run.compiler is not None:
            yield from self.plain(f"NVRTC {'.'.join(map(str, run.compiler))}")
        for gap in run.gaps:
            yield from self.plain(f"not known of its start: {gap}")
        for device in run.devices:
            yield ""
            yield from self.device(run, device)
        for compiled in run.compiled:
            yield ""
            yield from self.compiled(compiled)

    # --- a card

    def device(self, run: Run, device: Device) -> Iterator[str]:
        card = device.card
        if card is not None:
            yield self.style(redact.show_text(f"device {card.index}: {card.name}", 100), "title")
            yield from self.card(run, card)
        else:
            yield self.style("no device", "title")
        if device.packages:
            yield from self.plain(versions(device))
        if device.architecture is not None:
            yield from self.plain(f"machine code for {device.architecture} was loaded")
        limit = f"{card.shared_limit} that a block may have here" if card is not None else ""
        yield from self.kernels(device.kernels, limit)
        yield from self.compared(device.compared)
        if device.peak is not None:
            yield from self.plain(f"it took at most {device.peak // _MIB} MiB of the card")
        if device.in_class is not None:
            yield from self.in_class(device.in_class)
        yield from self.timings(device)

    def card(self, run: Run, card: Card) -> Iterator[str]:
        told = f"{card.architecture}, {card.multiprocessors} multiprocessors"
        told += f", {card.shared_limit} bytes of shared memory a block"
        if run.driver is not None:
            told += f", driver for CUDA {run.driver // 1000}.{run.driver % 1000 // 10}"
        yield from self.plain(told)
        if card.free is not None and card.total is not None:
            told = f"{card.free // _MIB} of {card.total // _MIB} MiB free"
            others = "not known" if card.processes is None else str(card.processes)
            yield from self.plain(f"{told}; other processes on it: {others}")

    def kernels(self, kernels: Mapping[str, Resources], limit: str) -> Iterator[str]:
        for name, one in kernels.items():
            told = f"{name}: {one.registers} registers, {one.shared} bytes of shared memory"
            told += f" of the {limit}" if limit else ""
            told += f", {one.local} bytes of local memory a thread"
            if one.spill_stores is not None:
                told += f"; registers spilled: {one.spill_stores} bytes stored"
                told += f", {one.spill_loads} loaded"
            yield from self.plain(told)

    def compared(self, rows: tuple[Errors, ...]) -> Iterator[str]:
        if not rows:
            return
        worst = max(rows, key=lambda one: one.part)
        yield from self.plain(
            f"compared with the reference in fp32 over {len(rows)} shapes; the worst:"
            f" {worst.part:.2f} of the allowed error ({worst.shape}), absolute"
            f" {max(one.absolute for one in rows):.3g}, of a row's norm"
            f" {max(one.relative for one in rows):.3g}"
        )
        for one in rows if self.all else ():
            yield from self.plain(
                f"{one.shape}: absolute {one.absolute:.3g}, relative {one.relative:.3g},"
                f" {one.part:.2f} of the allowed error",
                "        ",
                "    ",
            )

    def in_class(self, called: InClass) -> Iterator[str]:
        if called.version:
            where = " on the CPU, in Triton's interpreter" if called.interpreted else ""
            yield from self.plain(f"SGLang {called.version}: TritonAttnBackend{where}")
        for number, function in enumerate(called.functions):
            told = f"forward_extend is {function}" if not number else f"which wraps {function}"
            yield from self.plain(told, "        ", "    ")
        for who, rows in (("SGLang's own", called.own), ("the function called", called.asked)):
            if rows:
                worst = max(rows, key=lambda one: one.part)
                told = f"{who}: {len(rows)} shapes, {worst.part:.2g} of the allowed error at most"
                yield from self.plain(told, "        ", "    ")
        if called.counters:
            told = ", ".join(f"{name} {value}" for name, value in called.counters.items() if value)
            yield from self.plain(f"counters: {told}", "        ", "    ")
        if called.timing is not None:
            yield from self.timing(called.timing, "asked", "own", None)

    def timings(self, device: Device) -> Iterator[str]:
        if device.copy is not None:
            yield from self.plain(f"a copy within the card moves {device.copy / 1e12:.2f} TB/s")
        for timing in device.timings:
            yield from self.timing(timing, "bundled", "triton", device.copy)

    def timing(self, one: Timing, ours: str, theirs: str, copy: float | None) -> Iterator[str]:
        times = dict(one.microseconds)
        told = f"{one.shape}: {times[ours]:.1f} us" if ours in times else f"{one.shape}:"
        if theirs in times:
            told += f", SGLang's own {times[theirs]:.1f} us"
        faster = speedup(times, ours, theirs)
        told += f", {compared(faster)}" if faster is not None else ""
        if copy and one.key_bytes and times.get(ours):
            rate = one.key_bytes / times[ours] * 1e6
            told += f"; reads {rate / 1e12:.2f} TB/s of keys, {100 * rate / copy:.0f} % of the copy"
        yield from self.plain(told, "        ", "    ")

    # --- compiled only, and libraries

    def compiled(self, one: Compiled) -> Iterator[str]:
        yield self.style(str(one.architecture), "title")
        if one.failure is not None:
            yield from self.plain(f"not compiled: {one.failure}")
            return
        yield from self.plain(_NOT_RUN_ON)
        yield from self.plain(f"{one.size} bytes of machine code")
        yield from self.kernels(one.kernels, f"{one.shared_limit} of {_SMALLEST}")
        forbidden = ", ".join((*one.forbidden, *one.driver_calls)) or "none"
        yield from self.plain(
            f"instructions that sm_120 lacks, and calls into the driver: {forbidden}"
        )

    def library(self, library: Library) -> Iterator[str]:
        yield self.style(redact.show_text(library.name, 200), "title")
        units = len(library.units)
        if units:
            yield f"  {units} translation unit{'' if units == 1 else 's'} with images for"
        for image, number in library.counts.items():
            share = "" if number == units else f" (in {number})"
            yield f"    {image.architecture} {image.kind.value}{share}"
        for device in self.report.context.question.devices if units else ():
            one = match(library, device)
            told = f"{device} runs {one.as_it_is} as they are, {one.by_driver} after the driver"
            yield from self.plain(f"{told} has compiled PTX, {one.missing} not at all")
        if library.problem:
            yield from self.plain(library.problem)
