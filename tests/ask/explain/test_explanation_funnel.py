"""The funnel: its steps add up, and say of each node what a simulation says."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from podsched.ask.explain.explanation import funnel, groups, verdict
from podsched.ask.explain.fitting import Fitting, fit
from podsched.ask.simulation import simulate_pod
from podsched.framework.pods import PodInfo
from support.engine_world import World
from support.examples import examples
from support.explain_world import ExplainWorld
from support.worlds import Evaluated


def check_against_a_simulation(world: World | Evaluated, pod: PodInfo) -> None:
    """Compare what is said of a pod with the simulation's status of every node."""
    simulated = simulate_pod(world.runtime, world.cluster, pod)
    if simulated["outcome"] == "Error":
        return
    fitting = fit(world.runtime, world.cluster, pod)
    steps = funnel(fitting)
    names = [n for n in world.cluster.nodes.names if n]
    if "filter" not in simulated:  # PreFilter has rejected the pod.
        assert [step.after for step in steps] == [0]
        assert steps[0].reasons[0].reason in simulated["prefilter"]["reasons"]
        return
    left = len(names)
    for step in steps:
        assert step.before == left
        assert step.after == step.before - step.rejected
        left = step.after
    assert left == len(simulated.get("feasible", ()))
    by_plugin = Counter(s["plugin"] for s in simulated["filter"].values() if s["plugin"])
    assert Counter({s.plugin: s.rejected for s in steps if s.extension_point == "Filter"}) == (
        by_plugin
    )
    for name, status in simulated["filter"].items():
        found = verdict(fitting, name)
        said = {"code": found.code, "plugin": found.plugin, "reasons": sorted(found.reasons)}
        assert said == status
    found_groups = groups(fitting)
    assert sum(group.nodes for group in found_groups) + left == len(names)
    for group in found_groups:
        for name in group.examples:
            assert simulated["filter"][name]["reasons"] == list(group.reasons)
    check_rejections_alone(fitting)


def check_rejections_alone(fitting: Fitting) -> None:
    steps = funnel(fitting)
    for step in steps:
        if step.HasField("rejects_alone"):
            assert step.rejected <= step.rejects_alone <= len(fitting.outcome.rows)
    asked = [s for s in steps if s.extension_point == "Filter" and not s.skipped]
    assert all(step.HasField("rejects_alone") for step in asked)


@examples(60)
@given(seed=st.integers(0, 10_000), changes=st.integers(0, 40))
def test_the_funnel_is_that_of_a_simulation(seed: int, changes: int) -> None:
    world = World(seed, nodes=8)
    for _ in range(changes):
        world.mutate()
    for template in range(4):
        check_against_a_simulation(world, world.pending(template))


@examples(40)
@given(seed=st.integers(0, 10_000))
def test_so_it_is_with_constraints_between_pods(seed: int) -> None:
    world = Evaluated(seed)
    check_against_a_simulation(world, world.world.info(world.world.random_pod()))


def test_nodes_that_pre_filter_leaves_out_are_the_first_step() -> None:
    world = ExplainWorld()
    for name in ("a", "b", "c"):
        world.node(name, allocatable={"cpu": "1", "pods": "10"})
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [fields]}}
    world.pod("web", "2", affinity={"nodeAffinity": required})
    steps = [step for step in world.explain("web").funnel if step.rejected]
    found = [(s.extension_point, s.plugin, s.before, s.rejected, s.after) for s in steps]
    assert found == [
        ("PreFilter", "NodeAffinity", 3, 2, 1),
        ("Filter", "NodeResourcesFit", 1, 1, 0),
    ]


def test_a_filter_that_would_reject_more_says_how_many_of_all_nodes() -> None:
    world = ExplainWorld()
    world.node("a", unschedulable=True, allocatable={"cpu": "1", "pods": "10"})
    world.node("b", allocatable={"cpu": "1", "pods": "10"})
    world.pod("web", "2")
    steps = {step.plugin: step for step in world.explain("web").funnel}
    assert (steps["NodeUnschedulable"].rejected, steps["NodeUnschedulable"].rejects_alone) == (1, 1)
    assert (steps["NodeResourcesFit"].rejected, steps["NodeResourcesFit"].rejects_alone) == (1, 2)
    assert [(r.reason, r.nodes) for r in steps["NodeResourcesFit"].reasons] == [
        ("Insufficient cpu", 1)
    ]
