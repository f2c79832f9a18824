"""The places of jobs without a PodGroup, as their pods tell them."""

from __future__ import annotations

from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.lib.taking import take_all
from podsched.queues.objects import Workload
from podsched.term.admission.places import PLACE, Places
from podsched.term.admission.units import Unit
from support.engine_world import pod

UID = "uid-of-job"


class World:
    def __init__(self) -> None:
        self.cache = Cache()
        self.places = Places(self.cache.cluster)

    def lone(self, name: str, created: int, *, namespace: str = "a", said: str = "") -> Unit:
        """A waiting pod of the Job; ``said``: what the last leader has written."""
        made = pod(name, namespace=namespace)
        made.metadata.creation_timestamp.seconds = created
        made.metadata.owner_references.add(kind="Job", name="j", uid=UID, controller=True)
        if said:
            made.status.conditions.add(type=PLACE, status="True", message=said)
        info = make_pod_info(made, self.cache.classes)
        unit = Unit(f"{namespace}/pod:{name}", "queue")
        unit.waiting[info.uid] = info
        self.places.update(unit)
        return unit

    def gone(self, unit: Unit) -> None:
        unit.waiting.clear()
        self.places.update(unit)

    def queued_at(self, unit: Unit) -> float:
        [info] = unit.waiting.values()
        workload = Workload(unit.key, job_uid=UID, queued_at=info.creation_time)
        return self.places.put(workload).queued_at

    def written(self) -> list[str]:
        return [text for _, text in take_all(self.places.unwritten).values()]


def test_one_pod_of_a_job_tells_the_next_leader_what_the_others_do_not_show() -> None:
    world = World()
    first = world.lone("first", 10)
    world.lone("second", 12)
    world.gone(first)
    third = world.lone("third", 14)
    [text] = world.written()
    assert world.queued_at(third) == 10
    after = World()
    third = after.lone("third", 14)
    assert after.queued_at(third) == 14
    second = after.lone("second", 12, said=text)
    assert list(after.places.moved) == [third.key]
    assert after.queued_at(second) == after.queued_at(third) == 10


def test_another_pod_tells_it_once_the_one_that_does_is_gone() -> None:
    world = World()
    world.gone(world.lone("first", 10))
    second = world.lone("second", 12)
    [text] = world.written()
    world.lone("third", 14)
    assert world.written() == []
    world.gone(second)
    world.lone("fourth", 16)
    assert world.written() == [text]


def test_a_pod_that_waits_already_tells_it_once_the_one_that_does_is_gone() -> None:
    world = World()
    world.gone(world.lone("first", 10))
    second, third = world.lone("second", 12), world.lone("third", 14)
    [text] = world.written()
    world.gone(second)
    assert list(world.places.moved) == [third.key]
    world.places.update(third)
    assert world.written() == [text]


def test_the_place_of_pods_does_not_depend_on_which_of_them_is_read_first() -> None:
    world = World()
    later, first = world.lone("later", 12), world.lone("first", 10)
    assert list(world.places.moved) == [later.key]
    assert world.queued_at(later) == world.queued_at(first) == 10


def test_of_two_pods_the_one_that_knows_of_a_later_eviction_is_believed() -> None:
    world = World()
    first = world.lone("first", 10)
    world.places.note_late(first.key, 1, 20.0)
    [late] = (world.places.update(first), world.written())[1]
    world.places.note_eviction(first.key)
    world.places.update(first)
    [evicted] = world.written()
    after = World()
    again = after.lone("again", 30, said=late)
    after.lone("other", 30, said=evicted)
    assert late != evicted and after.queued_at(again) == 10


def test_a_pod_that_names_a_job_of_another_namespace_does_not_take_its_place() -> None:
    world = World()
    world.lone("first", 10)
    other = world.lone("other", 20, namespace="b")
    assert world.queued_at(other) == 20
    world.places.note_late(other.key, 3, 30.0)
    assert world.places.count(world.lone("again", 40).key) == 0


def test_what_cannot_be_read_tells_nothing() -> None:
    for said in ("x", "[]", "{}", '{"owner":1}', "[" * 100_000):
        assert World().queued_at(World().lone("p", 10, said=said)) == 10
