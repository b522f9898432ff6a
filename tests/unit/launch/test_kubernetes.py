"""A container's environment is put together as the kubelet does it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from envprobe.launch import kubernetes
from envprobe.launch.kubernetes import Document, Pod
from envprobe.launch.types import Place
from envprobe.model import State

PLACE = Place("pod.json")


def _pod(*extra: dict[str, Any], links: bool = False, **container: Any) -> Pod:
    spec = {"containers": [{"name": "c", **container}], "enableServiceLinks": links}
    workload = {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": spec}},
    }
    documents = [Document(PLACE, one) for one in (workload, *extra)]
    (found,) = kubernetes.pods(documents, None)
    return found


def _value(pod: Pod, name: str) -> bytes | None:
    value = pod.declared.reading(name).value
    return None if value is None else value.reveal()


def test_references_look_backwards_only() -> None:
    pod = _pod(
        env=[
            {"name": "LATE", "value": "$(ROOT)/x"},
            {"name": "ROOT", "value": "/opt"},
            {"name": "PYTHONPATH", "value": "$(ROOT)/hooks:$$(ROOT):$ROOT:$(NOPE"},
        ],
        command=["python3", "-m", "sglang.launch_server", "--x", "$(ROOT)"],
    )
    assert _value(pod, "LATE") == b"$(ROOT)/x"
    assert _value(pod, "PYTHONPATH") == b"/opt/hooks:$(ROOT):$ROOT:$(NOPE"
    assert pod.words[-1] == "/opt"
    (remark,) = pod.remarks
    assert (remark.kind.value, remark.name) == ("reference-literal", "LATE")


def test_env_overrides_env_from_and_later_sources_the_earlier() -> None:
    one = {"kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"A": "1", "B": "1", "C": "1"}}
    secret = base64.b64encode(b"s3").decode()
    two = {"kind": "Secret", "metadata": {"name": "two"}, "data": {"B": secret, "bad name": secret}}
    pod = _pod(
        one,
        two,
        envFrom=[{"configMapRef": {"name": "one"}}, {"secretRef": {"name": "two"}}],
        env=[
            {"name": "C", "value": "$(A)2"},
            {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "A"}}},
        ],
    )
    found = {name: _value(pod, name) for name in "ABCK"}
    assert found == {"A": b"1", "B": b"s3", "C": b"12", "K": b"1"}
    assert pod.declared.entry("bad name") is None


def test_what_was_not_given_is_not_known() -> None:
    pod = _pod(
        env=[
            {"name": "A", "value": "1"},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "T", "value": "$(S)"},
        ],
        envFrom=[{"configMapRef": {"name": "gone"}}],
    )
    assert _value(pod, "A") == b"1"
    for name in ("S", "T", "OTHER"):
        assert pod.declared.reading(name).state is State.UNREADABLE
    assert [one.kind.value for one in pod.remarks] == ["file-unreadable"]


def test_a_service_called_vllm_sets_vllm_port() -> None:
    service = {
        "kind": "Service",
        "metadata": {"name": "vllm"},
        "spec": {"clusterIP": "10.0.0.7", "ports": [{"name": "http", "port": 8000}]},
    }
    pod = _pod(service, links=True, env=[{"name": "A", "value": "1"}])
    assert _value(pod, "VLLM_PORT") == b"tcp://10.0.0.7:8000"
    assert _value(pod, "VLLM_SERVICE_HOST") == b"10.0.0.7"
    assert _value(pod, "VLLM_SERVICE_PORT_HTTP") == b"8000"
    assert _value(pod, "VLLM_PORT_8000_TCP_ADDR") == b"10.0.0.7"
    assert ("service-link", "VLLM_PORT") in {(one.kind.value, one.name) for one in pod.remarks}
    assert _pod(service, env=[]).declared.entry("VLLM_PORT") is None
    own = _pod(service, links=True, env=[{"name": "VLLM_PORT", "value": "8000"}])
    assert _value(own, "VLLM_PORT") == b"8000"


def test_a_file_without_a_workload() -> None:
    with pytest.raises(ValueError, match="no workload"):
        kubernetes.pods([Document(PLACE, {"kind": "Service"})], None)


def test_a_service_of_a_manifest_has_no_address_yet() -> None:
    spec = {"ports": [{"port": 8000, "name": "http"}]}
    service = {"kind": "Service", "metadata": {"name": "vllm"}, "spec": spec}
    pod = _pod(service, links=True, env=[{"name": "URL", "value": "$(VLLM_PORT)/v1"}])
    assert pod.declared.reading("VLLM_PORT").state is State.UNREADABLE
    assert pod.declared.reading("URL").state is State.UNREADABLE
    assert _value(pod, "VLLM_SERVICE_PORT_HTTP") == b"8000"
    assert {one.kind.value for one in pod.remarks} == {"service-link"}


def test_the_clusters_own_service_is_there_without_links() -> None:
    reference = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
    pod = _pod(env=[{"name": "API", "value": reference}])
    assert pod.declared.reading("API").state is State.UNREADABLE
    assert pod.remarks == ()


def test_objects_of_another_namespace_do_not_count() -> None:
    def of(namespace: str, value: str) -> dict[str, Any]:
        metadata = {"name": "one", "namespace": namespace}
        return {"kind": "ConfigMap", "metadata": metadata, "data": {"A": value, "1B": "x"}}

    spec = {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "one"}}]}]}
    workload = {"kind": "Pod", "metadata": {"name": "p", "namespace": "b"}, "spec": spec}
    documents = [Document(PLACE, one) for one in (of("a", "no"), of("b", "yes"), workload)]
    (pod,) = kubernetes.pods(documents, None)
    assert _value(pod, "A") == b"yes"
    # Whether a name that begins with a digit is handed over depends on the version.
    assert pod.declared.reading("1B").state is State.UNREADABLE


def test_an_optional_key_that_is_missing_sets_nothing() -> None:
    one = {"kind": "ConfigMap", "metadata": {"name": "one"}, "data": {}}
    key = {"name": "one", "key": "A", "optional": True}
    pod = _pod(one, env=[{"name": "A", "valueFrom": {"configMapKeyRef": key}}])
    assert pod.declared.entry("A") is None
