"""The command line: parse, call, render, exit code."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import signal
from types import FrameType
from typing import NoReturn

import typer
from typer.models import CommandInfo

from envprobe import (  # noqa: F401 - they define commands
    cli_before,
    cli_device,
    cli_live,
    cli_nodes,
    cli_offline,
    cli_output,
)
from envprobe.cli_app import app
from envprobe.errors import EnvprobeError, Exit, UsageError


class _Ended(BaseException):
    """SIGTERM or SIGHUP has come."""


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; whatever happens, no traceback is shown."""
    cli_output.prepare()
    try:
        _take_signals()
        return _run(arguments)
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)
    except _Ended as ended:
        return int(Exit(ended.args[0]))
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
    """Have SIGINT, SIGTERM and SIGHUP raise; one that is ignored, as under nohup, stays ignored."""
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _end)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise _Ended(128 + number)


def _run(arguments: list[str]) -> int:
    """Parse, then do what was asked for outside the parser, which would catch some exceptions."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            job = _with_options_of(arguments)(
                args=arguments, prog_name="envprobe", standalone_mode=False
            )
    except _parser_errors() as error:
        message = str(getattr(error, "format_message", lambda: "")()) or "wrong usage"
        raise UsageError(message, _see_help(error)) from None
    if printed.getvalue():
        cli_output.write(printed.getvalue().rstrip("\n") + "\n")
    return int(job() if callable(job) else job or 0)


def _with_options_of(arguments: list[str]) -> typer.Typer:
    """Return the application with the options of the one command that is called.

    To build the options of all commands takes longer than many a command itself.
    """
    called = next((one for one in arguments if not one.startswith("-")), "")
    trimmed = copy.copy(app)
    trimmed.registered_commands = [_bare(one, called) for one in app.registered_commands]
    return trimmed


def _bare(command: CommandInfo, called: str) -> CommandInfo:
    assert command.callback is not None
    name = command.name or command.callback.__name__
    if name == called:
        return command
    bare = copy.copy(command)
    bare.name, bare.callback = name, _not_called
    return bare


def _not_called() -> None:
    """Stand for a command that is only listed."""


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
