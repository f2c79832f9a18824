"""The contract of the cluster port, on the fake and on API servers with real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from podsched.api.objects import (
    AnyObject,
    Namespace,
    Pod,
    PodCondition,
    PodDisruptionBudget,
)
from podsched.serve.client.cluster import Cluster, eviction
from podsched.serve.client.errors import FenceLost, NotFound
from podsched.serve.client.informer import Batch
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1 import api_pb2 as v1
from support.api_objects import LOCK, binding, budget, event, node, pod
from support.api_servers import api_servers
from support.eventually import PATIENCE


@dataclass
class Subject:
    """A cluster and the hand of the test in it."""

    cluster: Cluster
    create: Callable[[AnyObject], Awaitable[AnyObject]]
    set_status: Callable[[AnyObject], Awaitable[AnyObject]]
    new_term: Callable[[], Awaitable[v1.Fence]]

    async def pod(self, name: str = "web") -> Pod:
        item = await self.cluster.get("Pod", name, "default")
        assert isinstance(item, Pod)
        return item


def _fake() -> Subject:
    cluster = FakeCluster()

    async def create(item: AnyObject) -> AnyObject:
        copy = type(item)()
        copy.CopyFrom(item)  # type: ignore[arg-type]
        if isinstance(copy, Pod):  # what a server's defaults would do
            copy.spec.termination_grace_period_seconds = 30
            copy.status.phase = "Pending"
        return cluster.create(copy)

    async def set_status(item: AnyObject) -> AnyObject:
        return cluster.update(item)

    async def new_term() -> v1.Fence:
        return cluster.new_term(LOCK)

    return Subject(cluster, create, set_status, new_term)


@pytest.fixture(params=["fake", pytest.param("grpc", marks=pytest.mark.integration)])
def endpoint(request: pytest.FixtureRequest) -> str | None:
    """Of the etcd behind the cluster under test; None for the one in memory."""
    return request.getfixturevalue("etcd_endpoint") if request.param == "grpc" else None


@pytest.fixture
async def subject(endpoint: str | None) -> AsyncIterator[Subject]:
    """The cluster under test."""
    if endpoint is None:
        yield _fake()
        return
    async with api_servers(endpoint) as servers:
        client = servers.client(await servers.start())
        yield Subject(client, client.create, client.update_status, servers.new_term)


def reasons(results: object) -> list[str]:
    return [result.reason for result in results]  # type: ignore[attr-defined]


async def test_a_binding_is_seen_by_informers(subject: Subject) -> None:
    """Bound with the condition; the informer has it at the revision that was answered."""
    await subject.create(node())
    created = await subject.create(pod())
    batches: list[Batch] = []
    informer = subject.cluster.informer(["Node", "Pod"])
    task = asyncio.create_task(informer.run(batches.append))
    await informer.synced.wait()
    fence = await subject.new_term()
    (result,) = await subject.cluster.bind_pods(
        [binding("web", "node-1", created.metadata.uid)], fence=fence
    )
    assert result.code == 0
    async with asyncio.timeout(PATIENCE):
        await informer.wait_for_revision(result.resource_version)
    seen = informer.get("Pod", "default/web")
    assert isinstance(seen, Pod)
    assert seen.spec.node_name == "node-1"
    assert [(c.type, c.status) for c in seen.status.conditions] == [("PodScheduled", "True")]
    assert seen.metadata.resource_version == str(result.resource_version)
    task.cancel()


async def test_a_pod_is_bound_to_one_node(subject: Subject) -> None:
    """Again to the same node with its uid: a success; to another: where it is."""
    uid = (await subject.create(pod())).metadata.uid
    for name in ("node-1", "node-2"):
        await subject.create(node(name))
    fence = await subject.new_term()
    bindings = [binding("web", name, uid) for name in ("node-1", "node-1", "node-2")]
    results = await subject.cluster.bind_pods(bindings, fence=fence)
    assert reasons(results) == ["", "", "ALREADY_BOUND"]
    assert results[2].node_name == "node-1"


async def test_what_cannot_be_bound_says_why(subject: Subject) -> None:
    """Absent, another incarnation, gated, a node that does not exist."""
    await subject.create(node("n"))
    gated = pod("gated")
    gated.spec.scheduling_gates.add(name="example.com/wait")
    await subject.create(gated)
    await subject.create(pod())
    fence = await subject.new_term()
    results = await subject.cluster.bind_pods(
        [
            binding("absent", "n"),
            binding("web", "n", "other"),
            binding("gated", "n"),
            binding("web", "nowhere"),
        ],
        fence=fence,
    )
    assert reasons(results) == [
        "NOT_FOUND",
        "PRECONDITION_FAILED",
        "SCHEDULING_GATED",
        "NOT_FOUND",
    ]
    assert results[3].message == 'nodes "nowhere" not found'


async def test_a_deposed_leader_writes_nothing(subject: Subject) -> None:
    """Every write of an old term fails on its fence; the new term's succeed."""
    await subject.create(node("n"))
    await subject.create(pod())
    old = await subject.new_term()
    new = await subject.new_term()
    status = v1.PodStatusPatch(namespace="default", name="web", nominated_node_name="n")
    patch = v1.PatchRequest(
        kind="Pod",
        namespace="default",
        name="web",
        merge_patch=b'{"metadata":{"labels":{"a":"b"}}}',
    )
    eviction = v1.EvictRequest(namespace="default", name="web", ignore_disruption_budgets=True)
    cluster = subject.cluster
    before = await subject.pod()
    assert reasons(await cluster.bind_pods([binding("web", "n")], fence=old)) == ["FENCE_LOST"]
    assert reasons(await cluster.patch_pod_statuses([status], fence=old)) == ["FENCE_LOST"]
    assert reasons(await cluster.patch_many([patch], fence=old)) == ["FENCE_LOST"]
    assert reasons(await cluster.evict_pods([eviction], fence=old)) == ["FENCE_LOST"]
    deletion = v1.DeleteRequest(kind="Pod", namespace="default", name="web")
    assert reasons(await cluster.delete_many([deletion], fence=old)) == ["FENCE_LOST"]
    assert reasons(await cluster.create_many([pod("other")], fence=old)) == ["FENCE_LOST"]
    with pytest.raises(FenceLost):
        await cluster.delete_collection("Pod", "default", fence=old)
    assert await subject.pod() == before
    assert reasons(await cluster.patch_many([patch], fence=new)) == [""]
    assert reasons(await cluster.bind_pods([binding("web", "n")], fence=new)) == [""]


async def test_status_patches_set_what_they_name(subject: Subject) -> None:
    """Condition and nomination; empty clears the nomination, absent leaves it."""
    await subject.create(pod())
    fence = await subject.new_term()
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    first = v1.PodStatusPatch(namespace="default", name="web", nominated_node_name="n")
    second = v1.PodStatusPatch(namespace="default", name="web", conditions=[condition])
    await subject.cluster.patch_pod_statuses([first], fence=fence)
    await subject.cluster.patch_pod_statuses([second], fence=fence)
    status = (await subject.pod()).status
    assert status.nominated_node_name == "n"
    assert status.conditions[0].reason == "Unschedulable"
    assert status.conditions[0].HasField("last_transition_time")
    first.nominated_node_name = ""
    await subject.cluster.patch_pod_statuses([first], fence=fence)
    assert (await subject.pod()).status.nominated_node_name == ""


async def test_a_running_pod_is_evicted_gracefully(subject: Subject) -> None:
    """Marked with its grace period and the condition; without grace it is gone."""
    item = pod()
    item.spec.node_name = "node-1"
    await subject.create(item)
    fence = await subject.new_term()
    request = v1.EvictRequest(namespace="default", name="web", ignore_disruption_budgets=True)
    request.condition.type = "DisruptionTarget"
    request.condition.status = "True"
    await subject.cluster.evict_pods([request], fence=fence)
    marked = await subject.pod()
    assert marked.metadata.deletion_grace_period_seconds == 30
    assert marked.status.conditions[0].type == "DisruptionTarget"
    request.grace_period_seconds = 0
    await subject.cluster.evict_pods([request], fence=fence)
    with pytest.raises(NotFound):
        await subject.pod()


async def test_a_budget_is_honoured(subject: Subject) -> None:
    """One disruption allowed: the second eviction is refused and changes nothing."""
    for name in ("a", "b"):
        item = pod(name, app="web")
        item.spec.node_name = "node-1"
        stored = await subject.create(item)
        assert isinstance(stored, Pod)
        stored.status.phase = "Running"
        stored.status.conditions.add(type="Ready", status="True")
        await subject.set_status(stored)
    guard = await subject.create(budget("b", app="web"))
    assert isinstance(guard, PodDisruptionBudget)
    guard.status.disruptions_allowed = 1
    guard.status.observed_generation = guard.metadata.generation
    await subject.set_status(guard)
    fence = await subject.new_term()
    requests = [v1.EvictRequest(namespace="default", name=name) for name in ("a", "b")]
    results = await subject.cluster.evict_pods(requests, fence=fence)
    assert reasons(results) == ["", "DISRUPTION_BUDGET"]
    assert not (await subject.pod("b")).metadata.HasField("deletion_timestamp")
    spent = await subject.cluster.get("PodDisruptionBudget", "b", "default")
    assert isinstance(spent, PodDisruptionBudget)
    assert spent.status.disruptions_allowed == 0
    assert list(spent.status.disrupted_pods) == ["a"]


async def test_a_pod_with_two_budgets_is_not_evicted(subject: Subject) -> None:
    """Neither budget is spent."""
    item = pod(app="web")
    item.spec.node_name = "node-1"
    stored = await subject.create(item)
    assert isinstance(stored, Pod)
    stored.status.phase = "Running"
    stored.status.conditions.add(type="Ready", status="True")
    await subject.set_status(stored)
    for name in ("b", "c"):
        guard = await subject.create(budget(name, app="web"))
        assert isinstance(guard, PodDisruptionBudget)
        guard.status.disruptions_allowed = 1
        guard.status.observed_generation = guard.metadata.generation
        await subject.set_status(guard)
    request = v1.EvictRequest(namespace="default", name="web")
    results = await subject.cluster.evict_pods([request], fence=await subject.new_term())
    assert reasons(results) == ["MULTIPLE_BUDGETS"]
    assert not (await subject.pod()).metadata.HasField("deletion_timestamp")
    for name in ("b", "c"):
        kept = await subject.cluster.get("PodDisruptionBudget", name, "default")
        assert isinstance(kept, PodDisruptionBudget)
        assert kept.status.disruptions_allowed == 1


async def test_events_are_recorded(subject: Subject) -> None:
    """New ones stored, repeated ones counted."""
    item = event("e1")
    await subject.cluster.record_events([item])
    item.count = 7
    item.last_timestamp.GetCurrentTime()
    await subject.cluster.record_events([], [item])
    stored = await subject.cluster.get("Event", "e1", "default")
    assert getattr(stored, "count") == 7  # noqa: B009


async def test_an_event_that_is_not_there_any_more_is_stored_when_it_is_repeated(
    subject: Subject,
) -> None:
    item = event("e1")
    item.count = 7
    await subject.cluster.record_events([], [item])
    stored = await subject.cluster.get("Event", "e1", "default")
    assert getattr(stored, "count") == 7  # noqa: B009


async def gone(subject: Subject, kind: str, name: str, namespace: str = "") -> bool:
    try:
        await subject.cluster.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def test_objects_are_created_and_deleted_in_batches(subject: Subject) -> None:
    """Each by itself; a uid is a precondition."""
    fence = await subject.new_term()
    items = [pod("a"), pod("b"), pod("a")]
    created = await subject.cluster.create_many(items, fence=fence)
    assert reasons(created) == ["", "", "ALREADY_EXISTS"]
    requests = [v1.DeleteRequest(kind="Pod", namespace="default", name=n) for n in "abc"]
    requests[1].preconditions.uid = "another"
    deleted = await subject.cluster.delete_many(requests, fence=fence)
    assert reasons(deleted) == ["", "PRECONDITION_FAILED", "NOT_FOUND"]
    assert await gone(subject, "Pod", "a", "default")
    assert await subject.cluster.delete_collection("Pod", "default", fence=fence) == 1
    assert await gone(subject, "Pod", "b", "default")


async def test_a_finalizer_holds_what_is_deleted_until_it_is_taken(subject: Subject) -> None:
    fence = await subject.new_term()
    await subject.create(pod())
    request = v1.DeleteRequest(
        kind="Pod", namespace="default", name="web", propagation_policy="Foreground"
    )
    await subject.cluster.delete_many([request], fence=fence)
    marked = await subject.pod()
    assert marked.metadata.HasField("deletion_timestamp")
    assert list(marked.metadata.finalizers) == ["foregroundDeletion"]
    patch = v1.PatchRequest(
        kind="Pod",
        namespace="default",
        name="web",
        merge_patch=b'{"metadata": {"finalizers": null}}',
    )
    assert reasons(await subject.cluster.patch_many([patch], fence=fence)) == [""]
    assert await gone(subject, "Pod", "web", "default")


async def test_a_namespace_goes_once_it_is_empty(subject: Subject) -> None:
    fence = await subject.new_term()
    item = Namespace()
    item.metadata.name = "shop"
    await subject.create(item)
    await subject.create(pod("a", "shop"))
    request = v1.DeleteRequest(kind="Namespace", name="shop")
    for _ in range(2):
        assert reasons(await subject.cluster.delete_many([request], fence=fence)) == [""]
    found = await subject.cluster.get("Namespace", "shop")
    assert isinstance(found, Namespace) and found.status.phase == "Terminating"
    assert await subject.cluster.delete_collection("Pod", "shop", fence=fence) == 1
    await subject.cluster.delete_many([request], fence=fence)
    assert await gone(subject, "Namespace", "shop")


def test_an_eviction_names_the_generation_of_the_pod_that_is_evicted() -> None:
    item = pod("web")
    item.metadata.generation = 2
    assert eviction(item, "Tested", "a test").condition.observed_generation == 2
