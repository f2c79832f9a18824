"""UnsupportedFields: what is not honoured holds the pod, and the list of it is complete."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message

from podsched.ask.simulation import simulate_pod
from podsched.cache.pod_class import relevant_spec
from podsched.config.load import load_config
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.decide.runtime.unsupported_fields import (
    HONOURED_FIELDS,
    MESSAGES,
    UNSUPPORTED,
    UNSUPPORTED_FIELDS,
    WITHOUT_EFFECT,
    UnsupportedFields,
    unsupported_fields,
)
from podsched.framework.status import Code
from podsched.legacy.policy_profile import provider_configuration
from podsched.registry import factories
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import cluster, info, pre_filtered

CLAIM = {"name": "gpu", "resourceClaimName": "gpu"}
USES: dict[str, dict[str, Any]] = {
    "spec.resourceClaims": {"resourceClaims": [CLAIM]},
    "spec.schedulingGroup": {"schedulingGroup": {"podGroupName": "g"}},
    "spec.workloadRef": {"workloadRef": {"name": "w", "podGroup": "g"}},
}


@pytest.mark.parametrize("field", UNSUPPORTED)
def test_a_pod_that_uses_the_field_is_held_and_told(field: str) -> None:
    state = cluster(node("n"))
    status = pre_filtered(UnsupportedFields(), pod("p", USES[field]), state).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == (f"the scheduler does not support {field} of the pod",)


def test_other_pods_are_not_held() -> None:
    status = pre_filtered(UnsupportedFields(), pod("p"), cluster(node("n"))).status
    assert status.skipped


@pytest.mark.parametrize("field", UNSUPPORTED)
def test_pods_of_one_class_use_the_same_fields(field: str) -> None:
    spec = relevant_spec(pod("p", USES[field]).spec)
    assert [*unsupported_fields(spec)] == [field], "and none is left out of the class"


def test_every_field_about_placement_is_in_one_of_the_tables() -> None:
    there = {
        f"{message.DESCRIPTOR.name}.{field.name}"
        for message in MESSAGES
        for field in message.DESCRIPTOR.fields
    }
    tables = (HONOURED_FIELDS, UNSUPPORTED_FIELDS, WITHOUT_EFFECT)
    assert set().union(*tables) == there
    assert sum(map(len, tables)) == len(there), "and in one alone"


#: Read only before the pod is scheduled, when it is evicted, or beside its class.
NOT_IN_CLASS = {
    "PodSpec.node_name", "PodSpec.priority_class_name", "PodSpec.runtime_class_name",
    "PodSpec.scheduling_group", "PodSpec.termination_grace_period_seconds",
}  # fmt: skip


def _filled(message: Message) -> Message:
    """The message with something in each field."""
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated and field.message_type is not None:
            if field.message_type.GetOptions().map_entry:
                getattr(message, field.name)["key"] = "1"
            else:
                getattr(message, field.name).add()
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
        elif field.is_repeated:
            getattr(message, field.name).append("1")
        else:
            setattr(message, field.name, "1" if field.type == field.TYPE_STRING else 1)
    return message


def test_a_class_keeps_every_field_about_placement() -> None:
    spec = v1.PodSpec()
    _filled(spec)
    for container in (*spec.containers, *spec.init_containers):
        _filled(container)
        container.ports[0].host_port = 1
    spec.volumes[0].persistent_volume_claim.claim_name = "c"
    kept = relevant_spec(spec)
    names = {f"PodSpec.{field.name}" for field, _ in kept.ListFields()}
    names |= {f"Container.{field.name}" for field, _ in kept.containers[0].ListFields()}
    asked = {name for name in HONOURED_FIELDS if name.startswith(("PodSpec.", "Container."))}
    assert asked - NOT_IN_CLASS - names == set(), "or plugins would not see them"


def _simulated(document: dict[str, Any], field: str) -> dict[str, Any]:
    state = cluster(node("n"))
    profile = load_config(document).profiles[0]
    runtime = ProfileRuntime(profile, factories(), SimulatedHandle(state))
    return simulate_pod(runtime, state, info(pod("p", USES[field])))


_PROVIDER = provider_configuration("DefaultProvider")
_WITHOUT = {"profiles": [{"plugins": {"preBind": {"disabled": [{"name": "DynamicResources"}]}}}]}


def test_a_profile_with_dynamic_resources_leaves_claims_to_it() -> None:
    result = _simulated({}, "spec.resourceClaims")
    assert result["prefilter"]["plugin"] == "DynamicResources"


@pytest.mark.parametrize("document", [_PROVIDER, _WITHOUT])
def test_every_other_profile_holds_such_pods(document: dict[str, Any]) -> None:
    result = _simulated(document, "spec.resourceClaims")
    assert result["outcome"] == "Unschedulable"
    assert result["prefilter"]["plugin"] == "UnsupportedFields"
    assert result["message"].startswith(
        "0/1 nodes are available: the scheduler does not support spec.resourceClaims of the pod."
    )
