"""Definitions of the commands that read running processes."""

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


@app.command(help=cli_text.WORKERS, epilog=cli_text.EXIT_CODES, cls=cli_help.Workers)
def workers(
    pid: Annotated[
        int | None,
        typer.Option(help="The server's process (its launcher); all its descendants are read."),
    ] = None,
    cgroup: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="All processes of a control group."),
    ] = None,
    container: Annotated[
        str | None,
        typer.Option(metavar="ID", help="All processes of a container, by 12 digits of its id."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A running service: all processes of its control group. Every route then starts"
            " at what the unit declares.",
        ),
    ] = None,
    user: Annotated[
        bool, typer.Option("--user", help="--unit names a unit of your own service manager.")
    ] = False,
    match: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Add processes outside the tree by title or command line, such as 'ray::*'."
            " Repeatable.",
        ),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPR",
            help="NAME=VALUE exactly, NAME= empty, NAME~=ITEM an element of a list, NAME set,"
            " !NAME absent; in all workers. Repeatable.",
        ),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY=PREFIX",
            help="pkg.mod:Class.attr must come from the module PREFIX (or one below it), or, with a"
            " slash, from a file below the path PREFIX; in all workers. Repeatable.",
        ),
    ] = None,
    expect_lib: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="A shared object that every worker must have loaded, by its path or file name."
            " Repeatable.",
        ),
    ] = None,
    nccl_log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Logs of NCCL, joined to the workers. Default: the file of each worker's"
            " NCCL_DEBUG_FILE, else that behind its standard output. Repeatable.",
        ),
    ] = None,
    var: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Show these variables too. Repeatable."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What is expected. Default: ./envprobe.toml, if any."),
    ] = None,
    wait: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROLE=]N",
            help="Scan until N workers (or N processes of a role) are there and every expectation"
            " is decided. Repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", help="How many seconds --wait waits. Default: 300."),
    ] = None,
    save_facts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Save what was read for --from-facts; credentials are masked, unless --unmask.",
        ),
    ] = None,
    from_facts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Judge a saved scan instead of reading processes. Repeatable; each is judged on"
            " its own.",
        ),
    ] = None,
    format: ReportFormatOption = ReportFormat.TEXT,
    output: OutputOption = None,
    fail_on: FailOnOption = FailOn.ERROR,
    exit_zero: ExitZeroOption = False,
    allow_unknown: AllowUnknownOption = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="What may have been set too late counts as undetermined."),
    ] = False,
    show_all: Annotated[
        bool,
        typer.Option("--show-all", help="Read and show every variable, not only relevant ones."),
    ] = False,
    unmask: UnmaskOption = False,
    deadline: Annotated[
        float, typer.Option(metavar="S", help="How many seconds one process may take to be read.")
    ] = 2.0,
    no_python: Annotated[
        bool,
        typer.Option("--no-python", help="Do not read inside the workers' Python interpreters."),
    ] = False,
) -> Job:
    """Show which variable reached which worker."""
    from envprobe import cli_workers

    options = cli_workers.Options(
        pid=pid,
        cgroup=cgroup,
        container=container,
        unit=unit,
        user=user,
        match=tuple(match or ()),
        expect=tuple(expect or ()),
        patch=tuple(patch or ()),
        expect_lib=tuple(expect_lib or ()),
        nccl_log=tuple(nccl_log or ()),
        var=tuple(var or ()),
        config=config,
        wait=tuple(wait or ()),
        timeout=timeout,
        save_facts=save_facts,
        from_facts=tuple(from_facts or ()),
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        strict=strict,
        show_all=show_all,
        unmask=unmask,
        deadline=deadline,
        no_python=no_python,
    )
    return lambda: cli_workers.run(options)


@app.command(help=cli_text.BASELINE, epilog=cli_text.EXIT_CODES, cls=cli_help.Strict)
def baseline(
    pid: Annotated[int, typer.Option(help="The server's process (its launcher).")],
    patch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY",
            help="Expect pkg.mod:Class.attr to come from where it comes from now, or the hook"
            " sitecustomize or usercustomize. Repeatable.",
        ),
    ] = None,
    var: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Expect these variables too. Repeatable."),
    ] = None,
    deadline: Annotated[
        float, typer.Option(metavar="S", help="How many seconds one process may take to be read.")
    ] = 2.0,
) -> Job:
    """Print a configuration that holds for a running server."""
    from envprobe import cli_baseline

    options = cli_baseline.Options(pid, tuple(patch or ()), tuple(var or ()), deadline)
    return lambda: cli_baseline.run(options)


@app.command(help=cli_text.INSPECT, cls=cli_help.Strict)
def inspect(
    pid: Annotated[int, typer.Option(help="The process to ask; its children are not.")],
    query: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY...", help="pkg.mod, pkg.mod:name or pkg.mod:Class.attr."),
    ] = None,
    format: FormatOption = Format.TEXT,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FORMAT=PATH",
            help="Write the same answers to a file too. Repeatable.",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(metavar="S", help="How many seconds one question may take.")
    ] = 10.0,
    unmask: UnmaskOption = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure an unknown build by executing the process's own interpreter.",
        ),
    ] = False,
    calibrate_with: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON", help="The same by executing this interpreter, an exact copy of it."
        ),
    ] = None,
) -> Job:
    """Ask a running Python process."""
    from envprobe import cli_inspect

    options = cli_inspect.Options(
        pid,
        tuple(query or ()),
        format.value,
        tuple(output or ()),
        deadline,
        unmask,
        calibrate,
        calibrate_with,
    )
    return lambda: cli_inspect.run(options)
