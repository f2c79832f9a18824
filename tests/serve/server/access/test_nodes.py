"""What an agent is limited to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import Lease, Node, Pod, ResourceSlice
from podsched.serve.server.access.identity import NODES
from podsched.serve.server.access.nodes import NodeScope, node_scope
from podsched.serve.server.errors import ApiError

NODE, LEASE, POD = KINDS["Node"], KINDS["Lease"], KINDS["Pod"]
N1 = NodeScope("n1")


def node(name: str = "n1", **labels: str) -> Node:
    item = Node()
    item.metadata.name = name
    item.metadata.labels.update({key.replace("__", "/"): value for key, value in labels.items()})
    return item


def lease(namespace: str, name: str) -> Lease:
    item = Lease()
    item.metadata.namespace, item.metadata.name = namespace, name
    return item


def test_an_agent_is_a_member_of_the_nodes_group() -> None:
    assert node_scope("system:node:n1", ()) is None
    assert node_scope("system:node:n1", (NODES,)) == N1


def test_a_member_whose_name_is_no_nodes_plays_none() -> None:
    scope = node_scope("alice", (NODES,))
    assert scope is not None
    assert not scope.includes("alice")
    assert not scope.includes("")


@pytest.mark.parametrize(
    ("pattern", "name", "included"),
    [
        ("n1", "n1", True),
        ("n1", "n10", False),
        ("n-*", "n-7", True),
        ("n-*", "m-7", False),
        ("*", "any", True),
        ("*", "", False),
    ],
)
def test_a_pattern_stands_for_all_nodes_with_its_prefix(
    pattern: str, name: str, included: bool
) -> None:
    assert NodeScope(pattern).includes(name) is included


def test_an_agent_registers_its_own_node_alone() -> None:
    N1.check_creation(NODE, node("n1", topology__kubernetes__io="z"))
    with pytest.raises(ApiError, match='nodes "n2" is forbidden: node "n1": cannot be written'):
        N1.check_creation(NODE, node("n2"))


@pytest.mark.parametrize(
    ("label", "own"),
    [
        ("topology.kubernetes.io/zone", True),
        ("example.com/rack", True),
        ("rack", True),
        ("node.kubernetes.io/instance-type", True),
        ("node-restriction.kubernetes.io/tier", False),
        ("node-role.kubernetes.io/control-plane", False),
        ("k8s.io/anything", False),
    ],
)
def test_labels_that_decide_about_security_are_not_the_agents(label: str, own: bool) -> None:
    item = node()
    item.metadata.labels[label] = "x"
    if own:
        N1.check_change(NODE, node(), item)
        return
    with pytest.raises(ApiError, match=f"may not set the labels {label}"):
        N1.check_change(NODE, node(), item)
    with pytest.raises(ApiError):
        N1.check_creation(NODE, item)
    N1.check_change(NODE, item, item)


def test_an_agent_leaves_its_taints_alone() -> None:
    tainted = node()
    tainted.spec.taints.add(key="a", effect="NoSchedule")
    with pytest.raises(ApiError, match="may not modify its taints"):
        N1.check_change(NODE, tainted, node())


def owned(item: Node | Pod) -> None:
    item.metadata.owner_references.add(kind="Node", name="n2", uid="u")


def held(item: Node | Pod) -> None:
    item.metadata.finalizers.append("example.com/hold")


def labelled(item: Node | Pod) -> None:
    item.metadata.labels["app"] = "web"


def annotated(item: Node | Pod) -> None:
    item.metadata.annotations["a"] = "b"


def cordoned(item: Node | Pod) -> None:
    item.spec.unschedulable = True  # type: ignore[union-attr]


@pytest.mark.parametrize("change", [owned, held, cordoned])
def test_an_agent_does_not_decide_when_its_node_goes_or_takes_pods(
    change: Callable[[Node | Pod], None],
) -> None:
    changed = node()
    change(changed)
    for old, new in ((node(), changed), (changed, node())):
        with pytest.raises(ApiError, match="a node may not"):
            N1.check_change(NODE, old, new)
    N1.check_change(NODE, changed, changed)


@pytest.mark.parametrize("change", [owned, held, labelled, annotated])
def test_an_agent_writes_the_status_of_its_pods_alone(
    change: Callable[[Node | Pod], None],
) -> None:
    item = Pod(metadata={"name": "web"}, spec={"node_name": "n1"})
    running = Pod()
    running.CopyFrom(item)
    running.status.phase = "Running"
    N1.check_change(POD, item, running)
    change(running)
    with pytest.raises(ApiError, match=r"may not modify metadata\.\w+ of pods"):
        N1.check_change(POD, item, running)


def test_an_agent_renews_the_lease_of_its_own_node() -> None:
    N1.check_creation(LEASE, lease("kube-node-lease", "n1"))
    for other in (lease("kube-node-lease", "n2"), lease("kube-system", "n1")):
        with pytest.raises(ApiError, match="lease of its own"):
            N1.check_change(LEASE, other, None)


def test_an_agent_publishes_devices_of_its_own_node_alone() -> None:
    """Neither those of another node nor those of all nodes."""
    kind = KINDS["ResourceSlice"]
    own, other, shared = (
        ResourceSlice(spec=spec)
        for spec in ({"node_name": "n1"}, {"node_name": "n2"}, {"all_nodes": True})
    )
    N1.check_creation(kind, own)
    N1.check_change(kind, own, own)
    N1.check_change(kind, own, None)
    for item in (other, shared):
        with pytest.raises(ApiError, match="can only write ResourceSlices with its own nodeName"):
            N1.check_creation(kind, item)
        with pytest.raises(ApiError, match="can only write ResourceSlices with its own nodeName"):
            N1.check_change(kind, item, None)


def test_an_agent_writes_only_pods_bound_to_its_node() -> None:
    item = Pod()
    item.metadata.name = "web"
    item.spec.node_name = "n1"
    N1.check_change(POD, item, None)
    for elsewhere in ("n2", ""):
        item.spec.node_name = elsewhere
        with pytest.raises(ApiError, match="not to this node"):
            N1.check_change(POD, item, item)
