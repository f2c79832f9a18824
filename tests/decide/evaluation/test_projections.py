"""Pods that plugins cannot tell apart share an evaluation, which changes no decision."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podsched.cache.pod_class import make_pod_info
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.selection import Selector
from podsched.decide.accelerators.shared_columns import SharedColumns
from podsched.decide.evaluation.projections import (
    MAX_COMPILED,
    CurrentProjections,
    EvaluationKey,
    Projections,
    source_of,
)
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.v1 import objects_pb2 as v1
from support import engine_world
from support.engine_world import World, container, node
from support.evaluations import from_scratch, seen
from support.examples import examples
from support.plain_topology import Manifest
from support.topology_world import TopologyWorld
from support.worlds import Evaluated


class Shared:
    """Evaluations by key, as the decider keeps them: few, with shared columns and one start."""

    def __init__(self, world: Evaluated | World, *, kept: int = 3) -> None:
        self.world = world
        self.kept = kept
        self.projections = Projections(world.runtime, world.cluster)
        self.current = CurrentProjections()
        self.columns = SharedColumns(world.cluster)
        self.evaluations: dict[EvaluationKey, ClassEvaluation] = {}

    def evaluation(self, pod: PodInfo) -> ClassEvaluation:
        self.current.catch_up(self.world.cluster)
        key = self.projections.key(pod, self.current)
        found = self.evaluations.get(key)
        if found is None:
            found = self._made(pod, key)
            if len(self.evaluations) == self.kept:
                del self.evaluations[next(iter(self.evaluations))]
            self.evaluations[key] = found
        return found

    def _made(self, pod: PodInfo, key: EvaluationKey) -> ClassEvaluation:
        runtime, cluster = self.world.runtime, self.world.cluster
        projections = self.projections.by_plugin(pod, key)
        made = ClassEvaluation(runtime, cluster, pod.cls, self.columns, projections)
        any(made.continue_from(other) for other in self.evaluations.values())
        return made


def variants(world: TopologyWorld, count: int) -> list[Manifest]:
    """Pods of few specs that differ in priority, and in labels that are selected or are not."""
    specs = [world.random_pod() for _ in range(2)]
    found = []
    for number in range(count):
        one: Any = copy.deepcopy(specs[number % 2])
        labels = one["metadata"]["labels"]
        labels["pod-name"] = f"v{number}"
        if world.random.random() < 0.3:
            labels["app"] = world.random.choice("xyz")
        if world.random.random() < 0.5:
            one["spec"]["priority"] = world.random.choice((-5, 5))
        one["metadata"] |= {"name": f"v{number}", "uid": f"v{number}"}
        one["metadata"].pop("deletionTimestamp", None)
        found.append(one)
    return found


@examples(60)
@given(st.integers(0, 10**6))
# A nominated pod brings a term while another, which does not concern the pod, has gone.
@example(156785)
def test_pods_of_one_key_get_the_answers_that_each_would_get_alone(seed: int) -> None:
    one = Evaluated(seed)
    pendings = [one.world.info(pod) for pod in variants(one.world, 8)]
    shared, nominated = Shared(one), list[str]()
    for turn in range(16):
        for _ in range(one.world.random.choice((0, 1, 2))):
            one.world.mutate()
        if turn % 5 == 3:
            nominee = one.world.info(one.world.random_pod())
            name = one.world.random.choice(one.world.scene.nodes)["metadata"]["name"]
            one.cluster.nominator.add(nominee, name)
            nominated.append(nominee.uid)
        elif turn % 5 == 1 and one.world.random.random() < 0.5:
            while nominated:
                one.cluster.nominator.delete(nominated.pop())
        for pending in one.world.random.sample(pendings, 3):
            expected = from_scratch(cast(World, one), pending)
            assert seen(shared.evaluation(pending), pending) == expected


@examples(60)
@given(st.integers(0, 10**6), st.integers(2, 10))
def test_a_batch_of_pods_of_one_key_goes_where_they_would_go_one_by_one(
    seed: int, count: int
) -> None:
    batch, single = Evaluated(seed, nodes=8), Evaluated(seed, nodes=8)
    pods = [batch.world.info(pod) for pod in variants(batch.world, 2 * count)]
    shared = Shared(batch)
    key = shared.projections.key(pods[0])
    of_key = [pod for pod in pods if shared.projections.key(pod) == key]
    run = Selector(shared.evaluation(pods[0])).select_batch(of_key, batch.commit)
    others = {p.key: p for p in map(single.world.info, variants(single.world, 2 * count))}
    chosen = []
    for pod in of_key:
        choice = Selector(single.evaluation(others[pod.key])).select(others[pod.key])
        if choice is None:
            break
        single.commit([others[pod.key]], [choice.row])
        chosen.append(choice.row)
    assert run.rows == chosen


@examples(40)
@given(st.integers(0, 10**6))
def test_what_differs_between_keys_is_what_plugins_read(seed: int) -> None:
    world = World(seed)
    _check_classes_that_come_and_go(world, 30)


@examples(20)
@given(st.integers(0, 10**6))
def test_beside_plugins_that_declare_no_projection_the_others_share_columns(seed: int) -> None:
    _check_classes_that_come_and_go(World(seed, scores={"ReadsLabels": ReadsLabels}), 20)


def _check_classes_that_come_and_go(world: World, turns: int) -> None:
    """Ever new specs, of which few evaluations are kept, while nodes and pods come and go."""
    shared = Shared(world)
    for turn in range(turns):
        for _ in range(world.random.choice((0, 1, 1, 3))):
            world.mutate()
        if turn % 4 == 3:
            at = world.random.randrange(4)
            world.templates[at] = _varied(world, world.templates[at])
        pending = world.pending()
        assert seen(shared.evaluation(pending), pending) == from_scratch(world, pending)


def _varied(world: World, spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod that differs in one or a few things."""
    other = world.random_spec()
    key = world.random.choice(["containers", "containers", "tolerations", "affinity", "priority"])
    return {**spec, key: other[key]} if key in other else other


# ----------------------------------------------------------------------- which pods share a key


def keys(world: World, *specs: dict[str, Any]) -> list[EvaluationKey]:
    world.templates = list(specs)
    projections = Projections(world.runtime, world.cluster)
    return [projections.key(world.pending(at)) for at in range(len(specs))]


def test_an_image_that_no_node_has_makes_no_difference() -> None:
    world = World(1, nodes=0)
    world.cache.placed.add_node(node("a", images=["app:1"]))
    one, other, there = keys(
        world,
        {"containers": [container(image="x:1")]},
        {"containers": [container(image="y:1")]},
        {"containers": [container(image="app:1")]},
    )
    assert one == other != there


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
        {"nodeSelector": {"zone": "a"}},
        {"containers": [container({"cpu": "1"})]},
        {"containers": [container(ports=[80])]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]},
    ],
)
def test_what_some_plugin_reads_makes_a_difference(spec: dict[str, Any]) -> None:
    plain = {"containers": [container()]}
    one, other = keys(World(1), plain, plain | spec)
    assert one != other


def test_priority_makes_a_difference_while_pods_are_nominated() -> None:
    world, plain = World(1), {"containers": [container()]}
    for nominee in world.nominees:
        world.cluster.nominator.delete(nominee.uid)
    assert not world.cluster.nominator.nodes()
    one, other = keys(world, plain, plain | {"priority": 3})
    assert one == other
    world.cluster.nominator.add(world.pending(0), "n0")
    one, other = keys(world, plain, plain | {"priority": 3})
    assert one != other


class ReadsLabels:
    """A score plugin of a user's, which says nothing about what it reads."""

    name = "ReadsLabels"

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        own = len(pod.cls.spec.containers) + pod.cls.priority
        return (nodes.pod_count[rows] * 7 + own) % 100


def test_for_a_plugin_without_a_projection_only_pods_of_one_class_share_a_key() -> None:
    plain = {"containers": [container()]}
    world = World(1, scores={"ReadsLabels": ReadsLabels})
    other = {"containers": [container(image="elsewhere:1")]}
    one, again, different = keys(world, plain, dict(plain), other)
    assert one == again != different


def test_a_projection_that_fails_or_cannot_be_compared_leaves_each_class_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for broken in (lambda *_: 1 / 0, lambda *_: []):
        world = World(1)
        with monkeypatch.context() as patched:
            for name in ("NodePorts", "ImageLocality"):
                ask = world.runtime.projecting[name]
                patched.setitem(
                    cast(dict[str, Any], world.runtime.projecting),
                    name,
                    replace(ask, ask=broken),
                )
            one, again, other = keys(
                world,
                {"containers": [container()]},
                {"containers": [container()]},
                {"containers": [container(image="x:1")]},
            )
            assert one == again != other


def _requesting(pod: v1.Pod) -> None:
    for each in pod.spec.containers:
        each.resources.requests["cpu"] = "3"
        each.resources.limits["memory"] = "7Mi"


def _labelled(pod: v1.Pod) -> None:
    pod.metadata.labels["app"] = "another"
    pod.metadata.owner_references.add(kind="ReplicaSet", name="rs", uid="1", controller=True)


def _mounting(pod: v1.Pod) -> None:
    pod.spec.volumes.add(name="v").persistent_volume_claim.claim_name = "another"


@examples(40)
@given(st.integers(0, 10**6), st.integers(0, 7))
def test_plugins_that_say_so_make_the_same_of_pods_that_differ_in_parts(
    seed: int, chosen: int
) -> None:
    world = World(seed)
    spec = world.templates[0]
    one, other = engine_world.pod("p", spec), engine_world.pod("p", copy.deepcopy(spec))
    changes = [_requesting, _labelled, _mounting]
    changed = [bool(chosen & 1 << bit) for bit in range(3)]
    for change, wanted in zip(changes, changed, strict=True):
        if wanted:
            change(other)
    pods = [make_pod_info(pod, world.cache.classes) for pod in (one, other)]
    assert (pods[0].cls.shape is pods[1].cls.shape) is not any(changed[1:])
    requests, labels, volumes = changed
    for name, asked in world.runtime.projecting.items():
        traits = asked.traits
        if (
            (requests and traits.reads_requests)
            or (labels and traits.reads_labels)
            or (volumes and traits.reads_volumes)
        ):
            continue
        source = source_of(traits)
        assert source(pods[0].cls) is source(pods[1].cls), name
        first, second = (asked.ask(pod, world.cluster) for pod in pods)
        assert first == second, name


def test_the_plugins_that_read_requests_are_those_that_vary() -> None:
    world = World(1)
    projecting = world.runtime.projecting.items()
    reading = {name for name, asked in projecting if asked.traits.reads_requests}
    assert reading == world.runtime.varying


def _how_often(
    monkeypatch: pytest.MonkeyPatch,
    names: Sequence[str],
    pods: Sequence[v1.Pod],
    *,
    changing: bool = False,
    placing: bool = False,
) -> dict[str, int]:
    """Return how often plugins are asked what they read of pods.

    changing: the cluster may have changed since the pod before; placing: each pod gets a node.
    """
    world = World(1)
    asked = dict.fromkeys(names, 0)

    def counted(name: str, ask: Any) -> Any:
        def count(*args: Any) -> Any:
            asked[name] += 1
            return ask(*args)

        return count

    projecting = cast(dict[str, Any], world.runtime.projecting)
    for name in asked:
        own = projecting[name]
        monkeypatch.setitem(projecting, name, replace(own, ask=counted(name, own.ask)))
    projections = Projections(world.runtime, world.cluster)
    known = CurrentProjections()
    known.catch_up(world.cluster)
    infos = [make_pod_info(pod, world.cache.classes) for pod in pods]
    for info in infos:
        projections.key(info, CurrentProjections() if changing else known)
        if placing:
            world.cache.assume(info, world.cluster.nodes.names[0])
            known.catch_up(world.cluster)
    return asked


def test_they_are_asked_once_for_pods_that_differ_in_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    specs = [{"containers": [container({"cpu": f"{number}m"})]} for number in range(5)]
    pods = [engine_world.pod(f"p{number}", spec) for number, spec in enumerate(specs)]
    names = ("NodePorts", "ImageLocality", "PodTopologySpread", "NodeResourcesFit")
    assert _how_often(monkeypatch, names, pods) == dict(zip(names, (1, 1, 1, 5), strict=True))


def test_they_are_asked_once_for_pods_that_differ_in_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = {"containers": [container({"cpu": "1m"})]}
    pods = [engine_world.pod(f"p{number}", spec) for number in range(5)]
    for number, pod in enumerate(pods):
        pod.metadata.labels["n"] = str(number)
    names = ("NodePorts", "VolumeBinding", "NodeResourcesFit", "InterPodAffinity")
    assert _how_often(monkeypatch, names, pods) == dict(zip(names, (1, 1, 1, 5), strict=True))


def test_they_are_asked_once_for_pods_that_differ_in_volumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = {"containers": [container({"cpu": "1m"})]}
    pods = [engine_world.pod(f"p{number}", spec) for number in range(5)]
    for number, pod in enumerate(pods):
        pod.spec.volumes.add(name="v").persistent_volume_claim.claim_name = f"c{number}"
    names = ("NodePorts", "InterPodAffinity", "NodeResourcesFit", "VolumeBinding")
    assert _how_often(monkeypatch, names, pods) == dict(zip(names, (1, 1, 1, 5), strict=True))


def test_who_does_not_read_where_pods_are_is_not_asked_again_when_they_get_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("ImageLocality", "PodTopologySpread", "InterPodAffinity", "VolumeBinding")
    pods = [engine_world.pod(f"p{number}", {"containers": [container()]}) for number in range(3)]
    assert _how_often(monkeypatch, names, pods, placing=True) == dict.fromkeys(names, 1)
    for pod in pods:
        pod.spec.volumes.add(name="v").persistent_volume_claim.claim_name = "data"
    times = dict(zip(names, (1, 1, 1, 3), strict=True))
    assert _how_often(monkeypatch, names, pods, placing=True) == times


def test_plugins_that_read_terms_are_asked_again_when_a_pod_with_terms_gets_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    specs: list[dict[str, Any]] = [{}, {"affinity": affinity}, {}, {}]
    pods = [engine_world.pod(f"p{number}", spec) for number, spec in enumerate(specs)]
    names = ("NodePorts", "InterPodAffinity")
    # Of the first, of the second for what it is, and of the others once, with its term.
    times = dict(zip(names, (2, 3), strict=True))
    assert _how_often(monkeypatch, names, pods, placing=True) == times


def test_who_has_nothing_to_read_of_a_pod_is_not_asked_when_the_cluster_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits")
    pods = [engine_world.pod(f"p{number}", {"containers": [container()]}) for number in range(3)]
    assert _how_often(monkeypatch, names, pods, changing=True) == dict.fromkeys(names, 1)
    for pod in pods:
        pod.spec.volumes.add(name="v").persistent_volume_claim.claim_name = "data"
    assert _how_often(monkeypatch, names, pods, changing=True) == dict.fromkeys(names, 3)


def test_questions_on_copies_of_the_cluster_leave_a_bounded_amount_with_a_class() -> None:
    world = World(1, nodes=2)
    world.templates = [{"containers": [container()]}]
    pod = world.pending(0)
    for _ in range(MAX_COMPILED):
        Projections(world.runtime, world.cluster).key(pod)
    parts = (pod.cls, pod.cls.amounts, pod.cls.shape, pod.cls.shape.plain)
    assert max(len(part.compiled) for part in parts) <= MAX_COMPILED
