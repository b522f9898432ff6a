"""The command line: parse, call, render, exit code."""

from __future__ import annotations

import contextlib
import enum
import io
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Annotated, NoReturn

import typer

from envprobe import cli_help, cli_output, cli_text
from envprobe.errors import EnvprobeError, Exit, UsageError

Job = Callable[[], Exit]

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

app = typer.Typer(
    name="envprobe",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)


class Format(str, enum.Enum):
    """The formats of a report."""

    TEXT = "text"
    JSON = "json"


class FailOn(str, enum.Enum):
    """The severities that can make a run fail."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _print_version(wanted: bool) -> None:
    if wanted:
        from envprobe import __version__

        typer.echo(f"envprobe {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, help=cli_text.ABOUT, epilog=cli_text.EXIT_CODES)
def envprobe(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Refuse a command line without a command."""
    if context.invoked_subcommand is None:
        raise UsageError("no command was given", "Run `envprobe --help` for the list of commands.")


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
    format: Annotated[Format, typer.Option(help="What is printed.")] = Format.TEXT,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FORMAT=PATH",
            help="Write the same report to a file too. Repeatable.",
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="The least severity that makes the exit code 1.")
    ] = FailOn.ERROR,
    exit_zero: Annotated[
        bool,
        typer.Option("--exit-zero", help="Only report: exit 0 whatever the verdict says."),
    ] = False,
    allow_unknown: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK",
            help="Accept that this check could not be determined. Repeatable.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="What may have been set too late counts as undetermined."),
    ] = False,
    show_all: Annotated[
        bool,
        typer.Option("--show-all", help="Read and show every variable, not only relevant ones."),
    ] = False,
    unmask: Annotated[
        bool, typer.Option("--unmask", help="Show credentials in clear, in every format.")
    ] = False,
    deadline: Annotated[
        float, typer.Option(metavar="S", help="How many seconds one process may take to be read.")
    ] = 2.0,
) -> Job:
    """Show which variable reached which worker."""
    from envprobe import cli_workers

    options = cli_workers.Options(
        pid=pid,
        cgroup=cgroup,
        container=container,
        match=tuple(match or ()),
        expect=tuple(expect or ()),
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
    )
    return lambda: cli_workers.run(options)


@app.command(help=cli_text.INSPECT, cls=cli_help.Strict)
def inspect(
    pid: Annotated[int, typer.Option(help="The process to ask; its children are not.")],
    query: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUERY...", help="pkg.mod, pkg.mod:name or pkg.mod:Class.attr."),
    ] = None,
    format: Annotated[Format, typer.Option(help="What is printed.")] = Format.TEXT,
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
    unmask: Annotated[
        bool, typer.Option("--unmask", help="Show credentials in clear, in every format.")
    ] = False,
) -> Job:
    """Ask a running Python process."""
    from envprobe import cli_inspect

    options = cli_inspect.Options(
        pid, tuple(query or ()), format.value, tuple(output or ()), deadline, unmask
    )
    return lambda: cli_inspect.run(options)


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


# --- running it ----------------------------------------------------------------------------------


class _Terminated(BaseException):
    """SIGTERM has come."""


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; whatever happens, no traceback is shown."""
    cli_output.prepare()
    try:
        _take_signals()
        return int(_run(arguments))
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)
    except _Terminated:
        return int(Exit.TERMINATED)
    except cli_output.ClosedPipe:
        return int(Exit.BROKEN_PIPE)
    except EnvprobeError as error:
        _tell(error.message, error.remedy)
        return int(error.code)
    except OSError as error:
        from envprobe.runner.limits import exhausted

        known = exhausted(error)
        if known is None:
            return _internal(error)
        _tell(known.message, known.remedy)
        return int(known.code)
    except Exception as error:
        return _internal(error)


def _take_signals() -> None:
    """Have SIGINT and SIGTERM raise; a SIGINT that is ignored, as under nohup, stays ignored."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _run(arguments: list[str]) -> Exit:
    """Parse, then do what was asked for outside the parser, which would catch some exceptions."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            job = app(args=arguments, prog_name="envprobe", standalone_mode=False)
    except _parser_errors() as error:
        message = str(getattr(error, "format_message", lambda: "")()) or "wrong usage"
        raise UsageError(message, _see_help(error)) from None
    if printed.getvalue():
        cli_output.write(printed.getvalue().rstrip("\n") + "\n")
    return Exit(job() if callable(job) else job or 0)


def _parser_errors() -> type[Exception]:
    """Return the parser's base class of all wrong usage, whichever library typer builds on."""
    for base in typer.BadParameter.__mro__:
        if base.__name__ == "ClickException":
            return base
    return typer.BadParameter


def _see_help(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "envprobe"
    return f"Run `{command} --help` for what it takes."


def _tell(message: str, remedy: str) -> None:
    from envprobe.redact import show_text, without_commands

    first, *others = message.rstrip().splitlines() or [""]
    lines = [f"envprobe: {show_text(first)}"]
    lines += [f"  {show_text(line).strip()}" for line in (*others, *remedy.splitlines())]
    cli_output.note(without_commands("\n".join(lines)))


def _internal(error: Exception) -> int:
    """Say that envprobe itself failed, by type and place and never by value."""
    if os.environ.get("ENVPROBE_DEBUG"):
        import traceback

        cli_output.note("".join(traceback.format_exception(error)).rstrip())
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "an unknown place"
    if trace is not None:
        code = trace.tb_frame.f_code
        place = f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
    _tell(
        f"internal error: {type(error).__name__} at {place}",
        "This is a fault of envprobe, no verdict on the server. Please report it, with what"
        " ENVPROBE_DEBUG=1 prints after you have read that it holds nothing secret.",
    )
    return int(Exit.INTERNAL)
