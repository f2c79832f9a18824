"""What controllers read when they start, and of what changes they are told."""

from __future__ import annotations

from podsched.api.objects import ConfigMap, Lease, ReplicaSet
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Controller, Instant
from podsched.term.controllers.dispatch import Dispatch
from support.controller_world import ControllerWorld, bound_pod, ready_node


class Reader(Controller):
    """Remembers what it reads; cannot handle objects named bad."""

    name = "reader"
    kinds = ("Pod", "Node", "Lease", "ConfigMap", "ReplicaSet")
    ignores_bare_pods = False

    def __init__(self, world: ControllerWorld) -> None:
        super().__init__(world, world)  # type: ignore[arg-type]
        self.seen: list[str] = []

    def pods_follow(self) -> None:
        self.seen.append("pods follow")

    def changed(self, event: Event, now: Instant) -> None:
        if event.key.endswith("bad"):
            raise ValueError
        self.seen.append(f"{event.kind} {event.key}")

    def work(self, now: Instant) -> float | None:
        return None


class ReaderOfOthers(Reader):
    """Reads no bare pods."""

    ignores_bare_pods = True


def populated() -> ControllerWorld:
    world = ControllerWorld()
    world.put(bound_pod("bare", "n1"))
    owned = bound_pod("owned", "n1")
    owned.metadata.owner_references.add(uid="u", name="o", kind="Job", controller=True)
    world.put(owned)
    world.put(ready_node("n1"))
    lease = Lease()
    lease.metadata.name, lease.metadata.namespace = "n1", "kube-node-lease"
    world.put(lease)
    for item in (ConfigMap(), ReplicaSet()):
        item.metadata.name, item.metadata.namespace = "a", "default"
        world.put(item)
    return world


def test_leases_are_read_before_nodes_and_pods_last() -> None:
    world = populated()
    reader = Reader(world)
    steps = sum(1 for _ in world.starting(reader))
    assert reader.seen == [
        "Lease kube-node-lease/n1",
        "ConfigMap default/a",
        "Node n1",
        "ReplicaSet default/a",
        "pods follow",
        "Pod default/bare",
        "Pod default/owned",
    ]
    assert steps == 6, "other tasks run between two objects"


def test_bare_pods_are_read_by_those_who_need_them() -> None:
    world = populated()
    every, others = Reader(world), ReaderOfOthers(world)
    dispatch = Dispatch([every, others], lambda *_: None)
    assert len(list(dispatch.start([every, others], world, world.now))) == 6
    assert [key for key in every.seen if key not in others.seen] == ["Pod default/bare"]


def test_what_a_controller_cannot_read_is_skipped() -> None:
    world = populated()
    world.put(bound_pod("bad", "n1"))
    reader = Reader(world)
    world.start(reader)
    assert world.faults == ["Pod default/bad: ValueError"]
    assert [seen.partition(" ")[2] for seen in reader.seen if seen.startswith("Pod ")] == [
        "default/bare",
        "default/owned",
    ]


def test_what_is_gone_before_its_turn_is_not_read() -> None:
    world = populated()
    reader = Reader(world)
    steps = world.starting(reader)
    next(steps)
    del world._stores["Lease"]["kube-node-lease/n1"]
    assert len(list(steps)) == 5
    assert "Lease kube-node-lease/n1" not in reader.seen
