"""Kueue's visibility API, answered from an API server's watch cache."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import kind_of
from podsched.api.manifest import from_manifest
from podsched.api.objects import object_key as object_name
from podsched.app.pending_workloads import PendingWorkloads
from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.access.rights import Rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put, Write
from podsched.testing.memory_store import MemoryStore
from support.kube_client import KubeClient

GROUP = "visibility.kueue.x-k8s.io"
API = f"/apis/{GROUP}/v1beta2"
QUEUE = f"{API}/clusterqueues/team/pendingworkloads"
LOCAL = f"{API}/namespaces/default/localqueues/NAME/pendingworkloads"
NAME = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def core(store: MemoryStore) -> AsyncIterator[ServerCore]:
    made = ServerCore(ServerSettings(), store)
    await made.start()
    yield made
    await made.stop()


async def create(core: ServerCore, *manifests: dict[str, Any]) -> None:
    made = [from_manifest(each).message for each in manifests]
    results = await core.creator.create_many(made)
    assert not [one for one in results if isinstance(one, Exception)]
    await core.reflector.wait_until_fresh()


def kueue(kind: str, name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def pod(name: str, queue: str, priority: int = 0, group: str = "", node: str = "") -> Any:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if node:
        spec["nodeName"] = node
    labels = {NAME: queue} | ({PRIORITY: f"p{priority}"} if priority else {})
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def two_queues(core: ServerCore) -> None:
    """LocalQueues ``a`` and ``b`` of the ClusterQueue ``team``: three units wait in it."""
    quota = {"name": "cpu", "nominalQuota": 1}
    flavors = [{"name": "default", "resources": [quota]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    team = kueue("ClusterQueue", "team", resourceGroups=groups, namespaceSelector={})
    await create(core, kueue("ResourceFlavor", "default"), team)
    await create(core, *(kueue("LocalQueue", n, "default", clusterQueue="team") for n in "ab"))
    priorities = [kueue("WorkloadPriorityClass", f"p{value}") for value in (1, 5, 9)]
    await create(core, *(one | {"value": int(one["metadata"]["name"][1:])} for one in priorities))
    gang = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "gang",
            "namespace": "default",
            "labels": {NAME: "b", PRIORITY: "p1"},
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    await create(core, gang, pod("gang-0", "b", group="gang"), pod("gang-1", "b", group="gang"))
    await create(core, pod("first", "a", 5), pod("last", "b"), pod("runs", "a", node="n"))


def client(core: ServerCore, pipeline: Pipeline | None = None) -> KubeClient:
    return KubeClient(core, pipeline, pending=PendingWorkloads(core.cache))


async def test_pod_groups_and_lone_pods_are_listed_in_the_order_of_their_queue(
    core: ServerCore,
) -> None:
    await two_queues(core)
    found = (await client(core).get(QUEUE)).json
    assert (found["kind"], found["apiVersion"]) == ("PendingWorkloadsSummary", f"{GROUP}/v1beta2")
    assert [one["metadata"].pop("creationTimestamp")[-1] for one in found["items"]] == ["Z"] * 3
    assert found["items"] == [
        {
            "metadata": {"name": name, "namespace": "default"},
            "priority": priority,
            "localQueueName": queue,
            "positionInClusterQueue": place,
            "positionInLocalQueue": local_place,
        }
        for place, (name, priority, queue, local_place) in enumerate(
            [("first", 5, "a", 0), ("gang", 1, "b", 0), ("last", 0, "b", 1)]
        )
    ]


async def test_objects_that_the_scheduler_sets_aside_are_left_out(
    core: ServerCore, store: MemoryStore
) -> None:
    await two_queues(core)
    quota = {"name": "cpu", "nominalQuota": "much"}
    flavors = [{"name": "default", "resources": [quota]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    limitless = pod("limitless", "a", 9)
    limitless["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "much"}}
    for manifest in (kueue("ClusterQueue", "broken", resourceGroups=groups), limitless):
        # As another program would write it: an API server refuses it.
        item = from_manifest(manifest).message
        item.metadata.uid = item.metadata.name
        key = object_key(kind_of(item), object_name(item))
        await store.write(Write((), (Put(key, item.SerializeToString()),)))
    await core.reflector.wait_until_fresh()
    items = (await client(core).get(QUEUE)).json["items"]
    assert [one["metadata"]["name"] for one in items] == ["first", "gang", "last"]


async def test_a_local_queue_lists_its_own_with_their_places_in_both_queues(
    core: ServerCore,
) -> None:
    await two_queues(core)
    items = (await client(core).get(LOCAL.replace("NAME", "b"))).json["items"]
    places = ("positionInClusterQueue", "positionInLocalQueue")
    assert [[one[place] for place in places] for one in items] == [[1, 0], [2, 1]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("limit=1", ["first"]),
        ("offset=1&limit=1", ["gang"]),
        ("offset=2", ["last"]),
        ("offset=9", []),
        ("limit=0", ["first", "gang", "last"]),
        ("limit=9000000000", ["first", "gang", "last"]),
    ],
)
async def test_offset_and_limit_select_a_part(
    core: ServerCore, query: str, names: list[str]
) -> None:
    await two_queues(core)
    items = (await client(core).get(f"{QUEUE}?{query}")).json["items"]
    assert [one["metadata"]["name"] for one in items] == names


@pytest.mark.parametrize("query", ["limit=-1", "offset=-1", "offset=many"])
async def test_an_offset_or_limit_that_is_no_number_from_zero_is_refused(
    core: ServerCore, query: str
) -> None:
    await two_queues(core)
    answer = await client(core).get(f"{QUEUE}?{query}")
    assert answer.status == 400
    assert answer.json["message"].startswith(f"{query.partition('=')[0]}: Invalid value: ")


async def test_a_queue_that_does_not_exist_is_not_found(core: ServerCore) -> None:
    await two_queues(core)
    other = (await client(core).get(QUEUE.replace("team", "other"))).json
    assert other["message"] == f'clusterqueue.{GROUP} "other" not found'
    assert (other["code"], other["reason"]) == (404, "NotFound")
    assert (await client(core).get(LOCAL.replace("NAME", "c"))).status == 404


async def test_pods_with_claims_and_with_other_schedulers_wait_like_others(
    core: ServerCore,
) -> None:
    await two_queues(core)
    other = pod("other", "a", 9)
    other["spec"] |= {
        "schedulerName": "mine",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "none"}],
    }
    await create(core, other)
    items = (await client(core).get(QUEUE)).json["items"]
    assert [one["metadata"]["name"] for one in items] == ["other", "first", "gang", "last"]


async def test_a_result_is_kept_for_a_second(core: ServerCore) -> None:
    await two_queues(core)
    now = [0.0]
    pending = PendingWorkloads(core.cache, lambda: now[0])
    assert len(await pending("team")) == 3
    await create(core, pod("new", "a"))
    assert len(await pending("team")) == 3
    now[0] = 1.0
    assert len(await pending("team")) == 4


async def test_who_may_not_get_them_is_refused_in_kubernetes_words(core: ServerCore) -> None:
    await two_queues(core)
    alice = Identity("alice", frozenset(), Authentication.TOKEN)
    pipeline = Pipeline(authenticate=lambda _: alice, authorize=Rights)
    answer = await client(core, pipeline).get(QUEUE)
    assert answer.status == 403
    assert answer.json["message"] == (
        f'clusterqueues.{GROUP} "team" is forbidden: User "alice" cannot get resource '
        f'"clusterqueues/pendingworkloads" in API group "{GROUP}" at the cluster scope'
    )


async def test_discovery_lists_the_pending_workloads_of_both_kinds_of_queues(
    core: ServerCore,
) -> None:
    listed = (await client(core).get(API)).json["resources"]
    below = {one["name"]: one for one in listed if one["name"].endswith("/pendingworkloads")}
    assert below.keys() == {"clusterqueues/pendingworkloads", "localqueues/pendingworkloads"}
    assert all(one["kind"] == "PendingWorkloadsSummary" for one in below.values())
    assert all(one["verbs"] == ["get"] for one in below.values())
    groups = [one["name"] for one in (await client(core).get("/apis")).json["groups"]]
    # After kueue.x-k8s.io, so that "kubectl get clusterqueues" finds the stored kind.
    assert groups.index(GROUP) > groups.index("kueue.x-k8s.io")


async def test_only_reads_are_served(core: ServerCore) -> None:
    await two_queues(core)
    assert (await client(core).request("POST", QUEUE, {})).status == 405
