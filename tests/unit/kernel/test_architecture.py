from __future__ import annotations

import pytest

from envprobe.errors import UsageError
from envprobe.kernel.architecture import Architecture, compiles_ptx, runs_machine_code


@pytest.mark.parametrize(
    ("text", "name", "capability"),
    [
        ("sm_120", "sm_120", "12.0"),
        ("compute_90", "sm_90", "9.0"),
        ("86", "sm_86", "8.6"),
        (" sm_90a ", "sm_90a", "9.0"),
        ("sm_100f", "sm_100f", "10.0"),
    ],
)
def test_names(text: str, name: str, capability: str) -> None:
    parsed = Architecture.parse(text)
    assert (str(parsed), parsed.capability) == (name, capability)


@pytest.mark.parametrize("text", ["", "sm_", "sm_9", "sm_1200", "sm_90b", "hopper", "sm_90 a"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no architecture"):
        Architecture.parse(text)


@pytest.mark.parametrize(
    ("image", "device", "machine_code", "ptx"),
    [
        ("sm_80", "sm_86", True, True),
        ("sm_86", "sm_80", False, False),
        ("sm_80", "sm_90", False, True),
        ("sm_90", "sm_120", False, True),
        ("sm_120", "sm_121", True, True),
        ("sm_120", "sm_90", False, False),
        ("sm_90a", "sm_90", True, True),
        ("sm_90a", "sm_100", False, False),
        ("sm_100a", "sm_103", False, False),
        ("sm_100f", "sm_103", True, True),
        ("sm_100f", "sm_120", False, False),
        ("sm_120f", "sm_120", True, True),
    ],
)
def test_which_device_runs_which_image(
    image: str, device: str, machine_code: bool, ptx: bool
) -> None:
    made, on = Architecture.parse(image), Architecture.parse(device)
    assert runs_machine_code(made, on) == machine_code
    assert compiles_ptx(made, on) == ptx
