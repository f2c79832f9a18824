"""What it costs to count the pods of many budgets, and that the counts are right at any time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.disruption_budgets import selector_of
from podsched.api.objects import Pod, PodDisruptionBudget
from podsched.term.controllers.disruption import DisruptionController
from podsched.term.controllers.disruption_status import Counts
from support.controller_world import ControllerWorld, bound_pod
from support.examples import examples
from support.visited import Visited

NAMESPACES = ("a", "b")
#: Of labels that pods of the test have: equal to one value, one of several, any, everything.
SELECTORS: tuple[dict[str, Any], ...] = (
    {"match_labels": {"app": "x"}},
    {"match_labels": {"app": "y", "tier": "1"}},
    {"match_expressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
    {"match_expressions": [{"key": "tier", "operator": "Exists"}]},
    {},
)


class CountingWorld(ControllerWorld):
    """Counts the pods that its controller looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.pods = Visited()
        self._stores["Pod"] = self.pods


def budget(name: str, selector: Mapping[str, Any], namespace: str = "a") -> PodDisruptionBudget:
    item = PodDisruptionBudget()
    item.metadata.name, item.metadata.namespace = name, namespace
    item.spec.min_available = "1"
    item.spec.selector.CopyFrom(type(item.spec.selector)(**selector))
    return item


def labelled(name: str, namespace: str = "a", *, ready: bool = True, **labels: str) -> Pod:
    pod = bound_pod(name, "n1", ready=ready, **labels)
    pod.metadata.namespace = namespace
    return pod


def crowded(budgets: int, pods: int) -> CountingWorld:
    world = CountingWorld()
    for number in range(budgets):
        app = {"app": f"app-{number}"}
        world.put(budget(f"b{number}", {"match_labels": app}, NAMESPACES[number % 2]))
    for number in range(pods):
        world.put(labelled(f"p{number}", NAMESPACES[number % 2], app=f"app-{number % budgets}"))
    world.pods.visits = 0
    return world


def expected_pods(world: ControllerWorld) -> Iterator[int]:
    for item in world.objects("PodDisruptionBudget").values():
        assert isinstance(item, PodDisruptionBudget)
        yield item.status.expected_pods


def test_a_new_leader_looks_at_each_pod_once_however_many_budgets_there_are() -> None:
    world = crowded(budgets=100, pods=500)
    world.start(DisruptionController(world, world, world))
    assert world.pods.visits <= 500
    assert set(expected_pods(world)) == {5}


def test_a_new_leader_gives_way_while_it_counts() -> None:
    world = crowded(budgets=10, pods=3000)
    most = 0
    for _ in world.starting(DisruptionController(world, world, world)):
        most, world.pods.visits = max(most, world.pods.visits), 0
    assert most <= 200


def test_budgets_that_come_together_are_counted_together_and_in_turns() -> None:
    world = crowded(budgets=100, pods=5000)
    world.start(DisruptionController(world, world, world))
    world.pods.visits = 0
    for number in range(50):
        world.put(budget(f"new-{number}", {"match_labels": {"app": "app-0"}}))
    assert world.pods.visits == 0, "a change is noted at little cost"
    looks = [0]
    while looks[-1] or len(looks) < 2:
        before = world.pods.visits
        world.settle()
        looks.append(world.pods.visits - before)
    assert max(looks) <= 2000
    assert sum(looks) <= 5000
    assert list(expected_pods(world))[-50:] == [50] * 50


def test_a_change_of_a_pod_is_put_to_the_budgets_that_ask_for_its_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = crowded(budgets=100, pods=0)
    world.start(DisruptionController(world, world, world))
    puts: list[str] = []
    put = Counts.put

    def counted(counts: Counts, name: str, member: Any) -> bool:
        puts.append(name)
        return put(counts, name, member)

    monkeypatch.setattr(Counts, "put", counted)
    world.put(labelled("p", app="app-0"))
    world.put(labelled("p", app="app-2"))
    assert len(puts) <= 3


Step = tuple[str, Any]
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("pod"),
            st.tuples(
                st.sampled_from(NAMESPACES),
                st.integers(0, 5),
                st.booleans(),
                st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("x", "y", "1"))),
            ),
        ),
        st.tuples(
            st.just("budget"),
            st.tuples(st.sampled_from(NAMESPACES), st.integers(0, 3), st.sampled_from(SELECTORS)),
        ),
        st.tuples(
            st.just("remove"),
            st.tuples(
                st.sampled_from(("Pod p", "PodDisruptionBudget b")),
                st.sampled_from(NAMESPACES),
                st.integers(0, 5),
            ),
        ),
        st.tuples(st.just("work"), st.none()),
    ),
    max_size=40,
)


def take(world: ControllerWorld, step: Step) -> None:
    what, how = step
    if what == "work":
        world.settle()
    elif what == "pod":
        namespace, number, ready, labels = how
        world.put(labelled(f"p{number}", namespace, ready=ready, **labels))
    elif what == "budget":
        namespace, number, selector = how
        world.put(budget(f"b{number}", selector, namespace))
    else:
        kind_and_letter, namespace, number = how
        kind, letter = kind_and_letter.split()
        key = f"{namespace}/{letter}{number}"
        if world.get(kind, key) is not None:
            world.remove(kind, key)


@examples(200, deadline=None)
@given(before=STEPS, during=STEPS, after=STEPS)
def test_counts_are_those_of_a_plain_reading_whatever_happens_when(
    before: list[Step], during: list[Step], after: list[Step]
) -> None:
    world = ControllerWorld()
    for step in before:
        if step[0] != "work":
            take(world, step)
    world.controller = controller = DisruptionController(world, world, world)
    coming = iter(during)
    for _ in world.starting(controller):
        if (step := next(coming, None)) is not None and step[0] != "work":
            take(world, step)
    for step in after:
        take(world, step)
    world.settle()
    for item in world.objects("PodDisruptionBudget").values():
        assert isinstance(item, PodDisruptionBudget)
        selected = [
            pod
            for pod in world.objects("Pod").values()
            if pod.metadata.namespace == item.metadata.namespace
            and selector_of(item).matches(pod.metadata.labels)
        ]
        healthy = [pod for pod in selected if isinstance(pod, Pod) and pod.status.conditions]
        ready = sum(any(c.status == "True" for c in pod.status.conditions) for pod in healthy)
        assert item.status.expected_pods == len(selected)
        assert item.status.current_healthy == ready
