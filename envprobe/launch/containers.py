"""Containers: what docker, podman and compose hand over, which is only what they are told.

The rest of a line of an `--env-file` is the value, quotes included; a name alone takes the caller's
value (docker/cli 29.7.2: pkg/kvfile/kvfile.go, opts/env.go). Files count before `-e`. A name of
`-e` that the caller has not set takes the image's own out (moby: container/env.go). podman: `-e A*`
takes all that begin with A, `--env-host` all there is (podman-run(1)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from envprobe.launch import options
from envprobe.launch.declared import Builder, setting
from envprobe.launch.environment import read_file
from envprobe.launch.options import OpaqueError
from envprobe.launch.steps import Container, State
from envprobe.launch.types import Kind, Place, Remark, Setting, Source
from envprobe.values import Value

RUNTIMES: Final = ("docker", "podman", "nerdctl")
IMAGE_OPEN: Final = "the image may set variables of its own"
_IMAGE: Final = Place("the image")
_SCALAR: Final = (str, int, float, bool, type(None))
Look = Callable[[str], "Value | None"] | None


class UnnamedError(ValueError):
    """One of several has to be named, or is named by a name that it does not have."""


def peel(state: State, words: Sequence[str], image: Iterable[str] | None) -> Container:
    """Read `docker run` and its kin; `image` holds the image's own `NAME=VALUE`s, if known."""
    taken = options.of("docker", words[1:])
    command = [*taken.rest]
    if command[:1] == ["container"]:
        command = command[1:]
    if command[:1] not in (["run"], ["create"]):
        raise OpaqueError(f"only `{words[0].rpartition('/')[2]} run` starts a container from here")
    inner = options.of("docker run", command[1:])
    passed = [_of_image(one) for one in image or ()]
    doubts = [] if image is not None else [IMAGE_OPEN]
    doubts += _take(state, inner, passed, podman=words[0].rpartition("/")[2] == "podman")
    if not inner.rest:
        raise OpaqueError("no image is named")
    entry = inner.values("--entrypoint")
    rest = ((entry[-1],) if entry and entry[-1] else ()) + tuple(inner.rest[1:])
    runtime = words[0].rpartition("/")[2]
    builder = Builder()
    for one in passed:
        builder.set(one)
    declared = builder.made(
        open="; ".join(dict.fromkeys(filter(None, doubts))), source=str(state.place)
    )
    known = image is not None
    return Container(runtime, inner.rest[0], state.place, tuple(passed), known, rest, declared)


def _take(
    state: State, taken: options.Taken, passed: list[Setting], *, podman: bool
) -> Iterator[str]:
    """Add to `passed` what options pass, and take out what they take out of the image's own.

    Yields why other names may be passed as well.
    """
    if podman and taken.has("--env-host"):
        passed += [one for name in state.builder.names for one in _named(state, name)]
        yield state.open
    for path in taken.values("--env-file"):
        found = _file(state, path)
        passed += found or ()
        if found is None:
            yield f"{state.path(path)} cannot be read, and is passed to the container"
    for value in taken.values("-e", "--env"):
        if podman and value.endswith("*") and "=" not in value:
            names = [one for one in state.builder.names if one.startswith(value[:-1])]
            passed += [one for name in names for one in _named(state, name)]
            yield state.open
        elif found := _named(state, value):
            passed += found
        else:
            passed[:] = [one for one in passed if (one.name, one.place) != (value, _IMAGE)]


def _of_image(text: str) -> Setting:
    name, _, value = text.partition("=")
    return setting(name, value, Source.CONTAINER, _IMAGE)


def _named(state: State, text: str) -> list[Setting]:
    """Return what `-e NAME` or `-e NAME=VALUE` passes; an unset NAME is not passed."""
    name, equals, value = text.partition("=")
    if equals:
        return [setting(name, value, Source.CONTAINER, state.place)]
    found = state.builder.value(name)
    if found is not None:
        return [Setting(name, found, Source.CONTAINER, state.place)]
    if state.look(name) == "":
        about = f"-e {name} passes nothing: {name} is not set where the container is started, and"
        about += " what the image sets under this name is taken out"
        state.remarks.append(Remark(Kind.PASSED_UNSET, state.place, about, name))
        return []
    reason = "the value is that of the program that starts the container, which is not known"
    return [Setting(name, None, Source.CONTAINER, state.place, reason)]


def _file(state: State, path: str) -> list[Setting] | None:
    """Return what a file passes, None where it cannot be read."""
    full = state.path(path)
    try:
        raw = read_file(full)
    except OSError:
        return None
    settings, remarks = env_file(full, raw, look=state.builder.value)
    state.remarks += remarks
    return settings


def env_file(path: str, raw: bytes, look: Look = None) -> tuple[list[Setting], list[Remark]]:
    """Return what a docker `--env-file` sets; `look` gives the caller's value of a name alone."""
    found: list[Setting] = []
    remarks: list[Remark] = []
    text = raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    for number, raw_line in enumerate(text.split("\n"), 1):
        line = raw_line.removesuffix("\r").lstrip()
        place = Place(path, number)
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        raw_value = Value(value.encode("utf-8", "surrogateescape"))
        if not name or any(one in " \t" for one in name):
            about = "docker refuses the file: a name must not be empty or hold blanks"
            kind = Kind.FILE_EXPORT if name.startswith("export ") else Kind.FILE_BAD_NAME
            text_value = Value(name.encode("utf-8", "surrogateescape"))
            remarks.append(Remark(kind, place, about, name.rpartition(" ")[2], text_value))
        elif equals:
            found.append(Setting(name, raw_value, Source.CONTAINER, place))
            remarks += _odd(name, value, place)
        else:
            found += _alone(name, place, look, remarks)
    return found, remarks


def _alone(name: str, place: Place, look: Look, remarks: list[Remark]) -> list[Setting]:
    value = None if look is None else look(name)
    about = "a name alone passes the value that it has where docker is run, if any"
    remarks.append(Remark(Kind.FILE_NAME_ALONE, place, about, name))
    reason = "" if value is not None else "the value is that of the program that runs docker"
    return [Setting(name, value, Source.CONTAINER, place, reason)]


def _odd(name: str, value: str, place: Place) -> Iterable[Remark]:
    text = Value(value.encode("utf-8", "surrogateescape"))
    if value[:1] in ("'", '"') and value[-1:] == value[:1]:
        about = "docker takes the rest of the line as it is: the quotes are part of the value"
        yield Remark(Kind.FILE_QUOTES_KEPT, place, about, name, text)
    if " #" in value:
        about = "what looks like a comment is part of the value"
        yield Remark(Kind.FILE_COMMENT_IN_VALUE, place, about, name, text)
    if "$" in value:
        about = "variables are not expanded here: the text is handed over as it is"
        yield Remark(Kind.FILE_DOLLAR, place, about, name, text)


def compose(
    document: Mapping[str, Any], path: str, service: str | None
) -> tuple[str, list[Setting], tuple[str, ...]]:
    """Return a service's name, settings and command from `docker compose config --format json`.

    Its output holds the result of `env_file` and of all interpolation, with each `$` doubled
    (docker/compose: cmd/compose/config.go). Raises ValueError.
    """
    services = document.get("services")
    if not isinstance(services, dict) or not services:
        raise ValueError("it names no services")
    if service is None:
        if len(services) > 1:
            raise UnnamedError(f"it has several services: {', '.join(sorted(services))}")
        service = next(iter(services))
    found = services.get(service)
    if not isinstance(found, dict):
        raise UnnamedError(f"it has no service {service}; it has {', '.join(sorted(services))}")
    given = found.get("environment") or {}
    if isinstance(given, list):
        given = dict(_pair(one) for one in given)
    if not isinstance(given, dict) or not all(isinstance(one, _SCALAR) for one in given.values()):
        raise ValueError(f"the environment of {service} is no object of texts")
    place = Place(path)
    settings = [
        Setting(name, None, Source.CONTAINER, place, "the value is that of the shell")
        if value is None
        else setting(str(name), _single(_scalar(value)), Source.CONTAINER, place)
        for name, value in given.items()
    ]
    words = [*_list(found.get("entrypoint")), *_list(found.get("command"))]
    return service, settings, tuple(map(_single, words))


def _pair(text: object) -> tuple[str, str | None]:
    """Return name and value of a word NAME=VALUE; without a value it is that of the shell."""
    if not isinstance(text, str):
        raise ValueError("an environment is a list of NAME=VALUE")
    name, equals, value = text.partition("=")
    return name, value if equals else None


def _single(text: str) -> str:
    return text.replace("$$", "$")


def image_environment(document: Any) -> list[str]:
    """Return the ENV of an image or container from the output of `docker inspect`; ValueError."""
    one = document[0] if isinstance(document, list) and document else document
    config = one.get("Config") if isinstance(one, dict) else None
    if not isinstance(config, dict):
        raise ValueError("it is no output of `docker inspect`")
    found = config.get("Env") or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("its Env is no list of texts")
    return found


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(value: Any) -> list[str]:
    words = value.split() if isinstance(value, str) else value or []
    if not isinstance(words, list) or not all(isinstance(one, str) for one in words):
        raise ValueError("a command is a text or a list of texts")
    return words
