from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import (
    Deployment,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    timestamp,
)
from podsched.term.controllers import disruption
from podsched.term.controllers.disruption import DisruptionController
from podsched.term.controllers.disruption_status import new_status
from support.controller_world import ControllerWorld, bound_pod


def budget(name: str = "web", **spec: str) -> PodDisruptionBudget:
    item = PodDisruptionBudget()
    item.metadata.name = name
    item.metadata.namespace = "default"
    item.metadata.generation = 3
    item.spec.selector.match_labels["app"] = "web"
    for field, value in spec.items():
        setattr(item.spec, field, value)
    return item


def replica_set(replicas: int, name: str = "rs", deployment: str = "") -> ReplicaSet:
    item = ReplicaSet()
    item.metadata.name = name
    item.metadata.namespace = "default"
    item.metadata.uid = f"{name}-uid"
    item.spec.replicas = replicas
    if deployment:
        item.metadata.owner_references.add(
            api_version="apps/v1",
            kind="Deployment",
            name=deployment,
            uid=f"{deployment}-uid",
            controller=True,
        )
    return item


def owned(pod: Pod, kind: str = "ReplicaSet", name: str = "rs", version: str = "apps/v1") -> Pod:
    pod.metadata.owner_references.add(
        api_version=version, kind=kind, name=name, uid=f"{name}-uid", controller=True
    )
    return pod


def status(world: ControllerWorld, name: str = "web") -> PodDisruptionBudgetStatus:
    item = world.get("PodDisruptionBudget", f"default/{name}")
    assert isinstance(item, PodDisruptionBudget)
    return item.status


def numbers(world: ControllerWorld) -> tuple[int, int, int, int]:
    """Expected, healthy, desired, allowed."""
    s = status(world)
    return s.expected_pods, s.current_healthy, s.desired_healthy, s.disruptions_allowed


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(DisruptionController(world, world, world))
    return world


def test_pods_without_a_controller_count_for_a_number(world: ControllerWorld) -> None:
    world.put(budget(min_available="1"))
    for name in ("a", "b", "c"):
        world.put(bound_pod(name, "n1", ready=name != "c", app="web"))
    world.put(bound_pod("other", "n1", app="db"))
    world.settle()
    assert numbers(world) == (3, 2, 1, 1)
    assert status(world).observed_generation == 3
    assert [c.reason for c in status(world).conditions] == ["SufficientPods"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"min_available": "50%"}, (5, 3, 3, 0)),
        ({"max_unavailable": "3"}, (5, 3, 2, 1)),
        ({"max_unavailable": "30%"}, (5, 3, 3, 0)),
        ({"max_unavailable": "41%"}, (5, 3, 2, 1)),
        ({"max_unavailable": "9"}, (5, 3, 0, 3)),
        ({}, (0, 3, 0, 0)),
    ],
)
def test_shares_are_of_the_replicas_that_controllers_ask_for(
    world: ControllerWorld, spec: dict[str, str], expected: tuple[int, int, int, int]
) -> None:
    world.put(replica_set(5))
    world.put(budget(**spec))
    for name in ("a", "b", "c"):
        world.put(owned(bound_pod(name, "n1", app="web")))
    world.settle()
    assert numbers(world) == expected


def test_a_change_of_a_controller_concerns_only_the_budgets_of_its_pods(
    world: ControllerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace may have thousands of controllers, whose statuses change all the time."""
    for name in ("web", "other"):
        item = budget(name, max_unavailable="1")
        item.spec.selector.match_labels["app"] = name
        world.put(item)
        world.put(replica_set(1, name, deployment=f"{name}-whole"))
        world.put(owned(bound_pod(name, "n1", app=name), name=name))
    world.settle()
    examined: list[str] = []

    def seen(budget: PodDisruptionBudget, *others: Any) -> Any:
        examined.append(budget.metadata.name)
        return new_status(budget, *others)

    monkeypatch.setattr(disruption, "new_status", seen)
    whole = Deployment()
    whole.metadata.name, whole.metadata.namespace = "web-whole", "default"
    whole.metadata.uid, whole.spec.replicas = "web-whole-uid", 3
    for changed in (replica_set(2, "web", deployment="web-whole"), whole):
        world.put(changed)
        world.settle()
    assert set(examined) == {"web"}
    assert numbers(world)[0] == 3


def test_a_controller_that_does_not_exist_allows_no_disruption(world: ControllerWorld) -> None:
    world.put(budget(max_unavailable="1"))
    world.put(owned(bound_pod("a", "n1", app="web")))
    world.settle()
    assert status(world).disruptions_allowed == 0
    assert status(world).observed_generation == 0, "no eviction counts on it"
    assert [c.reason for c in status(world).conditions] == ["SyncFailed"]
    world.put(replica_set(1))
    world.settle()
    assert numbers(world) == (1, 1, 0, 1)


def test_the_replicas_of_a_deployment_count_once_during_a_rollout(world: ControllerWorld) -> None:
    deployment = Deployment()
    deployment.metadata.name, deployment.metadata.namespace = "d", "default"
    deployment.metadata.uid = "d-uid"
    deployment.spec.replicas = 3
    for item in (deployment, replica_set(3, "old", "d"), replica_set(1, "new", "d")):
        world.put(item)
    world.put(budget(max_unavailable="1"))
    for name, of in (("a", "old"), ("b", "old"), ("c", "old"), ("d", "new")):
        world.put(owned(bound_pod(name, "n1", app="web"), name=of))
    world.settle()
    assert numbers(world) == (3, 4, 2, 2)


def test_a_replica_set_whose_deployment_is_gone_counts_itself(world: ControllerWorld) -> None:
    world.put(replica_set(2, deployment="d"))
    world.put(budget(max_unavailable="1"))
    world.put(owned(bound_pod("a", "n1", app="web")))
    world.settle()
    assert numbers(world) == (2, 1, 1, 0)


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        ("ReplicaSet", "apps/v1", 'found no controllers for pod "a"'),
        ("Job", "batch/v1", "jobs.batch does not implement the scale subresource"),
        ("Foo", "example.com/v1", 'no matches for kind "Foo" in version "example.com/v1"'),
    ],
)
def test_the_status_says_why_the_expected_pods_are_unknown(
    world: ControllerWorld, kind: str, version: str, message: str
) -> None:
    world.put(budget(max_unavailable="1"))
    world.put(owned(bound_pod("a", "n1", app="web"), kind=kind, version=version))
    world.settle()
    assert [c.message for c in status(world).conditions] == [message]
    why = f"Failed to calculate the number of expected pods: {message}"
    assert world.events[-1] == (
        f"PodDisruptionBudget web Warning CalculateExpectedPodCountFailed: {why}"
    )


def test_an_event_says_that_a_budget_selects_no_pod(world: ControllerWorld) -> None:
    world.put(budget(min_available="1"))
    world.settle()
    none = "PodDisruptionBudget web Normal NoPods: No matching pods found"
    assert world.events == [none]
    world.put(bound_pod("a", "n1", app="web"))
    world.settle()
    assert world.events == [none]
    world.remove("Pod", "default/a")
    world.settle()
    assert world.events == [none, none]


def test_an_event_says_that_a_share_of_pods_without_a_controller_is_unknown(
    world: ControllerWorld,
) -> None:
    item = budget(max_unavailable="1")
    item.spec.selector.match_expressions.add(key="tier", operator="In", values=["x", "y"])
    world.put(item)
    world.put(bound_pod("a", "n1", app="web", tier="x"))
    world.settle()
    assert world.events == [
        "PodDisruptionBudget web Warning UnmanagedPods: Pods selected by this PodDisruptionBudget "
        "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,},"
        "MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:tier,"
        "Operator:In,Values:[x y],},},}) were found to be unmanaged. As a result, the status of "
        "the PDB cannot be calculated correctly, which may result in undefined behavior. To "
        'account for these pods please set ".spec.minAvailable" field of the PDB to an integer '
        "value."
    ]


def test_terminating_and_evicted_pods_are_not_healthy(world: ControllerWorld) -> None:
    item = budget(min_available="1")
    item.status.disrupted_pods["b"].CopyFrom(timestamp(world.time))
    pod = bound_pod("a", "n1", app="web")
    pod.metadata.deletion_timestamp.CopyFrom(timestamp(world.time))
    for one in (item, pod, bound_pod("b", "n1", app="web"), bound_pod("c", "n1", app="web")):
        world.put(one)
    world.settle()
    assert numbers(world) == (3, 1, 1, 0)


def test_an_eviction_that_never_happened_is_forgotten_after_two_minutes(
    world: ControllerWorld,
) -> None:
    item = budget(min_available="0")
    item.status.disrupted_pods["a"].CopyFrom(timestamp(world.time))
    world.put(item)
    world.put(bound_pod("a", "n1", app="web"))
    due = world.settle()
    assert numbers(world) == (1, 0, 0, 0)
    assert due == pytest.approx(120)
    world.wait(121, step=1)
    assert numbers(world) == (1, 1, 0, 1)
    assert not status(world).disrupted_pods
    assert world.events == [
        "Pod a Warning NotDeleted: Pod was expected by PDB default/default to be deleted but it "
        "wasn't"
    ]


def test_an_evicted_pod_that_goes_is_forgotten(world: ControllerWorld) -> None:
    item = budget(min_available="0")
    item.status.disrupted_pods["a"].CopyFrom(timestamp(world.time))
    world.put(item)
    world.put(bound_pod("a", "n1", app="web"))
    world.settle()
    world.remove("Pod", "default/a")
    world.settle()
    assert not status(world).disrupted_pods


def test_a_new_selector_counts_other_pods(world: ControllerWorld) -> None:
    item = world.put(budget(min_available="0"))
    world.put(bound_pod("a", "n1", app="web"))
    world.put(bound_pod("b", "n1", app="db"))
    world.put(bound_pod("c", "n1", app="db"))
    world.settle()
    assert numbers(world)[0] == 1
    assert isinstance(item, PodDisruptionBudget)
    changed = PodDisruptionBudget()
    changed.CopyFrom(item)
    changed.spec.selector.match_labels["app"] = "db"
    world.put(changed)
    world.settle()
    assert numbers(world)[0] == 2


def test_a_pod_whose_labels_change_is_counted_where_it_belongs(world: ControllerWorld) -> None:
    world.put(budget(min_available="0"))
    world.put(bound_pod("a", "n1", app="web"))
    world.settle()
    world.put(bound_pod("a", "n1", app="db"))
    world.settle()
    assert numbers(world)[:2] == (0, 0)


def test_a_new_leader_counts_what_is_there() -> None:
    world = ControllerWorld()
    world.put(budget(min_available="1"))
    world.put(bound_pod("a", "n1", app="web"))
    world.start(DisruptionController(world, world, world))
    assert numbers(world) == (1, 1, 1, 0)


def test_a_status_that_is_right_is_not_written(world: ControllerWorld) -> None:
    world.put(budget(min_available="1"))
    world.put(bound_pod("a", "n1", app="web"))
    world.settle()
    version = world.objects("PodDisruptionBudget")["default/web"].metadata.resource_version
    pod = bound_pod("a", "n1", app="web")
    pod.metadata.annotations["poke"] = "1"
    world.put(pod)
    world.settle()
    after = world.objects("PodDisruptionBudget")["default/web"].metadata.resource_version
    assert after == version


def test_a_budget_without_a_selector_selects_nothing(world: ControllerWorld) -> None:
    item = budget(min_available="1")
    item.spec.ClearField("selector")
    world.put(item)
    world.put(bound_pod("a", "n1", app="web"))
    world.settle()
    assert numbers(world) == (0, 0, 1, 0)


def test_a_budget_that_cannot_be_understood_does_not_hinder_the_others(
    world: ControllerWorld,
) -> None:
    world.put(budget("broken", max_unavailable="half%"))
    world.put(budget("none", min_available="many"))
    world.put(budget(min_available="1"))
    world.put(owned(bound_pod("a", "n1", app="web")))
    world.put(replica_set(1))
    world.settle()
    assert numbers(world) == (1, 1, 1, 0)
    assert set(world.faults) == {
        "PodDisruptionBudget default/broken: ValueError",
        "PodDisruptionBudget default/none: ValueError",
    }


def test_a_budget_that_was_put_right_is_worked_on_again(world: ControllerWorld) -> None:
    world.put(bound_pod("a", "n1", app="web"))
    world.put(budget(min_available="many"))
    world.settle()
    world.put(budget(min_available="1"))
    world.settle()
    assert numbers(world) == (1, 1, 1, 0)


def test_nothing_is_kept_of_controllers_that_no_budget_asks_for(world: ControllerWorld) -> None:
    world.put(budget(max_unavailable="1"))
    world.put(replica_set(1))
    world.put(owned(bound_pod("a", "n1", app="web")))
    world.settle()
    for kind, key in (("ReplicaSet", "default/rs"), ("Pod", "default/a")):
        world.remove(kind, key)
        world.settle()
    assert isinstance(world.controller, DisruptionController)
    assert not world.controller._asking
