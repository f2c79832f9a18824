"""ReplicaSets: their pods made, adopted, released and deleted; their status."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from podsched.api.objects import AnyObject, Pod, ReplicaSet, copy_of, timestamp
from podsched.serve.client.errors import Forbidden
from podsched.term.controllers.replica_sets import ReplicaSetController
from support.controller_world import START, ControllerWorld, bound_pod


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(ReplicaSetController(world, world, world))
    return world


def replica_set(name: str = "web", replicas: int = 3, **spec: int) -> ReplicaSet:
    item = ReplicaSet()
    item.metadata.name, item.metadata.namespace, item.metadata.generation = name, "default", 1
    item.spec.replicas = replicas
    item.spec.selector.match_labels["app"] = name
    item.spec.template.metadata.labels["app"] = name
    item.spec.template.spec.containers.add(name="c", image="i")
    for field, value in spec.items():
        setattr(item.spec, field, value)
    return item


def stored(world: ControllerWorld, name: str = "web") -> ReplicaSet:
    found = world.get("ReplicaSet", f"default/{name}")
    assert isinstance(found, ReplicaSet)
    return found


def pods(world: ControllerWorld) -> list[Pod]:
    return [pod for pod in world.objects("Pod").values() if isinstance(pod, Pod)]


def scale(world: ControllerWorld, replicas: int, name: str = "web") -> None:
    item = stored(world, name)
    changed = ReplicaSet()
    changed.CopyFrom(item)
    changed.spec.replicas = replicas
    changed.metadata.generation += 1
    world.put(changed)
    world.wait(2)


def runs(world: ControllerWorld, pod: Pod, node: str = "n1", *, ready: bool = True) -> None:
    """The pod runs now."""
    changed = Pod()
    changed.CopyFrom(pod)
    changed.spec.node_name, changed.status.phase = node, "Running"
    del changed.status.conditions[:]
    changed.status.conditions.add(
        type="Ready", status=str(ready), last_transition_time=timestamp(world.time)
    )
    world.put(changed)


def controlled(pod: Pod) -> list[str]:
    return [owner.name for owner in pod.metadata.owner_references if owner.controller]


def test_its_pods_are_made_from_the_template(world: ControllerWorld) -> None:
    world.put(replica_set())
    world.wait(2)
    assert len(pods(world)) == 3
    for pod in pods(world):
        assert pod.metadata.name.startswith("web-")
        assert pod.metadata.generate_name == "web-"
        assert dict(pod.metadata.labels) == {"app": "web"}
        assert pod.spec.containers[0].image == "i"
        owner = pod.metadata.owner_references[0]
        assert (owner.api_version, owner.kind, owner.name) == ("apps/v1", "ReplicaSet", "web")
        assert owner.controller
        assert owner.block_owner_deletion
        assert f"ReplicaSet web Normal SuccessfulCreate: Created pod: {pod.metadata.name}" in (
            world.events
        )


def test_the_status_says_how_many_there_are(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=2))
    world.wait(2)
    runs(world, pods(world)[0])
    world.wait(1)
    status = stored(world).status
    assert (status.replicas, status.fully_labeled_replicas) == (2, 2)
    assert (status.ready_replicas, status.available_replicas) == (1, 1)
    assert status.observed_generation == 1


def test_a_ready_pod_is_available_after_the_seconds_it_must_be_ready(
    world: ControllerWorld,
) -> None:
    world.put(replica_set(replicas=1, min_ready_seconds=10))
    world.wait(2)
    runs(world, pods(world)[0])
    world.wait(5)
    assert stored(world).status.available_replicas == 0
    world.wait(6)
    assert stored(world).status.available_replicas == 1


def test_a_pod_that_goes_is_replaced(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=2))
    world.wait(2)
    gone = pods(world)[0].metadata.name
    world.remove("Pod", f"default/{gone}")
    world.wait(2)
    names = [pod.metadata.name for pod in pods(world)]
    assert len(names) == 2
    assert gone not in names


def test_pods_that_have_ended_are_replaced_and_stay(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=1))
    world.wait(2)
    ended = Pod()
    ended.CopyFrom(pods(world)[0])
    ended.status.phase = "Failed"
    world.put(ended)
    world.wait(2)
    assert len(pods(world)) == 2
    assert stored(world).status.replicas == 1


def of_deployment(item: ReplicaSet) -> ReplicaSet:
    item.metadata.owner_references.add(
        api_version="apps/v1", kind="Deployment", name="web", uid="d", controller=True
    )
    return item


def test_the_least_useful_pods_are_deleted_first(world: ControllerWorld) -> None:
    world.put(of_deployment(replica_set(replicas=4)))
    world.wait(2)
    pending, doubled, other, kept = pods(world)
    for pod, node in ((doubled, "n1"), (other, "n1"), (kept, "n2")):
        runs(world, pod, node)
    left = {pod.metadata.name for pod in pods(world)}
    for replicas, gone in ((3, [pending]), (2, [doubled, other])):
        scale(world, replicas)
        now = {pod.metadata.name for pod in pods(world)}
        assert (left - now) <= {pod.metadata.name for pod in gone}
        assert len(now) == replicas
        left = now


def test_without_a_deployment_pods_that_share_a_node_are_not_deleted_first(
    world: ControllerWorld,
) -> None:
    world.put(replica_set(replicas=3))
    world.wait(2)
    doubled, other, last = pods(world)
    for pod in (doubled, other):
        runs(world, pod, "n1")
    world.wait(100)
    runs(world, last, "n2")
    world.wait(1)
    scale(world, 2)
    assert {pod.spec.node_name for pod in pods(world)} == {"n1"}


def test_pods_of_the_whole_deployment_count_when_a_node_is_chosen(world: ControllerWorld) -> None:
    for name in ("old", "new"):
        world.put(of_deployment(replica_set(name, 2)))
    world.wait(2)
    of_old = [pod for pod in pods(world) if controlled(pod) == ["old"]]
    of_old.sort(key=lambda pod: pod.metadata.uid)  # Of equal pods, the first one would go.
    of_new = [pod for pod in pods(world) if controlled(pod) == ["new"]]
    runs(world, of_old[0], "n1")
    runs(world, of_old[1], "n2")
    for pod in of_new:
        runs(world, pod, "n2", ready=False)
    world.wait(1)
    scale(world, 1, "old")
    left = [pod.spec.node_name for pod in pods(world) if controlled(pod) == ["old"]]
    assert left == ["n1"]


class Unlisted(dict[str, AnyObject]):
    """Objects that can only be read one by one."""

    def values(self) -> Any:
        raise AssertionError


def test_scaling_down_does_not_read_all_replica_sets(
    world: ControllerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may have tens of thousands, most of them old ones of Deployments."""
    world.put(of_deployment(replica_set()))
    world.wait(2)
    objects = world.objects

    def unlisted(kind: str) -> Mapping[str, AnyObject]:
        return Unlisted(objects(kind)) if kind == "ReplicaSet" else objects(kind)

    monkeypatch.setattr(world, "objects", unlisted)
    scale(world, 2)
    assert len(pods(world)) == 2


def test_hundreds_of_pods_are_deleted_without_a_pause(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=1000))
    world.wait(5)
    assert len(pods(world)) == 1000
    scale(world, 10)
    assert len(pods(world)) == 10


def test_the_status_counts_pods_that_leave_and_those_with_all_labels(
    world: ControllerWorld,
) -> None:
    item = replica_set(replicas=2)
    item.spec.template.metadata.labels["tier"] = "front"
    world.put(item)
    world.wait(2)
    first, second = pods(world)
    changed = Pod()
    changed.CopyFrom(first)
    changed.metadata.labels["tier"] = "back"
    world.put(changed)
    leaving = Pod()
    leaving.CopyFrom(second)
    leaving.metadata.finalizers.append("example.com/wait")
    world.mark(world.put(leaving))
    world.wait(2)
    status = stored(world).status
    assert (status.replicas, status.fully_labeled_replicas) == (2, 1)
    assert status.terminating_replicas == 1


def test_a_pod_that_is_never_seen_is_replaced_after_five_minutes(world: ControllerWorld) -> None:
    world.lost = True
    world.put(replica_set(replicas=1))
    world.wait(2)
    world.lost = False
    world.wait(290)
    assert not pods(world)
    world.wait(15)
    assert len(pods(world)) == 1


def test_events_about_an_owner_are_limited(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=200))
    world.wait(3)
    assert len(world.events) == 25


def test_an_orphan_that_matches_is_adopted(world: ControllerWorld) -> None:
    world.put(bound_pod("mine", "n1", app="web"))
    world.put(bound_pod("other", "n1", app="db"))
    world.put(replica_set(replicas=1))
    world.wait(2)
    assert controlled(world.pod("default/mine")) == ["web"]
    assert not controlled(world.pod("default/other"))
    assert len(pods(world)) == 2
    assert not world.events  # None was made meanwhile.
    world.put(bound_pod("late", "n1", app="web"))
    world.wait(2)
    assert len(pods(world)) == 2  # adopted, and one deleted as too many


def test_an_orphan_that_two_owners_select_counts_for_one(world: ControllerWorld) -> None:
    world.put(bound_pod("orphan", "n1", app="web"))
    for name in ("a", "b"):
        item = replica_set(name, replicas=1)
        item.spec.selector.match_labels["app"] = item.spec.template.metadata.labels["app"] = "web"
        world.put(item)
    world.wait(5)
    assert sorted(map(controlled, pods(world))) == [["a"], ["b"]]


def test_an_owner_replaced_during_its_search_adopts_the_pods_that_had_been_searched() -> None:
    world = ControllerWorld()
    controller = ReplicaSetController(world, world, world)
    world.start(controller)
    for number in range(3000):
        world.put(bound_pod(f"orphan-{number}", app="web" if number == 0 else "other"))
    world.put(replica_set(replicas=1))
    controller.work(world.now)
    world.remove("ReplicaSet", "default/web")
    item = replica_set(replicas=1)
    item.metadata.uid = "second"
    world.put(item)
    world.wait(5)
    assert controlled(world.pod("default/orphan-0")) == ["web"]
    assert len(pods(world)) == 3000


def test_an_owner_that_cannot_be_handled_keeps_no_controller_from_its_start() -> None:
    world = ControllerWorld()
    bad = replica_set("bad")
    bad.spec.selector.match_expressions.add(key="app", operator="Bad")
    world.put(bad)
    world.put(replica_set("good", replicas=1))
    world.start(ReplicaSetController(world, world, world))
    world.wait(2)
    assert [controlled(pod) for pod in pods(world)] == [["good"]]
    assert world.faults[0] == "ReplicaSet default/bad: SelectorError"


def test_hundreds_of_orphans_are_adopted_before_any_pod_is_made(world: ControllerWorld) -> None:
    for number in range(1500):
        world.put(bound_pod(f"p{number}", "n1", app="web"))
    world.put(replica_set(replicas=1501))
    world.wait(3)
    assert len(pods(world)) == 1501
    assert len(world.events) == 1


@pytest.mark.parametrize(("phase", "owners"), [("Running", [0, 1]), ("Failed", [1, 1])])
def test_a_pod_whose_labels_change_is_replaced_and_released_unless_it_has_ended(
    world: ControllerWorld, phase: str, owners: list[int]
) -> None:
    world.put(replica_set(replicas=1))
    world.wait(2)
    changed = Pod()
    changed.CopyFrom(pods(world)[0])
    changed.metadata.labels["app"] = "debug"
    changed.status.phase = phase
    world.put(changed)
    world.wait(2)
    assert sorted(map(len, map(controlled, pods(world)))) == owners


def test_one_that_is_being_deleted_makes_no_pods(world: ControllerWorld) -> None:
    item = replica_set()
    item.metadata.finalizers.append("foregroundDeletion")
    item.metadata.deletion_timestamp.CopyFrom(timestamp(START))
    world.put(item)
    world.wait(2)
    assert not pods(world)


def test_refused_pods_are_said_in_the_status_and_tried_again_ever_later(
    world: ControllerWorld,
) -> None:
    asked: list[float] = []

    def refuse(_: object) -> Forbidden:
        asked.append(world.time - START)
        return Forbidden("exceeded quota")

    world.refuse = refuse
    world.put(replica_set(replicas=100))
    world.wait(20)
    assert len(asked) == 5  # after 0, 1, 3, 7 and 15 seconds
    condition = stored(world).status.conditions[0]
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "ReplicaFailure",
        "True",
        "FailedCreate",
        "exceeded quota",
    )
    assert "ReplicaSet web Warning FailedCreate: Error creating: exceeded quota" in world.events
    world.refuse = lambda _: None
    world.wait(60)
    assert len(pods(world)) == 100
    assert not stored(world).status.conditions


def test_a_failure_is_forgotten_once_no_pod_is_missing(world: ControllerWorld) -> None:
    world.refuse = lambda _: Forbidden("exceeded quota")
    world.put(replica_set())
    world.wait(2)
    assert stored(world).status.conditions
    scale(world, 0)
    assert not stored(world).status.conditions


def test_no_two_pods_are_given_the_same_name(
    world: ControllerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = (UUID(int=number // 2) for number in count())
    monkeypatch.setattr("uuid.uuid4", lambda: next(numbers))
    world.put(replica_set(replicas=20))
    world.wait(3)
    assert len(pods(world)) == 20


def test_batches_double_so_that_few_pods_are_refused(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=20))
    made = []
    assert world.controller is not None
    for _ in range(6):
        world.time += 0.1
        world.controller.work(world.now)
        world.apply()
        made.append(len(pods(world)))
    assert made == [1, 3, 7, 15, 20, 20]


def test_a_new_leader_makes_no_pod_that_is_there(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=4))
    for _ in range(2):  # a leader that is gone after one pod or two
        assert world.controller is not None
        world.controller.work(world.now)
        world.apply()
    there = {pod.metadata.name for pod in pods(world)}
    assert 0 < len(there) < 4
    world.start(ReplicaSetController(world, world, world))
    world.wait(2)
    assert len(pods(world)) == 4
    assert there <= {pod.metadata.name for pod in pods(world)}


def test_pods_that_are_not_seen_yet_are_deleted_before_those_that_run(
    world: ControllerWorld,
) -> None:
    world.put(replica_set())
    world.wait(2)
    for pod in pods(world):
        runs(world, pod)
    assert world.controller is not None
    for replicas in (4, 3):
        changed = ReplicaSet()
        changed.CopyFrom(stored(world))
        changed.spec.replicas = replicas
        world.put(changed)
        world.controller.work(world.now)  # what it writes comes later
    world.wait(2)
    assert [pod.spec.node_name for pod in pods(world)] == ["n1"] * 3


def test_pods_that_are_not_adopted_cost_no_pod_that_runs(world: ControllerWorld) -> None:
    """There are more of them than are looked at at a time."""
    world.put(replica_set())
    world.wait(2)
    for pod in pods(world):
        runs(world, pod)
    running = {pod.metadata.name for pod in pods(world)}
    ended = [bound_pod(f"old-{number}", "n1", app="web") for number in range(150)]
    for pod in ended:
        pod.status.phase = "Succeeded"
    world.put_in_one_batch(*ended)
    world.wait(2)
    assert running <= {pod.metadata.name for pod in pods(world)}


def test_a_pod_of_another_namespace_that_names_it_as_its_owner_is_none_of_its_pods(
    world: ControllerWorld,
) -> None:
    world.put(replica_set(replicas=2))
    world.wait(2)
    stranger = copy_of(pods(world)[0])
    stranger.metadata.namespace, stranger.metadata.uid = "other", "stranger"
    world.put(stranger)
    world.wait(2)
    assert stored(world).status.replicas == 2 and not world.deleted
    scale(world, 3)
    assert len(pods(world)) == 4


def test_nothing_is_kept_of_a_replica_set_that_is_gone(world: ControllerWorld) -> None:
    world.put(replica_set(replicas=1, min_ready_seconds=1000))
    world.wait(2)
    runs(world, pods(world)[0])
    world.wait(1)
    world.remove("ReplicaSet", "default/web")
    assert world.settle() is None
    assert isinstance(world.controller, ReplicaSetController)
    assert not world.controller._pods._selectors
