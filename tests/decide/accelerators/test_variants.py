"""Pods that differ in their requests alone are decided on without evaluations of their own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.pod_class import make_pod_info
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.shared_columns import SharedColumns
from podsched.decide.accelerators.variant_decisions import VariantIndex
from podsched.decide.accelerators.variants import Variants
from podsched.decide.evaluation.projections import EvaluationKey, Projections
from podsched.framework.pods import PodInfo
from podsched.plugins.node_resources import loops as node_resources
from support.engine_world import World, container, node, pod
from support.evaluations import from_scratch
from support.examples import examples


class Varied:
    """Evaluations and variants as the decider keeps them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.projections = Projections(world.runtime, world.cluster)
        self.columns = SharedColumns(world.cluster)
        self.index = VariantIndex()
        self.sure = 0
        #: How many were decided on in a compiled loop.
        self.jointly = 0

    def variant_key(self, pending: PodInfo) -> EvaluationKey | None:
        return self.projections.variant_key(pending, self.projections.key(pending))

    def learn(self, pending: PodInfo) -> Variants | None:
        """Evaluates a pod on its own and takes from that what its variants have in common."""
        runtime, cluster = self.world.runtime, self.world.cluster
        key = self.projections.key(pending)
        projections = self.projections.by_plugin(pending, key)
        evaluation = ClassEvaluation(runtime, cluster, pending.cls, self.columns, projections)
        evaluation.refresh(pending)
        self.index.learn(self.variant_key(pending), evaluation, pending, 64)
        return self.index.of(key, self.variant_key(pending))

    def check(self, pending: PodInfo) -> None:
        """A variant goes where an evaluation from scratch would have it go, if at all."""
        variants = self.index.of(self.projections.key(pending), self.variant_key(pending))
        choice = None if variants is None else variants.select(pending)
        if choice is None:
            self.learn(pending)
            return
        self.sure += 1
        self.jointly += choice.totals is None
        _, _, totals = from_scratch(self.world, pending)
        names = self.world.cluster.nodes.names
        rows = {row: totals[name] for row, name in enumerate(names) if name in totals}
        best = max(rows.values())
        assert choice.row == min(row for row, total in rows.items() if total == best)
        assert variants is not None and variants.total(choice) == best
        assert choice.feasible == len(rows)
        choice = variants.select(pending, all_totals=True)
        assert choice is not None and variants.total(choice) == best
        details = variants.details(pending, choice)
        assert details.ties == list(rows.values()).count(best)
        for told in details.rows:
            assert told.total == rows[told.row] == sum(told.plugins.values())


def asking(world: World, name: str, cpu: str = "100m", **parts: Any) -> PodInfo:
    """A pod that asks for so much CPU."""
    requests = {"cpu": cpu, "memory": "256Mi"}
    spec = {"containers": [container(requests)], **parts}
    return make_pod_info(pod(name, spec), world.cache.classes)


def plain(nodes: int = 4) -> World:
    """A world of equal nodes of 4 CPUs."""
    world = World(1, nodes=0, strategy={"type": "LeastAllocated"})
    for number in range(nodes):
        world.cache.placed.add_node(node(f"n{number}"))
    return world


@pytest.fixture(params=["numpy", "numba"], autouse=True, scope="module")
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    """How rows are scored: by NumPy, or in a compiled loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_resources, "_compiled", None)
        if request.param == "numba":
            assert node_resources.compile_loops()
        yield request.param


@examples(40)
@given(st.integers(0, 10**6), st.booleans())
def test_a_variant_goes_where_it_would_go_on_its_own(seed: int, calm: bool) -> None:
    """In ``calm`` worlds, where nodes are not avoided and nothing is preferred, most are sure."""
    world = World(seed, strategy={"type": "LeastAllocated"} if calm else None)
    pick = world.random
    if calm:
        for name in filter(None, world.cluster.nodes.names):
            labels = {"zone": pick.choice("abc"), "kubernetes.io/hostname": name}
            cpu, pods = pick.choice(["1", "2", "8"]), str(pick.choice([2, 3, 10]))
            allocatable = {"cpu": cpu, "memory": "4Gi", "pods": pods}
            world.cache.placed.add_node(node(name, labels=labels, allocatable=allocatable))
        for template in world.templates:
            template.pop("affinity", None)
    varied = Varied(world)
    for _ in range(4):
        for _ in range(pick.choice((0, 1, 2))):
            world.mutate()
        one = copy.deepcopy(pick.choice(world.templates))
        for _ in range(6):
            one["containers"][0]["resources"]["requests"]["cpu"] = f"{pick.randint(1, 900)}m"
            world.templates = [one]
            pending = world.pending(0)
            varied.check(pending)
            world.cache.assume(pending, pick.choice([n for n in world.cluster.nodes.names if n]))
            one = copy.deepcopy(one)
        world.templates = [one] * 4


def test_pods_with_requests_of_their_own_are_placed_one_after_another(loops: str) -> None:
    world = plain()
    varied = Varied(world)
    varied.learn(asking(world, "first"))
    for number in range(40):
        pending = asking(world, f"p{number}", f"{100 + number}m")
        varied.check(pending)
        world.cache.assume(pending, f"n{number % 4}")
    assert varied.sure == 40
    assert varied.jointly == (40 if loops == "numba" else 0)


def test_pods_that_request_more_than_cpu_and_memory_are_left_to_the_plugins() -> None:
    world = plain()
    varied = Varied(world)
    varied.learn(asking(world, "first"))
    requests = {"cpu": "1", "example.com/gpu": "1"}
    one = make_pod_info(pod("gpu", {"containers": [container(requests)]}), world.cache.classes)
    varied.check(one)
    assert varied.jointly == 0


def test_an_overdrawn_resource_that_a_pod_does_not_request_does_not_matter() -> None:
    world = plain(1)
    varied = Varied(world)
    varied.learn(asking(world, "first"))
    world.cache.assume(asking(world, "bound elsewhere", "5"), "n0")
    spec = {"containers": [container({"memory": "1Gi"})]}
    one = make_pod_info(pod("memory alone", spec), world.cache.classes)
    variants = varied.index.of(varied.projections.key(one), varied.variant_key(one))
    choice = None if variants is None else variants.select(one)
    assert choice is not None
    assert choice.row == 0


def test_a_node_without_room_is_passed_over() -> None:
    world = plain(2)
    world.cache.assume(asking(world, "large", "3500m"), "n1")
    variants = Varied(world).learn(asking(world, "first"))
    assert variants is not None
    world.cache.assume(asking(world, "other", "1"), "n0")
    choice = variants.select(asking(world, "next", "2"))
    assert choice is not None and choice.row == 0


def test_a_pod_that_fits_nowhere_is_left_to_an_evaluation_of_its_own() -> None:
    world = plain()
    variants = Varied(world).learn(asking(world, "first"))
    assert variants is not None
    assert variants.select(asking(world, "huge", "5")) is None


def test_the_state_of_a_variant_is_its_own() -> None:
    world = plain()
    variants = Varied(world).learn(asking(world, "first"))
    assert variants is not None
    one, other = (variants.select(asking(world, c, c)) for c in ("1", "2"))
    assert one is not None and other is not None
    assert ("cpu", 1000) in one.state.data["NodeResourcesFit"]
    assert ("cpu", 2000) in other.state.data["NodeResourcesFit"]


def changed_node(world: World) -> None:
    world.cache.placed.add_node(node("n1", taints=[{"key": "k", "effect": "NoSchedule"}]))


def nomination(world: World) -> None:
    world.cache.nominator.add(asking(world, "nominee", "3"), "n0")


def repelling_pod(world: World) -> None:
    term = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    repel = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.cache.assume(asking(world, "repels", affinity=repel), "n0")


@pytest.mark.parametrize("change", [changed_node, nomination, repelling_pod])
def test_what_other_plugins_read_must_not_have_changed(change: Any) -> None:
    world = plain()
    variants = Varied(world).learn(asking(world, "first"))
    assert variants is not None
    assert variants.select(asking(world, "before", "1")) is not None
    change(world)
    assert variants.select(asking(world, "after", "2")) is None


def test_scores_that_depend_on_which_nodes_are_feasible_are_left_to_evaluations() -> None:
    world = plain()
    world.cache.placed.add_node(node("n4", taints=[{"key": "k", "effect": "PreferNoSchedule"}]))
    assert Varied(world).learn(asking(world, "first")) is None


def spreading(world: World, name: str, cpu: str) -> PodInfo:
    """A pod that spreads over zones with all others of its application."""
    term = {"weight": 10, "podAffinityTerm": {
        "labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname",
    }}  # fmt: skip
    spec = {
        "containers": [container({"cpu": cpu, "memory": "256Mi"})],
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ],
    }
    return make_pod_info(pod(name, spec, labels={"app": "a"}), world.cache.classes)


def zones() -> World:
    """Six nodes in three zones."""
    world = World(1, nodes=0, strategy={"type": "LeastAllocated"})
    for number in range(6):
        name = f"n{number}"
        labels = {"zone": "abc"[number % 3], "kubernetes.io/hostname": name}
        world.cache.placed.add_node(node(name, labels=labels))
    return world


def test_pods_that_spread_and_differ_in_requests_follow_an_evaluation(loops: str) -> None:
    world = zones()
    varied = Varied(world)
    varied.learn(spreading(world, "first", "1m"))
    for number in range(20):
        pending = spreading(world, f"p{number}", f"{50 + number}m")
        varied.check(pending)
        world.cache.assume(pending, f"n{number * number % 6}")
    assert varied.sure == 20
    assert varied.jointly == (20 if loops == "numba" else 0)


def test_where_other_nodes_are_feasible_for_a_pod_that_spreads_it_is_evaluated() -> None:
    world = zones()
    variants = Varied(world).learn(spreading(world, "first", "1m"))
    assert variants is not None
    world.cache.assume(asking(world, "large", "3"), "n1")
    assert variants.select(spreading(world, "small", "100m")) is not None
    assert variants.select(spreading(world, "next", "2")) is None


def test_pods_that_spread_are_evaluated_where_a_plugin_keeps_books_of_them() -> None:
    world = zones()
    runtime, first = world.runtime, spreading(world, "first", "1m")
    evaluation = ClassEvaluation(runtime, world.cluster, first.cls)
    evaluation.refresh(first)
    assert Variants.of(evaluation, first) is not None
    assert Variants.of(evaluation, first, reserves=True) is None


def test_pods_that_differ_in_requests_alone_have_the_same_variant_key() -> None:
    world = plain()
    varied = Varied(world)
    one, other = asking(world, "one", "1"), asking(world, "other", "2")
    apart = asking(world, "apart", tolerations=[{"key": "k", "operator": "Exists"}])
    assert varied.variant_key(one) == varied.variant_key(other) != varied.variant_key(apart)
    assert varied.projections.key(one) != varied.projections.key(other)


def test_a_key_that_was_decided_as_a_variant_is_not_decided_as_one_again() -> None:
    world = plain()
    varied = Varied(world)
    one = asking(world, "one")
    assert varied.learn(one) is not None
    key = varied.projections.key(one)
    varied.index.note_decided(key)
    assert varied.index.of(key, varied.variant_key(one)) is None
