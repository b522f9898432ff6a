"""Definitions of the commands that read no running server."""

from __future__ import annotations

from typing import Annotated

import typer

from envprobe import cli_help, cli_text
from envprobe.cli_app import (
    AllowUnknownOption,
    ExitZeroOption,
    FailOn,
    FailOnOption,
    Format,
    FormatOption,
    Job,
    OutputOption,
    ReportFormat,
    ReportFormatOption,
    UnmaskOption,
    app,
)


@app.command(help=cli_text.NCCL, epilog=cli_text.EXIT_CODES, cls=cli_help.Nccl)
def nccl(
    log: Annotated[
        list[str] | None,
        typer.Argument(metavar="LOG...", help="Files, globs, or - for the standard input."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPR",
            help="NAME=VALUE exactly, NAME~=ITEM an element of a list, NAME read, !NAME absent; in"
            " every rank. Repeatable.",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A configuration file of NCCL that the job read, in its order. Repeatable.",
        ),
    ] = None,
    format: ReportFormatOption = ReportFormat.TEXT,
    output: OutputOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    exit_zero: ExitZeroOption = False,
    allow_unknown: AllowUnknownOption = None,
    show_all: Annotated[
        bool, typer.Option("--show-all", help="Show the details of every finding.")
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Say what NCCL read and used."""
    from envprobe import cli_nccl

    options = cli_nccl.Options(
        logs=tuple(log or ()),
        expect=tuple(expect or ()),
        conf=tuple(conf or ()),
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_nccl.run(options)


@app.command(
    "trace-sitecustomize", help=cli_text.TRACE, epilog=cli_text.EXIT_CODES, cls=cli_help.WithCommand
)
def trace_sitecustomize(
    context: typer.Context,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The interpreter. Default: the first python3 on PATH."),
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option(help="The interpreter, environment, flags and directory of this process."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="What this unit starts, as it starts it; repeated for the drop-ins (*.conf) of a"
            " unit file. `-- COMMAND...` does the same for a command line.",
        ),
    ] = None,
    user: Annotated[
        bool,
        typer.Option("--user", help="A unit of the calling user's manager, not of the system's."),
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Add to the environment of envprobe. Repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave out of that environment. Repeatable."),
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option(metavar="FLAG", help="An option of Python, as --flag=-I. Repeatable."),
    ] = None,
    cwd: Annotated[
        str | None, typer.Option(metavar="DIR", help="The working directory. Default: this one.")
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="MODULE:Class.attr must hold what a hook puts there; MODULE is imported."
            " Repeatable.",
        ),
    ] = None,
    spawn: Annotated[
        bool, typer.Option("--spawn/--no-spawn", help="Start real children and look into them.")
    ] = True,
    expect_winner: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="This hook must run to its end: a sitecustomize, or what a .pth file imports.",
        ),
    ] = None,
    expect_reach: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="The hook must run in children by spawn, fork, forkserver or subprocess."
            " Repeatable.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What is ignored and accepted. Default: ./envprobe.toml, if any.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(metavar="N", help="How often the cost is measured; 0: not.")
    ] = 5,
    timeout: Annotated[
        float, typer.Option(metavar="S", help="How many seconds one run may take.")
    ] = 60.0,
    with_gpu: Annotated[
        bool, typer.Option("--with-gpu", help="Do not hide GPUs from the hooks.")
    ] = False,
    format: ReportFormatOption = ReportFormat.TEXT,
    output: OutputOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    exit_zero: ExitZeroOption = False,
    allow_unknown: AllowUnknownOption = None,
    show_all: Annotated[
        bool, typer.Option("--show-all", help="Show sys.path and the details of every finding.")
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Say which start-up hook runs."""
    from envprobe import cli_trace

    options = cli_trace.Options(
        python=python,
        pid=pid,
        unit=tuple(unit or ()),
        user=user,
        command=context.meta.get(cli_help.COMMAND),
        env=tuple(env or ()),
        unset=tuple(unset or ()),
        flags=tuple(flag or ()),
        cwd=cwd,
        patch=tuple(patch or ()),
        spawn=spawn,
        expect_winner=expect_winner,
        expect_reach=tuple(expect_reach or ()),
        config=config,
        runs=runs,
        timeout=timeout,
        with_gpu=with_gpu,
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_trace.run(options)


@app.command(help=cli_text.TRIAGE, epilog=cli_text.EXIT_CODES, cls=cli_help.Strict)
def triage(
    log: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="The log of the server, or - for the standard input."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A unit of a running manager, instead of a log."),
    ] = None,
    user: Annotated[
        bool,
        typer.Option("--user", help="A unit of the calling user's manager, not of the system's."),
    ] = False,
    format: ReportFormatOption = ReportFormat.TEXT,
    output: OutputOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    exit_zero: ExitZeroOption = False,
    allow_unknown: AllowUnknownOption = None,
    show_all: Annotated[
        bool, typer.Option("--show-all", help="Show the details of every finding.")
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Name the cause of a failed start."""
    from envprobe import cli_triage

    options = cli_triage.Options(
        log=log,
        unit=unit,
        user=user,
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_triage.run(options)


@app.command("init-hook", help=cli_text.INIT_HOOK, epilog=cli_text.EXIT_CODES, cls=cli_help.Strict)
def init_hook(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Where to write it; made if it is not there.")
    ],
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET=REPLACEMENT",
            help="Replace pkg.mod:Class.attr by my_pkg.my_mod:func once pkg.mod is imported."
            " Repeatable.",
        ),
    ] = None,
    pth: Annotated[
        bool,
        typer.Option(
            "--pth",
            help="DIR is a site-packages directory: write a module of another name, and a .pth file"
            " that imports it.",
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="That module's name. Default: envprobe_hook."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite a file that envprobe did not write so."),
    ] = False,
    format: FormatOption = Format.TEXT,
) -> Job:
    """Write a start-up hook."""
    from envprobe import cli_inithook

    options = cli_inithook.Options(
        directory=directory,
        patch=tuple(patch or ()),
        pth=pth,
        name=name,
        force=force,
        format=format.value,
    )
    return lambda: cli_inithook.run(options)


@app.command(help=cli_text.DIFF, cls=cli_help.Strict)
def diff(
    before: Annotated[str, typer.Argument(metavar="A.json", help="The first report.")],
    after: Annotated[str, typer.Argument(metavar="B.json", help="The second report.")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Do not compare these variables. Repeatable."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--show-all", help="Compare what each start has of its own too.")
    ] = False,
    format: FormatOption = Format.TEXT,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FORMAT=PATH",
            help="Write the same comparison to a file too. Repeatable.",
        ),
    ] = None,
) -> Job:
    """Compare two reports."""
    from envprobe import cli_diff

    options = cli_diff.Options(
        before, after, tuple(ignore or ()), show_all, format.value, tuple(output or ())
    )
    return lambda: cli_diff.run(options)


@app.command(help=cli_text.EXPLAIN)
def explain(
    check: Annotated[str, typer.Argument(metavar="ID", help="EP003, or its name env-missing.")],
) -> Job:
    """Say what a finding means."""
    from envprobe import cli_checks

    return lambda: cli_checks.explain(check)


@app.command(help=cli_text.CHECKS)
def checks() -> Job:
    """List every check."""
    from envprobe import cli_checks

    return cli_checks.listing


@app.command(help=cli_text.DEMO)
def demo() -> Job:
    """Show what `workers` finds in a tree with planted faults."""
    from envprobe import cli_demo

    return cli_demo.run
