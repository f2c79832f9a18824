"""A stock kube-scheduler, with the rights that Kubernetes gives it, over HTTP."""

from __future__ import annotations

from podsched.api.objects import ClusterRole
from podsched.serve.server.access.identity import AUTHENTICATED, Authentication, Identity
from podsched.serve.server.pipeline import Pipeline
from support.access_world import binding_of, rule
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient

SCHEDULER = Identity("stock", frozenset({AUTHENTICATED}), Authentication.TOKEN)
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
READ = "get list watch"
#: Of system:kube-scheduler in Kubernetes 1.36: what it uses here.
RULES = (
    rule("create patch update", "events", groups=("", "events.k8s.io")),
    rule("create", "leases", groups=("coordination.k8s.io",)),
    rule("get list update watch", "leases", "kube-scheduler", groups=("coordination.k8s.io",)),
    rule(READ, "nodes"),
    rule(f"delete {READ}", "pods"),
    rule("create", "bindings pods/binding"),
    rule("patch update", "pods/status"),
    rule(READ, "replicationcontrollers services namespaces persistentvolumes"),
    rule(READ, "persistentvolumeclaims"),
    rule(READ, "replicasets statefulsets", groups=("apps", "extensions")),
    rule(READ, "poddisruptionbudgets", groups=("policy",)),
    rule(
        READ,
        "csinodes csidrivers csistoragecapacities storageclasses volumeattachments",
        groups=("storage.k8s.io",),
    ),
    rule("create", "tokenreviews", groups=("authentication.k8s.io",)),
)


async def stock_scheduler(world: World) -> KubeClient:
    role = ClusterRole(rules=RULES)
    role.metadata.name = "stock"
    for item in (role, binding_of("stock", "stock")):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    pipeline = Pipeline(authenticate=lambda _: SCHEDULER, authorize=world.core.authorizer.rights_of)
    return KubeClient(world.core, pipeline)


def protobuf(number: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(raw)]) + raw


def enveloped(kind: str, version: str, raw: bytes) -> bytes:
    return b"k8s\x00" + protobuf(1, protobuf(1, version) + protobuf(2, kind)) + protobuf(2, raw)


async def test_all_that_it_does_for_a_pod_is_permitted(world: World) -> None:
    """It sends bindings and events in Kubernetes' protobuf, patches in JSON."""
    await world.core.creator.create(pod("a"))
    client = await stock_scheduler(world)
    for path in ("/api/v1/pods", "/api/v1/nodes", "/apis/storage.k8s.io/v1/storageclasses"):
        assert (await client.get(path)).status == 200, path
    binary = {"content-type": "application/vnd.kubernetes.protobuf"}
    lease = {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": "a"}}
    made = await client.request("POST", LEASES, lease)
    assert made.status == 201
    renewed = await client.request("PUT", f"{LEASES}/kube-scheduler", made.json)
    assert renewed.status == 200
    patch = {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
    strategic = {"content-type": "application/strategic-merge-patch+json"}
    told = await client.request("PATCH", f"{PODS}/a/status", patch, strategic)
    assert told.status == 200
    target = protobuf(1, "Node") + protobuf(3, "worker-1")
    binding = protobuf(1, protobuf(1, "a") + protobuf(3, "default")) + protobuf(2, target)
    raw = enveloped("Binding", "v1", binding)
    bound = await client.request("POST", f"{PODS}/a/binding", raw, binary)
    assert bound.status == 201
    event = (
        protobuf(1, protobuf(1, "a.1") + protobuf(3, "default"))
        + protobuf(2, bytes([1 << 3, 100]))
        + protobuf(4, "default-scheduler")
        + protobuf(5, "default-scheduler-host")
        + protobuf(6, "Binding")
        + protobuf(7, "Scheduled")
        + protobuf(8, protobuf(1, "Pod") + protobuf(2, "default") + protobuf(3, "a"))
        + protobuf(11, "Normal")
    )
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    raw = enveloped("Event", "events.k8s.io/v1", event)
    assert (await client.request("POST", path, raw, binary)).status == 201
    stored = (await client.get(f"{PODS}/a")).json
    assert stored["spec"]["nodeName"] == "worker-1"


async def test_what_it_may_not_is_refused(world: World) -> None:
    await world.core.creator.create(pod("a"))
    client = await stock_scheduler(world)
    assert (await client.request("DELETE", "/api/v1/nodes/worker-1")).status == 403
    other = {"metadata": {"name": "other"}, "spec": {"holderIdentity": "a"}}
    await client.request("POST", LEASES, other)
    assert (await client.request("PUT", f"{LEASES}/other", other)).status == 403


async def test_a_binding_to_a_version_of_a_pod_needs_no_right_to_read_it(world: World) -> None:
    """The version is compared by the write that binds the pod."""
    role = ClusterRole(rules=[rule("create", "pods/binding")])
    role.metadata.name = "binder"
    for item in (role, binding_of("binder", SCHEDULER.user)):
        await world.core.creator.create(item)
    entry = await world.core.creator.create(pod("a"))
    await world.core.reflector.wait_until_fresh()
    pipeline = Pipeline(authenticate=lambda _: SCHEDULER, authorize=world.core.authorizer.rights_of)
    binder = KubeClient(world.core, pipeline)

    def binding(version: int) -> dict[str, object]:
        metadata = {"name": "a", "resourceVersion": str(version)}
        return {"metadata": metadata, "target": {"kind": "Node", "name": "n"}}

    other = await binder.request("POST", f"{PODS}/a/binding", binding(entry.revision + 1))
    assert other.status == 409
    assert "Precondition failed" in other.json["message"]
    bound = await binder.request("POST", f"{PODS}/a/binding", binding(entry.revision))
    assert bound.status == 201, bound.json
