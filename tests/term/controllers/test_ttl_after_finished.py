"""Jobs that have finished are deleted after their time."""

from __future__ import annotations

import pytest

from podsched.api.objects import Job, timestamp
from podsched.term.controllers.ttl_after_finished import TtlAfterFinishedController
from support.controller_world import START, ControllerWorld


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(TtlAfterFinishedController(world, world))
    return world


def job(ttl: int | None, *, finished: str = "Complete") -> Job:
    item = Job()
    item.metadata.name, item.metadata.namespace = "sum", "default"
    if ttl is not None:
        item.spec.ttl_seconds_after_finished = ttl
    if finished:
        item.status.conditions.add(
            type=finished, status="True", last_transition_time=timestamp(START)
        )
    return item


@pytest.mark.parametrize("finished", ["Complete", "Failed"])
def test_a_finished_job_goes_after_its_time_and_its_pods_before_it(
    world: ControllerWorld, finished: str
) -> None:
    world.put(job(10, finished=finished))
    world.wait(9)
    assert not world.deleted
    world.wait(2)
    assert world.deleted == ["Job default/sum Foreground"]


@pytest.mark.parametrize("item", [job(None), job(5, finished=""), job(5, finished="Suspended")])
def test_other_jobs_stay(world: ControllerWorld, item: Job) -> None:
    world.put(item)
    world.wait(30)
    assert not world.deleted


def test_a_time_that_is_changed_counts(world: ControllerWorld) -> None:
    world.put(job(10))
    world.put(job(100))
    world.wait(50)
    assert not world.deleted
    world.put(job(0))
    world.wait(1)
    assert world.deleted == ["Job default/sum Foreground"]


def test_a_new_leader_deletes_what_is_overdue(world: ControllerWorld) -> None:
    world.controller = None
    world.put(job(10))
    world.time += 20
    world.start(TtlAfterFinishedController(world, world))
    assert world.deleted == ["Job default/sum Foreground"]


def test_nothing_is_due_for_a_job_that_is_gone(world: ControllerWorld) -> None:
    world.put(job(1000))
    world.remove("Job", "default/sum")
    assert world.settle() is None
