"""Which changes of pods controllers may leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podsched.api.objects import Pod
from podsched.serve.client.informer import Event, EventType
from podsched.term.controllers.controller import Controller, is_bare, stays_bare
from podsched.term.controllers.device_taint_eviction import DeviceTaintEvictionController
from podsched.term.controllers.disruption import DisruptionController
from podsched.term.controllers.ephemeral_volumes import EphemeralVolumeController
from podsched.term.controllers.garbage_collector import GarbageCollector
from podsched.term.controllers.jobs import JobController
from podsched.term.controllers.namespaces import NamespaceController
from podsched.term.controllers.replica_sets import ReplicaSetController
from podsched.term.controllers.resource_claims import ResourceClaimController
from support.controller_world import ControllerWorld, bound_pod

IGNORING: dict[str, Callable[[ControllerWorld], Controller]] = {
    "device taints": lambda world: DeviceTaintEvictionController(
        world, world, world, world.metrics
    ),
    "disruption budgets": lambda world: DisruptionController(world, world, world),
    "ephemeral volumes": lambda world: EphemeralVolumeController(world, world, world),
    "garbage": lambda world: GarbageCollector(world, world),
    "jobs": lambda world: JobController(world, world, world),
    "namespaces": lambda world: NamespaceController(world, world),
    "replica sets": lambda world: ReplicaSetController(world, world, world),
    "resource claims": lambda world: ResourceClaimController(world, world, world),
}


#: The packages of the objects that controllers hold.
REMEMBERING = ("podsched.term", "podsched.lib")


def remembered(item: Any, world: ControllerWorld) -> Any:
    """All that an object holds in containers, also in objects that it holds."""
    if isinstance(item, dict | list | set | tuple | str | int | None):
        return repr(item)
    if item is world or not type(item).__module__.startswith(REMEMBERING):
        return None
    names = [*getattr(item, "__dict__", ()), *getattr(type(item), "__slots__", ())]
    return {name: remembered(getattr(item, name, None), world) for name in names}


@pytest.mark.parametrize("name", IGNORING)
def test_a_controller_that_ignores_bare_pods_remembers_nothing_of_them(name: str) -> None:
    world = ControllerWorld()
    controller = IGNORING[name](world)
    assert controller.ignores_bare_pods
    pending, bound = bound_pod("p", ""), bound_pod("p", "n1")
    done = bound_pod("p", "n1")
    done.status.phase = "Succeeded"
    for pod in (pending, bound, done):
        pod.spec.scheduling_group.pod_group_name = "g"
    before = remembered(controller, world)
    for old, new in ((None, pending), (pending, bound), (bound, done)):
        kind: EventType = "ADDED" if old is None else "MODIFIED"
        controller.changed(Event(kind, "Pod", "default/p", old, new), world.now)
    assert remembered(controller, world) == before


def test_volumes_and_claims_are_not_read_again_of_a_pod_that_was_bare() -> None:
    pod = bound_pod("p", "n1")
    pod.spec.volumes.add(name="v")
    assert stays_bare(pod) and not is_bare(pod)


def owned(pod: Pod) -> None:
    pod.metadata.owner_references.add(uid="u", name="o", kind="ReplicaSet", controller=True)


NOT_BARE: dict[str, Callable[[Pod], object]] = {
    "an owner": owned,
    "a finalizer": lambda pod: pod.metadata.finalizers.append("example.com/f"),
    "a deletion": lambda pod: pod.metadata.deletion_timestamp.SetInParent(),
    "a volume": lambda pod: pod.spec.volumes.add(name="v"),
    "a claim": lambda pod: pod.spec.resource_claims.add(name="c"),
}


@pytest.mark.parametrize("name", NOT_BARE)
def test_a_pod_is_not_bare_with(name: str) -> None:
    pod = bound_pod("p", "n1")
    assert is_bare(pod)
    NOT_BARE[name](pod)
    assert not is_bare(pod)
