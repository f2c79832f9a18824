"""Which port of which pod pods/proxy and services/proxy mean."""

from __future__ import annotations

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Endpoints, Pod, Service
from podsched.serve.server.rest.failures import RestError
from podsched.serve.server.rest.proxy_targets import asked_of, pod_port, pods_behind
from support.api_objects import pod

PORTS = [{"name": "web", "containerPort": 8080}]
NAMED = {"containers": [{"name": "c", "image": "i", "ports": PORTS}]}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("a", (False, "a", "")),
        ("a:80", (False, "a", "80")),
        ("http:a:web", (False, "a", "web")),
        ("https:a:443", (True, "a", "443")),
        ("https:a:", (True, "a", "")),
    ],
)
def test_a_name_may_have_a_scheme_and_a_port(text: str, asked: tuple[bool, str, str]) -> None:
    assert asked_of(text, "pod") == asked


@pytest.mark.parametrize("text", ["ftp:a:1", "a:b:c:d"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(RestError, match="invalid pod request"):
        asked_of(text, "pod")


def a_pod(named: bool) -> Pod:
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    message = from_manifest({**head, "spec": NAMED}).message
    assert isinstance(message, Pod)
    return message if named else pod("p")


def test_a_port_is_asked_for_by_number_or_name_or_is_the_first_one() -> None:
    assert [pod_port(a_pod(named=True), port) for port in ("", "web", "81")] == [8080, 8080, 81]
    assert pod_port(a_pod(named=False), "") == 80


@pytest.mark.parametrize("port", ["0", "65536", "99999999999", "other", "-1"])
def test_a_port_that_cannot_be_is_refused(port: str) -> None:
    with pytest.raises(RestError, match="it has no such port"):
        pod_port(a_pod(named=True), port)


def test_addresses_that_are_no_pods_of_the_namespace_are_left_out() -> None:
    metadata = {"namespace": "default", "name": "s"}
    service = Service(metadata=metadata)
    service.spec.ports.add(name="http", port=80)
    endpoints = Endpoints(metadata=metadata)
    subset = endpoints.subsets.add()
    subset.ports.add(name="http", port=8080)
    for namespace, name in (("default", "a"), ("other", "b")):
        target = {"kind": "Pod", "namespace": namespace, "name": name}
        subset.addresses.add(ip="10.0.0.1", target_ref=target)
    subset.addresses.add(ip="169.254.169.254")
    for port in ("", "80", "http"):
        assert pods_behind(service, endpoints, port) == [("a", 8080)]
    with pytest.raises(RestError, match="no service port 81 found"):
        pods_behind(service, endpoints, "81")
    with pytest.raises(RestError, match="no endpoints available"):
        pods_behind(service, Endpoints(), "80")
