"""What every request meets, whatever it is about."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any, cast

import pytest

from podsched.api.objects import ClusterRole
from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.audit.events import AuditedCall, attributes_of
from podsched.serve.server.audit.log import AuditLog
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.gate import Gate
from podsched.serve.server.fairness.intake import MAX_HELD_BYTES
from podsched.serve.server.fairness.levels import GLOBAL_DEFAULT
from podsched.serve.server.pipeline import Call, Pipeline
from podsched.serve.server.rest.handling import Handler
from podsched.serve.server.rest.messages import Answer, Request
from podsched.serve.server.rest.probes import Probes
from podsched.telemetry.health import HealthChecks
from support.access_world import binding_of, identity
from support.api_objects import pod
from support.api_world import World
from support.eventually import PATIENCE
from support.kube_client import KubeClient

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
JSON_PATCH = {"content-type": "application/json-patch+json"}
MERGE_PATCH = {"content-type": "application/merge-patch+json"}
YAML = {"content-type": "application/yaml"}
PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}
LEASE = b"k8s\x00\x0a\x20\x0a\x16coordination.k8s.io/v1\x12\x05Lease"


def request_of(user: str, path: str) -> Request:
    async def nothing() -> bytes:
        return b""

    return Request(
        method="GET",
        path=path,
        query={},
        headers={"user": user},
        target=path,
        connection=user,
        certificate=None,
        receive=nothing,
    )


def handler_of(world: World, gate: Gate | None = None) -> Handler:
    """A handler with the limits of a server, which believes callers who they are."""

    def authenticate(request: Any) -> Identity:
        return Identity(request.headers["user"], frozenset(), Authentication.TOKEN)

    pipeline = Pipeline(authenticate=authenticate, gate=gate or Gate())
    return Handler(world.core, pipeline, Probes(HealthChecks()))


async def test_without_authentication_web_pages_are_refused(world: World, kube: KubeClient) -> None:
    page = {"origin": "http://elsewhere"}
    assert (await kube.request("GET", PODS, headers=page)).status == 403
    alice = Identity("alice", frozenset(), Authentication.TOKEN)
    asked = KubeClient(world.core, Pipeline(authenticate=lambda _: alice))
    assert (await asked.request("GET", PODS, headers=page)).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://elsewhere"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://api:6443", "host": "api:6443"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost:8001"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({}, 200),
    ],
)
async def test_web_pages_of_other_sites_cannot_use_the_browsers_certificate(
    world: World, headers: dict[str, str], status: int
) -> None:
    """A token they would have to know; kubectl proxy passes on what a browser says of its pages."""
    for how, expected in ((Authentication.CERTIFICATE, status), (Authentication.TOKEN, 200)):
        alice = Identity("alice", frozenset(), how)
        asked = KubeClient(world.core, Pipeline(authenticate=lambda _, alice=alice: alice))
        assert (await asked.request("GET", PODS, headers=headers)).status == expected


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("rebound.example:6443", 403),
        ("localhost.rebound.example.", 403),
        ("[::1", 403),
        ("localhost:6443", 200),
        ("a.localhost", 200),
        ("127.0.0.1:6443", 200),
        ("[::1]:6443", 200),
        ("10.0.0.1", 200),
        ("api-0:6443", 200),
        (f"{socket.gethostname()}:6443", 200),
    ],
)
async def test_without_authentication_the_name_of_another_machine_is_refused(
    world: World, kube: KubeClient, host: str, status: int
) -> None:
    """A web page whose name comes to point to this machine could read everything."""
    page = {"host": host}
    assert (await kube.request("GET", PODS, headers=page)).status == status
    alice = Identity("alice", frozenset(), Authentication.TOKEN)
    asked = KubeClient(world.core, Pipeline(authenticate=lambda _: alice))
    assert (await asked.request("GET", PODS, headers=page)).status == 200


async def test_another_machine_may_use_any_name_of_the_server(world: World) -> None:
    answers: list[Answer] = []

    async def send(answer: Answer, call: Call) -> None:
        answers.append(answer)

    asked = replace(request_of("system:unsecured", PODS), headers={"host": "api.team.example"})
    await Handler(world.core, Pipeline(), Probes(HealthChecks())).handle(asked, send)
    assert [answer.status for answer in answers] == [200]


async def test_who_does_not_read_large_answers_does_not_keep_others_out(world: World) -> None:
    """He would have all seats for as long as a client may leave an answer unread."""
    for n in range(40):
        await world.core.creator.create(pod(f"p{n}", l="x" * 60))
    handler = handler_of(world)
    unread = asyncio.Event()
    begun = asyncio.Semaphore(0)

    async def never_read(answer: Answer, call: Call) -> None:
        begun.release()
        await unread.wait()

    answers: list[Answer] = []

    async def read(answer: Answer, call: Call) -> None:
        answers.append(answer)

    calls = [
        asyncio.create_task(handler.handle(request_of("mallory", PODS), never_read))
        for _ in range(GLOBAL_DEFAULT.seats)
    ]
    for _ in calls:
        await begun.acquire()
    async with asyncio.timeout(PATIENCE):
        await handler.handle(request_of("bob", f"{PODS}/p0"), read)
    assert [answer.status for answer in answers] == [200]
    unread.set()
    await asyncio.gather(*calls)


async def test_of_one_callers_unread_answers_32_mb_are_kept(world: World) -> None:
    for n in range(40):
        labels = {f"l{m}": "x" * 60 for m in range(200)}
        await world.core.creator.create(pod(f"p{n}", **labels))
    handler = handler_of(world)
    unread = asyncio.Event()
    full = asyncio.Event()
    held = 0

    async def never_read(answer: Answer, call: Call) -> None:
        nonlocal held
        held += len(answer.body) if isinstance(answer.body, bytes) else 0
        if held > MAX_HELD_BYTES:
            full.set()
        await unread.wait()

    calls = [
        asyncio.create_task(handler.handle(request_of("mallory", PODS), never_read))
        for _ in range(GLOBAL_DEFAULT.seats)
    ]
    await full.wait()
    for _ in range(1000):
        await asyncio.sleep(0)
    assert held < MAX_HELD_BYTES + (1 << 20)
    unread.set()
    await asyncio.gather(*calls)
    assert held > 50 << 20


async def test_without_authentication_impersonation_is_refused(kube: KubeClient) -> None:
    refused = await kube.request("GET", PODS, headers={"impersonate-user": "sam"})
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert "where callers are not authenticated" in refused.json["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("POST", PODS, b"[]", {}),
        ("POST", PODS, {"metadata": []}, {}),
        ("POST", f"{PODS}/a/binding", {"metadata": "x", "target": 1}, {}),
        ("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}, "deleteOptions": [1]}, {}),
        ("PATCH", f"{PODS}/a", [{"op": "add", "path": 5}], JSON_PATCH),
        ("PATCH", f"{PODS}/a", [1], JSON_PATCH),
        ("PATCH", f"{PODS}/a", b"[" * 5000, JSON_PATCH),
        ("DELETE", f"{PODS}/a", {"preconditions": 1}, {}),
        ("DELETE", f"{PODS}/a", {"preconditions": {"resourceVersion": "²"}}, {}),
        ("GET", "/api/v1" + "/watch" * 1000 + "/pods", None, {}),
        ("GET", f"{PODS}?resourceVersion=%C2%B2", None, {}),
        ("PUT", f"{PODS}/a", {"metadata": {"resourceVersion": "²"}}, {}),
        ("POST", PODS, b'{"kind":"\\ud800"}', {}),
        ("POST", PODS, b'{"apiVersion":"\\udfff"}', {}),
        ("PATCH", f"{PODS}/a", b'{"kind":"\\ud800"}', MERGE_PATCH),
        (
            "PATCH",
            f"{PODS}/a",
            b'{"metadata":{"managedFields":[{"a":1%s}]}}' % (b"0" * 400),
            MERGE_PATCH,
        ),
        ("PUT", f"{PODS}/a", b'{"metadata":{"managedFields":[{"a":1%s}]}}' % (b"0" * 400), {}),
        ("POST", PODS, b"spec: {priority: 0x" + b"f" * 9000 + b"}", YAML),
        ("POST", PODS, b"metadata: {managedFields: [{a: 0x" + b"f" * 9000 + b"}]}", YAML),
        (
            "POST",
            CONFIG_MAPS,
            b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x10\x01",
            PROTOBUF,
        ),
        ("POST", LEASES, LEASE + b"\x12\x0e\x12\x0c\x1a\x0a\x08" + b"\xff" * 8 + b"\x7f", PROTOBUF),
    ],
)
async def test_what_makes_no_sense_is_the_clients_fault(
    world: World,
    kube: KubeClient,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
) -> None:
    await world.core.creator.create(pod("a"))
    assert 400 <= (await kube.request(method, path, body, headers)).status < 500


async def test_a_patch_that_copies_itself_again_and_again_is_refused(
    world: World, kube: KubeClient
) -> None:
    await world.core.creator.create(pod("a"))
    growing = [{"op": "copy", "from": "", "path": f"/metadata/x{n}"} for n in range(40)]
    refused = await kube.request("PATCH", f"{PODS}/a", growing, JSON_PATCH)
    assert refused.status == 413


async def test_several_checks_of_a_probe_are_excluded_by_a_parameter_each(world: World) -> None:
    answers: list[Answer] = []

    async def send(answer: Answer, call: Call) -> None:
        answers.append(answer)

    checks = HealthChecks()
    for name in ("etcd", "informer-sync", "shutdown"):
        checks.add(name, lambda: "it fails")
    handler = Handler(world.core, Pipeline(), Probes(checks))
    asked = replace(request_of("system:unsecured", "/readyz"), headers={"host": "localhost"})
    values = {"exclude": ["etcd,shutdown", "informer-sync"]}
    await handler.handle(replace(asked, query={"exclude": "etcd,shutdown"}, values=values), send)
    assert answers[0].status == 200


async def test_metrics_that_are_requested_at_once_are_rendered_once(world: World) -> None:
    now, made, answers = 0.0, list[str](), list[Answer]()

    def metrics(accept: str) -> tuple[bytes, str]:
        made.append(accept)
        return b"up 1", "text/plain"

    async def send(answer: Answer, call: Call) -> None:
        answers.append(answer)

    handler = Handler(world.core, Pipeline(), Probes(HealthChecks(), metrics, lambda: now))
    asked = replace(request_of("system:unsecured", "/metrics"), headers={"host": "localhost"})
    for _ in range(3):
        await handler.handle(asked, send)
    assert len(made) == 1
    now = 0.2
    await handler.handle(asked, send)
    assert len(made) == 2
    assert [answer.body for answer in answers] == [b"up 1"] * 4


@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "//metrics"])
async def test_the_right_to_paths_below_is_none_to_a_path_itself(world: World, path: str) -> None:
    role = ClusterRole(metadata={"name": "below"})
    role.rules.add(verbs=["get"], non_resource_urls=["/metrics/*"])
    for item in (role, binding_of("below", "alice")):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    pipeline = Pipeline(
        authenticate=lambda _: identity("alice"), authorize=world.core.authorizer.rights_of
    )
    probes = Probes(HealthChecks(), lambda accept: (b"up 1", "text/plain"))

    async def send(answer: Answer, call: Call) -> None:
        raise AssertionError(answer.body)

    with pytest.raises(ApiError, match='cannot get path "/metrics"'):
        await Handler(world.core, pipeline, probes).handle(request_of("alice", path), send)


async def test_a_caller_is_charged_for_what_parsing_its_requests_costs(world: World) -> None:
    gate = Gate(clock=lambda: 0.0)
    handler = handler_of(world, gate)

    async def send(answer: Answer, call: Call) -> None:
        pass

    costs = {"alice": 0.1, "bob": 0.0}
    for user, cost in costs.items():
        request = replace(request_of(user, PODS), cost=lambda cost=cost: cost)
        await handler.handle(request, send)
    used = {flow.key[1]: flow.used(0.0) for flow in gate.flows}  # type: ignore[index]
    assert used["alice"] - used["bob"] == pytest.approx(0.1, abs=0.05)


class Recorder:
    """Stands for the audit log."""

    def __init__(self) -> None:
        self.calls: list[AuditedCall] = []

    def record(self, call: AuditedCall) -> None:
        self.calls.append(call)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", f"{PODS}/web", ("get", "", "pods", "", "default", "web")),
        ("GET", f"{PODS}?watch=1&timeoutSeconds=1", ("watch", "", "pods", "", "default", "")),
        ("DELETE", f"{LEASES}/a", ("delete", "coordination.k8s.io", "leases", "", "default", "a")),
        ("PUT", f"{PODS}/web/status", ("update", "", "pods", "status", "default", "web")),
        ("POST", f"{PODS}/web/binding", ("create", "", "pods", "binding", "default", "web")),
        ("POST", "/api/v1/nodes", ("create", "", "nodes", "", "", "")),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ("get", *[""] * 5)),
    ],
)
async def test_rules_of_the_audit_log_match_requests_by_the_object_in_their_path(
    world: World, method: str, path: str, expected: tuple[str, ...]
) -> None:
    """Whether they succeed or not."""
    recorder = Recorder()
    client = KubeClient(world.core, Pipeline(audit=cast(AuditLog, recorder)))
    await client.request(method, path, {} if method in ("POST", "PUT") else None)
    (call,) = recorder.calls
    found = attributes_of(call)
    names = (found.verb, found.group, found.resource, found.subresource)
    assert (*names, found.namespace, found.name) == expected
    assert call.body == (b"{}" if method in ("POST", "PUT") else b"")
