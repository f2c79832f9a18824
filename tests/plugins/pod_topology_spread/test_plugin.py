"""PodTopologySpread: which constraints apply, what they say, and which events help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Node, Pod
from podsched.cache.objects import ClusterState
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.status import Code
from podsched.plugins.pod_topology_spread.plugin import (
    REASON,
    REASON_MISSING_LABEL,
    PodTopologySpread,
)
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import (
    cluster,
    filtered,
    hinted,
    info,
    made,
    pre_filtered,
    rejections,
    scored,
)

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APP = {"matchLabels": {"app": "x"}}


def plugin(state: ClusterState, **args: Any) -> PodTopologySpread:
    return made(PodTopologySpread, state, **args)


def zoned(name: str, zone: str, **parts: Any) -> Node:
    return node(name, labels={HOSTNAME: name, ZONE: zone}, **parts)


def hard(key: str = ZONE, **parts: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": APP,
        **parts,
    }


def soft(key: str = ZONE, **parts: Any) -> dict[str, Any]:
    return hard(key, whenUnsatisfiable="ScheduleAnyway", **parts)


def spreading(*constraints: dict[str, Any]) -> Pod:
    return pod("p", {"topologySpreadConstraints": list(constraints)}, labels={"app": "x"})


def running(name: str, on: str, **metadata: Any) -> Pod:
    return pod(name, {"nodeName": on}, **{"labels": {"app": "x"}, **metadata})


def two_zones(*pods: Pod) -> ClusterState:
    return cluster(zoned("a", "za"), zoned("b", "zb"), pods=pods)


def put(state: ClusterState, kind: str, name: str, spec: dict[str, Any]) -> None:
    api = "v1" if kind in ("Service", "ReplicationController") else "apps/v1"
    metadata = {"name": name, "namespace": "default"}
    manifest = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
    state.put(kind, from_manifest(manifest).message)


def test_a_node_that_would_exceed_max_skew_is_rejected_but_preemption_may_help() -> None:
    state = two_zones(running("q", "a"))
    status = filtered(plugin(state), spreading(hard()), state)
    assert status["b"].ok
    assert (status["a"].code, status["a"].reasons) == (Code.UNSCHEDULABLE, (REASON,))


def test_a_node_without_the_topology_key_is_rejected_for_good() -> None:
    state = cluster(zoned("a", "za"), node("b"))
    status = filtered(plugin(state), spreading(hard()), state)["b"]
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == (REASON_MISSING_LABEL,)


@pytest.mark.parametrize(
    ("constraints", "others", "rejected"),
    [
        pytest.param([hard()], [running("q", "a", namespace="other")], [], id="other namespace"),
        pytest.param([hard()], [running("q", "a", labels={"app": "y"})], [], id="other labels"),
        pytest.param(
            [hard()],
            [running("q", "a", deletionTimestamp="2026-01-01T00:00:00Z")],
            [],
            id="terminating pods do not count",
        ),
        pytest.param([hard(maxSkew=2)], [running("q", "a")], [], id="within max skew"),
        pytest.param([hard(minDomains=3)], [running("q", "a")], ["a"], id="too few domains"),
        pytest.param(
            [hard(minDomains=3)],
            [running("q", "a"), running("r", "b")],
            ["a", "b"],
            id="with too few domains the least is taken as 0",
        ),
        pytest.param(
            [hard(), hard(HOSTNAME, maxSkew=2)],
            [running("q", "a"), running("r", "b"), running("s", "a")],
            ["a"],
            id="each constraint counts",
        ),
        pytest.param(
            [hard(matchLabelKeys=["app"], labelSelector={"matchExpressions": []})],
            [running("q", "a")],
            ["a"],
            id="match label keys select what the pod has",
        ),
        pytest.param(
            [{k: v for k, v in hard().items() if k != "labelSelector"}],
            [running("q", "a")],
            [],
            id="no selector selects nothing",
        ),
        pytest.param([hard(labelSelector={})], [running("q", "a")], [], id="an empty one neither"),
    ],
)
def test_what_counts(
    constraints: list[dict[str, Any]], others: Sequence[Pod], rejected: list[str]
) -> None:
    state = two_zones(*others)
    assert list(rejections(plugin(state), spreading(*constraints), state)) == rejected


@pytest.mark.parametrize(
    ("policies", "rejected"),
    [
        ({}, ["a"]),
        ({"nodeTaintsPolicy": "Honor"}, []),
        ({"nodeAffinityPolicy": "Ignore"}, ["a"]),
    ],
)
def test_a_tainted_zone_counts_as_the_least_unless_taints_are_honoured(
    policies: dict[str, str], rejected: list[str]
) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    state = cluster(zoned("a", "za"), zoned("b", "zb", taints=[taint]), pods=[running("q", "a")])
    assert list(rejections(plugin(state), spreading(hard(**policies)), state)) == rejected


def test_a_zone_that_the_node_selector_excludes_counts_only_where_affinity_is_ignored() -> None:
    state = two_zones(running("q", "a"))
    for policy, rejected in (("Honor", []), ("Ignore", ["a"])):
        wanted = spreading(hard(nodeAffinityPolicy=policy))
        wanted.spec.node_selector[ZONE] = "za"
        assert list(rejections(plugin(state), wanted, state)) == rejected


def test_pods_without_constraints_skip() -> None:
    state = two_zones()
    assert pre_filtered(plugin(state), pod("p"), state).status.skipped
    assert scored(plugin(state), pod("p"), state) is None


def test_the_emptier_zone_scores_more() -> None:
    state = two_zones(running("q", "a"), running("r", "a"), running("s", "b"))
    assert scored(plugin(state), spreading(soft()), state) == {"a": 33, "b": 100}


def test_a_node_without_the_key_scores_nothing() -> None:
    state = cluster(zoned("a", "za"), node("b"), pods=[running("q", "a")])
    assert scored(plugin(state), spreading(soft()), state) == {"a": 100, "b": 0}


# ---------------------------------------------------------------------------------- defaults


def owned(kind: str, name: str, api: str = "apps/v1") -> Pod:
    owner = {"apiVersion": api, "kind": kind, "name": name, "uid": "u", "controller": True}
    return pod("p", labels={"app": "x"}, ownerReferences=[owner])


@pytest.mark.parametrize(
    ("kind", "spec", "wanted"),
    [
        ("Service", {"selector": {"app": "x"}}, pod("p", labels={"app": "x"})),
        ("ReplicaSet", {"selector": APP}, owned("ReplicaSet", "owner")),
        ("StatefulSet", {"selector": APP}, owned("StatefulSet", "owner")),
        (
            "ReplicationController",
            {"selector": {"app": "x"}},
            owned("ReplicationController", "owner", "v1"),
        ),
    ],
)
def test_pods_of_a_service_or_controller_are_spread_by_default(
    kind: str, spec: dict[str, Any], wanted: Pod
) -> None:
    state = two_zones(running("q", "a"))
    spread = plugin(state)
    assert scored(spread, wanted, state) is None
    put(state, kind, "owner", spec)
    scores = scored(spread, wanted, state)
    assert scores is not None
    assert scores["b"] > scores["a"]
    assert pre_filtered(spread, wanted, state).status.skipped


def test_a_controller_of_another_api_group_is_none() -> None:
    state = two_zones(running("q", "a"))
    put(state, "ReplicaSet", "owner", {"selector": APP})
    assert scored(plugin(state), owned("ReplicaSet", "owner", "example.com/v1"), state) is None


def test_the_systems_defaults_score_nodes_without_a_zone_too() -> None:
    state = cluster(zoned("a", "za"), node("b", labels={HOSTNAME: "b"}), pods=[running("q", "a")])
    put(state, "Service", "s", {"selector": {"app": "x"}})
    scores = scored(plugin(state), pod("p", labels={"app": "x"}), state)
    assert scores is not None
    assert scores["b"] > scores["a"] > 0


def test_listed_defaults_are_filtered_by_and_need_all_keys() -> None:
    state = cluster(zoned("a", "za"), zoned("b", "zb"), node("c"), pods=[running("q", "a")])
    put(state, "Service", "s", {"selector": {"app": "x"}})
    listed = v1.TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule"
    )
    preferred = v1.TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"
    )
    spread = plugin(state, default_constraints=(listed, preferred), defaulting_type="List")
    wanted = pod("p", labels={"app": "x"})
    assert rejections(spread, wanted, state) == {"a": (REASON,), "c": (REASON_MISSING_LABEL,)}
    scores = scored(spread, wanted, state)
    assert scores is not None
    assert scores["c"] == 0


def test_a_pod_with_own_constraints_has_no_defaults() -> None:
    state = two_zones(running("q", "a"))
    put(state, "Service", "s", {"selector": {"app": "x"}})
    assert scored(plugin(state), spreading(hard()), state) is None


# ---------------------------------------------------------------------------------- events

ADD = (Resource.ASSIGNED_POD, ActionType.ADD)
DELETE = (Resource.ASSIGNED_POD, ActionType.DELETE)
RELABEL = (Resource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL)
TERMINATE = (Resource.ASSIGNED_POD, ActionType.UPDATE_POD_TERMINATING)
OTHER = {"app": "y"}


@pytest.mark.parametrize(
    ("event", "old", "new", "hint"),
    [
        pytest.param(DELETE, running("q", "a"), None, QUEUE, id="a counted pod goes"),
        pytest.param(ADD, None, running("q", "a"), QUEUE, id="a counted pod comes"),
        pytest.param(DELETE, running("q", "a", labels=OTHER), None, SKIP, id="another pod goes"),
        pytest.param(DELETE, running("q", "a", namespace="n"), None, SKIP, id="other namespace"),
        pytest.param(ADD, None, pod("q", labels={"app": "x"}), SKIP, id="a pod without a node"),
        pytest.param(
            RELABEL, running("q", "a", labels=OTHER), running("q", "a"), QUEUE, id="now counted"
        ),
        pytest.param(
            RELABEL,
            running("q", "a"),
            running("q", "a", labels={"app": "x", "more": "y"}),
            SKIP,
            id="counted before and after",
        ),
        pytest.param(
            TERMINATE,
            running("q", "a"),
            running("q", "a", deletionTimestamp="2026-01-01T00:00:00Z"),
            QUEUE,
            id="a counted pod begins to terminate",
        ),
    ],
)
def test_which_pod_events_help(
    event: tuple[Resource, ActionType], old: Pod | None, new: Pod | None, hint: QueueingHint
) -> None:
    assert hinted(plugin(two_zones()), spreading(hard()), event, old, new) is hint


def test_own_tolerations_help_where_taints_are_honoured() -> None:
    event = (Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_TOLERATION)
    for policy, hint in (("Honor", QUEUE), ("Ignore", SKIP)):
        before = spreading(hard(nodeTaintsPolicy=policy))
        after = spreading(hard(nodeTaintsPolicy=policy))
        after.spec.tolerations.add(key="k", operator="Exists")
        assert hinted(plugin(two_zones()), after, event, before, after) is hint


def test_new_labels_of_the_pod_itself_help_although_its_constraints_still_do_not_match_it() -> None:
    constraint = hard(labelSelector={"matchLabels": OTHER}, matchLabelKeys=["tier"])
    before, after = spreading(constraint), spreading(constraint)
    after.metadata.labels["tier"] = "front"
    event = (Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_LABEL)
    assert hinted(plugin(two_zones()), after, event, before, after) is QUEUE


TAINTED = zoned("a", "za", taints=[{"key": "k", "effect": "NoSchedule"}])


@pytest.mark.parametrize(
    ("action", "old", "new", "hint"),
    [
        pytest.param(ActionType.ADD, None, zoned("a", "za"), QUEUE, id="a node with the key"),
        pytest.param(ActionType.ADD, None, node("a"), SKIP, id="a node without it"),
        pytest.param(ActionType.DELETE, zoned("a", "za"), None, QUEUE, id="one goes"),
        pytest.param(ActionType.DELETE, node("a"), None, SKIP, id="one without the key goes"),
        pytest.param(
            ActionType.UPDATE_NODE_LABEL, zoned("a", "za"), zoned("a", "zb"), QUEUE, id="it moves"
        ),
        pytest.param(
            ActionType.UPDATE_NODE_LABEL, zoned("a", "za"), node("a"), QUEUE, id="it loses the key"
        ),
        pytest.param(
            ActionType.UPDATE_NODE_TAINT, TAINTED, zoned("a", "za"), QUEUE, id="a taint goes"
        ),
        pytest.param(
            ActionType.UPDATE_NODE_LABEL,
            zoned("a", "za"),
            node("a", labels={HOSTNAME: "a", ZONE: "za", "more": "x"}),
            SKIP,
            id="another label",
        ),
    ],
)
def test_which_node_events_help(
    action: ActionType, old: Node | None, new: Node | None, hint: QueueingHint
) -> None:
    event = (Resource.NODE, action)
    assert hinted(plugin(two_zones()), spreading(hard()), event, old, new) is hint


@pytest.mark.parametrize(("policy", "hint"), [("Honor", QUEUE), ("Ignore", SKIP)])
def test_a_node_that_leaves_the_pods_node_affinity_helps_where_that_is_honoured(
    policy: str, hint: QueueingHint
) -> None:
    waiting = spreading(hard(nodeAffinityPolicy=policy))
    waiting.spec.node_selector["pool"] = "p"
    old = node("a", labels={HOSTNAME: "a", ZONE: "za", "pool": "p"})
    event = (Resource.NODE, ActionType.UPDATE_NODE_LABEL)
    assert hinted(plugin(two_zones()), waiting, event, old, zoned("a", "za")) is hint


def test_pods_of_other_namespaces_are_not_asked_about() -> None:
    registered = plugin(two_zones()).events_to_register()[0]
    assert registered.index is not None
    index = registered.index()
    index.add("here", info(spreading(hard())))
    assert list(index.candidates(running("q", "a"), None) or ()) == ["here"]
    assert list(index.candidates(None, running("q", "a", namespace="n")) or ()) == []
