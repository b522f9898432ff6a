"""`envprobe workers`: from parsed options to an exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from envprobe import cli_facts, cli_output, cli_target, redact
from envprobe.errors import Exit, UsageError

if TYPE_CHECKING:
    from envprobe.checks.finding import Context, Severity
    from envprobe.config import Config
    from envprobe.model import Snapshot
    from envprobe.report.model import Presentation, Report, Scan

FORMATS: Final = ("text", "json")
REPORT_FORMATS: Final = (*FORMATS, "junit", "github", "sarif", "html")
"""The formats of a report on findings."""

_TIMEOUT: Final = 300.0
_MAX_SECONDS: Final = 7 * 24 * 3600.0


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `workers` says, as it was given."""

    pid: int | None = None
    cgroup: str | None = None
    container: str | None = None
    unit: str | None = None
    user: bool = False
    match: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()
    patch: tuple[str, ...] = ()
    expect_lib: tuple[str, ...] = ()
    nccl_log: tuple[str, ...] = ()
    var: tuple[str, ...] = ()
    config: str | None = None
    wait: tuple[str, ...] = ()
    timeout: float | None = None
    save_facts: str | None = None
    from_facts: tuple[str, ...] = ()
    format: str = "text"
    output: tuple[str, ...] = ()
    fail_on: str = "error"
    exit_zero: bool = False
    allow_unknown: tuple[str, ...] = ()
    strict: bool = False
    show_all: bool = False
    unmask: bool = False
    one_job: bool = False
    deadline: float = 2.0
    no_python: bool = False


def run(
    options: Options, scan: Callable[[Options, Config], tuple[Snapshot, ...]] | None = None
) -> Exit:
    """Scan, judge and report; return the exit code. Raises EnvprobeError.

    `scan` stands for `snapshots_of`; all that can be wrong with the options has been said before.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(cli_output.told_on_stdout(options.format))
        outputs = formats_by_path(options.output, REPORT_FORMATS)
        files = stack.enter_context(cli_output.reports(outputs, private=options.unmask))
        require((options.format, *outputs.values()))
        check(options)
        config = config_of(options)
        if config.kernel is not None:
            cli_output.note(f"note: {config.kernel.origin} is tried by `envprobe gate` only")
        keep = stack.enter_context(cli_facts.keeper(options.save_facts, unmask=options.unmask))
        snapshots = (scan or snapshots_of)(options, config)
        for snapshot in snapshots:
            keep(snapshot)
        config = config if options.unmask else cli_facts.covered(config, snapshots)
        report = judged(
            snapshots,
            config,
            options.fail_on,
            exit_zero=options.exit_zero,
            one_job=options.one_job,
        )
        for path, kind in outputs.items():
            files[path].write(render(report, kind, _presentation(options, to_file=True)))
        cli_output.write(render(report, options.format, _presentation(options)))
    return Exit.HOLDS if options.exit_zero else report.exit


def judged(
    snapshots: tuple[Snapshot, ...],
    config: Config,
    fail_on: str = "error",
    *,
    exit_zero: bool = False,
    one_job: bool = False,
) -> Report:
    """Return the report on snapshots, each judged on its own or as the nodes of `one_job`."""
    from envprobe.checks.finding import Severity
    from envprobe.report.model import Report

    severity = Severity(fail_on)
    contexts = tuple(context_of(snapshot, config) for snapshot in snapshots)
    if one_job:
        from envprobe.checks.across import beside_each_other

        contexts = beside_each_other(contexts)
    return Report(tuple(_scan(one, severity) for one in contexts), config, severity, exit_zero)


def _scan(context: Context, fail_on: Severity) -> Scan:
    from envprobe.checks.registry import run_all
    from envprobe.checks.verdict import judge
    from envprobe.report.model import Scan

    result = run_all(context)
    return Scan(context, result, judge(context, result, fail_on))


def context_of(snapshot: Snapshot, config: Config) -> Context:
    """Return what the checks look at: the routes of a snapshot, and what is expected."""
    from envprobe.checks.finding import Context
    from envprobe.routes.build import build

    names = [one.name for one in (*config.expectations, *config.nccl)]
    roles = [one.role for one in config.expectations if one.role]
    return Context(build(snapshot, names, roles), config)


def render(report: Report, kind: str, presentation: Presentation) -> str:
    """Return the report in one of `REPORT_FORMATS`."""
    if kind == "json":
        from envprobe.report import document

        return document.render(report, presentation)
    if kind != "text":
        from envprobe.report import formats, workers_outlet

        return formats.render(kind, workers_outlet.build(report, presentation))
    from envprobe.report import text

    return text.render(report, presentation)


# --- what was asked for --------------------------------------------------------------------------


def check(options: Options) -> None:
    """Raise UsageError for options that do not go together or are out of range."""
    live = [
        name
        for name, given in (
            ("--pid", options.pid is not None),
            ("--cgroup", options.cgroup is not None),
            ("--container", options.container is not None),
            ("--unit", options.unit is not None),
            ("--match", options.match),
            ("--wait", options.wait),
            ("--no-python", options.no_python),
            ("--nccl-log", options.nccl_log),
        )
        if given
    ]
    if options.from_facts and live:
        raise UsageError(
            f"--from-facts judges a saved scan and cannot be used with {live[0]}",
            "Leave one of the two out.",
        )
    if options.save_facts is not None and len(options.from_facts) > 1:
        raise UsageError(
            "--save-facts saves one scan, and several were given with --from-facts",
            "Leave --save-facts out.",
        )
    _refuse_empty(options)
    cli_target.check(_pointer(options))
    if options.timeout is not None and not options.wait:
        raise UsageError(
            "--timeout says how long --wait waits, and there is no --wait",
            "Add for example --wait scheduler=8, or leave --timeout out; --deadline bounds the"
            " reading of one process.",
        )
    for name, seconds in (("--timeout", options.timeout), ("--deadline", options.deadline)):
        if seconds is not None and not 0 < seconds <= _MAX_SECONDS:
            raise UsageError(
                f"{name} takes a number of seconds above 0 and at most {_MAX_SECONDS:g}",
                f"Write for example {name} 10.",
            )


def _refuse_empty(options: Options) -> None:
    """Raise UsageError for an argument that is empty, as that of an unset shell variable is."""
    given = (
        ("--cgroup", (options.cgroup,), "the path of a control group"),
        ("--container", (options.container,), "the id of a container"),
        ("--unit", (options.unit,), "the name of a service"),
        ("--match", options.match, "a pattern such as 'ray::*'"),
        ("--patch", options.patch, "QUERY=PREFIX"),
        ("--expect-lib", options.expect_lib, "a pattern such as '*/libmy_kernels*.so'"),
        ("--nccl-log", options.nccl_log, "the path of a log"),
        ("--var", options.var, "a pattern such as 'MY_*'"),
        ("--config", (options.config,), "the path of a file"),
        ("--save-facts", (options.save_facts,), "the path of a file"),
        ("--from-facts", options.from_facts, "the path of a file"),
    )
    for name, values, what in given:
        if "" in values:
            raise UsageError(f"{name} is empty", f"Give it {what}, or leave {name} out.")
    if options.save_facts == "-":
        raise _no_file("--save-facts -", "/dev/stdout")


def _no_file(given: str, stdout: str) -> UsageError:
    return UsageError(
        f"{given} names no file: - is not taken for stdout",
        f"Write {stdout} for stdout, or ./- for a file of that name.",
    )


def require(kinds: Iterable[str]) -> None:
    """Raise UsageError if a package is missing that one of these formats needs."""
    others = set(kinds).difference(FORMATS)
    if others:
        from envprobe.report import formats

        formats.require(others)


def formats_by_path(given: tuple[str, ...], known: tuple[str, ...] = FORMATS) -> dict[str, str]:
    """Return the format, one of `known`, for each path of `-o FORMAT=PATH`."""
    outputs: dict[str, str] = {}
    for one in given:
        kind, equals, path = one.partition("=")
        if not equals or not path or kind not in known:
            raise UsageError(
                f"-o takes FORMAT=PATH, and FORMAT is one of {', '.join(known)}",
                "Write for example -o json=report.json.",
            )
        if path == "-":
            raise _no_file(f"-o {one}", f"--format {kind} or -o {kind}=/dev/stdout")
        if path in outputs:
            raise UsageError(f"-o names {path} twice", "Give each report its own file.")
        outputs[path] = kind
    return outputs


def config_of(options: Options) -> Config:
    """Return what is expected, ignored and accepted, in the file and on the command line."""
    from envprobe import configfile, expectations, patchexpect
    from envprobe.config import combine, did_you_mean
    from envprobe.process import roletable

    roles = roletable.role_names()
    found = configfile.load(options.config, slug_of, roles, os.environ)
    counts = dict(expectations.parse_count(one) for one in options.wait)
    for role in counts:
        if role and role not in roles:
            raise UsageError(f"--wait: there is no role {role!r}", did_you_mean(role, roles))
    joined = combine(
        found,
        expectations=[expectations.parse(one) for one in options.expect],
        patches=[patchexpect.parse_patch(one) for one in options.patch],
        libraries=options.expect_lib,
        workers=counts,
        allow_unknown=[slug_of(one) for one in options.allow_unknown],
        strict=options.strict,
    )
    _refuse_no_questions(joined)
    if options.no_python and joined.inside:
        raise UsageError(
            f"--no-python leaves out what {joined.inside[0].origin} asks for",
            "Leave --no-python out.",
        )
    for slug, reason in joined.allow_unknown.items():
        _refuse_certain(slug, reason)
    for told in joined.over:
        cli_output.note(f"note: {redact.show_text(told)}")
    return joined


def _refuse_no_questions(config: Config) -> None:
    """Raise UsageError if a patch is expected of what is no question."""
    if not config.patches:
        return
    from envprobe.cpython.query import Query

    for one in config.patches:
        try:
            Query.parse(one.query)
        except UsageError as error:
            raise UsageError(f"{one.origin}: {error.message}", error.remedy) from None


def _refuse_certain(slug: str, reason: str) -> None:
    """Raise UsageError if the unknown is accepted of a check that never says "could not tell"."""
    from envprobe.checks.finding import Undetermined
    from envprobe.checks.registry import CHECKS, find

    if find(slug).undetermined is not Undetermined.NEVER:
        return
    where = reason if reason == "--allow-unknown" else "[allow-unknown]"
    those = ", ".join(one.slug for one in CHECKS if one.undetermined is not Undetermined.NEVER)
    raise UsageError(
        f"{where} {slug}: this check always can tell, so that nothing would be accepted",
        f"Name one of {those}; findings of {slug} are left out with [ignore] in envprobe.toml.",
    )


def slug_of(check: str) -> str:
    """Return the slug of a check of any command; UsageError."""
    from envprobe.checks.registry import slug_of

    return slug_of(check)


def _presentation(options: Options, *, to_file: bool = False) -> Presentation:
    return cli_output.presentation(
        unmask=options.unmask, show_all=options.show_all, patterns=options.var, to_file=to_file
    )


# --- the facts -----------------------------------------------------------------------------------


def wanted(
    config: Config, patterns: tuple[str, ...], *, everything: bool = False
) -> tuple[str, ...]:
    """Return the patterns of the names whose values are read."""
    from envprobe.redact import DEFAULT_WANTED, pattern_of

    if everything:
        return ("*",)
    every = (*config.expectations, *config.nccl)
    expected = [pattern_of(one.name) for one in every]
    return tuple(dict.fromkeys((*DEFAULT_WANTED, *patterns, *expected)))


def snapshots_of(options: Options, config: Config) -> tuple[Snapshot, ...]:
    """Return the scans that were asked for; with --wait the first in which all is decided.

    Raises what `cli_target.Finder.find` and `collect.collect` raise.
    """
    if options.from_facts:
        from envprobe import factsfile

        loaded = {path: factsfile.load(path) for path in options.from_facts}
        asked = {f"--var {one}": one for one in options.var}
        asked |= {"--show-all": "*"} if options.show_all else {}
        for path, snapshot in loaded.items():
            cli_facts.note_unread(path, snapshot, asked)
        return tuple(loaded[path] for path in options.from_facts)
    from envprobe import cli_nccllog, cli_wait, collect

    names = wanted(config, options.var, everything=options.show_all)
    request = collect.Request(
        (),
        names,
        options.match,
        options.deadline,
        python=not options.no_python,
        python_roles=tuple({one.role for one in config.inside if one.role}),
        queries=tuple(dict.fromkeys(one.query for one in config.patches)),
        libraries=tuple(one.pattern for one in config.libraries),
    )
    look = cli_target.scanner(_pointer(options), request)

    def scan() -> Snapshot:
        return cli_nccllog.with_logs(look(), options.nccl_log, options.deadline)

    if not options.wait:
        return (scan(),)
    timeout = _TIMEOUT if options.timeout is None else options.timeout
    return (cli_wait.wait(scan, lambda found: context_of(found, config), timeout),)


def _pointer(options: Options) -> cli_target.Pointer:
    return cli_target.Pointer(
        options.pid,
        options.cgroup,
        options.container,
        options.match,
        options.unit,
        options.user,
        waiting=bool(options.wait),
    )
