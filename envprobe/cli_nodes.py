"""Definitions of the commands that run a server, and that join several nodes."""

from __future__ import annotations

from typing import Annotated, Final

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

_RUN: Final = """\
Run a server as a child of envprobe, and report once on its workers when they are there.

Where kernel.yama.ptrace_scope is 1 (Ubuntu's default) only an ancestor may read a process's memory:
run so, a server can be looked into without root. This EXECUTES the command behind `--`, with your
environment, directory, standard streams and rights, as if envprobe were not there, and for as long
as it likes. Signals to envprobe are passed on; what the terminal sends reaches the command itself.
It is never stopped, whatever the report says.

When the workers of --wait or [expect.workers] are there and every expectation is decided, the
report of `envprobe workers` is written to stderr or, with -o, to files; never to stdout. At the
timeout it is made of what there is. What is ignored and accepted is in the configuration.

A process that leaves its launcher (a daemon) is no descendant any more and cannot be read.

\b
Examples:
  envprobe run --wait scheduler=8 --expect NCCL_ALGO=Ring -- \\
    python3 -m sglang.launch_server --tp 8
  envprobe run --config envprobe.toml --timeout 900 -o json=report.json -- ./serve.sh

Exits with the code of the command, 128 + N if signal N ended it; the verdict is in the report. If
nothing was started: 2 for wrong usage or a command that cannot be executed, 3 where a limit of the
machine was reached.
"""

_MERGE: Final = """\
Judge the scans of several nodes as those of one job: ranks on different nodes are peers too.

Takes files of `envprobe workers --save-facts` (or of `envprobe run --save-facts`), one of each
node. Each is judged as by `envprobe workers --from-facts`: expectations, numbers of workers and
what was lost on the way are the node's own. In addition the workers of one role and replica are
compared across the nodes, variable by variable: by NCCL's logs, if these show a communicator of
both nodes, else because the files were given together. What deviates is a finding of the node that
has another value than most of the job's workers, and names the others. What differs between hosts
by design, such as NCCL_SOCKET_IFNAME, is left out. Two masked values of one length cannot be told
apart and count as alike; hooks, patches and versions are compared inside each node only.

A report (-o json=) lacks what is needed here: `envprobe diff` compares two of them.

\b
Examples:
  srun --ntasks-per-node 1 bash -c 'envprobe workers --save-facts facts.$(hostname).json'
  envprobe merge facts.*.json --expect NCCL_ALGO=Ring -o junit=job.xml
"""


@app.command("run", help=_RUN, cls=cli_help.WithCommand)
def run(
    context: typer.Context,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPR", help="As in `envprobe workers`. Repeatable."),
    ] = None,
    patch: Annotated[
        list[str] | None,
        typer.Option(metavar="QUERY=PREFIX", help="As in `envprobe workers`. Repeatable."),
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
            help="Report when N workers (or N processes of a role) are there. Repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", help="Report after so many seconds anyway. Default: 300."),
    ] = None,
    save_facts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Save what was read for `envprobe workers --from-facts`; credentials are masked,"
            " unless --unmask.",
        ),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FORMAT=PATH",
            help="Write the report to a file, and not to stderr. Repeatable.",
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="The least severity that makes the verdict a finding.")
    ] = FailOn.ERROR,
    show_all: Annotated[
        bool,
        typer.Option("--show-all", help="Read and show every variable, not only relevant ones."),
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Run a command and report on its workers."""
    from envprobe import cli_run, cli_workers

    report = cli_workers.Options(
        expect=tuple(expect or ()),
        patch=tuple(patch or ()),
        var=tuple(var or ()),
        config=config,
        wait=tuple(wait or ()),
        timeout=timeout,
        save_facts=save_facts,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        show_all=show_all,
        unmask=unmask,
    )
    options = cli_run.Options(context.meta.get(cli_help.COMMAND), report)
    return lambda: cli_run.run(options)


@app.command(help=_MERGE, epilog=cli_text.EXIT_CODES, cls=cli_help.Strict)
def merge(
    facts: Annotated[
        list[str] | None,
        typer.Argument(metavar="FACTS...", help="Files of --save-facts, one of each node."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="EXPR", help="As in `envprobe workers`. Repeatable."),
    ] = None,
    var: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Show these variables too. Repeatable."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What is expected. Default: ./envprobe.toml, if any."),
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
        bool, typer.Option("--show-all", help="Show every variable, not only relevant ones.")
    ] = False,
    unmask: UnmaskOption = False,
) -> Job:
    """Judge several nodes together."""
    from envprobe import cli_merge, cli_workers

    options = cli_workers.Options(
        from_facts=tuple(facts or ()),
        expect=tuple(expect or ()),
        var=tuple(var or ()),
        config=config,
        format=format.value,
        output=tuple(output or ()),
        fail_on=fail_on.value,
        exit_zero=exit_zero,
        allow_unknown=tuple(allow_unknown or ()),
        strict=strict,
        show_all=show_all,
        unmask=unmask,
    )
    return lambda: cli_merge.run(options)
