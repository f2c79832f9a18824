"""Every suggested change makes the pod fit, and no smaller one of its kind does."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podsched.api import quantity
from podsched.api.resources import allocatable_in_units, requests_in_units
from podsched.ask.explain.changes.question import Kind, Question
from podsched.ask.explain.changes.search import FINDERS, find_changes
from podsched.cache.cache import Cache
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.registry import BUILT_IN
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change
from support import engine_world
from support.changes_world import PROFILE, World, message, random_world
from support.examples import examples
from support.plain_topology import REQUIRED, Manifest

GATES = "schedulingGates"


def applied(world: World, change: Change) -> World:
    """The world with the change, as someone would make it who has only read it."""
    if change.patch:
        world = world.patched(yaml.safe_load(change.patch))
    if change.kind == Kind.PODS_GONE:
        return world.without([f"{pod.namespace}/{pod.name}" for pod in change.pods])
    if change.kind == Kind.UNCORDON:
        return world.uncordoned(change.node)
    if change.kind == Kind.NODE:
        return world.with_one_more(change.node)
    assert change.patch, change
    return world


def ungated(world: World) -> World:
    pending = copy.deepcopy(world.pending)
    pending["spec"].pop(GATES, None)
    return World(pending, world.nodes, world.pods)


@examples(40)
@given(st.integers(0, 1_000_000))
def test_every_suggested_change_makes_the_pod_fit(seed: int) -> None:
    world = random_world(seed)
    for change in find_changes(world.question()):
        fits = applied(world, change).fits()
        assert fits, change
        assert len(fits) == change.nodes, change
        if change.kind != Kind.NODE:
            assert fits >= set(change.examples), change


@examples(15)
@given(st.integers(0, 1_000_000))
def test_no_smaller_change_of_the_kind_makes_the_pod_fit(seed: int) -> None:
    world = random_world(seed)
    found = {change.kind: change for change in find_changes(world.question())}
    if world.fits():
        assert not found
        return
    plain = ungated(world)
    assert (Kind.GATES in found) == bool(plain.fits())
    if plain.fits():
        return
    for kind, smaller in SMALLER.items():
        for other in smaller(plain, found.get(kind)):
            assert not other.fits(), (kind, found.get(kind))


@examples(20)
@given(st.integers(0, 1_000_000))
def test_the_search_leaves_the_cluster_as_it_was(seed: int) -> None:
    question = random_world(seed).question()
    columns, cluster = question.cluster.columns, question.cluster

    def state() -> tuple[object, ...]:
        rows = [
            (
                columns.names[row],
                list(columns.pods(row)),
                [int(columns.requested(name)[row]) for name in ("cpu", "memory", "pods")],
                columns.node(row).SerializeToString(deterministic=True),
            )
            for row in columns.node_table.ordered_rows.tolist()
        ]
        versions = (
            columns.nodes_version,
            columns.topology_version,
            columns.pod_table.counters.terms.all_terms.version,
        )
        return rows, versions, sorted(cluster.pods), cluster.stamp_beside_pods

    # What plugins count is counted from the first time that they ask.
    find_changes(question)
    before = state()
    find_changes(question)
    assert state() == before


@pytest.mark.parametrize(
    ("reads_labels", "label"),
    [(False, "kueue.x-k8s.io/pod-group-name"), (True, "scheduling.x-k8s.io/pod-group")],
)
def test_a_changed_pod_is_of_the_group_that_the_configuration_reads_in_its_labels(
    reads_labels: bool, label: str
) -> None:
    cache = Cache()
    cache.classes.label_groups = cache.classes.queue_groups = reads_labels
    cache.apply("Node", None, engine_world.node("a"))
    spec = {"containers": [engine_world.container({"cpu": "9"})]}
    large = engine_world.pod("p", spec, labels={label: "t"})
    cache.apply("Pod", None, large)
    copied = cache.copy()
    runtime = ProfileRuntime(PROFILE, BUILT_IN, SimulatedHandle(copied.cluster))
    question = Question(runtime, copied, copied.cluster.pods["default/p"])
    assert question.info(question.asked.pod).group == question.asked.group
    assert Kind.REQUESTS in {change.kind for change in find_changes(question)}


def test_the_kinds_each_have_a_finder() -> None:
    assert set(FINDERS) == set(Kind)


# ---------------------------------------------------------------------------------- what is smaller

Smaller = Callable[[World, Change | None], Iterator[World]]


def smaller_requests(world: World, found: Change | None) -> Iterator[World]:
    """Amounts that cost less, of those at which some node's verdict changes."""
    total = requests_in_units(message(world.pending))
    values: dict[str, set[int]] = {name: {amount} for name, amount in total.items()}
    for node in world.nodes:
        allocatable = allocatable_in_units(node.status.allocatable)
        here = [p for p in world.pods if p.spec.node_name == node.metadata.name]
        coming = [p for p in world.pods if p.status.nominated_node_name == node.metadata.name]
        for pods in (here, [*here, *coming]):
            used = [requests_in_units(pod) for pod in pods]
            for name in total:
                left = allocatable.get(name, 0) - sum(u.get(name, 0) for u in used)
                values[name].add(max(0, min(total[name], left)))
    for amounts in itertools.product(*values.values()):
        cost = sum((total[n] - a) / total[n] for n, a in zip(total, amounts, strict=True))
        if cost > 0 and (found is None or cost < found.cost - 1e-9):
            yield asking_for(world, dict(zip(total, amounts, strict=True)))


def asking_for(world: World, amounts: dict[str, int]) -> World:
    """All requests in the first container."""
    containers = copy.deepcopy(world.pending["spec"]["containers"])
    for container in containers:
        container.pop("resources", None)
    texts = {
        name: quantity.format_quantity(Fraction(amount, 1000 if name == "cpu" else 1))
        for name, amount in amounts.items()
    }
    containers[0]["resources"] = {"requests": texts}
    return world.with_spec(containers=containers)


def smaller_tolerations(world: World, found: Change | None) -> Iterator[World]:
    taints = [taint for node in world.nodes for taint in node.spec.taints]
    if any(node.spec.unschedulable for node in world.nodes):
        taints.append(v1.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"))
    own = world.pending["spec"].get("tolerations", [])
    for taint in taints:
        key, value, effect = {"key": taint.key}, {"value": taint.value}, {"effect": taint.effect}
        exists = {"operator": "Exists"}
        steps: list[list[Manifest]] = [
            [key | value | effect],
            [key | exists | effect, key | value],
            [key | exists],
            [exists | effect],
            [exists],
        ]
        for number, tolerations in enumerate(steps, start=1):
            if found is None or number < width_of(found):
                for toleration in tolerations:
                    yield world.with_spec(tolerations=[*own, toleration])


def width_of(found: Change) -> int:
    """The step of the toleration that would be added."""
    added = yaml.safe_load(found.patch)["spec"]["tolerations"][-1]
    if not added.get("key"):
        return 4 if added.get("effect") else 5
    return 1 + (added["operator"] == "Exists") + (not added.get("effect"))


def smaller_selectors(world: World, found: Change | None) -> Iterator[World]:
    spec = world.pending["spec"]
    if found is None or found.cost > 1:
        for key in spec.get("nodeSelector", {}):
            kept = {k: v for k, v in spec["nodeSelector"].items() if k != key}
            yield world.with_spec(nodeSelector=kept)
        required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
        for place, term in enumerate(required.get("nodeSelectorTerms", [])):
            for index in range(len(term["matchExpressions"])):
                if len(term["matchExpressions"]) > 1:
                    affinity = copy.deepcopy(spec["affinity"])
                    terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
                    del terms[place]["matchExpressions"][index]
                    yield world.with_spec(affinity=affinity)
    if found is None and "nodeAffinity" in spec.get("affinity", {}):
        affinity = {k: v for k, v in spec["affinity"].items() if k != "nodeAffinity"}
        yield world.with_spec(affinity=affinity)


def smaller_affinity(world: World, found: Change | None) -> Iterator[World]:
    affinity = world.pending["spec"].get("affinity", {})
    for field in ("podAffinity", "podAntiAffinity"):
        for index in range(len(affinity.get(field, {}).get(REQUIRED, []))):
            if found is None:
                changed = copy.deepcopy(affinity)
                del changed[field][REQUIRED][index]
                yield world.with_spec(affinity=changed)


def smaller_spread(world: World, found: Change | None) -> Iterator[World]:
    if found is None and "topologySpreadConstraints" in world.pending["spec"]:
        yield world.with_spec(topologySpreadConstraints=[])


def smaller_ports(world: World, found: Change | None) -> Iterator[World]:
    containers = copy.deepcopy(world.pending["spec"]["containers"])
    if found is None and any(container.pop("ports", None) for container in containers):
        yield world.with_spec(containers=containers)


def smaller_labels(world: World, found: Change | None) -> Iterator[World]:
    for key in world.pending["metadata"]["labels"]:
        if found is None:
            yield world.patched({"metadata": {"labels": {key: None}}})


def smaller_sets_of_pods(world: World, found: Change | None) -> Iterator[World]:
    placed = [pod for pod in world.pods if pod.spec.node_name]
    limit = len(found.pods) if found is not None else len(placed) + 1
    if limit > 1:
        for pod in placed:
            yield world.without([f"default/{pod.metadata.name}"])
    for node in world.nodes:
        name = node.metadata.name
        here = [f"default/{p.metadata.name}" for p in placed if p.spec.node_name == name]
        for size in range(2, min(limit, len(here) + 1)):
            for keys in itertools.combinations(here, size):
                yield Only(world.without(keys), name)


class Only(World):
    """A world of which one node alone counts."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world.pending, world.nodes, world.pods)
        self.name = name

    def fits(self) -> set[str]:
        return super().fits() & {self.name}


def smaller_uncordoning(world: World, found: Change | None) -> Iterator[World]:
    for node in world.nodes:
        if node.spec.unschedulable and found is None:
            yield world.uncordoned(node.metadata.name)


def smaller_nodes(world: World, found: Change | None) -> Iterator[World]:
    sizes = {node.metadata.name: size_of(node) for node in world.nodes}
    for name, size in sizes.items():
        if found is None or size < sizes[found.node]:
            yield world.with_one_more(name)


def size_of(node: v1.Node) -> tuple[int, int, int]:
    amounts = allocatable_in_units(node.status.allocatable)
    cpu, memory = amounts.pop("cpu"), amounts.pop("memory")
    return cpu, memory, sum(amounts.values())


SMALLER: dict[Kind, Smaller] = {
    Kind.REQUESTS: smaller_requests,
    Kind.TOLERATION: smaller_tolerations,
    Kind.NODE_SELECTOR: smaller_selectors,
    Kind.AFFINITY: smaller_affinity,
    Kind.SPREAD: smaller_spread,
    Kind.PORT: smaller_ports,
    Kind.LABEL: smaller_labels,
    Kind.PODS_GONE: smaller_sets_of_pods,
    Kind.UNCORDON: smaller_uncordoning,
    Kind.NODE: smaller_nodes,
}
