"""Assuming, confirming and forgetting pods, and what informers' events lead to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podsched.cache.cache import Cache
from podsched.cache.changes import AnomalyKind, Applied
from podsched.cache.debugger import dump_nodes
from podsched.cache.invariants import check
from podsched.cache.pod_states import CacheError
from podsched.framework.events import UNSCHEDULED_POD_ADD, ActionType, Resource
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1
from support.cache_world import Labelled, cache_with, make_node, make_pod
from support.examples import examples

NODES = ["n0", "n1", "n2"]
NAMES = ["a", "b", "c", "d"]
SHAPES = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.just("app"), st.sampled_from(["a", "b"])),
        "terminating": st.booleans(),
        "nominated": st.sampled_from(["", *NODES]),
        "host_port": st.sampled_from([0, 80]),
    }
)


def events(applied: Applied) -> list[str]:
    return [change.event.text for change in applied.changes]


def pods_on(cache: Cache, node: str) -> list[str]:
    row = cache.columns.row_of(node)
    assert row is not None
    return sorted(pod.name for pod in cache.columns.pods(row).values())


def waiting_pod(cache: Cache, name: str, **fields: Any) -> PodInfo:
    applied = cache.apply("Pod", None, make_pod(name, **fields))
    assert applied.pending is not None and applied.pending.new is not None
    return applied.pending.new


def in_group(name: str) -> v1.Pod:
    return make_pod("a", labels={"kueue.x-k8s.io/pod-group-name": name} if name else {})


@pytest.mark.parametrize("later", ["other", ""])
def test_a_pod_whose_label_names_another_group_leaves_its_group(later: str) -> None:
    cache, first, second = Cache(), in_group("g"), in_group(later)
    cache.apply("Pod", None, first)
    cache.apply("Pod", first, second)
    assert list(cache.cluster.members("default/g")) == []
    assert len(cache.cluster.members("default/other")) == (later == "other")
    cache.apply("Pod", second, None)
    assert list(cache.cluster.members("default/other")) == []


def test_a_label_that_brings_a_pod_to_a_group_is_an_event_for_its_members() -> None:
    cache, first, second = Cache(), in_group("g"), in_group("other")
    cache.apply("Pod", None, first)
    applied = cache.apply("Pod", first, second)
    assert [(change.event, change.old, change.new) for change in applied.changes] == [
        (UNSCHEDULED_POD_ADD, None, second)
    ]
    assert applied.pending is not None and applied.pending.old is not None
    assert cache.apply("Pod", second, in_group("")).changes == ()


class CacheMachine(RuleBasedStateMachine):
    """Random events and assumptions: the invariants hold, each pod is where it was told to be."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.cache.columns.counter(Labelled("app", "a"))
        self.nodes: dict[str, v1.Node] = {}
        self.told: dict[str, v1.Pod] = {}
        self.assumed: dict[str, tuple[str, PodInfo]] = {}
        self.bound: set[str] = set()
        self.lives = 0
        self.versions: dict[object, list[bytes]] = {}
        self.stamps: dict[object, list[bytes]] = {}

    @rule(name=st.sampled_from(NODES), label=st.sampled_from("xy"))
    def put_node(self, name: str, label: str) -> None:
        node = make_node(name, labels={"l": label})
        self.cache.apply("Node", self.nodes.get(name), node)
        self.nodes[name] = node

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def delete_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        self.cache.apply("Node", self.nodes.pop(name), None)

    @rule(name=st.sampled_from(NAMES), shape=SHAPES)
    def create_pod(self, name: str, shape: dict[str, Any]) -> None:
        if name in self.told:
            return
        self.lives += 1
        pod = make_pod(name, uid=f"{name}-{self.lives}", **shape)
        self.told[name] = pod
        applied = self.cache.apply("Pod", None, pod)
        assert applied.pending is not None and applied.pending.old is None

    @precondition(lambda self: self.told)
    @rule(data=st.data(), shape=SHAPES, phase=st.sampled_from(["", "", "Running", "Succeeded"]))
    def update_pod(self, data: st.DataObject, shape: dict[str, Any], phase: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.told)))
        old = self.told[name]
        uid = old.metadata.uid
        new = make_pod(name, uid=uid, node=old.spec.node_name, phase=phase, **shape)
        self.cache.apply("Pod", old, new)
        if phase == "Succeeded":
            del self.told[name]
            self.was_deleted(uid)
        else:
            self.told[name] = new

    @precondition(lambda self: self.told)
    @rule(data=st.data(), node=st.sampled_from(NODES))
    def bound_by_another_client(self, data: st.DataObject, node: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.told)))
        old = self.told[name]
        new = v1.Pod.FromString(old.SerializeToString())
        new.spec.node_name = old.spec.node_name or node
        self.cache.apply("Pod", old, new)
        self.told[name] = new
        self.assumed.pop(new.metadata.uid, None)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.told)))
        old = self.told.pop(name)
        self.cache.apply("Pod", old, None)
        self.was_deleted(old.metadata.uid)

    def was_deleted(self, uid: str) -> None:
        if uid in self.assumed and uid in self.bound:
            del self.assumed[uid]

    @rule(data=st.data())
    def assume(self, data: st.DataObject) -> None:
        free = sorted(
            name
            for name, pod in self.told.items()
            if not pod.spec.node_name and pod.metadata.uid not in self.assumed
        )
        names = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        nodes = [data.draw(st.sampled_from(NODES)) for _ in names]
        pods = [self.cache.cluster.pods[f"default/{name}"] for name in names]
        self.cache.assume_many(pods, nodes)
        self.assumed.update({p.uid: (n, p) for n, p in zip(nodes, pods, strict=True)})

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), fails=st.booleans())
    def binding_ends(self, data: st.DataObject, fails: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.assumed)))
        if fails and uid not in self.bound:
            _, pod = self.assumed.pop(uid)
            assert self.cache.forget(pod).event.resource is Resource.ASSIGNED_POD
        else:
            self.cache.finish_binding(uid)
            self.bound.add(uid)
            if uid not in {pod.metadata.uid for pod in self.told.values()}:
                del self.assumed[uid]

    @rule(name=st.sampled_from(NAMES), node=st.sampled_from(NODES))
    def nominate(self, name: str, node: str) -> None:
        pod = self.cache.cluster.pods.get(f"default/{name}")
        if pod is not None:
            accepted = self.cache.nominate(pod, node)
            assert accepted == (not pod.node_name and pod.uid not in self.assumed)

    @invariant()
    def the_cache_is_consistent(self) -> None:
        check(self.cache)

    @invariant()
    def every_pod_is_where_it_was_told_to_be(self) -> None:
        expected = {p.metadata.uid: p.spec.node_name for p in self.told.values()}
        expected = {uid: node for uid, node in expected.items() if node}
        expected.update({uid: node for uid, (node, _) in self.assumed.items()})
        assert {uid: held.info.node_name for uid, held in self.cache.held.items()} == expected
        assert len(self.cache.assumed) == len(self.assumed)

    @invariant()
    def only_waiting_pods_are_nominated(self) -> None:
        nominator = self.cache.nominator
        waiting = {p.metadata.uid for p in self.told.values() if not p.spec.node_name}
        for node in nominator.nodes():
            assert {pod.uid for pod in nominator.pods(node)} <= waiting - self.assumed.keys()

    @invariant()
    def the_version_of_pods_changes_with_every_change_of_what_is_listed(self) -> None:
        cluster = self.cache.cluster
        listed = [pod.SerializeToString(deterministic=True) for pod in cluster.list("Pod")]
        for seen, now in ((self.versions, cluster.version("Pod")), (self.stamps, cluster.stamp)):
            assert seen.setdefault(now, listed) == listed

    @invariant()
    def pods_are_listed_while_unfinished(self) -> None:
        assert {f"default/{name}" for name in self.told} == set(self.cache.cluster.pods)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = examples(60, stateful_step_count=30)


def test_an_assumed_pod_counts_at_once_and_is_confirmed_by_the_informer() -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p")
    cache.assume(pod, "n0")
    assert pods_on(cache, "n0") == ["p"] and pod.uid in cache.assumed
    position = cache.columns.position
    applied = cache.apply("Pod", pod.pod, make_pod("p", node="n0"))
    assert events(applied) == ["AssignedPodAdd"] and applied.anomaly is None
    assert pod.uid not in cache.assumed and pods_on(cache, "n0") == ["p"]
    assert cache.columns.position == position


def test_a_pod_confirmed_on_another_node_moves_there_and_is_reported() -> None:
    cache = cache_with("n0", "n1")
    pod = waiting_pod(cache, "p")
    cache.assume(pod, "n0")
    applied = cache.apply("Pod", pod.pod, make_pod("p", node="n1"))
    assert applied.anomaly is not None
    assert applied.anomaly.kind is AnomalyKind.NODE_MISMATCH
    assert pods_on(cache, "n0") == [] and pods_on(cache, "n1") == ["p"]


def test_a_forgotten_pod_leaves_its_node_and_can_be_assumed_again() -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p")
    cache.assume(pod, "n0")
    change = cache.forget(pod)
    assert change.event.text == "AssignedPodDelete" and change.old.spec.node_name == "n0"
    assert pod.node_name == "" and pods_on(cache, "n0") == []
    cache.assume(pod, "n0")


def test_a_pod_is_assumed_once_and_forgotten_only_while_assumed() -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p")
    cache.assume(pod, "n0")
    with pytest.raises(CacheError, match="can't be assumed"):
        cache.assume(pod, "n0")
    cache.apply("Pod", pod.pod, make_pod("p", node="n0"))
    with pytest.raises(CacheError, match="cannot be forgotten"):
        cache.forget(pod)


def test_pods_of_a_removed_node_count_again_when_it_comes_back() -> None:
    cache = cache_with("n0")
    node = make_node("n0")
    cache.apply("Pod", None, make_pod("p", node="n0"))
    cache.apply("Node", node, None)
    assert len(cache.held) == 1 and not len(cache.columns.node_table)
    cache.apply("Node", None, node)
    assert pods_on(cache, "n0") == ["p"]


def test_a_finished_pod_does_not_count() -> None:
    cache = cache_with("n0")
    running = make_pod("p", node="n0")
    cache.apply("Pod", None, running)
    applied = cache.apply("Pod", running, make_pod("p", node="n0", phase="Succeeded"))
    assert events(applied) == ["AssignedPodDelete"] and pods_on(cache, "n0") == []
    again = cache.apply("Pod", running, make_pod("p", node="n0", phase="Failed"))
    assert again == Applied()


def test_a_deleted_assumed_pod_stays_until_its_binding_forgets_it() -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p")
    cache.assume(pod, "n0")
    applied = cache.apply("Pod", pod.pod, None)
    assert applied.pending is not None and applied.pending.assumed
    assert pods_on(cache, "n0") == ["p"]
    cache.forget(pod)
    check(cache)


def test_an_assumed_pod_deleted_after_its_binding_is_removed() -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p")
    cache.assume(pod, "n0")
    cache.finish_binding(pod.uid)
    applied = cache.apply("Pod", pod.pod, None)
    assert events(applied) == ["AssignedPodDelete"]
    assert applied.changes[0].old.spec.node_name == "n0"
    assert pods_on(cache, "n0") == []


@pytest.mark.parametrize("again", [True, False])
def test_an_assumed_pod_whose_deletion_comes_before_the_answer_of_its_binding_is_removed(
    again: bool,
) -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p")
    cache.assume(pod, "n0")
    # The informer merges the binding and the deletion.
    cache.apply("Pod", pod.pod, make_pod("p", uid="other") if again else None)
    freed = cache.finish_binding(pod.uid)
    assert freed is not None and freed.event.text == "AssignedPodDelete"
    assert freed.old.spec.node_name == "n0"
    assert pods_on(cache, "n0") == [] and not cache.held
    check(cache)


def test_a_pod_made_anew_under_its_name_replaces_the_old_one() -> None:
    cache = cache_with("n0")
    old = make_pod("p", uid="1", node="n0")
    cache.apply("Pod", None, old)
    applied = cache.apply("Pod", old, make_pod("p", uid="2"))
    assert events(applied) == ["AssignedPodDelete"]
    assert applied.pending is not None and applied.pending.new is not None
    assert applied.pending.new.uid == "2" and len(cache.held) == 0


def test_a_node_update_is_one_event_for_each_thing_that_changed() -> None:
    cache = cache_with("n0")
    changed = make_node("n0", labels={"a": "b"}, taints=[("k", "v", "NoSchedule")])
    applied = cache.apply("Node", None, changed)
    assert events(applied) == ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint"]
    assert cache.apply("Node", changed, changed) == Applied()


def test_an_assigned_pod_that_shrinks_is_a_scale_down() -> None:
    cache = cache_with("n0")
    big = make_pod("p", node="n0", requests={"cpu": "2"})
    cache.apply("Pod", None, big)
    applied = cache.apply("Pod", big, make_pod("p", node="n0", requests={"cpu": "1"}))
    assert [c.event.action for c in applied.changes] == [ActionType.UPDATE_POD_SCALE_DOWN]


@pytest.mark.parametrize(("node", "cpu"), [("n0", "1"), ("n1", "2")])
def test_an_assumed_pod_that_shrinks_or_goes_elsewhere_leaves_room_behind(
    node: str, cpu: str
) -> None:
    cache = cache_with("n0", "n1")
    cache.assume(waiting_pod(cache, "p", requests={"cpu": "2"}), "n0")
    bound = make_pod("p", node=node, requests={"cpu": cpu})
    applied = cache.apply("Pod", make_pod("p", requests={"cpu": "2"}), bound)
    assert events(applied) == ["AssignedPodDelete", "AssignedPodAdd"]
    assert applied.changes[0].old.spec.node_name == "n0"


def test_storage_objects_are_events_and_services_are_not() -> None:
    cache = Cache()
    claim = v1.PersistentVolumeClaim()
    claim.metadata.namespace, claim.metadata.name = "default", "data"
    assert events(cache.apply("PersistentVolumeClaim", None, claim)) == ["PersistentVolumeClaimAdd"]
    version = cache.cluster.version("Service")
    service = v1.Service()
    service.metadata.namespace, service.metadata.name = "default", "web"
    assert events(cache.apply("Service", None, service)) == []
    assert cache.cluster.version("Service") != version
    assert cache.cluster.get("Service", "default", "web") is service
    assert cache.cluster.list("Service", "other") == ()
    cache.apply("Service", service, None)
    assert cache.cluster.list("Service") == ()


def test_a_nomination_in_memory_outlives_an_update_that_knows_nothing_of_it() -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p")
    assert cache.nominate(pod, "n0")
    cache.apply("Pod", pod.pod, make_pod("p", labels={"a": "b"}))
    assert [p.name for p in cache.cluster.nominator.pods("n0")] == ["p"]
    cache.apply("Pod", None, make_pod("p", nominated="n1"))
    assert list(cache.cluster.nominator.nodes()) == ["n1"]
    cache.apply("Pod", None, make_pod("p"))
    assert not cache.cluster.nominator.nodes()


def test_a_nominated_pod_is_no_longer_nominated_once_assumed() -> None:
    cache = cache_with("n0")
    pod = waiting_pod(cache, "p", nominated="n0")
    version = cache.cluster.nominator.version
    cache.assume(pod, "n0")
    assert not cache.cluster.nominator.pods("n0")
    assert cache.cluster.nominator.version != version
    assert not cache.nominate(pod, "n0")


def test_pods_of_one_class_are_assumed_together_as_one_by_one() -> None:
    together, single = cache_with(*NODES), cache_with(*NODES)
    for cache in (together, single):
        pods = [waiting_pod(cache, name) for name in "abc"]
        if cache is together:
            cache.assume_many(pods, NODES)
        else:
            for pod, node in zip(pods, NODES, strict=True):
                cache.assume(pod, node)
        check(cache)
    assert list(dump_nodes(together)) == list(dump_nodes(single))
