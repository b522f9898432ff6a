"""Commands that refuse what is given twice, and help that says all one needs."""

from __future__ import annotations

import textwrap
from typing import Any, Final

import typer
from typer.core import TyperCommand

_WIDTH: Final = 96

_EXAMPLE: Final = """
envprobe.toml, in the current directory or given with --config:
  [expect.env]
  NCCL_ALGO = "Ring"
  NCCL_P2P_LEVEL = { one-of = ["SYS", "PHB"] }
  PYTHONPATH = { contains = "/opt/hooks" }
  [expect.workers]
  scheduler = 8
"""


class Strict(TyperCommand):
    """A command that refuses an option given twice, of which the last would silently win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; wrong usage if an option that is not repeatable is repeated."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        single = [one for one in order if one.param_type_name == "option" and _takes_one(one)]
        for option in single:
            if single.count(option) > 1:
                raise typer.BadParameter(
                    f"{option.opts[-1]} is given twice: it takes one value", ctx=ctx
                )
        return super().parse_args(ctx, args)


class Workers(Strict):
    """The command `workers`: its help ends with the marks, the roles and a configuration."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the end of the help."""
        parts = "\n\n".join(f"\b\n{one.strip()}" for one in _parts())
        before, self.epilog = self.epilog, f"{parts}\n\n{self.epilog or ''}"
        super().format_epilog(ctx, formatter)
        self.epilog = before


def _takes_one(option: Any) -> bool:
    return not (option.multiple or option.is_flag)


def _parts() -> tuple[str, ...]:
    from envprobe.process import roletable
    from envprobe.report import matrix

    marks = "\n".join(f"  {mark:2} {meaning}" for mark, meaning in matrix.MEANINGS.items())
    roles = ", ".join(sorted({row.role for row in roletable.rows() if row.role}))
    listed = textwrap.fill(roles, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return (
        f"Marks in the table (a, b, ... are other values, listed below it):\n{marks}",
        f"Roles, for --wait ROLE=N and in envprobe.toml:\n{listed}",
        _EXAMPLE,
    )
