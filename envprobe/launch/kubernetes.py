"""A Kubernetes container's environment, from its definition and the objects that it refers to.

Source: kubernetes/kubernetes, pkg/kubelet/kubelet_pods.go makeEnvironmentVariables and
getServiceEnvVarMap (commit 001a80e9), pkg/kubelet/envvars/envvars.go
(0359a856); $(NAME): third_party/forked/golang/expansion.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from envprobe.launch.containers import UnnamedError
from envprobe.launch.declared import Builder, Declared, setting
from envprobe.launch.types import Kind, Place, Remark, Setting, Source
from envprobe.redact import DEFAULT_WANTED, is_wanted
from envprobe.values import Value

_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_TEMPLATES: Final = (("spec",), ("spec", "template", "spec"))
_CRON: Final = ("spec", "jobTemplate", "spec", "template", "spec")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
"""What a key of a ConfigMap or Secret may be: the API server takes no other."""

_OF_CLUSTER: Final = re.compile(
    r"KUBERNETES_(?:SERVICE_(?:HOST|PORT(?:_HTTPS)?)|PORT(?:_443_TCP.*)?)"
)
"""What each container gets for the cluster's own service, with enableServiceLinks or without."""

_RELAXED: Final = "before Kubernetes 1.32 the kubelet leaves out a name like this"
"""The feature gate RelaxedEnvironmentVariableValidation (pkg/features/kube_features.go)."""

_LINKS: Final = (
    "service links may set NAME_PORT and its kin for each service of the namespace"
    " (enableServiceLinks)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """One container of a workload: what it declares, and the words that it runs."""

    subject: str
    declared: Declared
    words: tuple[str, ...]
    cwd: str
    remarks: tuple[Remark, ...]
    place: Place


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One object of a file."""

    place: Place
    object: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What kind of object it is."""
        return str(self.object.get("kind", ""))

    @property
    def name(self) -> str:
        """The object's name."""
        return str(_inside(self.object, "metadata").get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace that it names, "" for none."""
        return str(_inside(self.object, "metadata").get("namespace") or "")


def _inside(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under a key, {} where there is none; ValueError for what is no object."""
    found = of.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise ValueError(f"its {key} is no object")
    return found or {}


def _each(of: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list under a key; ValueError for what is no list of objects."""
    for one in _list(of, key):
        if not isinstance(one, Mapping):
            raise ValueError(f"its {key} holds something that is no object")
        yield one


def _list(of: Mapping[str, Any], key: str) -> list[Any]:
    found = of.get(key)
    if found is not None and not isinstance(found, list):
        raise ValueError(f"its {key} is no list")
    return found or []


def flattened(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield the documents, those of a List one by one."""
    for one in documents:
        items = one.object.get("items")
        if isinstance(items, list):
            for item in items:
                if isinstance(item, Mapping):
                    yield Document(one.place, item)
        else:
            yield one


def pods(documents: Iterable[Document], container: str | None) -> list[Pod]:
    """Return the containers of all workloads, or the one with this name.

    Raises ValueError if there is none, and for what is no object of Kubernetes by its shape.
    """
    every = list(flattened(documents))
    found: list[Pod] = []
    others: list[str] = []
    for one in every:
        spec = _pod_spec(one.object)
        if spec is None:
            continue
        try:
            for each in _each(spec, "containers"):
                name = str(each.get("name", ""))
                if container is None or name == container:
                    found.append(_Container(one, spec, each, every).pod())
                else:
                    others.append(name)
        except ValueError as error:
            raise ValueError(f"{one.kind}/{one.name}: {error}") from None
    if others and not found:
        raise UnnamedError(f"it has no container {container}; it has {', '.join(sorted(others))}")
    if not found:
        raise ValueError("there is no workload with containers in it")
    return found


def _pod_spec(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for path in (*_TEMPLATES, _CRON):
        inside: Any = document
        for key in path:
            inside = inside.get(key) if isinstance(inside, Mapping) else None
        if isinstance(inside, Mapping) and isinstance(inside.get("containers"), list):
            return inside
    return None


class _Container:
    def __init__(
        self,
        document: Document,
        spec: Mapping[str, Any],
        container: Mapping[str, Any],
        every: list[Document],
    ) -> None:
        self.document = document
        self.place = document.place
        self.spec = spec
        self.container = container
        self.every = every
        self.builder = Builder()
        self.remarks: list[Remark] = []
        self.open: list[str] = ["the image may set variables of its own"]

    def pod(self) -> Pod:
        self.links()
        for one in _each(self.container, "envFrom"):
            self.env_from(one)
        for one in _each(self.container, "env"):
            self.env(one)
        given = [*_list(self.container, "command"), *_list(self.container, "args")]
        words = tuple(self.expanded(str(one), "")[0] for one in given)
        name = f"{self.document.kind}/{self.document.name}/{self.container.get('name', '')}"
        declared = self.builder.made(open="; ".join(self.open), source=name)
        has_command = bool(self.container.get("command"))
        cwd = str(self.container.get("workingDir") or "")
        return Pod(
            name, declared, words if has_command else (), cwd, tuple(self.remarks), self.place
        )

    def remark(self, kind: Kind, about: str, name: str = "", value: str | None = None) -> None:
        text = None if value is None else Value(value.encode("utf-8", "surrogateescape"))
        self.remarks.append(Remark(kind, self.place, about, name, text))

    def links(self) -> None:
        """Set what service links set; they count least."""
        if self.spec.get("enableServiceLinks") is False:
            return
        services = [one for one in self.every if one.kind == "Service" and self.is_near(one)]
        if not services:
            self.open.append(_LINKS)
        for one in services:
            for name, value in service_variables(one.object).items():
                if value is None:
                    reason = "the service gets its address when it is made"
                    self.builder.set(Setting(name, None, Source.CONTAINER, one.place, reason))
                else:
                    self.builder.set(setting(name, value, Source.CONTAINER, one.place))
                if name == f"{_prefix(one.name)}_PORT" and is_wanted(name, DEFAULT_WANTED):
                    about = f"the service {one.name} sets it by a service link"
                    self.remark(Kind.SERVICE_LINK, about, name, value)

    def env_from(self, one: Mapping[str, Any]) -> None:
        prefix = str(one.get("prefix") or "")
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if key not in one:
                continue
            source = self.source(kind, _inside(one, key))
            if source is None:
                continue
            for name, value in _data(source.object).items():
                if not _KEY.fullmatch(name):
                    continue
                known = value if _NAME.fullmatch(prefix + name) else None
                reason = "" if known is value else _RELAXED
                made = Setting(prefix + name, known, Source.CONTAINER, source.place, reason)
                self.builder.set(made)

    def source(self, kind: str, reference: Mapping[str, Any]) -> Document | None:
        """Return a ConfigMap or Secret among the documents; else anything may be set."""
        name = str(reference.get("name", ""))
        for one in self.every:
            if one.kind == kind and one.name == name and self.is_near(one):
                return one
        self.open.append(f"the {kind} {name} was not given")
        self.builder.doubt(f"the {kind} {name} was not given")
        optional = "" if reference.get("optional") else ", and without it the pod does not start"
        about = f"the {kind} {name} is not among the files{optional}"
        self.remark(Kind.FILE_UNREADABLE, about)
        return None

    def is_near(self, one: Document) -> bool:
        """Return whether an object may be in the namespace of the workload."""
        return not one.namespace or one.namespace == (self.document.namespace or one.namespace)

    def env(self, one: Mapping[str, Any]) -> None:
        name = str(one.get("name", ""))
        if one.get("valueFrom") is not None and not one.get("value"):
            self.value_from(name, _inside(one, "valueFrom"))
            return
        given = one.get("value")
        if not isinstance(given, str | None):
            about = "the value is no text, and the API server refuses the object: put it in quotes"
            self.remark(Kind.FILE_REFUSED, about, name, str(given))
        text, unknown = self.expanded("" if given is None else str(given), name)
        if unknown:
            reason = f"it refers to {unknown}, which is not known"
            self.builder.set(Setting(name, None, Source.CONTAINER, self.place, reason))
        else:
            self.builder.set(setting(name, text, Source.CONTAINER, self.place))

    def value_from(self, name: str, given: Mapping[str, Any]) -> None:
        value = None
        reason = "its value is that of the pod when it runs"
        for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if key in given:
                reference = _inside(given, key)
                wanted = str(reference.get("name", ""))
                reason = f"the {kind} {wanted} was not given"
                named = [one for one in self.every if (one.kind, one.name) == (kind, wanted)]
                found = [one for one in named if self.is_near(one)]
                if found:
                    value = _data(found[0].object).get(str(reference.get("key", "")))
                    reason = "" if value is not None else f"the {kind} {wanted} has no such key"
                if found and value is None and reference.get("optional"):
                    return
        if _inside(given, "fieldRef").get("fieldPath") == "metadata.name":
            reason = "it is the pod's name"
        self.builder.set(Setting(name, value, Source.CONTAINER, self.place, reason))

    def expanded(self, text: str, name: str) -> tuple[str, str]:
        """Return a text with $(NAME) replaced, and a name whose value cannot be told."""
        unknown = ""

        def replaced(match: re.Match[str]) -> str:
            nonlocal unknown
            if match[1] is None:
                return "$"
            value = self.builder.value(match[1])
            if value is not None:
                return value.reveal().decode("utf-8", "surrogateescape")
            unknown_here = len(self.open) > 1 or _OF_CLUSTER.fullmatch(match[1])
            if self.builder.has(match[1]) or unknown_here:
                unknown = match[1]
                return match[0]
            about = f"$({match[1]}) stands for nothing here: no variable of that name comes before"
            self.remark(Kind.REFERENCE_LITERAL, f"{about}, and the text itself stays", name, text)
            return match[0]

        return _REFERENCE.sub(replaced, text), unknown


def _data(source: Mapping[str, Any]) -> dict[str, Value | None]:
    found: dict[str, Value | None] = {}
    for name, text in _inside(source, "data").items():
        if source.get("kind") == "Secret":
            try:
                found[str(name)] = Value(base64.b64decode(str(text), validate=True))
            except (binascii.Error, ValueError):
                found[str(name)] = None
        else:
            found[str(name)] = Value(str(text).encode("utf-8", "surrogateescape"))
    for name, text in _inside(source, "stringData").items():
        found[str(name)] = Value(str(text).encode("utf-8", "surrogateescape"))
    return found


def _prefix(name: str) -> str:
    return name.upper().replace("-", "_")


def service_variables(service: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the variables that a service link sets; None: with an address that is not known yet.

    A service of which only the manifest is there has no address.
    """
    spec = _inside(service, "spec")
    name = _prefix(str(_inside(service, "metadata").get("name", "")))
    host = str(spec.get("clusterIP") or "")
    ports = list(_each(spec, "ports"))
    if not ports or host == "None" or spec.get("type") == "ExternalName":
        return {}
    address = host or None
    found: dict[str, str | None] = {
        f"{name}_SERVICE_HOST": address,
        f"{name}_SERVICE_PORT": str(ports[0].get("port")),
    }
    for one in ports:
        if one.get("name"):
            found[f"{name}_SERVICE_PORT_{_prefix(str(one['name']))}"] = str(one.get("port"))
    for number, one in enumerate(ports):
        protocol, port = str(one.get("protocol") or "TCP"), one.get("port")
        url = f"{protocol.lower()}://{host}:{port}" if host else None
        if number == 0:
            found[f"{name}_PORT"] = url
        prefix = f"{name}_PORT_{port}_{protocol.upper()}"
        found |= {
            prefix: url,
            f"{prefix}_PROTO": protocol.lower(),
            f"{prefix}_PORT": str(port),
            f"{prefix}_ADDR": address,
        }
    return found
