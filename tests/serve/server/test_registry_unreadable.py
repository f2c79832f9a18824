"""Nothing that a reader could not use is stored, and one bad item fails by itself."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from podsched.api.kinds import KINDS
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Outcome
from podsched.v1 import api_pb2 as v1
from podsched.v1.objects_pb2 import PodCondition
from support.api_objects import node, pod
from support.api_world import World

FAR = 253_402_300_800  # the first second of the year 10000


def _refusal(outcome: Outcome) -> str:
    assert isinstance(outcome, ApiError)
    assert outcome.code.name == "INVALID_ARGUMENT", outcome.message[:200]
    return outcome.message


async def _patched(world: World, kind: str, name: str, patch: Any, **more: Any) -> Outcome:
    text = patch if isinstance(patch, bytes) else json.dumps(patch).encode()
    request = v1.PatchRequest(kind=kind, name=name, merge_patch=text, **more)
    return (await world.core.registry.patch([request], None))[0]


async def test_a_patch_cannot_nest_a_field_without_schema_beyond_what_decodes(
    world: World,
) -> None:
    await world.core.creator.create(pod())
    content: Any = "x"
    for _ in range(60):
        content = {"f": content}
    patch = {"metadata": {"managedFields": [content]}}
    outcome = await _patched(world, "Pod", "web", patch, namespace="default")
    assert "metadata.managedFields[0]" in _refusal(outcome)
    stored = await world.core.registry.get("Pod", "default", "web")
    assert KINDS["Pod"].message.FromString(stored.value).metadata.name == "web"


@pytest.mark.parametrize(
    "patch",
    [
        b'{"metadata": {"annotations": {"a": "\\ud800"}}}',
        b'{"metadata": {"annotations": {"\\ud800": "a"}}}',
        b'{"metadata": {"managedFields": [{"a": "\\ud800"}]}}',
        b'{"metadata": {"managedFields": [' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"]}}",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"spec": {"priority": ' + b"9" * 5000 + b"}}",
    ],
    ids=["a value", "a key", "without schema", "deep without schema", "deep", "a long number"],
)
async def test_a_patch_that_holds_what_cannot_be_stored_is_refused(
    world: World, patch: bytes
) -> None:
    await world.core.creator.create(pod())
    _refusal(await _patched(world, "Pod", "web", patch, namespace="default"))


async def test_a_time_out_of_range_is_refused_in_status_and_spec(world: World) -> None:
    item = node()
    await world.core.creator.create(item)
    item.status.conditions.add(type="Ready").last_heartbeat_time.seconds = FAR
    with pytest.raises(ApiError, match="lastHeartbeatTime"):
        await world.core.registry.update(item, status=True)
    lease = KINDS["Lease"].new()
    lease.metadata.name, lease.metadata.namespace = "a", "default"
    lease.spec.renew_time.seconds = FAR  # type: ignore[union-attr]
    with pytest.raises(ApiError, match="renewTime"):
        await world.core.creator.create(lease)


async def test_a_condition_with_a_time_out_of_range_is_refused_alone(world: World) -> None:
    await world.core.creator.create_many([pod("a"), pod("b")])
    bad = PodCondition(type="Ready")
    bad.last_transition_time.seconds = FAR
    patches = [
        v1.PodStatusPatch(namespace="default", name="a", conditions=[bad]),
        v1.PodStatusPatch(namespace="default", name="b", conditions=[PodCondition(type="Ready")]),
    ]
    first, second = await world.core.pods.patch_statuses(patches, None)
    assert "lastTransitionTime" in _refusal(first)
    assert isinstance(second, Entry)
    evicted = v1.EvictRequest(
        namespace="default", name="a", condition=bad, ignore_disruption_budgets=True
    )
    assert "lastTransitionTime" in _refusal((await world.core.pods.evict([evicted], None))[0])


async def test_a_quantity_of_too_many_digits_fails_its_own_pod_alone(world: World) -> None:
    bad = pod("bad")
    bad.spec.containers[0].resources.requests["cpu"] = "9" * 5000
    first, second = await world.core.creator.create_many([bad, pod("good")])
    assert "resources.requests" in _refusal(first)
    assert isinstance(second, Entry)


async def test_a_grace_period_beyond_all_times_fails_its_own_eviction_alone(world: World) -> None:
    for name in ("a", "b"):
        bound = pod(name)
        bound.spec.node_name = "node-1"
        await world.core.creator.create(bound)
    requests = [
        v1.EvictRequest(namespace="default", name=name, grace_period_seconds=seconds)
        for name, seconds in (("a", 2**63 - 1), ("b", 5))
    ]
    for request in requests:
        request.ignore_disruption_budgets = True
    first, second = await world.core.pods.evict(requests, None)
    assert "gracePeriodSeconds" in _refusal(first)
    assert isinstance(second, Entry)


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 5000 + "%"])
async def test_a_budget_of_too_many_digits_is_refused(world: World, text: str) -> None:
    budget = KINDS["PodDisruptionBudget"].new()
    budget.metadata.name, budget.metadata.namespace = "a", "default"
    budget.spec.min_available = text  # type: ignore[union-attr]
    with pytest.raises(ApiError, match="minAvailable"):
        await world.core.creator.create(budget)


@pytest.mark.parametrize(
    "content",
    [
        '{"rv": 1e400, "start": ""}',
        f'{{"rv": {2**63}, "start": ""}}',
        '{"rv": -1, "start": ""}',
        '{"rv": true, "start": ""}',
        '{"rv": 1, "start": "\\ud800"}',
        '{"rv": 1, "start": []}',
        "[" * 2000,
        "[]",
    ],
)
async def test_a_continue_token_that_was_never_given_out_is_refused(
    world: World, content: str
) -> None:
    request = v1.ListRequest(kind="Pod")
    setattr(request, "continue", base64.urlsafe_b64encode(content.encode()).decode())
    with pytest.raises(ApiError, match="continue key is not valid"):
        await world.core.lister.page(request)


async def test_a_name_longer_than_any_object_has_is_refused(world: World) -> None:
    with pytest.raises(ApiError, match="no more than 253"):
        await world.core.registry.get("Pod", "default", "x" * 900_000)
