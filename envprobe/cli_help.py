"""Commands that refuse what is given twice, and help that says all one needs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
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
  [expect.sitecustomize]
  from = "/opt/hooks"
  [expect.patch]
  "sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend" = "my_kernels"
  [expect.nccl]
  NCCL_BUFFSIZE = "8388608"
  [expect]
  lib = ["*/libmy_kernels*.so"]
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


COMMAND: Final = "envprobe.command"
"""Where the words behind `--` are found in a context's `meta`."""


class WithCommand(Strict):
    """A command that takes another one behind `--`, whose words are none of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line up to `--`, and keep what follows."""
        if "--" in args:
            end = args.index("--")
            ctx.meta[COMMAND] = tuple(args[end + 1 :])
            args = args[:end]
        return super().parse_args(ctx, args)


class Workers(Strict):
    """The command `workers`: its help ends with the marks, the roles and a configuration."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the end of the help."""
        parts = "\n\n".join(f"\b\n{one.strip()}" for one in _parts())
        before, self.epilog = self.epilog, f"{parts}\n\n{self.epilog or ''}"
        super().format_epilog(ctx, formatter)
        self.epilog = before


class Nccl(Strict):
    """The command `nccl`: its help ends with the marks of its table."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the end of the help."""
        from envprobe.report import nccl

        before = self.epilog
        self.epilog = f"\b\nMarks in the table:\n{_marks(nccl.MEANINGS)}\n\n{before or ''}"
        super().format_epilog(ctx, formatter)
        self.epilog = before


def _takes_one(option: Any) -> bool:
    return not (option.multiple or option.is_flag)


def _marks(meanings: Mapping[str, str]) -> str:
    return "\n".join(f"  {mark:2} {meaning}" for mark, meaning in meanings.items())


def _parts() -> tuple[str, ...]:
    from envprobe.process import roletable
    from envprobe.report import insidetable, matrix, nccltable

    marks = _marks(matrix.MEANINGS)
    inside = _marks(insidetable.MEANINGS)
    nccl = _marks(nccltable.MEANINGS)
    roles = ", ".join(sorted({row.role for row in roletable.rows() if row.role}))
    listed = textwrap.fill(roles, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return (
        f"Marks in the table (a, b, ... are other values, listed below it):\n{marks}",
        f"Marks in the table of what is inside the interpreters (likewise):\n{inside}",
        f"Marks in the table of what NCCL has read (likewise):\n{nccl}",
        f"Roles, for --wait ROLE=N and in envprobe.toml:\n{listed}",
        _EXAMPLE,
    )
