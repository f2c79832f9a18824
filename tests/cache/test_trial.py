"""What is done in a trial is seen, and is gone after a rollback, whatever events came meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podsched.cache.cache import Cache
from podsched.cache.invariants import check
from podsched.cache.transaction import TrialError
from podsched.cache.trial import Trial
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1
from support.cache_world import Labelled, LabelTerms, cache_with, make_node, make_pod, service
from support.examples import examples

NODES = ["n0", "n1", "n2"]
NAMES = ["a", "b", "c", "d"]
SHAPES = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.just("app"), st.sampled_from(["a", "b"])),
        "nominated": st.sampled_from(["", *NODES]),
        "host_port": st.sampled_from([0, 80]),
    }
)
APP = Labelled("app", "a")


def waiting(cache: Cache, name: str, **fields: Any) -> PodInfo:
    pod = make_pod(name, **fields)
    cache.apply("Pod", None, pod)
    return cache.cluster.pods[f"default/{name}"]


def content(cache: Cache) -> dict[str, Any]:
    """All that a decision may depend on, but for rows and versions."""
    columns, cluster = cache.columns, cache.cluster
    counts = columns.counter(APP)
    return {
        "nodes": {
            name: (
                columns.node(row).SerializeToString(deterministic=True),
                [(pod.uid, pod.uid in cache.assumed) for pod in columns.pods(row).values()],
                int(columns.requested("cpu")[row]),
                int(counts[row]),
                dict(columns.used_ports(row)),
            )
            for row, name in enumerate(columns.names)
            if name
        },
        "apart": {name: list(pods) for name, pods in cache.placed.on_unknown_nodes.items()},
        "pods": {key: (pod.uid, pod.node_name) for key, pod in cluster.pods.items()},
        "nominated": {n: [p.uid for p in cluster.nominator.pods(n)] for n in NODES},
        "terms": set(columns.terms_in_cluster(LabelTerms())),
        "services": [found.metadata.name for found in cluster.list("Service")],
        "assumed": [
            cluster.assumed("Service").get(*key).spec.selector["app"]
            for key in ((s.metadata.namespace, s.metadata.name) for s in cluster.list("Service"))
        ],
        "order": [columns.names[row] for row in columns.node_table.ordered_rows.tolist()],
    }


class TrialMachine(RuleBasedStateMachine):
    """Random trials and events; a second cache hears of the events alone."""

    def __init__(self) -> None:
        super().__init__()
        self.cache, self.plain = Cache(), Cache()
        for cache in (self.cache, self.plain):
            cache.columns.counter(APP)
            cache.columns.terms_in_cluster(LabelTerms())
        self.trials: list[Trial] = []
        self.told: dict[str, v1.Pod] = {}
        self.nodes: dict[str, v1.Node] = {}
        self.lives = 0
        #: Nodes that come during a trial may get other rows.
        self.same_order = True
        self.event("Node", None, make_node("n0"))
        self.nodes["n0"] = make_node("n0")

    def event(self, kind: str, old: Any, new: Any) -> None:
        self.same_order &= kind != "Node" or not self.trials
        for cache in (self.cache, self.plain):
            cache.apply(kind, old, new)

    # ------------------------------------------------------------------ events

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from("xy"))
    def put_node(self, name: str, zone: str) -> None:
        node = make_node(name, labels={"topology.kubernetes.io/zone": zone})
        self.event("Node", self.nodes.get(name), node)
        self.nodes[name] = node

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(data=st.data())
    def delete_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        self.event("Node", self.nodes.pop(name), None)

    @rule(name=st.sampled_from(NAMES), node=st.sampled_from(["", "", *NODES]), shape=SHAPES)
    def put_pod(self, name: str, node: str, shape: dict[str, Any]) -> None:
        old = self.told.get(name)
        if old is None:
            self.lives += 1
            uid = f"{name}-{self.lives}"
        else:
            uid, node = old.metadata.uid, old.spec.node_name or node
        self.told[name] = make_pod(name, uid=uid, node=node, **shape)
        self.event("Pod", old, self.told[name])

    @precondition(lambda self: self.told)
    @rule(data=st.data(), again=st.booleans())
    def delete_pod(self, data: st.DataObject, again: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.told)))
        old = self.told.pop(name)
        if not again:
            self.event("Pod", old, None)
            return
        self.lives += 1
        self.told[name] = make_pod(name, uid=f"{name}-{self.lives}")
        self.event("Pod", old, self.told[name])

    @rule(name=st.sampled_from("st"), there=st.booleans())
    def put_service(self, name: str, there: bool) -> None:
        self.event("Service", None if there else service(name), service(name) if there else None)

    @rule(name=st.sampled_from("st"), restore=st.booleans())
    def assume_service(self, name: str, restore: bool) -> None:
        for cache in (self.cache,) if self.trials else (self.cache, self.plain):
            services = cache.cluster.assumed("Service")
            if restore:
                services.restore("default", name)
            elif services.get("default", name) is not None:
                services.assume(service(name, "c"))

    # ------------------------------------------------------------------ trials

    @precondition(lambda self: len(self.trials) < 3)
    @rule()
    def begin(self) -> None:
        self.trials.append(Trial(self.cache))

    @precondition(lambda self: self.trials)
    @rule(most=st.integers(1, 4))
    def undo_some(self, most: int) -> None:
        for _ in islice(self.trials[-1].undoing(), most):
            pass

    @precondition(lambda self: self.trials)
    @rule()
    def roll_back(self) -> None:
        self.trials.pop().roll_back()

    @precondition(lambda self: len(self.trials) > 1)
    @rule()
    def commit_inner(self) -> None:
        self.trials.pop().commit()

    @precondition(lambda self: self.trials)
    @rule(node=st.sampled_from(NODES), many=st.booleans())
    def assume(self, node: str, many: bool) -> None:
        pods = [p for p in self.cache.cluster.pods.values() if p.uid not in self.cache.held]
        pods = [pod for pod in pods if not pod.node_name]
        if many:
            self.trials[-1].assume_many(pods, [node] * len(pods))
        elif pods:
            self.trials[-1].assume(pods[0], node)

    @precondition(lambda self: self.trials and self.cache.assumed)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        pods = sorted(self.cache.held[uid].info.key for uid in self.cache.assumed)
        key = data.draw(st.sampled_from(pods))
        [pod] = [held.info for held in self.cache.held.values() if held.info.key == key]
        self.trials[-1].forget(pod)
        assert pod.uid not in self.cache.assumed and not pod.node_name

    @precondition(lambda self: self.trials)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.cache.cluster.pods:
            key = data.draw(st.sampled_from(sorted(self.cache.cluster.pods)))
            self.trials[-1].remove(self.cache.cluster.pods[key])

    @precondition(lambda self: self.trials)
    @rule(data=st.data(), node=st.sampled_from(["", *NODES]))
    def nominate(self, data: st.DataObject, node: str) -> None:
        if self.cache.cluster.pods:
            key = data.draw(st.sampled_from(sorted(self.cache.cluster.pods)))
            self.trials[-1].nominate(self.cache.cluster.pods[key], node)

    @precondition(lambda self: self.trials)
    @rule(name=st.sampled_from(NODES), zone=st.sampled_from("xyz"), there=st.booleans())
    def change_node(self, name: str, zone: str, there: bool) -> None:
        if there:
            node = make_node(name, labels={"topology.kubernetes.io/zone": zone})
            self.trials[-1].put_node(node)
        else:
            self.trials[-1].remove_node(name)

    @precondition(lambda self: self.trials)
    @rule(name=st.sampled_from("st"), there=st.booleans())
    def change_service(self, name: str, there: bool) -> None:
        if there:
            self.trials[-1].put("Service", service(name, "b"))
        else:
            self.trials[-1].delete("Service", "default", name)

    # ------------------------------------------------------------------ what holds

    @invariant()
    def the_cache_is_consistent(self) -> None:
        check(self.cache)

    @invariant()
    def without_trials_it_is_as_if_there_had_been_none(self) -> None:
        if not self.trials:
            mine, plain = content(self.cache), content(self.plain)
            if not self.same_order:
                mine["order"], plain["order"] = sorted(mine["order"]), sorted(plain["order"])
            assert mine == plain


TestTrials = TrialMachine.TestCase
TestTrials.settings = examples(200, stateful_step_count=40)


def versions(cache: Cache) -> dict[str, int]:
    columns, cluster = cache.columns, cache.cluster
    return {
        "nodes": columns.nodes_version,
        "topology": columns.topology_version,
        "counter": columns.counter_version(APP),
        "terms": columns.terms_version(LabelTerms()),
        "all terms": columns.pod_table.counters.terms.all_terms.version,
        "Service": cluster.version("Service"),
    }


def everything(cache: Cache, trial: Trial) -> None:
    """Change in a trial all that has a version."""
    trial.put_node(make_node("new"))
    trial.remove_node("n1")
    trial.assume(cache.cluster.pods["default/p"], "n0")
    trial.put("Service", service("s"))


def test_after_a_rollback_versions_are_what_they_were() -> None:
    cache = cache_with("n0", "n1")
    waiting(cache, "p", labels={"app": "a"})
    before = versions(cache)
    with Trial(cache) as trial:
        everything(cache, trial)
        during = versions(cache)
    assert all(during[name] != before[name] for name in before)
    assert versions(cache) == before


def test_no_version_stands_for_two_contents() -> None:
    cache = cache_with("n0", "n1")
    waiting(cache, "p", labels={"app": "a"})
    before = versions(cache)
    seen = []
    for _ in range(2):
        with Trial(cache) as trial:
            everything(cache, trial)
            seen.append(versions(cache))
    waiting(cache, "q", labels={"app": "a"}, node="n0")
    after = versions(cache)
    assert all(seen[0][name] != seen[1][name] for name in before)
    assert all(after[name] not in (seen[0][name], seen[1][name]) for name in before)


def test_what_an_event_changes_during_a_trial_keeps_its_new_version() -> None:
    cache = cache_with("n0", "n1")
    pod = waiting(cache, "p", labels={"app": "a"})
    before = versions(cache)
    with Trial(cache) as trial:
        trial.assume(pod, "n0")
        waiting(cache, "q", labels={"app": "a"}, node="n1")
    after = versions(cache)
    assert after["counter"] not in (before["counter"], 0)
    assert after["nodes"] == before["nodes"]


def test_a_counter_made_during_a_trial_has_another_version_after_it() -> None:
    cache = cache_with("n0")
    pod = waiting(cache, "p", labels={"app": "b"})
    query = Labelled("app", "b")
    with Trial(cache) as trial:
        trial.assume(pod, "n0")
        during = cache.columns.counter_version(query)
    assert cache.columns.counter_version(query) != during


def test_terms_first_asked_for_during_a_trial_have_another_version_after_it() -> None:
    cache = cache_with("n0")
    pod = waiting(cache, "p", labels={"app": "b"}, node="n0")
    family = LabelTerms()
    with Trial(cache) as trial:
        trial.remove(pod)
        assert not cache.columns.terms_in_cluster(family)
        during = cache.columns.terms_version(family)
    assert cache.columns.terms_in_cluster(family)
    assert cache.columns.terms_version(family) != during


def test_so_has_a_counter_that_a_committed_inner_trial_changed_before_the_rollback() -> None:
    cache = cache_with("n0")
    pods = [waiting(cache, name, labels={"app": "b"}) for name in ("p", "q")]
    query = Labelled("app", "b")
    with Trial(cache) as trial:
        trial.assume(pods[0], "n0")
        during = cache.columns.counter_version(query)
        inner = trial.inner()
        inner.assume(pods[1], "n0")
        inner.commit()
    assert cache.columns.counter_version(query) != during


def test_rows_that_a_trial_touched_are_in_the_journal() -> None:
    cache = cache_with(*NODES)
    pod = waiting(cache, "p")
    position = cache.columns.position
    with Trial(cache) as trial:
        trial.assume(pod, "n1")
    changed = cache.columns.changed_since(position)
    assert changed is not None and changed.tolist() == [cache.columns.row_of("n1")]


def calls_of_a_rollback(placements: int, nodes: int) -> int:
    """Return how many functions a rollback of assumed pods calls in a cluster of some nodes."""
    names = [f"n{number}" for number in range(nodes)]
    cache = cache_with(*names)
    cache.columns.counter(APP)
    for number in range(2 * nodes):
        waiting(cache, f"bound{number}", node=names[number % nodes])
    pods = [waiting(cache, f"p{number}", labels={"app": "a"}) for number in range(placements)]
    trial = Trial(cache)
    trial.__enter__()
    trial.assume_many(pods, [names[number % 20] for number in range(placements)])
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        trial.__exit__(None, None, None)
    finally:
        sys.setprofile(None)
    return calls


def test_a_rollback_takes_time_in_proportion_to_the_placements_not_to_the_cluster() -> None:
    few = calls_of_a_rollback(100, 20)
    assert calls_of_a_rollback(100, 500) <= 1.05 * few
    assert calls_of_a_rollback(400, 20) <= 4.2 * few


def test_a_committed_trial_is_kept() -> None:
    cache = cache_with("n0")
    pod = waiting(cache, "p")
    with Trial(cache) as trial:
        trial.assume(pod, "n0")
        trial.commit()
    assert pod.uid in cache.assumed and pod.node_name == "n0"


def test_a_committed_inner_trial_goes_with_the_outer_one() -> None:
    cache = cache_with("n0")
    pod = waiting(cache, "p")
    with Trial(cache), Trial(cache) as inner:
        inner.assume(pod, "n0")
        inner.commit()
    assert pod.uid not in cache.assumed and pod.node_name == ""


def test_a_pod_that_was_removed_may_be_tried_on_another_node() -> None:
    cache = cache_with("n0", "n1")
    waiting(cache, "p", node="n0")
    pod = cache.cluster.pods["default/p"]
    with Trial(cache) as trial:
        trial.remove(pod)
        trial.submit(pod)
        trial.assume(pod, "n1")
        assert list(cache.columns.pods(1)) == [pod.uid]
    assert pod.node_name == "n0" and list(cache.columns.pods(0)) == [pod.uid]
    check(cache)


def test_a_pod_assumed_before_the_trial_that_forgot_it_is_assumed_again() -> None:
    cache = cache_with("n0")
    pods = [waiting(cache, name) for name in NAMES]
    cache.assume_many(pods, ["n0"] * len(pods))
    before = versions(cache)
    with Trial(cache) as trial:
        trial.forget(pods[1])
        assert pods[1].node_name == ""
        assert [pod.name for pod in cache.columns.pods(0).values()] == ["a", "c", "d"]
    assert [pod.name for pod in cache.columns.pods(0).values()] == NAMES
    assert pods[1].node_name == "n0" and pods[1].uid in cache.assumed
    assert versions(cache) == before


def test_the_order_of_a_nodes_pods_is_the_same_after_a_rollback() -> None:
    cache = cache_with("n0")
    pods = [waiting(cache, name, node="n0") for name in NAMES]
    with Trial(cache) as trial:
        trial.remove(pods[1])
        trial.remove(pods[0])
    assert [pod.name for pod in cache.columns.pods(0).values()] == NAMES


def test_a_pod_bound_by_another_client_meanwhile_is_dropped_from_the_trial() -> None:
    cache = cache_with("n0", "n1")
    pod = waiting(cache, "p")
    with Trial(cache) as trial:
        trial.assume(pod, "n0")
        cache.apply("Pod", pod.pod, make_pod("p", node="n1"))
        assert pod.uid not in cache.assumed
        assert [pod.name for pod in cache.columns.pods(1).values()] == ["p"]
    assert cache.held[pod.uid].info.node_name == "n1"


def test_a_pod_deleted_meanwhile_takes_its_assumption_along() -> None:
    cache = cache_with("n0")
    pod = waiting(cache, "p")
    with Trial(cache) as trial:
        trial.assume(pod, "n0")
        cache.apply("Pod", pod.pod, None)
        assert pod.uid not in cache.assumed
        assert not cache.columns.pods(0)


def test_callbacks_are_called_in_reverse_and_only_for_a_rollback() -> None:
    cache, calls = cache_with("n0"), []
    with Trial(cache) as trial:
        trial.on_undo(lambda: calls.append("first"))
        trial.on_undo(lambda: calls.append("second"))
    with Trial(cache) as trial:
        trial.on_undo(lambda: calls.append("kept"))
        trial.commit()
    assert calls == ["second", "first"]


def test_the_row_of_a_node_taken_away_is_its_own_until_the_commit() -> None:
    cache = cache_with("n0", "n1")
    with Trial(cache) as trial:
        trial.remove_node("n0")
        cache.apply("Node", None, make_node("n2"))
    assert cache.columns.row_of("n0") == 0
    with Trial(cache) as trial:
        trial.remove_node("n0")
        trial.commit()
    cache.apply("Node", None, make_node("n3"))
    assert cache.columns.row_of("n3") == 0


def test_a_node_that_stays_in_its_zone_leaves_the_order_of_nodes_alone() -> None:
    cache = cache_with(*NODES)
    order = cache.columns.node_table.ordered_rows
    with Trial(cache) as trial:
        trial.put_node(make_node("n0", unschedulable=True))
        assert cache.columns.node_table.ordered_rows is order
    assert cache.columns.node_table.ordered_rows is order


@pytest.mark.parametrize(
    "use",
    [
        lambda cache, trial: (trial.commit(), trial.commit()),
        lambda cache, trial: (Trial(cache), trial.roll_back()),
        lambda cache, trial: (Trial(cache), trial.remove_node("n0")),
    ],
    ids=["ended", "inner open, rolled back", "inner open, changed"],
)
def test_a_trial_is_not_used_out_of_turn(use: Callable[[Cache, Trial], object]) -> None:
    cache = cache_with("n0")
    with pytest.raises(TrialError):
        use(cache, Trial(cache))
