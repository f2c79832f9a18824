"""What a scheduler writes to a Kubernetes cluster, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from podsched.api.objects import Event, ResourceClaim
from podsched.serve.kube.cluster import KubeCluster
from podsched.v1 import api_pb2 as v1
from support.kube_server import Answer, KubeStore, MemoryHttp, refusal

pytestmark = pytest.mark.looptime

FENCE = v1.Fence(lock="kube-system/kube-scheduler", term=7)


class World:
    """A cluster, and a leader of term 7."""

    def __init__(self) -> None:
        self.store = KubeStore()
        self.term = 7
        http = MemoryHttp(self.store)
        leads = lambda fence: fence.term == self.term  # noqa: E731
        self.cluster = KubeCluster(http, leads, qps=10, burst=5, now=lambda: 1.7e9)

    def uid(self, name: str = "web") -> str:
        return str(self.store.objects["pods"][f"default/{name}"]["metadata"]["uid"])

    def binding(self, name: str = "web", node: str = "n1", uid: str = "") -> v1.Binding:
        uid = uid or self.uid(name)
        return v1.Binding(namespace="default", name=name, uid=uid, node_name=node)

    async def bind(self, *bindings: v1.Binding) -> list[v1.BatchResult]:
        return list(await self.cluster.bind_pods(bindings, fence=FENCE))

    async def evict(self, **fields: Any) -> v1.BatchResult:
        request = v1.EvictRequest(namespace="default", name="web", **fields)
        (result,) = await self.cluster.evict_pods([request], fence=FENCE)
        return result


@pytest.fixture
def world() -> World:
    world = World()
    world.store.pod("web")
    return world


async def test_a_binding_carries_the_uid_of_the_pod(world: World) -> None:
    (result,) = await world.bind(world.binding())
    assert result.code == 0
    (body,) = world.store.writes("POST", "/binding")
    assert body["metadata"] == {"name": "web", "namespace": "default", "uid": world.uid()}
    assert body["target"] == {"kind": "Node", "name": "n1"}


async def test_binding_again_to_the_same_node_is_a_success(world: World) -> None:
    """The answer to the first try may have been lost."""
    await world.bind(world.binding())
    same, other = await world.bind(world.binding(), world.binding(node="n2"))
    assert same.code == 0
    assert (other.reason, other.node_name) == ("ALREADY_BOUND", "n1")


async def test_what_cannot_be_bound_says_why(world: World) -> None:
    world.store.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    results = await world.bind(
        world.binding(uid="another"),
        world.binding("gated"),
        world.binding("gone", uid="any"),
    )
    assert [result.reason for result in results] == [
        "PRECONDITION_FAILED",
        "SCHEDULING_GATED",
        "NOT_FOUND",
    ]


#: What kube-apiserver puts before whatever its storage says of a binding.
UNFULFILLED = 'Operation cannot be fulfilled on pods/binding "web"'


@pytest.mark.parametrize(
    "answer",
    [
        refusal(504, "Timeout", "request did not complete within requested timeout"),
        refusal(500, "", "rpc error: code = Unavailable desc = etcdserver: request timed out"),
        refusal(409, "Conflict", f"{UNFULFILLED}: etcdserver: request timed out"),
        refusal(409, "Conflict", f"{UNFULFILLED}: rpc error: code = Unavailable desc = EOF"),
    ],
    ids=["kube-apiserver", "etcd", "etcd, to a binding", "connection to etcd, to a binding"],
)
async def test_a_binding_that_may_be_done_after_all_says_so(world: World, answer: Answer) -> None:
    world.store.fail(answer, path="/binding", times=100)
    (result,) = await world.bind(world.binding())
    assert result.reason == "OUTCOME_UNKNOWN"


LOST = refusal(504, "Timeout", "request did not complete within requested timeout")


async def test_a_binding_stays_in_doubt_while_the_server_cannot_be_reached_again(
    world: World,
) -> None:
    world.store.fail(LOST, path="/binding")
    asyncio.get_running_loop().call_later(0.01, setattr, world.store, "down", True)
    (result,) = await world.bind(world.binding())
    assert (result.reason, result.message) == ("OUTCOME_UNKNOWN", "cannot connect")


@pytest.mark.parametrize("code", [401, 403, 500])
async def test_a_binding_stays_in_doubt_if_the_next_try_is_refused(world: World, code: int) -> None:
    world.store.fail(LOST, path="/binding")
    world.store.fail(refusal(code, "", "no"), path="/binding", times=2)
    (result,) = await world.bind(world.binding())
    assert (result.reason, result.message) == ("OUTCOME_UNKNOWN", "no")


async def test_a_binding_stays_in_doubt_if_the_pod_of_its_conflict_cannot_be_read(
    world: World,
) -> None:
    """The conflict is with this binding: its first answer was lost."""
    await world.bind(world.binding())
    world.store.fail(LOST, path="/binding")
    world.store.fail(refusal(503, "ServiceUnavailable", "no etcd"), method="GET", times=100)
    (result,) = await world.bind(world.binding())
    assert result.reason == "OUTCOME_UNKNOWN"
    world.store.allow()
    world.store.fail(LOST, path="/binding")
    world.store.fail(refusal(500, "", "etcdserver: no leader"), method="GET", times=100)
    (result,) = await world.bind(world.binding())
    assert result.reason == "OUTCOME_UNKNOWN"


async def test_a_binding_whose_first_try_was_refused_is_not_in_doubt(world: World) -> None:
    await world.bind(world.binding())
    world.store.fail(refusal(503, "ServiceUnavailable", "no etcd"), method="GET", times=100)
    (result,) = await world.bind(world.binding())
    assert (result.code, result.reason) == (14, "")


async def test_bindings_keep_to_qps_and_burst(world: World) -> None:
    """Five at once, then ten a second."""
    for number in range(25):
        world.store.pod(f"pod-{number}")
    clock = asyncio.get_running_loop().time
    began = clock()
    await world.bind(*(world.binding(f"pod-{number}") for number in range(25)))
    assert clock() - began == pytest.approx(2.0, abs=0.2)


async def test_bindings_do_not_wait_for_the_turn_of_those_that_a_term_left_unsent(
    world: World,
) -> None:
    names = [f"pod-{number}" for number in range(205)]
    for name in names:
        world.store.pod(name)
    first = asyncio.create_task(world.bind(*map(world.binding, names)))
    await asyncio.sleep(0.95)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    clock = asyncio.get_running_loop().time
    began = clock()
    await world.bind(world.binding())
    assert clock() - began <= 0.11


async def test_nothing_is_sent_once_the_term_is_over(world: World) -> None:
    """Also of what waited for its turn when the term ended."""
    for number in range(25):
        world.store.pod(f"pod-{number}")
    asyncio.get_running_loop().call_later(1.0, setattr, world, "term", 8)
    results = await world.bind(*(world.binding(f"pod-{number}") for number in range(25)))
    lost = [result for result in results if result.reason == "FENCE_LOST"]
    assert len(lost) == 25 - len(world.store.bound)
    assert 10 <= len(lost) <= 11


async def test_a_busy_server_is_asked_again_when_it_says(world: World) -> None:
    busy = refusal(429, "TooManyRequests", "too many requests", retry_after=3)
    world.store.fail(busy, path="/binding")
    clock = asyncio.get_running_loop().time
    began = clock()
    (result,) = await world.bind(world.binding())
    assert result.code == 0
    assert clock() - began == pytest.approx(3.0, abs=0.2)


async def test_an_outage_that_lasts_fails_each_binding_by_itself(world: World) -> None:
    world.store.down = True
    (result,) = await world.bind(world.binding())
    assert (result.code, result.message) == (14, "cannot connect")


async def test_preemption_marks_the_victim_and_deletes_it(world: World) -> None:
    uid = world.uid()
    result = await world.evict(
        preconditions=v1.Preconditions(uid=uid),
        ignore_disruption_budgets=True,
        condition={"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    )
    assert result.code == 0
    (patch,) = world.store.writes("PATCH", "/pods/web/status")
    (condition,) = patch["status"]["conditions"]
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert world.store.writes("DELETE", "/pods/web") == [{"preconditions": {"uid": uid}}]


async def test_a_victim_of_another_uid_is_left_alone(world: World) -> None:
    result = await world.evict(
        preconditions=v1.Preconditions(uid="another"), ignore_disruption_budgets=True
    )
    assert result.reason == "PRECONDITION_FAILED"
    assert "default/web" in world.store.objects["pods"]


async def test_a_deletion_that_a_busy_server_refuses_is_not_said_to_violate_a_budget(
    world: World,
) -> None:
    busy = refusal(429, "TooManyRequests", "too many requests", retry_after=30)
    world.store.fail(busy, method="DELETE")
    result = await world.evict(ignore_disruption_budgets=True)
    assert (result.code, result.reason) == (14, "")


async def test_an_eviction_that_a_budget_refuses_is_not_tried_again(world: World) -> None:
    refused = refusal(429, "TooManyRequests", "would violate the budget", retry_after=10)
    world.store.fail(refused, path="/eviction", times=5)
    assert (await world.evict()).reason == "DISRUPTION_BUDGET"


async def test_a_condition_keeps_its_time_while_its_status_is_the_same(world: World) -> None:
    """And nothing of the old one's reason and message stays."""
    informer = world.cluster.informer(["Pod"])
    task = asyncio.create_task(informer.run(lambda batch: None))
    await informer.synced.wait()

    async def failed(reason: str) -> dict[str, Any]:
        patch = v1.PodStatusPatch(namespace="default", name="web", uid=world.uid())
        patch.conditions.add(type="PodScheduled", status="False", reason=reason)
        (result,) = await world.cluster.patch_pod_statuses([patch], fence=FENCE)
        assert result.code == 0
        await asyncio.sleep(1)
        return dict(world.store.objects["pods"]["default/web"]["status"]["conditions"][0])

    first, second = await failed("Unschedulable"), await failed("SchedulerError")
    assert first["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert second == {**first, "reason": "SchedulerError"}
    (_, patch) = world.store.writes("PATCH", "/status")
    assert "lastTransitionTime" not in patch["status"]["conditions"][0]
    task.cancel()


async def test_a_nomination_is_set_and_cleared(world: World) -> None:
    for node in ("n1", ""):
        patch = v1.PodStatusPatch(namespace="default", name="web", uid=world.uid())
        patch.nominated_node_name = node
        await world.cluster.patch_pod_statuses([patch], fence=FENCE)
    bodies = world.store.writes("PATCH", "/status")
    assert [body["status"] for body in bodies] == [
        {"nominatedNodeName": "n1"},
        {"nominatedNodeName": None},
    ]


async def test_patches_of_volumes_name_the_version_they_were_made_for(world: World) -> None:
    volume = world.store.put("persistentvolumes", {"metadata": {"name": "pv"}, "spec": {}})
    version = int(volume["metadata"]["resourceVersion"])

    async def patch(resource_version: int) -> v1.BatchResult:
        request = v1.PatchRequest(
            kind="PersistentVolume",
            name="pv",
            merge_patch=b'{"spec":{"claimRef":{"name":"data"}}}',
            resource_version=resource_version,
        )
        (result,) = await world.cluster.patch_many([request], fence=FENCE)
        return result

    assert (await patch(version)).code == 0
    assert (await patch(version)).reason == "CONFLICT"


async def test_a_patch_of_a_status_goes_to_the_status(world: World) -> None:
    item = {"metadata": {"name": "g", "namespace": "default"}}
    uid = world.store.put("podgroups", item)["metadata"]["uid"]
    condition = b'{"status":{"conditions":[{"type":"PodGroupScheduled","status":"True"}]}}'
    request = v1.PatchRequest(
        kind="PodGroup", namespace="default", name="g", uid=uid, merge_patch=condition
    )
    (result,) = await world.cluster.patch_many([request], fence=FENCE)
    assert result.code == 0
    path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups/g/status"
    (body,) = world.store.writes("PATCH", path)
    assert body["metadata"] == {"uid": uid}


async def test_a_patch_of_finalizers_and_status_is_written_in_two(world: World) -> None:
    item = {"metadata": {"name": "c", "namespace": "default"}}
    claim = world.store.put("resourceclaims", item)["metadata"]
    patch = b'{"metadata":{"finalizers":["a/b"]},"status":{"reservedFor":[]}}'
    request = v1.PatchRequest(
        kind="ResourceClaim",
        namespace="default",
        name="c",
        resource_version=int(claim["resourceVersion"]),
        merge_patch=patch,
    )
    (result,) = await world.cluster.patch_many([request], fence=FENCE)
    assert result.code == 0
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
    first, second = world.store.writes("PATCH", path)
    assert first["metadata"]["finalizers"] == ["a/b"]
    assert "status" not in first
    stored = world.store.objects["resourceclaims"]["default/c"]["metadata"]
    assert stored["finalizers"] == ["a/b"]
    assert second["status"] == {"reservedFor": []}
    assert claim["resourceVersion"] < second["metadata"]["resourceVersion"]
    assert second["metadata"]["resourceVersion"] < stored["resourceVersion"]
    (again,) = await world.cluster.patch_many([request], fence=FENCE)
    assert again.reason == "CONFLICT"


async def test_new_objects_are_created_and_deleted_with_their_uid(world: World) -> None:
    claim = ResourceClaim()
    claim.metadata.namespace, claim.metadata.name = "default", "c"
    (created,) = await world.cluster.create_many([claim], fence=FENCE)
    (again,) = await world.cluster.create_many([claim], fence=FENCE)
    assert (created.code, again.reason) == (0, "ALREADY_EXISTS")
    uid = world.store.objects["resourceclaims"]["default/c"]["metadata"]["uid"]
    deletion = v1.DeleteRequest(kind="ResourceClaim", namespace="default", name="c")
    deletion.preconditions.uid = uid
    (deleted,) = await world.cluster.delete_many([deletion], fence=FENCE)
    assert deleted.code == 0
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
    assert world.store.writes("DELETE", path) == [{"preconditions": {"uid": uid}}]
    (gone,) = await world.cluster.delete_many([deletion], fence=FENCE)
    assert gone.reason == "NOT_FOUND"


def event(count: int = 1) -> Event:
    found = Event(reason="FailedScheduling", message="no", type="Warning", action="Scheduling")
    found.metadata.name, found.metadata.namespace = "web.1", "default"
    found.involved_object.kind, found.involved_object.name = "Pod", "web"
    found.involved_object.namespace = "default"
    found.reporting_controller, found.reporting_instance = "default-scheduler", "one"
    found.count = count
    found.event_time.FromNanoseconds(1_700_000_000_000_001_000)
    found.last_timestamp.FromNanoseconds(1_700_000_060_000_000_000)
    return found


async def test_an_event_names_the_other_object_that_it_is_about(world: World) -> None:
    preempted = event()
    related = preempted.related
    related.kind, related.api_version, related.uid = "Pod", "v1", "uid-high"
    related.namespace, related.name = "default", "high"
    await world.cluster.record_events([event(), preempted])
    alone, both = world.store.writes("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
    assert "related" not in alone
    about = {"namespace": "default", "name": "high", "uid": "uid-high"}
    assert both["related"] == {"kind": "Pod", "apiVersion": "v1", **about}


async def test_an_event_that_happens_again_gets_a_series(world: World) -> None:
    await world.cluster.record_events([event()], [event(count=3)])
    (created,) = world.store.writes("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
    assert created["eventTime"] == "2023-11-14T22:13:20.000001Z"
    assert (created["note"], created["regarding"]["name"]) == ("no", "web")
    (patch,) = world.store.writes("PATCH", "/events/web.1")
    assert patch == {"series": {"count": 3, "lastObservedTime": "2023-11-14T22:14:20.000000Z"}}


async def test_no_event_is_lost_by_an_answer_that_is(world: World) -> None:
    """Nor by an API server that is too busy; what was written without an answer is there once."""
    other = event()
    other.metadata.name = "web.2"
    await world.cluster.record_events([other])
    world.store.fail(refusal(504, "Timeout", "it took too long"), path="/events", times=2)
    await world.cluster.record_events([event(), other])
    assert set(world.store.objects["events"]) == {"default/web.1", "default/web.2"}


async def test_an_event_that_has_expired_is_written_anew(world: World) -> None:
    await world.cluster.record_events([], [event(count=3)])
    assert "default/web.1" in world.store.objects["events"]


async def test_events_that_may_not_be_written_are_logged(world: World) -> None:
    """One that may be written is written."""
    denied = "ValidatingAdmissionPolicy 'few' denied request: no events"
    world.store.fail(refusal(403, "Forbidden", denied), path="/events")
    other = event()
    other.metadata.name = "web.2"
    with capture_logs() as logs:
        await world.cluster.record_events([event(), other])
    assert [(line["events"], line["error"]) for line in logs] == [(1, denied)]
    assert len(world.store.objects["events"]) == 1


async def test_no_event_is_missed_in_a_namespace_that_is_being_deleted(world: World) -> None:
    cause = {"reason": "NamespaceTerminating", "message": "it ends", "field": "metadata.namespace"}
    world.store.fail(refusal(403, "Forbidden", "it ends", causes=[cause]), path="/events")
    with capture_logs() as logs:
        await world.cluster.record_events([event()])
    assert logs == []
