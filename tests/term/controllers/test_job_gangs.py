"""Jobs whose pods start together get a Workload and a PodGroup."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import Job, Pod, PodGroup, Workload
from podsched.api.pod_groups import PROTECTION_FINALIZER
from podsched.term.controllers.garbage_collector import GarbageCollector
from podsched.term.controllers.jobs import JobController
from support.controller_world import ControllerWorld
from support.jobs import change, job, pods, put, stored


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(JobController(world, world, world, gangs=True))
    return world


def gang(**spec: Any) -> Job:
    return job(**{"completionMode": "Indexed", "completions": 3, "parallelism": 3} | spec)


def groups_of(found: list[Pod]) -> set[str]:
    return {pod.spec.scheduling_group.pod_group_name for pod in found}


def test_its_pods_name_the_group_that_is_made_for_it(world: ControllerWorld) -> None:
    put(world, gang())
    (workload,) = world.objects("Workload").values()
    (group,) = world.objects("PodGroup").values()
    assert isinstance(workload, Workload)
    assert isinstance(group, PodGroup)
    assert workload.metadata.name.startswith("sum-")
    reference = workload.spec.controller_ref
    assert (reference.api_group, reference.kind, reference.name) == ("batch", "Job", "sum")
    (template,) = workload.spec.pod_group_templates
    assert template.name == "sum-pgt-0"
    assert template.scheduling_policy.gang.min_count == 3
    assert group.spec.scheduling_policy.gang.min_count == 3
    named = group.spec.pod_group_template_ref.workload
    assert (named.workload_name, named.pod_group_template_name) == (
        workload.metadata.name,
        "sum-pgt-0",
    )
    owners = [(of.kind, of.controller) for of in group.metadata.owner_references]
    assert owners == [("Job", True), ("Workload", False)]
    assert len(pods(world)) == 3
    assert groups_of(pods(world)) == {group.metadata.name}
    for pod in pods(world):
        assert [of.kind for of in pod.metadata.owner_references] == ["Job"]
    message = f"Created Workload {workload.metadata.name} for Job sum"
    assert f"Job sum Normal WorkloadCreated: {message}" in world.events


@pytest.mark.parametrize(
    "item",
    [
        gang(completions=4),
        gang(completions=1, parallelism=1),
        job(completions=3, parallelism=3),
    ],
    ids=["fewer at a time", "one", "without indexes"],
)
def test_other_jobs_have_no_group(world: ControllerWorld, item: Job) -> None:
    put(world, item)
    assert pods(world)
    assert not world.objects("Workload")
    assert groups_of(pods(world)) == {""}


def test_a_template_that_names_a_group_keeps_it(world: ControllerWorld) -> None:
    item = gang()
    item.spec.template.spec.scheduling_group.pod_group_name = "mine"
    put(world, item)
    assert groups_of(pods(world)) == {"mine"}
    assert not world.objects("Workload")


def test_a_job_that_has_begun_gets_no_group(world: ControllerWorld) -> None:
    world.start(JobController(world, world, world))
    put(world, gang())
    world.start(JobController(world, world, world, gangs=True))
    world.remove("Pod", f"default/{pods(world)[0].metadata.name}")
    world.wait(15)
    assert len(pods(world)) == 3
    assert groups_of(pods(world)) == {""}


def test_a_workload_of_a_user_is_left_alone(world: ControllerWorld) -> None:
    own = Workload()
    own.metadata.name, own.metadata.namespace = "own", "default"
    own.spec.controller_ref.api_group = "batch"
    own.spec.controller_ref.kind, own.spec.controller_ref.name = "Job", "sum"
    world.put(own)
    put(world, gang())
    assert len(pods(world)) == 3
    assert groups_of(pods(world)) == {""}
    assert list(world.objects("Workload")) == ["default/own"]


def test_a_new_leader_makes_the_group_once(world: ControllerWorld) -> None:
    world.put(gang())
    for _ in range(10):
        world.start_anew(JobController(world, world, world, gangs=True))
        world.step()
        world.time += 1
    assert len(world.objects("Workload")) == len(world.objects("PodGroup")) == 1
    assert len(pods(world)) == 3
    assert len(groups_of(pods(world))) == 1


def test_a_job_that_is_suspended_and_resumed_keeps_its_group(world: ControllerWorld) -> None:
    put(world, gang())
    before = groups_of(pods(world))
    change(world, suspend=True)
    assert not pods(world)
    change(world, suspend=False)
    assert stored(world).status.active == 3
    assert groups_of(pods(world)) == before


def test_a_job_made_again_before_its_workload_is_collected_has_its_own_group(
    world: ControllerWorld,
) -> None:
    put(world, gang())
    former = {pod.metadata.uid for pod in pods(world)}
    world.remove("Job", "default/sum")
    item = gang()
    item.metadata.uid = "again"
    put(world, item)
    found = [pod for pod in pods(world) if pod.metadata.uid not in former]
    assert len(found) == 3
    (name,) = groups_of(found)
    group = world.get("PodGroup", f"default/{name}")
    assert group is not None
    assert [of.uid for of in group.metadata.owner_references if of.controller] == ["again"]


def test_its_pods_are_deleted_with_it(world: ControllerWorld) -> None:
    """Its PodGroup has a finalizer as long as they are there, so it must not own them as well."""
    put(world, gang())
    (group,) = world.objects("PodGroup").values()
    group.metadata.finalizers.append(PROTECTION_FINALIZER)
    world.start(GarbageCollector(world, world))
    world.remove("Job", "default/sum")
    world.settle()
    assert all(pod.metadata.HasField("deletion_timestamp") for pod in pods(world))
