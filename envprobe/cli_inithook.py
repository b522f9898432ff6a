"""`envprobe init-hook`: from parsed options to an exit code."""

from __future__ import annotations

import dataclasses

from envprobe import cli_output
from envprobe.errors import Exit, UsageError


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line of `init-hook` says, as it was given."""

    directory: str
    patch: tuple[str, ...] = ()
    pth: bool = False
    name: str | None = None
    force: bool = False
    format: str = "text"


def run(options: Options) -> Exit:
    """Write the hook and say how it is used. Raises UsageError."""
    from envprobe import inithook
    from envprobe.report import inithook as report

    with cli_output.told_on_stdout(options.format):
        if options.name is not None and not options.pth:
            raise UsageError(
                "--name is for --pth: without it the module must be named sitecustomize",
                "Add --pth, or leave --name out.",
            )
        name = (options.name or inithook.DEFAULT_NAME) if options.pth else None
        patches = tuple(inithook.parse_patch(text) for text in options.patch)
        request = inithook.Request(options.directory, patches, name, options.force)
        cli_output.write(report.render(inithook.write(request), options.format))
    return Exit.HOLDS
