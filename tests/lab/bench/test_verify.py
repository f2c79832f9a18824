"""Wrong results are found: each is planted in a state that is right otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.node_labels import HOSTNAME, ZONE
from podsched.api.objects import ClusterQueue, LocalQueue, Node, Pod, PodGroup, ResourceClaim
from podsched.lab.bench.shapes import node, pod_template
from podsched.lab.bench.verify import MAX_REPORTED, claim_violations, quota_violations, violations

NODES = [node(f"n{at}", {ZONE: f"z{at % 2}"}, pods=3) for at in range(4)]
BLUE = {"matchLabels": {"color": "blue"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(name: str, on: str, **spec: Any) -> Pod:
    made = pod_template(labels={"color": "blue"}, nodeName=on, **spec)
    made.metadata.name = name
    return made


def close(kind: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{"labelSelector": BLUE, "topologyKey": key}]}}}


def spread(most: int) -> dict[str, Any]:
    constraint = {
        "maxSkew": most,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": BLUE,
    }
    return {"topologySpreadConstraints": [constraint]}


def port(number: int, address: str = "") -> dict[str, Any]:
    ports = [{"containerPort": 80, "hostPort": number, "hostIP": address}]
    return {"containers": [{"name": "c", "image": "c", "ports": ports}]}


ANTI = close("podAntiAffinity", HOSTNAME)
NEAR = close("podAffinity", ZONE)
IN_Z0 = {"nodeSelector": {ZONE: "z0"}}
ONLY_N1 = {
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                ]
            }
        }
    }
}


@pytest.mark.parametrize(
    "pods",
    [
        [pod(f"p{at}", "n0") for at in range(3)],
        [pod("a", ""), pod("b", "n0", **ANTI), pod("c", "n1", **ANTI)],
        [pod("a", "n0", **NEAR), pod("b", "n2", **NEAR)],
        [pod("a", "n0", **spread(1)), pod("b", "n1", **spread(1)), pod("c", "n2", **spread(1))],
        [pod("a", "n0", **port(80)), pod("b", "n1", **port(80)), pod("c", "n0", **port(81))],
        [pod("a", "n0", **port(80, "10.0.0.1")), pod("b", "n0", **port(80, "10.0.0.2"))],
        [pod("a", "n2", **IN_Z0), pod("b", "n1", **ONLY_N1)],
        # Only where the constraint counts: both are in z0, the only zone that they select.
        [pod(name, "n0", **spread(1), **IN_Z0) for name in "abc"],
    ],
)
def test_a_right_result_has_no_violations(pods: list[Pod]) -> None:
    assert violations(NODES, pods) == []


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ([pod("a", "gone")], "default/a is bound to node gone, which does not exist"),
        ([pod(f"p{at}", "n0") for at in range(4)], "the pods on node n0 request 4 of 3 pods"),
        ([pod("a", "n0", overhead={"cpu": "4"})], "the pods on node n0 request 4.1 of 4 cpu"),
        ([pod("a", "n0", **port(80)), pod("b", "n0", **port(80, "10.0.0.1"))],
         "on node n0 default/a and default/b share 80/TCP"),
        ([pod("a", "n1", **IN_Z0)],
         "default/a is bound to node n1, which does not match its node selector"),
        ([pod("a", "n0", **ONLY_N1)],
         "default/a is bound to node n0, which does not match its required node affinity"),
        ([pod("a", "n0"), pod("b", "n0", **ANTI)], f"anti-affinity to 1 pod in {HOSTNAME}=n0"),
        ([pod("a", "n0", **close("podAntiAffinity", ZONE)), pod("b", "n2")],
         f"default/a has anti-affinity to 1 pod in {ZONE}=z0"),
        ([pod("a", "n0", **spread(1)), pod("b", "n2", **spread(1))],
         "with a skew of 2, more than 1"),
    ],
)  # fmt: skip
def test_a_wrong_result_is_told(pods: list[Pod], told: str) -> None:
    [problem] = violations(NODES, pods)
    assert told in problem


def test_affinity_to_what_is_elsewhere_is_told_unless_pods_were_deleted() -> None:
    lonely = pod("a", "n1", **NEAR)
    lonely.metadata.labels["color"] = "red"
    state = [lonely, pod("b", "n0")]
    [problem] = violations(NODES, state)
    assert "default/a has affinity to pods in its" in problem
    assert violations(NODES, state, deleted=True) == []


def test_a_taint_that_is_not_tolerated_is_told() -> None:
    tainted = Node()
    tainted.CopyFrom(NODES[0])
    made = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        }
    ).message
    assert isinstance(made, Node)
    tainted.spec.CopyFrom(made.spec)
    tolerant = pod("b", "n0", tolerations=[{"operator": "Exists"}])
    [problem] = violations([tainted], [pod("a", "n0"), tolerant])
    assert problem == "pod default/a is bound to node n0, which has the taint gpu:NoSchedule"


def test_of_many_violations_some_are_told() -> None:
    told = violations(NODES, [pod(f"p{at}", "gone") for at in range(1000)])
    assert len(told) == MAX_REPORTED + 1
    assert told[-1] == f"{1000 - MAX_REPORTED} more of this kind"


def claim(name: str, device: str, *uids: str) -> ResourceClaim:
    made = ResourceClaim()
    made.metadata.name = name
    made.status.allocation.devices.results.add(driver="d", pool="p", device=device)
    for uid in uids:
        made.status.reserved_for.add(resource="pods", uid=uid)
    return made


def test_a_device_of_two_claims_is_found() -> None:
    claims = [claim("a", "gpu-0"), claim("b", "gpu-1"), claim("c", "gpu-0")]
    assert claim_violations(claims, []) == ["device d/p/gpu-0 belongs to the claims a, c"]


def test_a_bound_pod_without_a_reservation_is_found() -> None:
    users = [pod("x", "n0", resourceClaims=[{"name": "gpu"}]) for _ in range(2)]
    users[0].metadata.uid, users[1].metadata.uid = "one", "two"
    assert claim_violations([claim("a", "gpu-0", "one")], users) == [
        "pod default/x is bound, but no claim is reserved for it"
    ]


def queue(name: str, cpu: str, **quota: str) -> ClusterQueue:
    made = ClusterQueue()
    made.metadata.name, made.spec.cohort_name = name, "all"
    group = made.spec.resource_groups.add(covered_resources=["cpu"])
    group.flavors.add(name="f").resources.add(name="cpu", nominal_quota=cpu, **quota)
    return made


@pytest.mark.parametrize(
    ("limit", "pods", "found"),
    [
        ({}, 20, []),
        ({}, 21, ["cohort all uses 2.1 of 2 cpu"]),
        ({"borrowing_limit": "900m"}, 20, ["ClusterQueue a uses too much cpu"]),
    ],
)
def test_bound_pods_of_queues_use_no_more_than_the_quota(
    limit: dict[str, str], pods: int, found: list[str]
) -> None:
    queues = [queue("a", "1", **limit), queue("b", "1")]
    local = LocalQueue()
    local.metadata.namespace, local.metadata.name = "default", "team"
    local.spec.cluster_queue = "a"
    group = PodGroup()
    group.metadata.namespace, group.metadata.name = "default", "gang"
    group.metadata.labels["kueue.x-k8s.io/queue-name"] = "team"
    members = [pod(f"p{at}", "n1", schedulingGroup={"podGroupName": "gang"}) for at in range(pods)]
    for one in members:
        one.metadata.namespace = "default"
    waiting = pod("waiting", "", schedulingGroup={"podGroupName": "gang"})
    assert quota_violations(queues, [local], [group], [*members, waiting]) == found
