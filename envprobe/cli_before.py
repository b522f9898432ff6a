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
    Format,
    FormatOption,
    Job,
    OutputOption,
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
    format: FormatOption = Format.TEXT,
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
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_unit.run(options)
