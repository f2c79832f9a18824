"""What an audit event says of a call."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from podsched.api.kinds import wrap
from podsched.api.manifest import from_manifest
from podsched.api.objects import Pod
from podsched.api.reasons import StatusCode
from podsched.serve.server import errors
from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.audit.events import (
    MAX_CONTENT,
    AuditedCall,
    Level,
    attributes_of,
    event_line,
    event_of,
    source_ip,
)
from podsched.serve.server.requests import Batch
from podsched.v1 import api_pb2 as v1
from podsched.v1.objects_pb2 import Secret

ALICE = Identity("alice", frozenset({"dev"}), Authentication.CERTIFICATE)


def pod(name: str, **env: str) -> Pod:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "image": "a",
                    "env": [{"name": k, "value": v} for k, v in env.items()],
                }
            ]
        },
    }
    return from_manifest(manifest).message  # type: ignore[return-value]


def audited(method: str, request: Any, **changed: Any) -> AuditedCall:
    fields: dict[str, Any] = {
        "method": method,
        "request": request,
        "response": b"",
        "identity": ALICE,
        "peer": "ipv4:10.1.2.3:4711",
        "user_agent": "grpc-python",
        "request_id": "request-1",
        "code": StatusCode.OK,
        "error": None,
        "received": 1_700_000_000.0,
        "completed": 1_700_000_000.25,
    }
    return AuditedCall(**{**fields, **changed})


def batch(*pods: Pod) -> Batch[Any]:
    return Batch(v1.CreatePodsRequest(), [p.SerializeToString() for p in pods], Pod.FromString)


def test_an_event_names_the_user_whose_rights_the_caller_took() -> None:
    bob = Identity("bob", frozenset({"dev"}), Authentication.CERTIFICATE)
    call = audited("Delete", v1.DeleteRequest(kind="pods"), impersonated=bob)
    event = json.loads(event_line(call, Level.METADATA))
    assert event["user"]["username"] == "alice"
    assert event["impersonatedUser"] == {"username": "bob", "groups": ["dev"]}


def test_an_event_says_who_did_what_when_and_how_it_ended() -> None:
    request = v1.DeleteRequest(kind="pods", namespace="shop", name="web")
    event = json.loads(event_line(audited("Delete", request), Level.METADATA))
    assert event["apiVersion"] == "audit.k8s.io/v1"
    assert event["auditID"] == "request-1"
    assert event["user"] == {"username": "alice", "groups": ["dev"]}
    assert event["verb"] == "delete"
    assert event["objectRef"] == {"resource": "pods", "namespace": "shop", "name": "web"}
    assert event["sourceIPs"] == ["10.1.2.3"]
    assert event["responseStatus"] == {"code": 200}
    assert event["requestReceivedTimestamp"] == "2023-11-14T22:13:20.000000Z"
    assert event["stageTimestamp"] == "2023-11-14T22:13:20.250000Z"
    assert event["annotations"]["podsched.io/latency-seconds"] == "0.250000"
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert "requestObject" not in event


def test_a_refusal_has_its_reason() -> None:
    error = errors.unauthenticated("who are you?")
    call = audited("Get", None, identity=None, code=error.code, error=error)
    event = event_of(call, Level.METADATA)
    assert event["user"]["username"] == "system:anonymous"
    assert event["responseStatus"]["code"] == 401
    assert event["responseStatus"]["reason"] == "UNAUTHORIZED"
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"


def test_a_batch_is_one_event_with_outcomes_and_first_names() -> None:
    response = v1.BatchResponse(
        results=[v1.BatchResult(), v1.BatchResult(code=StatusCode.ALREADY_EXISTS)]
    )
    request = batch(*(pod(f"web-{n}") for n in range(7)))
    call = audited("CreatePods", request, response=response.SerializeToString())
    annotations = event_of(call, Level.METADATA)["annotations"]
    assert annotations["podsched.io/items"] == "7"
    assert annotations["podsched.io/first-items"] == ",".join(f"shop/web-{n}" for n in range(5))
    assert annotations["podsched.io/outcomes"] == "ALREADY_EXISTS=1,OK=1"


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        ("Create", v1.CreateRequest(object=wrap(pod("web"))),
         ("create", "pods", "", "shop", "web")),
        ("BindPods", v1.BindPodsRequest(bindings=[v1.Binding(namespace="shop", name="web")]),
         ("create", "pods", "binding", "shop", "")),
        ("Bind", v1.BindRequest(binding=v1.Binding(namespace="shop", name="web")),
         ("create", "pods", "binding", "shop", "web")),
        ("PatchBatch", v1.PatchBatchRequest(patches=[v1.PatchRequest(kind="Node", name="a")]),
         ("patch", "nodes", "", "", "")),
        ("UpdateStatus", v1.UpdateRequest(object=wrap(pod("web"))),
         ("update", "pods", "status", "shop", "web")),
        ("Watch", v1.WatchRequest(kinds=["Pod"]), ("watch", "pods", "", "", "")),
        ("Watch", v1.WatchRequest(), ("watch", "", "", "", "")),
        ("Get", v1.GetRequest(kind="nonsense", name="a"), ("get", "", "", "", "a")),
        ("CreateBatch", v1.CreateBatchRequest(), ("create", "", "", "", "")),
        ("Create", v1.CreateRequest(), ("create", "", "", "", "")),
    ],
)  # fmt: skip
def test_calls_have_kubernetes_verbs_and_resources(
    method: str, request_: Any, expected: tuple[str, ...]
) -> None:
    if method == "CreateBatch":
        request_ = Batch(request_, [b"\xff"], v1.Object.FromString)
    found = attributes_of(audited(method, request_))
    assert (
        found.verb, found.resource, found.subresource, found.namespace, found.name
    ) == expected  # fmt: skip
    assert event_line(audited(method, request_), Level.REQUEST).endswith("}\n")


def test_content_is_written_without_what_might_be_a_secret() -> None:
    secret = pod("web", PASSWORD="hunter2", PLAIN="also-hidden")
    secret.metadata.annotations["api-token"] = "s3cr3t"
    call = audited("Create", v1.CreateRequest(object=wrap(secret)))
    line = event_line(call, Level.REQUEST)
    assert '"image":"a"' in line
    for hidden in ("hunter2", "also-hidden", "s3cr3t"):
        assert hidden not in line
    assert "hunter2" not in event_line(audited("CreatePods", batch(secret)), Level.REQUEST)


@pytest.mark.parametrize(
    ("uri", "written"),
    [
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/pods?limit=5&continue=abc", "/api/v1/pods?limit=5&continue=abc"),
        ("/api?access_token=abc&watch", "/api?access_token=REDACTED&watch"),
        ("/api?a=1&PASSWORD=x%20y&b=", "/api?a=1&PASSWORD=REDACTED&b="),
        ("/api?access%5Ftoken=abc", "/api?access%5Ftoken=REDACTED"),
        (
            "/api?client_secret=a=b&Authorization=c",
            "/api?client_secret=REDACTED&Authorization=REDACTED",
        ),
    ],
)
def test_secrets_in_a_query_are_not_written(uri: str, written: str) -> None:
    found = event_of(audited("List", v1.ListRequest(kind="Pod"), uri=uri), Level.METADATA)
    assert found["requestURI"] == written


def test_the_bytes_of_a_patch_are_written_masked() -> None:
    patch = b'{"metadata": {"annotations": {"password": "hunter2"}}, "spec": {"replicas": 3}}'
    request = v1.PatchRequest(kind="Pod", name="web", merge_patch=patch)
    line = event_line(audited("Patch", request), Level.REQUEST)
    assert "hunter2" not in line
    assert '"replicas":3' in line


def of_rest(method: str, body: Any, kind: str = "Pod", **changed: Any) -> AuditedCall:
    """A call of Kubernetes' REST API."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = v1.GetRequest(kind=kind, namespace="shop", name="web")
    return audited(method, named, uri="/api/v1/...", body=raw, **changed)


def test_the_body_of_a_request_over_http_is_written_masked() -> None:
    env = [{"name": "PASSWORD", "value": "hunter2"}]
    container: dict[str, Any] = {"name": "a", "env": env}
    body = {"metadata": {"name": "web"}, "spec": {"containers": [container]}}
    event = event_of(of_rest("Create", body), Level.REQUEST)
    container["env"] = [{"name": "PASSWORD", "value": "REDACTED"}]
    assert event["requestObject"] == body
    assert "requestObject" not in event_of(of_rest("Create", body), Level.METADATA)


@pytest.mark.parametrize("path", ["/spec/containers/0/env/0/value", "/metadata/annotations/token"])
def test_operations_of_a_patch_are_written_without_secret_values(path: str) -> None:
    operations = [{"op": "add", "path": path, "value": "hunter2"}]
    assert "hunter2" not in event_line(of_rest("Patch", operations), Level.REQUEST)


def test_what_kubectl_has_applied_is_not_written_twice_and_unmasked() -> None:
    applied = json.dumps({"spec": {"containers": [{"env": [{"name": "A", "value": "hunter2"}]}]}})
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    call = of_rest("Create", {"metadata": {"annotations": annotations}})
    assert "hunter2" not in event_line(call, Level.REQUEST)


@pytest.mark.parametrize("method", ["CreateProxy", "CreateExec", "CreateToken"])
def test_what_passes_to_pods_and_requests_for_tokens_are_not_written(method: str) -> None:
    call = of_rest(method, {"a": "hunter2"})
    assert "hunter2" not in event_line(call, Level.REQUEST)


def test_a_body_that_is_not_json_is_left_out_and_said_to_be() -> None:
    event = event_of(of_rest("Create", b"k8s\x00..."), Level.REQUEST)
    assert event["requestObject"] is None
    assert event["annotations"]["podsched.io/content"] == "left out: not JSON"


def test_a_call_with_a_patch_that_is_nested_too_deeply_is_written() -> None:
    """The call is refused, and who made it is known."""
    patch = b'{"a":' * 490 + b"1" + b"}" * 490
    request = v1.PatchRequest(kind="Pod", name="web", merge_patch=patch)
    for call in (audited("Patch", request), of_rest("Patch", patch)):
        assert '"username":"alice"' in event_line(call, Level.REQUEST)


def test_of_secrets_no_content_is_written() -> None:
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "p", "namespace": "s"}}
    secret = from_manifest({**manifest, "data": {"a": "aHVudGVyMg=="}}).message
    patch = b'{"data": {"a": "aHVudGVyMg=="}}'
    raw = [secret.SerializeToString()]
    for call in (
        audited("Create", v1.CreateRequest(object=wrap(secret))),
        audited("Patch", v1.PatchRequest(kind="secrets", name="p", merge_patch=patch)),
        audited("CreateBatch", Batch(v1.CreateBatchRequest(), raw, Secret.FromString)),
        of_rest("Patch", patch, "Secret"),
    ):
        line = event_line(call, Level.REQUEST)
        assert "aHVudGVyMg" not in line
        assert "left out: secret" in line


def test_what_json_cannot_say_is_left_out() -> None:
    odd = pod("web")
    odd.metadata.managed_fields.add()["f"] = math.nan
    event = event_of(audited("Create", v1.CreateRequest(object=wrap(odd))), Level.REQUEST)
    assert event["requestObject"] is None


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999"])
def test_a_number_that_is_not_json_does_not_spoil_the_line(number: bytes) -> None:
    """Python's parser reads it; those of who reads the log refuse the line."""
    patch = b'{"spec": {"replicas": ' + number + b"}}"
    request = v1.PatchRequest(kind="Pod", name="web", merge_patch=patch)
    for call in (audited("Patch", request), of_rest("Patch", patch)):
        line = event_line(call, Level.REQUEST)
        assert "NaN" not in line and "Infinity" not in line
        assert '"username":"alice"' in line


def test_large_content_is_left_out_and_said_to_be() -> None:
    large = pod("web")
    large.metadata.annotations["a"] = "x" * MAX_CONTENT
    event = event_of(audited("Create", v1.CreateRequest(object=wrap(large))), Level.REQUEST)
    assert event["requestObject"] is None
    assert "left out" in event["annotations"]["podsched.io/content"]


def test_a_line_holds_no_control_characters() -> None:
    request = v1.GetRequest(kind="Pod", name="a\n\x1b[2J\u202e")
    assert event_line(audited("Get", request), Level.METADATA).strip().isprintable()


@pytest.mark.parametrize(
    ("peer", "ip"),
    [("ipv4:127.0.0.1:80", "127.0.0.1"), ("ipv6:%5B::1%5D:80", "::1"), ("unix:/a", "unix:/a")],
)
def test_addresses_are_written_without_ports(peer: str, ip: str) -> None:
    assert source_ip(peer) == ip


def test_a_fenced_batch_names_its_term_and_the_revisions_that_it_left() -> None:
    request = v1.BindPodsRequest(
        bindings=[v1.Binding(name=name) for name in ("a", "b", "c")],
        fence=v1.Fence(lock="kube-system/kube-scheduler", term=812),
    )
    results = [
        v1.BatchResult(resource_version=901),
        v1.BatchResult(code=StatusCode.NOT_FOUND),
        v1.BatchResult(resource_version=900),
    ]
    response = v1.BatchResponse(results=results).SerializeToString()
    event = event_of(audited("BindPods", request, response=response), Level.METADATA)
    assert event["annotations"]["podsched.io/fence"] == "kube-system/kube-scheduler:812"
    assert event["annotations"]["podsched.io/revisions"] == "900,901"


def test_a_fenced_creation_names_its_term() -> None:
    fence = v1.Fence(lock="kube-system/kube-scheduler", term=812)
    items = [pod("web").SerializeToString()]
    request = Batch(v1.CreateBatchRequest(fence=fence), items, Pod.FromString)
    event = event_of(audited("CreateBatch", request), Level.METADATA)
    assert event["annotations"]["podsched.io/fence"] == "kube-system/kube-scheduler:812"
