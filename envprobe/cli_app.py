"""What every command line is built on: the application, and the types that commands share."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Annotated

import typer

from envprobe import cli_text
from envprobe.errors import UsageError

Job = Callable[[], int]
"""What a command does once its line is parsed; it returns the exit code."""

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


class ReportFormat(str, enum.Enum):
    """The formats of a report on findings."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"
    HTML = "html"


class FailOn(str, enum.Enum):
    """The severities that can make a run fail."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


FormatOption = Annotated[Format, typer.Option(help="What is printed.")]
ReportFormatOption = Annotated[ReportFormat, typer.Option(help="What is printed.")]
OutputOption = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FORMAT=PATH",
        help="Write the same report to a file too. Repeatable.",
    ),
]
FailOnOption = Annotated[
    FailOn, typer.Option(help="The least severity that makes the exit code 1.")
]
ExitZeroOption = Annotated[
    bool, typer.Option("--exit-zero", help="Only report: exit 0 whatever the verdict says.")
]
AllowUnknownOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CHECK", help="Accept that this check could not be determined. Repeatable."
    ),
]
UnmaskOption = Annotated[
    bool, typer.Option("--unmask", help="Show credentials in clear, in every format.")
]


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
