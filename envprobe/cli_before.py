"""Definitions of the commands that look before a server is started."""

from __future__ import annotations

from typing import Annotated

import typer

from envprobe import cli_help, cli_text
from envprobe.cli_app import (
    AllowUnknownOption,
    ExitZeroOption,
    FailOn,
    FailOnOption,
    Job,
    OutputOption,
    ReportFormat,
    ReportFormatOption,
    UnmaskOption,
    app,
)


@app.command(help=cli_text.UNIT, epilog=cli_text.EXIT_CODES, cls=cli_help.WithCommand)
def unit(
    context: typer.Context,
    units: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME|FILE...",
            help="Units that the manager is asked for, or unit files with their drop-ins (*.conf)"
            " behind them; `-- COMMAND...` looks at a command line.",
        ),
    ] = None,
    user: Annotated[
        bool,
        typer.Option("--user", help="Units of the calling user's manager, not of the system's."),
    ] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPR",
            help="NAME=VALUE exactly, NAME~=ITEM an element of a list, NAME set, !NAME absent; in"
            " what the interpreter is handed. Repeatable.",
        ),
    ] = None,
    env_file: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A file for `docker run --env-file`. Repeatable."),
    ] = None,
    compose: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The output of `docker compose config --format json`."),
    ] = None,
    service: Annotated[
        str | None, typer.Option(metavar="NAME", help="The service of --compose.")
    ] = None,
    kube: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Kubernetes objects, JSON or YAML: a workload, and the ConfigMaps, Secrets and"
            " Services that it uses. Repeatable.",
        ),
    ] = None,
    container: Annotated[
        str | None, typer.Option(metavar="NAME", help="The container of --kube. Default: all.")
    ] = None,
    image_inspect: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The output of `docker inspect IMAGE`: the image's own variables."
        ),
    ] = None,
    no_interpreter: Annotated[
        bool,
        typer.Option(
            "--no-interpreter",
            help="Do not run the declared interpreter to parse the program's first file: parse it"
            " with the grammar of envprobe's own Python.",
        ),
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What is ignored and accepted. Default: ./envprobe.toml, if any.",
        ),
    ] = None,
    format: ReportFormatOption = ReportFormat.TEXT,
    output: OutputOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    exit_zero: ExitZeroOption = False,
    allow_unknown: AllowUnknownOption = None,
    show_all: Annotated[
        bool,
        typer.Option("--show-all", help="Show every variable and the details of every finding."),
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Show what a launch definition hands over."""
    from envprobe import cli_unit

    options = cli_unit.Options(
        units=tuple(units or ()),
        command=context.meta.get(cli_help.COMMAND),
        user=user,
        expect=tuple(expect or ()),
        env_file=tuple(env_file or ()),
        compose=compose,
        service=service,
        kube=tuple(kube or ()),
        container=container,
        image_inspect=image_inspect,
        no_interpreter=no_interpreter,
        config=config,
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_unit.run(options)


@app.command(help=cli_text.REHEARSE, epilog=cli_text.EXIT_CODES, cls=cli_help.WithCommand)
def rehearse(
    context: typer.Context,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A unit that the manager is asked for, or a unit file; repeated, its drop-ins"
            " (*.conf). `-- COMMAND...` names a command line instead.",
        ),
    ] = None,
    user: Annotated[
        bool,
        typer.Option("--user", help="A unit of the calling user's manager, not of the system's."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many workers, 1 to 32. Default: what the command line or [expect.workers]"
            " says, else 2.",
        ),
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="sglang, vllm or none. Default: what the command line starts."
        ),
    ] = None,
    start_method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="spawn, fork or forkserver. Default: that of the framework."
        ),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY[=PREFIX]",
            help="pkg.mod:Class.attr must be patched, with PREFIX by code from that module or, with"
            " a slash, that path. Repeatable.",
        ),
    ] = None,
    import_target: Annotated[
        bool,
        typer.Option(
            "--import-target",
            help="Import the modules of --patch in the workers, so that hooks which wait for it"
            " patch them. This executes those modules.",
        ),
    ] = False,
    with_gpu: Annotated[
        bool, typer.Option("--with-gpu", help="Do not hide the GPUs from the hooks.")
    ] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPR",
            help="NAME=VALUE exactly, NAME= empty, NAME~=ITEM an element of a list, NAME set,"
            " !NAME absent; in all workers. Repeatable.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What is expected of variables, hooks and patches. Default: ./envprobe.toml, if"
            " any.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="How many seconds all of it may take. Default: 60, with --import-target 300.",
        ),
    ] = None,
    format: ReportFormatOption = ReportFormat.TEXT,
    output: OutputOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    exit_zero: ExitZeroOption = False,
    allow_unknown: AllowUnknownOption = None,
    show_all: Annotated[
        bool, typer.Option("--show-all", help="Show every variable and the details of all.")
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Rehearse a start with real children."""
    from envprobe import cli_rehearse

    options = cli_rehearse.Options(
        unit=tuple(unit or ()),
        command=context.meta.get(cli_help.COMMAND),
        user=user,
        workers=workers,
        framework=framework,
        start_method=start_method,
        patch=tuple(patch or ()),
        import_target=import_target,
        with_gpu=with_gpu,
        expect=tuple(expect or ()),
        config=config,
        timeout=timeout,
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_rehearse.run(options)


@app.command(help=cli_text.GATE, epilog=cli_text.EXIT_CODES, cls=cli_help.WithCommand)
def gate(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            "-c", "--config", metavar="FILE", help="What is expected. Default: ./envprobe.toml."
        ),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A unit that the manager is asked for, or a unit file; repeated, its drop-ins"
            " (*.conf). `-- COMMAND...` names a command line instead.",
        ),
    ] = None,
    user: Annotated[
        bool,
        typer.Option("--user", help="A unit of the calling user's manager, not of the system's."),
    ] = False,
    pid: Annotated[
        int | None, typer.Option(help="The running server's process (its launcher).")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Judge the running server of --unit, after its start.")
    ] = False,
    static: Annotated[
        bool,
        typer.Option("--static", help="Run nothing: judge only what files decide, list the rest."),
    ] = False,
    match: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="After a start: add processes outside the tree by title or command line, such as"
            " 'ray::*'. Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Before a start: how many workers are rehearsed, 1 to 32. Default: what the"
            " command line or [expect.workers] says, else 2.",
        ),
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Before a start: rehearse the processes of sglang or vllm. Default: what the"
            " command line starts.",
        ),
    ] = None,
    start_method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="Before a start: rehearse by spawn, fork or forkserver. Default: as the framework"
            " does, and by spawn where none is known.",
        ),
    ] = None,
    wait: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROLE=]N",
            help="After a start: scan until N workers (or N processes of a role) are there and"
            " every expectation is decided. Repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", help="How many seconds --wait waits. Default: 300."),
    ] = None,
    nccl_log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="After a start: logs of NCCL. Default: found as `workers` does. Repeatable.",
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
    """Judge all that is expected."""
    from envprobe import cli_gate

    options = cli_gate.Options(
        config=config,
        unit=tuple(unit or ()),
        user=user,
        command=context.meta.get(cli_help.COMMAND),
        pid=pid,
        match=tuple(match or ()),
        workers=workers,
        framework=framework,
        start_method=start_method,
        live=live,
        static=static,
        wait=tuple(wait or ()),
        timeout=timeout,
        nccl_log=tuple(nccl_log or ()),
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_gate.run(options)
