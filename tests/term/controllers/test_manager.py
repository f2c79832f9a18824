"""The controllers together on a cluster in memory, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import pytest

from podsched.api.kinds import WATCHED_KINDS
from podsched.api.objects import (
    ConfigMap,
    Deployment,
    Lease,
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ResourceClaimTemplate,
    timestamp,
)
from podsched.api.owners import add_controller
from podsched.config.settings import ControllerSettings
from podsched.serve.client.errors import (
    FenceLost,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unreadable,
)
from podsched.serve.client.informer import Informer
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.manager import ControllerManager
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1.api_pb2 import DeleteRequest, Fence, PatchRequest
from support.controller_world import START, bound_pod, ready_node

LOCK = "kube-system/kube-scheduler"


class Recorded(list[str]):
    """Events as they are recorded."""

    def record(
        self,
        about: ObjectMeta,
        *,
        type_: str,
        reason: str,
        action: str = "",
        message: str,
        controller: str = "",
        kind: str = "Pod",
    ) -> None:
        self.append(message)


class Term(NamedTuple):
    cluster: FakeCluster
    informer: Informer
    manager: ControllerManager
    running: asyncio.Task[None]
    metrics: ControllerMetrics
    wall: Callable[[], float]

    def pod(self, key: str) -> Pod | None:
        try:
            found = self.cluster.object("Pod", key)
        except NotFound:
            return None
        assert isinstance(found, Pod)
        return found

    def taints(self, name: str) -> list[str]:
        node = self.cluster.object("Node", name)
        assert isinstance(node, Node)
        return [f"{taint.key}:{taint.effect}" for taint in node.spec.taints]

    def taint(self, name: str, key: str) -> None:
        node = self.cluster.object("Node", name)
        assert isinstance(node, Node)
        node.spec.taints.add(key=key, effect="NoExecute")
        self.cluster.update(node)


@pytest.fixture
async def term() -> AsyncIterator[Term]:
    clock = asyncio.get_running_loop().time
    began = clock()
    cluster = FakeCluster(now=lambda: START + clock() - began)
    fence = cluster.new_term(LOCK)
    informer = cluster.informer(WATCHED_KINDS)
    metrics = ControllerMetrics(MetricRegistry())
    manager = ControllerManager(
        cluster,
        informer,
        ControllerSettings(),
        fence,
        Recorded(),
        metrics=metrics,
        now=lambda: START + clock() - began,
        clock=clock,
    )
    following = asyncio.create_task(informer.run(manager.handle))
    running = asyncio.create_task(manager.run())
    # They begin in the test: fixtures run in real time, and a timer set there would not end in the
    # virtual time of the test.
    yield Term(cluster, informer, manager, running, metrics, lambda: START + clock() - began)
    for task in (running, following):
        task.cancel()
    await asyncio.gather(running, following, return_exceptions=True)


pytestmark = [pytest.mark.looptime]


async def test_a_budget_is_current_within_a_second(term: Term) -> None:
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "web", "default"
    budget.spec.min_available = "1"
    budget.spec.selector.match_labels["app"] = "web"
    term.cluster.create(budget)
    term.cluster.create(bound_pod("a", "n1", app="web"))
    await asyncio.sleep(1)
    found = term.cluster.object("PodDisruptionBudget", "default/web")
    assert isinstance(found, PodDisruptionBudget)
    assert (found.status.current_healthy, found.status.disruptions_allowed) == (1, 0)


async def test_a_budget_counts_the_replicas_of_a_deployment(term: Term) -> None:
    deployment, replicas, pod = Deployment(), ReplicaSet(), bound_pod("a", "n1", app="web")
    deployment.spec.replicas, replicas.spec.replicas = 5, 1
    replicas.spec.selector.match_labels["app"] = "web"
    for item, owner in ((deployment, None), (replicas, deployment), (pod, replicas)):
        item.metadata.namespace, item.metadata.name = "default", item.metadata.name or "web"
        item.metadata.uid = f"uid-{type(item).__name__}"
        if owner is not None:
            add_controller(item.metadata, owner)
        term.cluster.create(item)
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "web", "default"
    budget.spec.max_unavailable = "1"
    budget.spec.selector.match_labels["app"] = "web"
    term.cluster.create(budget)
    await asyncio.sleep(1)
    found = term.cluster.object("PodDisruptionBudget", "default/web")
    assert isinstance(found, PodDisruptionBudget)
    assert found.status.expected_pods == 5


async def test_a_new_budget_counts_pods_that_no_controller_had_to_be_told_of(term: Term) -> None:
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "web", "default"
    budget.spec.min_available = "1"
    budget.spec.selector.match_labels["app"] = "web"
    await asyncio.sleep(1)
    term.cluster.create(bound_pod("before", "n1", app="web"))
    await asyncio.sleep(1)
    term.cluster.create(budget)
    await asyncio.sleep(1)
    term.cluster.create(bound_pod("after", "n1", app="web"))
    await asyncio.sleep(1)
    found = term.cluster.object("PodDisruptionBudget", "default/web")
    assert isinstance(found, PodDisruptionBudget)
    assert found.status.current_healthy == 2


async def test_a_taint_drives_a_pod_out_with_the_condition_that_says_so(term: Term) -> None:
    term.cluster.create(ready_node("n1"))
    pod = bound_pod("p", "n1")
    pod.spec.termination_grace_period_seconds = 30
    term.cluster.create(pod)
    await asyncio.sleep(1)
    term.taint("n1", "maint")
    await asyncio.sleep(1)
    found = term.pod("default/p")
    assert found is not None
    assert found.metadata.HasField("deletion_timestamp")
    reasons = {c.type: c.reason for c in found.status.conditions}
    assert reasons["DisruptionTarget"] == "DeletionByTaintManager"


async def test_evictions_are_rate_limited(term: Term) -> None:
    term.cluster.create(ready_node("n1"))
    for index in range(250):
        term.cluster.create(bound_pod(f"p{index}", "n1"))
    await asyncio.sleep(1)
    term.taint("n1", "maint")
    await asyncio.sleep(1.2)
    left = len(term.cluster.objects("Pod"))
    assert 100 <= left <= 150
    await asyncio.sleep(1.5)
    assert not term.cluster.objects("Pod")


async def test_an_eviction_that_is_cancelled_while_it_waits_for_its_turn_is_not_carried_out(
    term: Term,
) -> None:
    term.cluster.create(ready_node("n1"))
    for index in range(45):
        term.cluster.create(bound_pod(f"p{index}", "n1"))
    await asyncio.sleep(1)
    term.taint("n1", "maint")
    await asyncio.sleep(0.1)
    left = len(term.cluster.objects("Pod"))
    assert left == 25, "the burst; the next call waits for its turn"
    node = term.cluster.object("Node", "n1")
    assert isinstance(node, Node)
    del node.spec.taints[:]
    term.cluster.update(node)
    await asyncio.sleep(2)
    assert len(term.cluster.objects("Pod")) == left
    term.taint("n1", "maint")
    await asyncio.sleep(2)
    assert not term.cluster.objects("Pod"), "another eviction of the same pods is"


async def test_a_term_that_is_over_writes_nothing_and_ends(term: Term) -> None:
    term.cluster.create(ready_node("n1"))
    term.cluster.create(bound_pod("p", "n1"))
    await asyncio.sleep(1)
    term.cluster.new_term(LOCK)
    term.taint("n1", "maint")
    await asyncio.sleep(1)
    assert term.pod("default/p") is not None
    with pytest.raises(FenceLost):
        async with asyncio.timeout(10):
            await term.running


async def test_an_outage_is_waited_out(term: Term) -> None:
    term.cluster.create(ready_node("n1"))
    term.cluster.create(bound_pod("p", "n1"))
    await asyncio.sleep(1)
    term.taint("n1", "maint")
    term.cluster.fault = Unavailable("no server")
    await asyncio.sleep(5)
    assert term.pod("default/p") is not None
    term.cluster.fault = None
    await asyncio.sleep(5)
    assert term.pod("default/p") is None


async def test_a_node_that_is_not_ready_is_tainted_within_a_second(term: Term) -> None:
    term.cluster.create(ready_node("n1"))
    term.cluster.create(ready_node("n2"))
    await asyncio.sleep(1)
    term.cluster.update(_not_ready(term, "n1"))
    await asyncio.sleep(1)
    assert term.taints("n1") == [
        "node.kubernetes.io/not-ready:NoExecute",
        "node.kubernetes.io/not-ready:NoSchedule",
    ]


def _not_ready(term: Term, name: str) -> Node:
    node = term.cluster.object("Node", name)
    assert isinstance(node, Node)
    node.status.conditions[0].status = "False"
    return node


async def test_an_object_that_a_controller_cannot_handle_is_counted_and_ends_nothing(
    term: Term,
) -> None:
    """A budget with a percentage that is none; nodes and pods are looked after as before."""
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "web", "default"
    budget.spec.max_unavailable = "half%"
    budget.spec.selector.match_labels["app"] = "web"
    term.cluster.create(budget)
    term.cluster.create(ready_node("n1"))
    term.cluster.create(bound_pod("p", "n1"))
    await asyncio.sleep(1)
    term.taint("n1", "maint")
    await asyncio.sleep(1)
    assert not term.running.done()
    assert term.pod("default/p") is None
    errors = term.metrics.reconciles_total.labels("disruption", "error")
    assert errors.value >= 1


async def test_pods_of_a_node_that_cannot_be_read_are_kept_until_it_is_really_gone(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    term.cluster.create(ready_node("n1"))
    term.cluster.create(bound_pod("p", "n1"))
    await asyncio.sleep(1)

    async def unreadable(kind: str, name: str, namespace: str = "") -> Node:
        raise Unreadable("the node cannot be decoded")

    with monkeypatch.context() as patch:
        patch.setattr(term.cluster, "get", unreadable)
        # To those who watch, a node that can no longer be decoded is deleted.
        term.cluster.delete("Node", "n1")
        await asyncio.sleep(300)
        assert term.pod("default/p") is not None
    await asyncio.sleep(300)
    assert term.pod("default/p") is None


def settings_of(owner: ReplicaSet) -> ConfigMap:
    """An object of a kind that nothing but the garbage collector follows."""
    item = ConfigMap(data={"large": "x"})
    item.metadata.name, item.metadata.namespace = "settings", "default"
    item.metadata.owner_references.add(
        api_version="apps/v1", kind="ReplicaSet", name="rs", uid=owner.metadata.uid
    )
    return item


def web(name: str) -> ReplicaSet:
    item = ReplicaSet()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.spec.replicas = 2
    item.spec.selector.match_labels["app"] = name
    item.spec.template.metadata.labels["app"] = name
    return item


def manager_lease(term: Term, holder: str) -> Lease:
    lease = Lease()
    lease.metadata.name, lease.metadata.namespace = "kube-controller-manager", "kube-system"
    lease.spec.holder_identity, lease.spec.lease_duration_seconds = holder, 15
    lease.spec.renew_time.CopyFrom(timestamp(term.wall()))
    return lease


async def test_pods_are_made_unless_a_kube_controller_manager_holds_its_lease(term: Term) -> None:
    term.cluster.create(web("before"))
    await asyncio.sleep(1)
    assert len(term.cluster.objects("Pod")) == 2
    term.cluster.create(manager_lease(term, "kcm"))
    await asyncio.sleep(1)
    term.cluster.create(web("meanwhile"))
    await asyncio.sleep(12)
    assert len(term.cluster.objects("Pod")) == 2
    await asyncio.sleep(5)  # The Lease is over.
    assert len(term.cluster.objects("Pod")) == 4


async def test_pods_are_made_at_the_very_moment_at_which_the_lease_ends(term: Term) -> None:
    """Nothing else would wake the controllers."""
    term.manager._wall = lambda: START
    lease = manager_lease(term, "kcm")
    lease.spec.renew_time.CopyFrom(timestamp(START - lease.spec.lease_duration_seconds))
    term.cluster.create(lease)
    term.cluster.create(web("a"))
    await asyncio.sleep(1)
    assert len(term.cluster.objects("Pod")) == 2


async def test_pods_are_made_at_once_when_a_kube_controller_manager_gives_up_its_lease(
    term: Term,
) -> None:
    term.cluster.create(manager_lease(term, "kcm"))
    term.cluster.create(web("a"))
    await asyncio.sleep(1)
    assert not term.cluster.objects("Pod")
    term.cluster.update(manager_lease(term, ""))
    await asyncio.sleep(1)
    assert len(term.cluster.objects("Pod")) == 2


async def test_a_pod_without_an_owner_is_adopted_instead_of_made(term: Term) -> None:
    term.cluster.create(web("a"))
    await asyncio.sleep(1)
    pod = bound_pod("orphan", "n1", app="a")
    term.cluster.create(pod)
    await asyncio.sleep(1)
    assert len(term.cluster.objects("Pod")) == 2, "one of three was deleted"
    assert all(pod.metadata.owner_references for pod in term.cluster.objects("Pod"))


async def test_objects_of_every_kind_go_with_their_owner(term: Term) -> None:
    owner = ReplicaSet()
    owner.metadata.name, owner.metadata.namespace = "rs", "default"
    owner.spec.replicas = 1
    owner.spec.selector.match_labels["app"] = "web"
    owner.spec.template.metadata.labels["app"] = "web"
    created = term.cluster.create(owner)
    assert isinstance(created, ReplicaSet)
    term.cluster.create(settings_of(created))
    await asyncio.sleep(1)
    assert term.cluster.objects("ConfigMap") and term.cluster.objects("Pod")
    term.cluster.delete("ReplicaSet", "default/rs")
    await asyncio.sleep(1)
    assert not term.cluster.objects("ConfigMap") and not term.cluster.objects("Pod")


async def test_an_owner_that_could_not_be_asked_for_is_asked_for_again(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(kind: str, name: str, namespace: str = "") -> Node:
        raise Unavailable("no server")

    with monkeypatch.context() as patch:
        patch.setattr(term.cluster, "get", unavailable)
        owner = ReplicaSet()
        owner.metadata.uid = "gone"
        term.cluster.create(settings_of(owner))
        await asyncio.sleep(3)
        assert term.cluster.objects("ConfigMap")
    await asyncio.sleep(10)
    assert not term.cluster.objects("ConfigMap")


async def test_an_object_that_gets_another_owner_at_the_last_moment_is_kept(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deleted and what was changed before that come by two streams, in any order."""
    gone, other = ReplicaSet(), web("other")
    gone.metadata.uid = "gone"
    kept = settings_of(gone)
    kept.metadata.uid = "kept"
    term.cluster.create(other)

    async def adopted(kind: str, name: str, namespace: str = "") -> Node:
        reference = kept.metadata.owner_references[0]
        reference.name, reference.uid = "other", owner.metadata.uid
        term.cluster.update(kept)
        raise NotFound("it is gone")

    owner = term.cluster.object("ReplicaSet", "default/other")
    monkeypatch.setattr(term.cluster, "get", adopted)
    term.cluster.create(kept)
    await asyncio.sleep(5)
    [left] = term.cluster.objects("ConfigMap")
    assert left.metadata.owner_references[0].name == "other"


async def test_an_object_in_a_circle_of_owners_does_not_wait_for_other_dependents(
    term: Term,
) -> None:
    for name, owner in (("a", "b"), ("b", "a"), ("slow", "a")):
        item = ConfigMap()
        item.metadata.name, item.metadata.namespace, item.metadata.uid = name, "default", name
        item.metadata.owner_references.add(
            api_version="v1", kind="ConfigMap", name=owner, uid=owner, block_owner_deletion=True
        )
        item.metadata.finalizers.extend(["example.com/slow"] if name == "slow" else ())
        term.cluster.create(item)
    await asyncio.sleep(1)
    first = DeleteRequest(kind="ConfigMap", name="a", namespace="default")
    first.propagation_policy = "Foreground"
    await term.cluster.delete_many([first], fence=term.cluster.new_term("default/user"))
    await asyncio.sleep(5)
    assert term.cluster.object("ConfigMap", "default/b").metadata.HasField("deletion_timestamp")


async def test_a_namespace_goes_with_all_that_is_in_it(term: Term) -> None:
    namespace = Namespace()
    namespace.metadata.name = "default"
    term.cluster.create(namespace)
    owner = ReplicaSet()
    owner.metadata.name, owner.metadata.namespace = "rs", "default"
    term.cluster.create(owner)
    held = bound_pod("held")
    held.metadata.finalizers.append("example.com/hold")
    for item in (held, bound_pod("p")):
        term.cluster.create(item)
    fence = term.cluster.new_term("another/lock")
    request = DeleteRequest(kind="Namespace", name="default")
    await term.cluster.delete_many([request], fence=fence)
    await asyncio.sleep(2)
    left = [p.metadata.name for p in term.cluster.objects("Pod")]
    assert left == ["held"] and term.cluster.objects("ReplicaSet"), "pods go first"
    released = PatchRequest(
        kind="Pod",
        namespace="default",
        name="held",
        merge_patch=b'{"metadata": {"finalizers": null}}',
    )
    await term.cluster.patch_many([released], fence=fence)
    await asyncio.sleep(1)
    assert not any(term.cluster.objects(k) for k in ("Pod", "ReplicaSet", "Namespace"))


async def test_a_new_namespace_is_not_emptied_in_place_of_the_former_one_of_its_name(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = Namespace()
    namespace.metadata.name = "default"
    deleted: list[Namespace] = []
    term.cluster.create(namespace)
    delete_many = term.cluster.delete_many

    async def unanswered(requests: Sequence[DeleteRequest], *, fence: Fence) -> object:
        results = await delete_many(requests, fence=fence)
        if not term.cluster.objects("Namespace") and not deleted:
            deleted.append(namespace)
            term.cluster.create(namespace)
            term.cluster.create(bound_pod("new"))
            raise OutcomeUnknown("the server stopped")
        return results

    monkeypatch.setattr(term.cluster, "delete_many", unanswered)
    fence = term.cluster.new_term("another/lock")
    await unanswered([DeleteRequest(kind="Namespace", name="default")], fence=fence)
    await asyncio.sleep(10)
    assert deleted and term.pod("default/new") is not None


async def test_a_namespace_goes_once_an_object_is_gone_that_no_list_has_shown(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_listed = term.cluster.delete_collection

    async def of_readable(kind: str, namespace: str = "", *, fence: Fence) -> int:
        return 0 if kind == "ConfigMap" else await delete_listed(kind, namespace, fence=fence)

    monkeypatch.setattr(term.cluster, "delete_collection", of_readable)
    namespace = Namespace()
    namespace.metadata.name = "default"
    term.cluster.create(namespace)
    settings = ConfigMap()
    settings.metadata.name, settings.metadata.namespace = "settings", "default"
    term.cluster.create(settings)
    fence = term.cluster.new_term("another/lock")
    request = DeleteRequest(kind="Namespace", name="default")
    await term.cluster.delete_many([request], fence=fence)
    await asyncio.sleep(10)
    assert term.cluster.objects("Namespace")
    term.cluster.delete("ConfigMap", "default/settings")
    await asyncio.sleep(10)
    assert not term.cluster.objects("Namespace")


async def test_work_that_is_left_does_not_wait_while_objects_go_on_changing(term: Term) -> None:
    template = ResourceClaimTemplate()
    template.metadata.name, template.metadata.namespace = "gpu", "default"
    term.cluster.create(template)
    node = ready_node("n1")
    term.cluster.create(node)
    for number in range(1000):
        pod = bound_pod(f"p{number}", "")
        pod.spec.resource_claims.add(name="gpu", resource_claim_template_name="gpu")
        term.cluster.create(pod)
    for change in range(50):
        node.metadata.annotations["change"] = str(change)
        term.cluster.update(node)
        await asyncio.sleep(0.01)
    pods = term.informer.objects("Pod").values()
    assert len(pods) == 1000
    assert all(isinstance(pod, Pod) and pod.status.resource_claim_statuses for pod in pods)
