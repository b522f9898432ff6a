"""Names of GPU architectures, and which device runs which image.

Source: CUDA C++ Programming Guide, "Compute capabilities" and "Family-specific features"; NVIDIA's
nvcc documentation, "GPU feature list" and "Application compatibility".
"""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Final

from envprobe.errors import UsageError

_NAME: Final = re.compile(r"(?:sm_|compute_)?(\d{2,3})([af]?)")


class Runs(str, enum.Enum):
    """How a device comes to run an image."""

    AS_IT_IS = "as it is"
    COMPILED_BY_DRIVER = "compiled by the driver"
    NOT = "not"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Architecture:
    """A compute capability, ten times the major plus the minor number.

    `suffix`: `a` for code of this one capability only, `f` for code of its family, "" for neither.
    """

    number: int
    suffix: str = ""

    @classmethod
    def parse(cls, text: str) -> Architecture:
        """Return what `sm_120`, `compute_120`, `120` or `sm_90a` names; UsageError if nothing."""
        found = _NAME.fullmatch(text.strip())
        if found is None:
            raise UsageError(
                f'"{text}" names no architecture of a GPU', "Write for example sm_90 or sm_120."
            )
        return cls(int(found[1]), found[2])

    @property
    def major(self) -> int:
        """The major number of the compute capability."""
        return self.number // 10

    @property
    def capability(self) -> str:
        """The compute capability as NVIDIA writes it, such as 9.0."""
        return f"{self.major}.{self.number % 10}"

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"


def runs_machine_code(image: Architecture, device: Architecture) -> bool:
    """Return whether a device runs machine code (SASS) made for `image`.

    Within a major number from its minor number on; code with the suffix `a` on that device only.
    """
    if image.suffix == "a":
        return image.number == device.number
    return image.major == device.major and image.number <= device.number


def compiles_ptx(image: Architecture, device: Architecture) -> bool:
    """Return whether a driver can compile PTX made for `image` for a device.

    From that capability on, with the suffix `a` for that device only, with `f` for its family.
    """
    if image.suffix:
        return runs_machine_code(image, device)
    return image.number <= device.number
