"""Definitions of the commands that run something on a GPU, or look into code for one."""

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


@app.command(help=cli_text.KERNEL, epilog=cli_text.EXIT_CODES, cls=cli_help.WithCommand)
def kernel(
    context: typer.Context,
    installed: Annotated[
        bool,
        typer.Option(
            "--installed",
            help="Run the function that hooks and plugins left in SGLang's class, whose it is,"
            " instead of the bundled kernel.",
        ),
    ] = False,
    expect_installed: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE|FILE",
            help="--installed, and the function must come from this module or one below it, or"
            " from this file or directory.",
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The interpreter that has torch and SGLang. Default: envprobe's own, isolated; for"
            " --installed the first python3 on PATH.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A variable of that interpreter. Repeatable."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="The interpreter that a unit starts, in the environment that it declares;"
            " repeated, its drop-ins (*.conf). `-- COMMAND...` names a command line instead.",
        ),
    ] = None,
    user: Annotated[
        bool,
        typer.Option("--user", help="A unit of the calling user's manager, not of the system's."),
    ] = False,
    device: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="A visible GPU by its number. Default: 0. Repeatable."),
    ] = None,
    all_devices: Annotated[
        bool,
        typer.Option(
            "--all-devices", help="Every visible GPU, at once, each in a process of its own."
        ),
    ] = False,
    memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="How much of a GPU's memory may be taken for results."),
    ] = "1GiB",
    time: Annotated[
        bool | None,
        typer.Option(
            "--time/--no-time",
            help="Without a verdict on time the exit code is 3 / measure no time. Default: a"
            " verdict if the GPU is free.",
        ),
    ] = None,
    in_class: Annotated[
        bool | None,
        typer.Option(
            "--in-class/--no-in-class",
            help="Unless the patch was called in SGLang's real class the exit code is 3 / do not"
            " try. Default: try it if SGLang is there.",
        ),
    ] = None,
    compile_only: Annotated[
        bool,
        typer.Option(
            "--compile-only",
            help="Compile for --arch and inspect the machine code; no GPU is needed and nothing"
            " is run.",
        ),
    ] = False,
    arch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="sm_N,...", help="Architectures, for --compile-only and --archs-of. Repeatable."
        ),
    ] = None,
    archs_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIB.so",
            help="Say for which architectures a library (or a wheel) has code, and whether --arch,"
            " or the GPU of this machine, runs it. Repeatable.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Default: ./envprobe.toml; what it ignores counts."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long all of it may take.")
    ] = 900.0,
    format: ReportFormatOption = ReportFormat.TEXT,
    output: OutputOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    exit_zero: ExitZeroOption = False,
    allow_unknown: AllowUnknownOption = None,
    show_all: Annotated[
        bool, typer.Option("--show-all", help="Show every shape and the details of every finding.")
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Build the bundled kernel and run it."""
    from envprobe import cli_kernel

    options = cli_kernel.Options(
        installed=installed,
        expect_installed=expect_installed,
        python=python,
        env=tuple(env or ()),
        unit=tuple(unit or ()),
        user=user,
        command=context.meta.get(cli_help.COMMAND),
        device=tuple(device or ()),
        all_devices=all_devices,
        memory=memory,
        time=time,
        in_class=in_class,
        compile_only=compile_only,
        arch=tuple(arch or ()),
        archs_of=tuple(archs_of or ()),
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
    return lambda: cli_kernel.run(options)
