"""Binding, evicting and status patches, with their fences."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.kinds import Kind
from podsched.api.objects import Pod, PodCondition, PodDisruptionBudget, timestamp
from podsched.api.reasons import StatusCode
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.store.errors import MaybeApplied
from podsched.serve.store.protocol import GetResult, Write, WriteOutcome
from podsched.v1 import api_pb2 as v1
from support.api_objects import binding, budget, node, pod
from support.api_world import World


async def created(world: World, name: str = "web", **labels: str) -> Pod:
    message = (await world.core.creator.create(pod(name, **labels))).decode()
    assert isinstance(message, Pod)
    return message


async def stored(world: World, name: str = "web") -> Pod:
    message = (await world.core.registry.get("Pod", "", name)).decode()
    assert isinstance(message, Pod)
    return message


def refusal(outcome: Entry | ApiError) -> str:
    assert isinstance(outcome, ApiError), outcome
    return outcome.reason


# ---------------------------------------------------------------------------- binding


async def test_a_binding_sets_node_and_condition(world: World) -> None:
    """PodScheduled becomes True, and the nomination has served its purpose."""
    fence = await world.new_term()
    item = await created(world)
    patch = v1.PodStatusPatch(name="web", nominated_node_name="worker-2")
    patch.conditions.add(type="PodScheduled", status="False", reason="Unschedulable")
    await world.core.pods.patch_statuses([patch], fence)
    (outcome,) = await world.core.pods.bind([binding("web", "worker-1", item.metadata.uid)], fence)
    assert isinstance(outcome, Entry)
    bound = await stored(world)
    assert bound.spec.node_name == "worker-1"
    assert bound.status.nominated_node_name == ""
    assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]


async def test_a_binding_sets_its_annotations(world: World) -> None:
    """By the same write, and only if they could be set by an update, too."""
    for name in ("web", "other"):
        await created(world, name)
    good, bad = binding("web", "worker-1"), binding("other", "worker-1")
    good.annotations["podsched.io/flavors"] = '{"cpu":"spot"}'
    bad.annotations["no key!"] = ""
    _, refused = await world.core.pods.bind([good, bad], None)
    annotations = (await stored(world)).metadata.annotations
    assert dict(annotations) == {"podsched.io/flavors": '{"cpu":"spot"}'}
    assert refusal(refused) == "INVALID"
    assert (await stored(world, "other")).spec.node_name == ""


async def test_a_binding_removes_what_it_does_not_tell_of_an_admission(world: World) -> None:
    """The pod's author could have it counted in a queue that did not admit it."""
    made = pod("web")
    made.metadata.annotations.update({"podsched.io/local-queue": "team", "mine": "stays"})
    await world.core.creator.create(made)
    await world.core.pods.bind([binding("web", "worker-1")], None)
    assert dict((await stored(world)).metadata.annotations) == {"mine": "stays"}


async def test_a_pod_is_bound_once(world: World) -> None:
    """The second binding learns where the pod is; two in one batch as well."""
    await created(world)
    first, second = await world.core.pods.bind(
        [binding("web", "worker-1"), binding("web", "worker-2")], None
    )
    assert isinstance(first, Entry)
    assert refusal(second) == "ALREADY_BOUND"
    assert isinstance(second, ApiError) and second.code is StatusCode.FAILED_PRECONDITION
    assert second.metadata["node"] == "worker-1"
    assert (await stored(world)).spec.node_name == "worker-1"


async def test_a_binding_through_another_server_counts(world: World) -> None:
    """A cache that lags does not let a pod be bound twice."""
    other = await world.another()
    await created(world)
    await other.pods.bind([binding("web", "worker-1")], None)
    (outcome,) = await world.core.pods.bind([binding("web", "worker-2")], None)
    assert refusal(outcome) == "ALREADY_BOUND"


async def test_a_status_change_in_between_does_not_stop_a_binding(world: World) -> None:
    """The compare fails, the pod is still free: bound from its newer state."""
    other = await world.another()
    await created(world)
    await world.core.reflector.wait_until_fresh()
    patch = v1.PodStatusPatch(name="web", conditions=[PodCondition(type="X", status="True")])
    await other.pods.patch_statuses([patch], None)
    (outcome,) = await world.core.pods.bind([binding("web", "worker-1")], None)
    assert isinstance(outcome, Entry)
    assert [c.type for c in (await stored(world)).status.conditions] == ["X", "PodScheduled"]


async def test_a_fenced_repetition_with_the_uid_is_a_success(world: World) -> None:
    """A writer that lost the answer asks again and learns that it has succeeded."""
    fence = await world.new_term()
    uid = (await created(world)).metadata.uid
    (first,) = await world.core.pods.bind([binding("web", "worker-1", uid)], fence)
    (again,) = await world.core.pods.bind([binding("web", "worker-1", uid)], fence)
    assert isinstance(first, Entry) and isinstance(again, Entry)
    assert again.revision == first.revision
    (elsewhere,) = await world.core.pods.bind([binding("web", "worker-2", uid)], fence)
    assert refusal(elsewhere) == "ALREADY_BOUND"


async def test_a_deposed_writer_does_not_even_learn_of_its_success(world: World) -> None:
    """The repetition of an old term fails on its fence."""
    fence = await world.new_term()
    uid = (await created(world)).metadata.uid
    await world.core.pods.bind([binding("web", "worker-1", uid)], fence)
    await world.new_term()
    (again,) = await world.core.pods.bind([binding("web", "worker-1", uid)], fence)
    assert refusal(again) == "FENCE_LOST"


async def test_a_lost_fence_writes_nothing_and_no_fence_would_have(world: World) -> None:
    """The paused leader's binding fails; the same binding without its fence succeeds."""
    deposed = await world.new_term()
    await created(world)
    await world.new_term()
    (outcome,) = await world.core.pods.bind([binding("web", "worker-1")], deposed)
    assert refusal(outcome) == "FENCE_LOST"
    assert isinstance(outcome, ApiError) and outcome.code is StatusCode.FAILED_PRECONDITION
    assert (await stored(world)).spec.node_name == ""
    (unfenced,) = await world.core.pods.bind([binding("web", "worker-1")], None)
    assert isinstance(unfenced, Entry)


async def test_every_fenced_write_fails_on_a_lost_fence(world: World) -> None:
    """Create, update, status, patch, delete, evict: all of them."""
    deposed = await world.new_term()
    item = await created(world)
    await world.new_term()
    creator, registry, pods = world.core.creator, world.core.registry, world.core.pods
    item.metadata.labels["a"] = "1"
    calls = (
        creator.create(pod("new"), deposed),
        registry.update(item, deposed),
        registry.update(item, deposed, status=True),
        world.core.deleter.delete(v1.DeleteRequest(kind="Pod", name="web"), deposed),
    )
    for call in calls:
        with pytest.raises(ApiError) as refused:
            await call
        assert refused.value.reason == "FENCE_LOST"
    patch = v1.PatchRequest(
        kind="Pod", name="web", merge_patch=b'{"metadata":{"labels":{"b":"1"}}}'
    )
    status = v1.PodStatusPatch(name="web", nominated_node_name="worker-1")
    eviction = v1.EvictRequest(name="web", ignore_disruption_budgets=True)
    for outcomes in (
        await registry.patch([patch], deposed),
        await pods.patch_statuses([status], deposed),
        await pods.evict([eviction], deposed),
    ):
        assert refusal(outcomes[0]) == "FENCE_LOST"
    after = await stored(world)
    assert not after.metadata.labels
    assert not after.status.nominated_node_name


async def test_what_cannot_be_bound_is_refused(world: World) -> None:
    """Deleted, gated, absent, another incarnation, no node: each with its reason."""
    gated = pod("gated")
    gated.spec.scheduling_gates.add(name="example.com/wait")
    held = pod("leaving")
    held.metadata.finalizers.append("example.com/hold")
    await world.core.creator.create_many([gated, held, pod("web")])
    await world.core.deleter.delete(v1.DeleteRequest(kind="Pod", name="leaving"))
    outcomes = await world.core.pods.bind(
        [
            binding("gated", "worker-1"),
            binding("leaving", "worker-1"),
            binding("absent", "worker-1"),
            binding("web", "worker-1", uid="other"),
            binding("web", ""),
            binding("web", "no-node"),
        ],
        None,
    )
    assert [refusal(outcome) for outcome in outcomes] == [
        "SCHEDULING_GATED",
        "POD_DELETING",
        "NOT_FOUND",
        "PRECONDITION_FAILED",
        "INVALID",
        "NOT_FOUND",
    ]
    assert 'nodes "no-node" not found' in str(outcomes[-1])


async def test_a_pod_is_bound_to_a_node_created_through_another_server_just_now(
    world: World,
) -> None:
    other = await world.another()
    await world.core.creator.create(pod("web"))
    await other.creator.create(node("new"))
    (outcome,) = await world.core.pods.bind([binding("web", "new")], None)
    assert isinstance(outcome, Entry)


async def test_a_binding_whose_answer_was_lost_is_looked_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store applied the write and then broke off: the outcome is read back."""
    await created(world)
    await world.core.reflector.wait_until_fresh()
    write_many = world.store.write_many

    async def lose_answers(writes: list[Write]) -> list[WriteOutcome]:
        await write_many(writes)
        return [MaybeApplied("connection lost")] * len(writes)

    monkeypatch.setattr(world.store, "write_many", lose_answers)
    (outcome,) = await world.core.pods.bind([binding("web", "worker-1")], None)
    assert isinstance(outcome, Entry)


async def test_a_write_that_may_come_late_is_of_unknown_outcome(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither success nor "nothing was done": OUTCOME_UNKNOWN."""
    await created(world)
    await world.core.reflector.wait_until_fresh()

    async def lose_requests(writes: list[Write]) -> list[WriteOutcome]:
        return [MaybeApplied("connection lost")] * len(writes)

    monkeypatch.setattr(world.store, "write_many", lose_requests)
    (outcome,) = await world.core.pods.bind([binding("web", "worker-1")], None)
    assert refusal(outcome) == "OUTCOME_UNKNOWN"


async def test_writes_of_unknown_outcome_are_read_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another, a batch would wait for each while etcd does not answer."""
    names = [f"p{number}" for number in range(4)]
    for name in names:
        await created(world, name)
    await world.core.reflector.wait_until_fresh()
    reading, at_once, get = 0, [0], world.store.get

    async def lose_requests(writes: list[Write]) -> list[WriteOutcome]:
        return [MaybeApplied("connection lost")] * len(writes)

    async def counted(key: str) -> GetResult:
        nonlocal reading
        reading += 1
        at_once.append(reading)
        await asyncio.sleep(0)
        reading -= 1
        return await get(key)

    monkeypatch.setattr(world.store, "write_many", lose_requests)
    monkeypatch.setattr(world.store, "get", counted)
    bound = await world.core.pods.bind([binding(name, "worker-1") for name in names], None)
    assert [refusal(outcome) for outcome in bound] == ["OUTCOME_UNKNOWN"] * 4
    assert max(at_once) == 4
    at_once.clear()
    made = await world.core.creator.create_many([pod(f"q{number}") for number in range(3)])
    assert [refusal(outcome) for outcome in made] == ["OUTCOME_UNKNOWN"] * 3
    assert max(at_once) == 3


# ---------------------------------------------------------------------------- status


async def test_a_condition_keeps_its_transition_time_while_its_status_stays(world: World) -> None:
    """A new message is written, the time is the old one."""
    await created(world)
    for message in ("0/1 nodes", "0/2 nodes"):
        condition = PodCondition(type="PodScheduled", status="False", message=message)
        await world.core.pods.patch_statuses(
            [v1.PodStatusPatch(name="web", conditions=[condition])], None
        )
        world.now += 60
    (condition,) = (await stored(world)).status.conditions
    assert condition.message == "0/2 nodes"
    assert condition.last_transition_time.seconds == int(world.now) - 120


async def test_a_status_that_is_so_already_is_not_written(world: World) -> None:
    """The revision stays."""
    await created(world)
    patch = v1.PodStatusPatch(name="web", nominated_node_name="worker-1")
    (first,) = await world.core.pods.patch_statuses([patch], None)
    (again,) = await world.core.pods.patch_statuses([patch], None)
    assert isinstance(first, Entry) and isinstance(again, Entry)
    assert again.revision == first.revision


async def test_a_late_report_of_a_failed_attempt_changes_nothing_of_a_pod_that_has_a_node(
    world: World,
) -> None:
    """Other conditions of the same patch are written."""
    await created(world)
    await world.core.pods.bind([binding("web", "worker-1")], None)
    patch = v1.PodStatusPatch(name="web", nominated_node_name="worker-2")
    patch.conditions.add(type="PodScheduled", status="False", reason="Unschedulable")
    patch.conditions.add(type="X", status="True")
    await world.core.pods.patch_statuses([patch], None)
    after = (await stored(world)).status
    assert [(c.type, c.status) for c in after.conditions] == [
        ("PodScheduled", "True"),
        ("X", "True"),
    ]
    assert after.nominated_node_name == ""


# ---------------------------------------------------------------------------- evicting


async def running(world: World, name: str) -> None:
    """A bound, ready pod labelled app=web."""
    item = pod(name, app="web")
    item.spec.node_name = "worker-1"
    await world.core.creator.create(item)
    item.status.phase = "Running"
    item.status.conditions.add(type="Ready", status="True")
    await world.core.registry.update(item, status=True)


async def allow(world: World, disruptions: int, reason: str = "", message: str = "") -> None:
    """A budget for app=web that allows so many disruptions, and says why."""
    item = budget("b", app="web")
    await world.core.creator.create(item)
    item.status.observed_generation = 1
    item.status.disruptions_allowed = disruptions
    item.status.desired_healthy = 1
    item.status.current_healthy = 1 + disruptions
    if reason:
        item.status.current_healthy = 2
        item.status.conditions.add(
            type="DisruptionAllowed",
            status="False",
            reason=reason,
            message=message,
            last_transition_time=timestamp(1),
        )
    await world.core.registry.update(item, status=True)


def evict(name: str) -> v1.EvictRequest:
    return v1.EvictRequest(namespace="default", name=name)


async def test_a_budget_is_spent_by_evictions(world: World) -> None:
    """One allowed: the first goes and is recorded, the second is refused in Kubernetes' words."""
    for name in ("a", "b"):
        await running(world, name)
    await allow(world, 1)
    first, second = await world.core.pods.evict([evict("a"), evict("b")], None)
    assert isinstance(first, Entry)
    assert (await stored(world, "a")).metadata.HasField("deletion_timestamp")
    assert isinstance(second, ApiError) and second.code is StatusCode.RESOURCE_EXHAUSTED
    assert second.message.startswith(
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    item = (await world.core.registry.get("pdb", "", "b")).decode()
    assert isinstance(item, PodDisruptionBudget)
    assert item.status.disruptions_allowed == 0
    assert list(item.status.disrupted_pods) == ["a"]
    assert not (await stored(world, "b")).metadata.HasField("deletion_timestamp")


async def test_preemption_heeds_no_budget_and_says_why(world: World) -> None:
    """The condition and the deletion are one write."""
    await running(world, "a")
    await allow(world, 0)
    request = evict("a")
    request.ignore_disruption_budgets = True
    request.condition.type = "DisruptionTarget"
    request.condition.status = "True"
    before = await stored(world, "a")
    (outcome,) = await world.core.pods.evict([request], await world.new_term())
    assert isinstance(outcome, Entry)
    after = await stored(world, "a")
    assert after.metadata.deletion_grace_period_seconds == 30
    assert [c.type for c in after.status.conditions] == ["Ready", "DisruptionTarget"]
    assert len(before.status.conditions) == 1


async def test_a_pod_that_runs_nowhere_costs_no_budget(world: World) -> None:
    """Pending pods may always go."""
    await created(world, "a", app="web")
    await allow(world, 0)
    (outcome,) = await world.core.pods.evict([evict("a")], None)
    assert isinstance(outcome, Entry)


async def test_a_pending_pod_that_starts_during_its_eviction_needs_its_budget(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eviction was allowed for the pod as it was read, not for one that runs."""
    await created(world, "a", app="web")
    await allow(world, 0)
    ready = await stored(world, "a")
    ready.status.phase = "Running"
    ready.status.conditions.add(type="Ready", status="True")
    get = ObjectStorage.get

    async def then_it_starts(storage: ObjectStorage, kind: Kind, key: str) -> Entry:
        entry = await get(storage, kind, key)
        monkeypatch.undo()
        await world.core.registry.update(ready, status=True)
        return entry

    monkeypatch.setattr(ObjectStorage, "get", then_it_starts)
    (outcome,) = await world.core.pods.evict([evict("a")], None)
    assert refusal(outcome) == "DISRUPTION_BUDGET"


async def test_a_budget_not_yet_observed_refuses(world: World) -> None:
    """Its numbers may be out of date."""
    await running(world, "a")
    await world.core.creator.create(budget("b", app="web"))
    (outcome,) = await world.core.pods.evict([evict("a")], None)
    assert isinstance(outcome, ApiError)
    assert "still being processed by the server" in outcome.message


@pytest.mark.parametrize(
    ("reason", "message", "why"),
    [
        ("SyncFailed", "m", " because it failed sync: m"),
        ("Other", "m", " (Other): m"),
        ("InsufficientPods", "", ""),
    ],
)
async def test_a_refused_eviction_tells_what_the_budget_says(
    world: World, reason: str, message: str, why: str
) -> None:
    await running(world, "a")
    await allow(world, 0, reason, message)
    (outcome,) = await world.core.pods.evict([evict("a")], None)
    assert isinstance(outcome, ApiError)
    told = f"The disruption budget b does not allow evicting pods currently{why}"
    assert outcome.message.endswith(told)


async def test_a_pod_with_two_budgets_cannot_be_evicted(world: World) -> None:
    """As in Kubernetes."""
    await running(world, "a")
    await allow(world, 1)
    await world.core.creator.create(budget("b2", app="web"))
    (outcome,) = await world.core.pods.evict([evict("a")], None)
    assert isinstance(outcome, ApiError)
    assert "more than one PodDisruptionBudget" in outcome.message


async def test_two_servers_spend_a_budget_once(world: World) -> None:
    """One disruption allowed, two evictions at the same moment through two servers: one goes."""
    other = await world.another()
    for name in ("a", "b"):
        await running(world, name)
    await allow(world, 1)
    one, two = await asyncio.gather(
        world.core.pods.evict([evict("a")], None), other.pods.evict([evict("b")], None)
    )
    refused = [outcome for outcome in (*one, *two) if isinstance(outcome, ApiError)]
    assert [error.reason for error in refused] == ["DISRUPTION_BUDGET"]


async def test_evictions_at_once_do_not_fail_each_other(world: World) -> None:
    """As kubectl drain makes them: a call for each pod of the node."""
    names = [f"web-{number}" for number in range(12)]
    for name in names:
        await running(world, name)
    await allow(world, len(names))
    calls = [world.core.pods.evict([evict(name)], None) for name in names]
    outcomes = [outcome for (outcome,) in await asyncio.gather(*calls)]
    assert [outcome for outcome in outcomes if isinstance(outcome, ApiError)] == []


async def test_a_dry_run_of_an_eviction_asks_the_budget_and_spends_nothing(world: World) -> None:
    await running(world, "a")
    await allow(world, 1)
    for _ in range(2):
        (outcome,) = await world.core.pods.evict([evict("a")], None, dry_run=True)
        assert isinstance(outcome, Entry)
        assert outcome.message.metadata.HasField("deletion_timestamp")
    assert not (await stored(world, "a")).metadata.HasField("deletion_timestamp")
    await world.core.pods.evict([evict("a")], None)
    await running(world, "b")
    (refused,) = await world.core.pods.evict([evict("b")], None, dry_run=True)
    assert isinstance(refused, ApiError)
    assert refused.code is StatusCode.RESOURCE_EXHAUSTED


async def test_a_patch_of_more_conditions_than_a_pod_is_searched_for_is_refused(
    world: World,
) -> None:
    await created(world)
    patch = v1.PodStatusPatch(name="web")
    for number in range(101):
        patch.conditions.add(type=f"a{number}", status="True")
    (refused,) = await world.core.pods.patch_statuses([patch], None)
    assert isinstance(refused, ApiError)
    assert "status.conditions: Too many: 101: must have at most 100 items" in refused.message


async def test_a_pod_does_not_collect_conditions_without_end(world: World) -> None:
    await created(world)
    for start in range(0, 1100, 100):
        patch = v1.PodStatusPatch(name="web")
        for number in range(start, start + 100):
            patch.conditions.add(type=f"a{number}", status="True")
        (last,) = await world.core.pods.patch_statuses([patch], None)
    assert isinstance(last, ApiError)
    assert "Too many" in last.message
