"""Definitions that are no units: docker's env files, compose, Kubernetes."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Iterable
from typing import Any, Final

from envprobe import inputfile
from envprobe.errors import UsageError
from envprobe.launch import containers, kubernetes
from envprobe.launch.declared import Builder
from envprobe.launch.definition import Context, Definition, Origin
from envprobe.launch.kubernetes import Document
from envprobe.launch.peel import peel
from envprobe.launch.types import Place

_MAX_BYTES: Final = 16 << 20
_COMPOSE: Final = "Give it the output of `docker compose config --format json`."
_KUBE: Final = "Give it the output of `kubectl get -o json`, or manifests in YAML."
_IMAGE: Final = "Give it the output of `docker inspect IMAGE`."


def _read(path: str, remedy: str) -> bytes:
    try:
        return inputfile.read(path, _MAX_BYTES, remedy=remedy)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", remedy) from None


def _json(path: str, remedy: str) -> Any:
    try:
        return json.loads(_read(path, remedy))
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is no JSON", remedy) from None


def image(path: str) -> tuple[str, ...]:
    """Return the ENV of an image from a file with the output of `docker inspect`; UsageError."""
    try:
        return tuple(containers.image_environment(_json(path, _IMAGE)))
    except ValueError as error:
        raise UsageError(f"{path}: {error}", _IMAGE) from None


def of_env_file(path: str, context: Context) -> Definition:
    """Return what a docker `--env-file` declares."""
    raw = _read(path, "Give it the path of a file for `docker run --env-file`.")
    settings, remarks = containers.env_file(path, raw)
    builder = Builder()
    for one in settings:
        builder.set(one)
    open = "" if context.image is not None else containers.IMAGE_OPEN
    return Definition(
        subject=path,
        origin=Origin.ENV_FILE,
        files=(os.path.abspath(path),),
        declared=builder.made(open=open, source=path, at=time.time()),
        launches=(),
        remarks=tuple(remarks),
    )


def of_compose(path: str, service: str | None, context: Context) -> Definition:
    """Return what a service of a compose project declares; UsageError."""
    document = _json(path, _COMPOSE)
    try:
        if not isinstance(document, dict):
            raise ValueError("it is no compose project")
        name, settings, words = containers.compose(document, path, service)
    except containers.UnnamedError as error:
        raise UsageError(f"{path}: {error}", "Name one of them with --service.") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}", _COMPOSE) from None
    builder = Builder()
    for one in settings:
        builder.set(one)
    open = "" if context.image is not None else containers.IMAGE_OPEN
    declared = builder.made(open=open, source=name, at=time.time())
    return Definition(
        subject=f"{path} {name}",
        origin=Origin.COMPOSE,
        files=(os.path.abspath(path),),
        declared=declared,
        launches=(peel(declared, words, Place(path)),) if words else (),
        remarks=(),
    )


def of_kubernetes(paths: Iterable[str], container: str | None) -> tuple[Definition, ...]:
    """Return what the containers of the workloads in some files declare; UsageError."""
    documents: list[Document] = []
    named = tuple(paths)
    for path in named:
        documents += _objects(path)
    try:
        found = kubernetes.pods(documents, container)
    except containers.UnnamedError as error:
        told = f"{', '.join(named)}: {error}"
        raise UsageError(told, "Name one of them with --container, or none for all.") from None
    except ValueError as error:
        raise UsageError(f"{', '.join(named)}: {error}", _KUBE) from None
    return tuple(
        Definition(
            subject=one.subject,
            origin=Origin.POD,
            files=tuple(os.path.abspath(path) for path in named),
            declared=one.declared,
            launches=(peel(one.declared, one.words, one.place, cwd=one.cwd),) if one.words else (),
            remarks=one.remarks,
        )
        for one in found
    )


def _objects(path: str) -> list[Document]:
    raw = _read(path, _KUBE)
    try:
        found = [json.loads(raw)]
    except (ValueError, RecursionError):
        found = _yaml(path, raw)
    return [Document(Place(path), one) for one in found if isinstance(one, dict)]


def _yaml(path: str, raw: bytes) -> list[Any]:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise UsageError(
            f"{path} is no JSON, and YAML cannot be read without PyYAML",
            "Install envprobe[yaml], or give it the output of `kubectl get -o json`.",
        ) from None
    try:
        return list(yaml.safe_load_all(raw))
    except (yaml.YAMLError, RecursionError):
        raise UsageError(f"{path} is neither JSON nor YAML", _KUBE) from None
