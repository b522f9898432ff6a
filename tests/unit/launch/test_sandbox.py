"""The sandbox of a unit: which properties are in force, and which paths they concern."""

from __future__ import annotations

import pytest

from envprobe.launch import sandbox, unit, unitfile
from envprobe.launch.sandbox import Property, Sees
from envprobe.launch.specifiers import Scope


def _read(*lines: str, uid: int = 0) -> tuple[Property, ...]:
    text = "\n".join(["[Service]", *lines, "ExecStart=/bin/true", ""])
    scope = Scope("sgl.service", uid=uid, variables={"HOME": "/home/u"}, user_manager=uid != 0)
    return unit.read(scope, [unitfile.parse("/x/sgl.service", text.encode())]).sandbox


def _by(properties: tuple[Property, ...], path: str) -> str:
    found = sandbox.concerning(properties, path)
    return "" if found is None else str(found)


@pytest.mark.parametrize(
    ("line", "path", "concerned"),
    [
        ("ProtectHome=yes", "/home/u/hooks", True),
        ("ProtectHome=TMPFS", "/root/x", True),
        ("ProtectHome=read-only", "/home/u/hooks", False),
        ("ProtectHome=no", "/home/u/hooks", False),
        ("ProtectHome=perhaps", "/home/u/hooks", False),
        ("ProtectHome=yes", "/homes/u", False),
        ("PrivateTmp=on", "/tmp/hooks", True),
        ("PrivateTmp=disconnected", "/var/tmp/x", True),
        ("PrivateTmp=", "/tmp/hooks", False),
        ("PrivateTmp=1", "/opt/hooks", False),
        ("DynamicUser=true", "/var/tmp/hooks", True),
        ("ProtectSystem=strict", "/usr/lib/python3", False),
        ("PrivateMounts=yes", "/usr/lib/python3", False),
        ("RootDirectory=/srv/root", "/usr/bin/python3", True),
        ("RootDirectory=/", "/usr/bin/python3", False),
        ("RootImage=/srv/root.raw", "/usr/bin/python3", True),
        ("BindPaths=/data/hooks:/opt/hooks", "/opt/hooks/x.py", True),
        ("BindPaths=/data/hooks:/opt/hooks", "/data/hooks/x.py", False),
        ("BindPaths=-/data/hooks", "/data/hooks/x.py", False),
        ("BindReadOnlyPaths=/a:/b:norbind /c:/d", "/d/x", True),
        ('BindPaths="/a\\\\:b:/c"', "/c/x", True),
        ("InaccessiblePaths=-/opt +/srv", "/srv/x", True),
        ("TemporaryFileSystem=/opt:ro,mode=0755", "/opt/x", True),
        ("TemporaryFileSystem=%h/x", "/root/x/y", True),
        ("MountImages=/img.raw:/mnt/a", "/mnt/a/x", True),
        ("ExtensionImages=/img.raw", "/opt/x", True),
        ("ExtensionDirectories=/ext", "/usr/x", True),
        ("InaccessiblePaths=relative", "/relative", False),
    ],
)
def test_what_one_property_concerns(line: str, path: str, concerned: bool) -> None:
    assert bool(_by(_read(line), path)) == concerned


def test_the_innermost_path_decides() -> None:
    found = _read(
        "ProtectHome=tmpfs", "BindReadOnlyPaths=/home/u/venv", "InaccessiblePaths=/home/u/venv/x"
    )
    assert _by(found, "/home/u/hooks") == "ProtectHome=tmpfs"
    assert _by(found, "/home/u/venv/bin/python") == ""
    assert _by(found, "/home/u/venv/x/y") == "InaccessiblePaths=/home/u/venv/x"


def test_a_later_line_and_an_empty_one() -> None:
    assert _read("ProtectHome=yes", "ProtectHome=no") == ()
    assert _read("PrivateTmp=yes", "PrivateTmp=maybe")[0].place.line == 2
    assert _read("RootDirectory=/a", "RootDirectory=") == ()
    # An empty line of either bind list empties both (systemd.exec(5)).
    binds = _read("BindPaths=/a:/b", "BindReadOnlyPaths=", "InaccessiblePaths=/c")
    assert [str(one) for one in binds] == ["InaccessiblePaths=/c"]
    assert _read("InaccessiblePaths=/c", "InaccessiblePaths=") == ()


def test_what_only_the_manager_knows_concerns_every_path() -> None:
    (one,) = _read("InaccessiblePaths=%d/x")
    assert (one.sees, one.paths) == (Sees.OTHER, ("/",))
    assert "known to the manager only" in one.unknown
    assert _by((one,), "/usr/bin/python3") == "InaccessiblePaths=%d/x"
