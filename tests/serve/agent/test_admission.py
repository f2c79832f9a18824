"""A hollow kubelet refuses what its node has no room for, in the kubelet's words."""

from __future__ import annotations

import pytest

from podsched.api.objects import Node, Pod
from podsched.serve.agent.admission import Admission, Rejection


def node(**allocatable: str) -> Node:
    made = Node()
    made.metadata.name = "n1"
    made.status.allocatable.update({"cpu": "2", "memory": "1Gi", "pods": "3", **allocatable})
    return made


def pod(uid: str, **requests: str) -> Pod:
    made = Pod()
    made.metadata.uid = uid
    made.spec.node_name = "n1"
    made.spec.containers.add(name="app").resources.requests.update(requests)
    return made


@pytest.mark.parametrize(
    ("requests", "rejection"),
    [
        (
            {"cpu": "1500m"},
            Rejection("OutOfcpu", "cpu, requested: 1500, used: 600, capacity: 2000"),
        ),
        (
            {"memory": "1Gi"},
            Rejection(
                "OutOfmemory",
                "memory, requested: 1073741824, used: 1048576, capacity: 1073741824",
            ),
        ),
        ({"example.com/gpu": "1"}, None),
        ({"cpu": "1400m"}, None),
        ({}, None),
    ],
)
def test_the_first_resource_that_is_short_is_named(
    requests: dict[str, str], rejection: Rejection | None
) -> None:
    admission = Admission()
    assert admission.admit("a", pod("a", cpu="600m", memory="1Mi"), node()) is None
    found = admission.admit("b", pod("b", **requests), node())
    if rejection is None:
        assert found is None
        return
    start = "Pod was rejected: Node didn't have enough resource: "
    assert found == rejection._replace(message=start + rejection.message)


def test_there_is_room_for_so_many_pods() -> None:
    admission = Admission()
    for uid in "abc":
        assert admission.admit(uid, pod(uid), node()) is None
    found = admission.admit("d", pod("d"), node())
    assert found is not None and found.reason == "OutOfpods"
    assert found.message.endswith("pods, requested: 1, used: 3, capacity: 3")


def test_a_pod_taken_once_stays_and_one_that_has_gone_makes_room() -> None:
    """A pod of the same name is another one; what runs already counts, whether it fits or not."""
    admission = Admission()
    admission.add_running("a", pod("a", cpu="3"))
    assert admission.admit("a", pod("a", cpu="3"), node()) is None
    assert admission.admit("b", pod("b", cpu="1"), node()) is not None
    assert admission.admit("a", pod("new", cpu="1"), node()) is not None
    admission.release("a")
    assert admission.admit("b", pod("b", cpu="1"), node()) is None


def test_what_a_pod_has_a_claim_for_takes_nothing_of_its_node() -> None:
    admission, there = Admission(), node(**{"example.com/gpu": "0"})
    claimed = pod("a", **{"example.com/gpu": "1"})
    claimed.status.extended_resource_claim_status.request_mappings.add(
        container_name="app", resource_name="example.com/gpu", request_name="r"
    )
    assert admission.admit("default/a", claimed, there) is None
    rejection = admission.admit("default/b", pod("b", **{"example.com/gpu": "1"}), there)
    assert rejection is not None
    assert rejection.reason == "OutOfexample.com/gpu"


@pytest.mark.parametrize("running", [True, False])
def test_a_pod_that_was_resized_takes_what_it_requests_now(running: bool) -> None:
    admission = Admission()
    assert admission.admit("a", pod("a", cpu="1500m"), node()) is None
    small = pod("a", cpu="500m")
    if running:
        admission.add_running("a", small)
    else:
        assert admission.admit("a", small, node()) is None
    assert admission.admit("b", pod("b", cpu="1500m"), node()) is None
    assert admission.admit("c", pod("c", cpu="1m"), node()) is not None
