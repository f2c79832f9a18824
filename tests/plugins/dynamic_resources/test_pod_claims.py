"""Which claims a pod may use."""

from __future__ import annotations

import pytest

from podsched.cache.objects import ClusterState
from podsched.plugins.dynamic_resources.pod_claims import CLAIM, ClaimUnusableError, usable_claims
from podsched.v1 import objects_pb2 as v1
from support.device_objects import resource_claim, user
from support.plugin_world import info


def why_not(pod: v1.Pod, *claims: v1.ResourceClaim) -> str:
    """Why the pod cannot use its claims."""
    cluster = ClusterState()
    for claim in claims:
        cluster.put(CLAIM, claim)
    with pytest.raises(ClaimUnusableError) as why:
        usable_claims(info(pod), cluster)
    return str(why.value)


def test_a_missing_claim_is_named_as_in_kube_scheduler() -> None:
    assert why_not(user("p", claim="c")) == 'could not find ResourceClaim "default/c"'


def test_a_generated_claim_of_another_pod_is_named_as_in_kube_scheduler() -> None:
    pod = user("p", template="t")
    pod.status.resource_claim_statuses.add(name="mine", resource_claim_name="c")
    assert why_not(pod, resource_claim("c")) == (
        "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"
    )
