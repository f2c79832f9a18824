"""InterPodAffinity: whom a pod may be near, as it and the others ask, and which events help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from podsched.api.objects import Node, Pod
from podsched.cache.cache import Cache
from podsched.cache.objects import ClusterState
from podsched.cache.trial import Trial
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.plugin import CycleState
from podsched.framework.status import Code
from podsched.plugins.inter_pod_affinity.plugin import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING_ANTI_AFFINITY,
    InterPodAffinity,
)
from podsched.v1 import objects_pb2 as v1
from support.engine_world import container, node, pod
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
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def plugin(state: ClusterState, **args: Any) -> InterPodAffinity:
    return made(InterPodAffinity, state, **args)


def term(app: str = "x", key: str = ZONE, **parts: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **parts}


def near(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def far(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def preferring(kind: str, weight: int, wanted: Mapping[str, Any]) -> dict[str, Any]:
    weighted = {"weight": weight, "podAffinityTerm": wanted}
    return {"affinity": {kind: {PREFERRED: [weighted]}}}


def running(
    name: str, on: str, spec: Mapping[str, Any] | None = None, app: str = "x", **metadata: Any
) -> Pod:
    return pod(name, {"nodeName": on, **(spec or {})}, labels={"app": app}, **metadata)


def zoned(name: str, zone: str) -> Node:
    return node(name, labels={HOSTNAME: name, ZONE: zone})


def three_nodes(*pods: Pod) -> ClusterState:
    """a1 and a2 in zone za, b1 in zone zb."""
    return cluster(zoned("a1", "za"), zoned("a2", "za"), zoned("b1", "zb"), pods=pods)


def put_namespace(state: ClusterState, name: str, **labels: str) -> None:
    namespace = v1.Namespace()
    namespace.metadata.name = name
    namespace.metadata.labels.update(labels)
    state.put("Namespace", namespace)


def missing(state: ClusterState, spec: Mapping[str, Any], **metadata: Any) -> dict[str, list[str]]:
    """What each node of the cluster misses, by name."""
    made_plugin, cycle, pending = plugin(state), CycleState(), info(pod("p", spec, **metadata))
    assert made_plugin.pre_filter(cycle, pending, state).status.ok
    rows = np.flatnonzero(state.nodes.alive)
    found = made_plugin.requirements(cycle, pending, state.nodes, rows)
    return {
        state.nodes.names[row]: [r.what for r in found if r.wanted[at] > r.available[at]]
        for at, row in enumerate(rows.tolist())
    }


def test_a_node_misses_the_pods_that_are_to_be_in_its_domain() -> None:
    state = three_nodes(running("x", "a1"))
    state.columns.add_node(node("bare"))
    pods = f"a pod with app=x in namespace default in its {ZONE}"
    assert missing(state, near(term())) == {
        "a1": [], "a2": [], "b1": [pods], "bare": [f"label {ZONE}"],
    }  # fmt: skip


def test_the_first_pod_of_its_kind_misses_no_others() -> None:
    alone = missing(three_nodes(), near(term()), labels={"app": "x"})
    assert alone == {"a1": [], "a2": [], "b1": []}


def test_a_node_is_told_whose_anti_affinity_is_in_the_way() -> None:
    state = three_nodes(running("x", "a1"), running("y", "b1", far(term("mine")), app="y"))
    own = f"{ZONE} without a pod with app=x in namespace default"
    others = f"{ZONE} without a pod whose anti-affinity matches this one"
    found = missing(state, far(term()), labels={"app": "mine"})
    assert found == {"a1": [own], "a2": [own], "b1": [others]}


@pytest.mark.parametrize(
    ("spec", "rejected", "code", "reason"),
    [
        pytest.param(
            near(term()),
            ["b1"],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            REASON_AFFINITY,
            id="affinity wants the zone of the pod",
        ),
        pytest.param(
            near(term(), term(key=HOSTNAME)),
            ["a2", "b1"],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            REASON_AFFINITY,
            id="all terms of affinity",
        ),
        pytest.param(
            near(term(), term("y")),
            ["a1", "a2", "b1"],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            REASON_AFFINITY,
            id="no one pod that all terms mean",
        ),
        pytest.param(
            far(term()),
            ["a1", "a2"],
            Code.UNSCHEDULABLE,
            REASON_ANTI_AFFINITY,
            id="anti-affinity shuns the zone of the pod",
        ),
        pytest.param(
            far(term("y"), term(key=HOSTNAME)),
            ["a1"],
            Code.UNSCHEDULABLE,
            REASON_ANTI_AFFINITY,
            id="any term of anti-affinity",
        ),
    ],
)
def test_a_pod_chooses_its_company(
    spec: dict[str, Any], rejected: list[str], code: Code, reason: str
) -> None:
    state = three_nodes(running("q", "a1"), running("r", "b1", app="y", namespace="other"))
    said = filtered(plugin(state), pod("p", spec), state)
    assert [name for name, status in said.items() if not status.ok] == rejected
    for name in rejected:
        assert (said[name].code, said[name].reasons) == (code, (reason,))


def test_an_existing_pod_keeps_others_away() -> None:
    state = three_nodes(running("q", "a1", far(term())))
    said = filtered(plugin(state), pod("p", labels={"app": "x"}), state)
    assert said["b1"].ok
    assert said["a2"].code is Code.UNSCHEDULABLE
    assert said["a2"].reasons == (REASON_EXISTING_ANTI_AFFINITY,)


def test_an_existing_pod_keeps_others_away_again_after_a_trial_without_it() -> None:
    cache = Cache()
    cache.apply("Node", None, zoned("a", "za"))
    repelling = running("q", "a", far(term()))
    for one in (repelling, running("r", "a", far(term("y")))):
        cache.apply("Pod", None, one)
    state = cache.cluster
    affinity, waiting = plugin(state), info(pod("p", labels={"app": "x"}))
    # Equal in all that terms read, but not in its requests.
    other = info(pod("other", {"containers": [container({"cpu": "2"})]}, labels={"app": "x"}))
    assert affinity.pre_filter(CycleState(), waiting, state).status.ok
    with Trial(cache) as trial:
        trial.remove(state.pods["default/q"])
        assert affinity.pre_filter(CycleState(), other, state).status.skipped
    assert affinity.pre_filter(CycleState(), waiting, state).status.ok


def test_a_node_without_the_key_has_no_company_and_no_enemies() -> None:
    state = cluster(zoned("a", "za"), node("bare"), pods=[running("q", "bare"), running("r", "a")])
    assert list(rejections(plugin(state), pod("p", near(term())), state)) == ["bare"]
    assert list(rejections(plugin(state), pod("p", far(term())), state)) == ["a"]


def test_terminating_pods_are_company() -> None:
    state = three_nodes(running("q", "a1", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert list(rejections(plugin(state), pod("p", near(term())), state)) == ["b1"]


def test_the_first_pod_of_a_self_affine_group_may_go_anywhere_with_the_key() -> None:
    state = cluster(zoned("a", "za"), node("bare"))
    spec = near(term())
    assert list(rejections(plugin(state), pod("p", spec, labels={"app": "x"}), state)) == ["bare"]
    assert list(rejections(plugin(state), pod("p", spec), state)) == ["a", "bare"]


def test_the_last_company_may_be_preempted_by_a_self_affine_pod() -> None:
    state = three_nodes(running("q", "a1"))
    pending = info(pod("p", near(term()), labels={"app": "x"}))
    affinity, cycle = plugin(state), CycleState()
    affinity.pre_filter(cycle, pending, state)
    fork = state.columns.fork(np.array([state.columns.row_of("a1"), state.columns.row_of("b1")]))
    fork.remove_pod(0, fork.pods(0)["uid-q"])
    verdicts = affinity.filter(cycle, pending, fork, np.arange(2))
    assert [verdicts.status(i).ok for i in range(2)] == [True, False]


def test_pods_without_terms_that_no_other_pods_term_selects_skip() -> None:
    state = three_nodes(running("q", "a1", far(term("y"))))
    assert pre_filtered(plugin(state), pod("p", labels={"app": "x"}), state).status.skipped
    assert scored(plugin(state), pod("p", labels={"app": "x"}), state) is None


def test_an_anti_affinity_over_a_key_that_the_node_lacks_is_skipped() -> None:
    state = three_nodes(running("q", "a1", far(term(key="rack"))))
    assert pre_filtered(plugin(state), pod("p", labels={"app": "x"}), state).status.skipped


# ---------------------------------------------------------------------------------- namespaces


@pytest.mark.parametrize(
    ("parts", "namespace", "rejected"),
    [
        pytest.param({}, "default", ["a1"], id="its own by default"),
        pytest.param({}, "other", [], id="no other by default"),
        pytest.param({"namespaces": ["other"]}, "other", ["a1"], id="one that is listed"),
        pytest.param({"namespaces": ["other"]}, "default", [], id="its own is not listed"),
        pytest.param({"namespaceSelector": {}}, "unknown", ["a1"], id="an empty selector: all"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "a"}}}, "other", ["a1"], id="selected"
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "b"}}}, "other", [], id="not selected"
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "b"}}, "namespaces": ["other"]},
            "other",
            ["a1"],
            id="listed or selected",
        ),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]
                }
            },
            "other",
            ["a1"],
            id="NotIn alone selects all (as in v1.36)",
        ),
    ],
)
def test_which_namespaces_a_pods_own_term_means(
    parts: dict[str, Any], namespace: str, rejected: list[str]
) -> None:
    state = three_nodes(running("q", "a1", namespace=namespace))
    put_namespace(state, "other", team="a")
    wanted = pod("p", far(term(key=HOSTNAME, **parts)))
    assert list(rejections(plugin(state), wanted, state)) == rejected


@pytest.mark.parametrize(("operator", "rejected"), [("In", ["a1"]), ("NotIn", [])])
def test_an_existing_pods_term_looks_at_the_labels_of_the_pods_namespace(
    operator: str, rejected: list[str]
) -> None:
    selector = {"matchExpressions": [{"key": "team", "operator": operator, "values": ["a"]}]}
    repelling = far(term(key=HOSTNAME, namespaceSelector=selector))
    state = three_nodes(running("q", "a1", repelling, namespace="other"))
    put_namespace(state, "default", team="a")
    assert list(rejections(plugin(state), pod("p", labels={"app": "x"}), state)) == rejected


def test_a_namespace_that_gets_the_label_is_selected_from_then_on() -> None:
    state = three_nodes(running("q", "a1", namespace="other"))
    affinity = plugin(state)
    selector = {"matchLabels": {"team": "a"}}
    wanted = pod("p", far(term(key=HOSTNAME, namespaceSelector=selector)))
    before = affinity.inputs(info(wanted), state)
    assert rejections(affinity, wanted, state) == {}
    put_namespace(state, "other", team="a")
    assert affinity.inputs(info(wanted), state) != before
    assert list(rejections(affinity, wanted, state)) == ["a1"]


# ---------------------------------------------------------------------------------- scores


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (preferring("podAffinity", 5, term()), {"a1": 100, "a2": 100, "b1": 0}),
        (preferring("podAntiAffinity", 5, term()), {"a1": 0, "a2": 0, "b1": 100}),
        (preferring("podAffinity", 5, term(key=HOSTNAME)), {"a1": 100, "a2": 0, "b1": 0}),
    ],
)
def test_preferences_of_the_pod(spec: dict[str, Any], expected: dict[str, int]) -> None:
    state = three_nodes(running("q", "a1"))
    assert scored(plugin(state), pod("p", spec), state) == expected


@pytest.mark.parametrize(
    ("spec", "args", "expected"),
    [
        (preferring("podAffinity", 5, term()), {}, {"a1": 100, "a2": 100, "b1": 0}),
        (preferring("podAntiAffinity", 5, term()), {}, {"a1": 0, "a2": 0, "b1": 100}),
        (near(term()), {}, {"a1": 100, "a2": 100, "b1": 0}),
        (near(term()), {"hard_pod_affinity_weight": 0}, None),
        (near(term()), {"ignore_preferred_terms_of_existing_pods": True}, None),
    ],
)
def test_preferences_of_existing_pods(
    spec: dict[str, Any], args: dict[str, Any], expected: dict[str, int] | None
) -> None:
    state = three_nodes(running("q", "a1", spec, app="y"))
    assert scored(plugin(state, **args), pod("p", labels={"app": "x"}), state) == expected


# ---------------------------------------------------------------------------------- events

ADD = (Resource.ASSIGNED_POD, ActionType.ADD)
DELETE = (Resource.ASSIGNED_POD, ActionType.DELETE)
RELABEL = (Resource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL)


@pytest.mark.parametrize(
    ("spec", "event", "old", "new", "hint"),
    [
        pytest.param(near(term()), ADD, None, running("q", "a"), QUEUE, id="company comes"),
        pytest.param(near(term()), ADD, None, running("q", "a", app="y"), SKIP, id="others come"),
        pytest.param(
            near(term()), ADD, None, pod("q", labels={"app": "x"}), SKIP, id="it has no node yet"
        ),
        pytest.param(
            near(term(), term("y")), ADD, None, running("q", "a"), SKIP, id="one term of two"
        ),
        pytest.param(
            near(term()),
            RELABEL,
            running("q", "a", app="y"),
            running("q", "a"),
            QUEUE,
            id="a pod becomes company",
        ),
        pytest.param(
            near(term()), DELETE, running("q", "a"), None, SKIP, id="company of others goes"
        ),
        pytest.param(far(term()), DELETE, running("q", "a"), None, QUEUE, id="an enemy goes"),
        pytest.param(
            far(term(), term("y")), DELETE, running("q", "a"), None, QUEUE, id="one of two enemies"
        ),
        pytest.param(
            far(term()),
            RELABEL,
            running("q", "a"),
            running("q", "a", app="y"),
            QUEUE,
            id="an enemy is one no more",
        ),
        pytest.param(far(term()), ADD, None, running("q", "a"), SKIP, id="an enemy comes"),
        pytest.param(
            {}, DELETE, running("q", "a", far(term("me"))), None, QUEUE, id="a pod that shunned it"
        ),
        pytest.param(
            {}, DELETE, running("q", "a", far(term("you"))), None, SKIP, id="one that did not"
        ),
        pytest.param(
            near(term("me")),
            DELETE,
            running("q", "a", app="me"),
            None,
            QUEUE,
            id="the last of its kind goes, so it may be the first",
        ),
    ],
)
def test_which_pod_events_help(
    spec: dict[str, Any],
    event: tuple[Resource, ActionType],
    old: Pod | None,
    new: Pod | None,
    hint: QueueingHint,
) -> None:
    waiting = pod("p", spec, labels={"app": "me"})
    assert hinted(plugin(three_nodes()), waiting, event, old, new) is hint


def test_a_pod_of_a_selected_namespace_helps() -> None:
    state = three_nodes()
    put_namespace(state, "other", team="a")
    waiting = pod("p", near(term(namespaceSelector={"matchLabels": {"team": "a"}})))
    company = running("q", "a1", namespace="other")
    assert hinted(plugin(state), waiting, ADD, None, company) is QUEUE


def test_new_labels_of_the_pod_itself_help() -> None:
    event = (Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_LABEL)
    before, after = pod("p", labels={"app": "x"}), pod("p", labels={"app": "y"})
    assert hinted(plugin(three_nodes()), after, event, before, after) is QUEUE


NODE_ADD = (Resource.NODE, ActionType.ADD)
NODE_LABEL = (Resource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_DELETE = (Resource.NODE, ActionType.DELETE)
BARE = node("a")


@pytest.mark.parametrize(
    ("spec", "event", "old", "new", "hint"),
    [
        (near(term()), NODE_ADD, None, zoned("a", "za"), QUEUE),
        (near(term()), NODE_ADD, None, BARE, SKIP),
        (near(term()), NODE_LABEL, BARE, zoned("a", "za"), QUEUE),
        (near(term()), NODE_LABEL, zoned("a", "za"), zoned("a", "zb"), QUEUE),
        (near(term()), NODE_LABEL, zoned("a", "za"), BARE, SKIP),
        (near(term("me")), NODE_LABEL, zoned("a", "za"), BARE, QUEUE),
        (near(term()), NODE_DELETE, zoned("a", "za"), None, QUEUE),
        (far(term()), NODE_ADD, None, zoned("a", "za"), QUEUE),
        (far(term()), NODE_ADD, None, BARE, QUEUE),
        (far(term()), NODE_LABEL, BARE, zoned("a", "za"), SKIP),
        (far(term()), NODE_LABEL, zoned("a", "za"), zoned("a", "zb"), QUEUE),
        (far(term()), NODE_LABEL, zoned("a", "za"), BARE, QUEUE),
        ({}, NODE_ADD, None, BARE, QUEUE),
    ],
)
def test_which_node_events_help(
    spec: dict[str, Any],
    event: tuple[Resource, ActionType],
    old: Node | None,
    new: Node | None,
    hint: QueueingHint,
) -> None:
    waiting = pod("p", spec, labels={"app": "me"})
    assert hinted(plugin(three_nodes()), waiting, event, old, new) is hint


def test_a_node_that_leaves_the_domain_of_anothers_anti_affinity_helps() -> None:
    state = three_nodes(running("q", "a1", far(term("me"))))
    waiting = pod("p", far(term(key=HOSTNAME)), labels={"app": "me"})
    moved, other = zoned("a1", "zc"), {**dict(zoned("a1", "za").metadata.labels), "disk": "ssd"}
    asked = plugin(state)
    assert hinted(asked, waiting, NODE_LABEL, zoned("a1", "za"), moved) is QUEUE
    assert hinted(asked, waiting, NODE_LABEL, zoned("a1", "za"), node("a1", labels=other)) is SKIP
