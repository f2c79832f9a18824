"""Jobs in a world of one controller."""

from __future__ import annotations

from typing import Any

from podsched.api.defaulting import default_object
from podsched.api.manifest import from_manifest
from podsched.api.objects import Job, Pod
from podsched.api.priorities import PriorityClasses
from support.controller_world import START, ControllerWorld


def job(name: str = "sum", *, restart: str = "Never", **spec: Any) -> Job:
    """A Job as the API server stores it; fields of its spec as in a manifest."""
    pod = {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}
    item = from_manifest(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"template": {"spec": pod}, **spec},
        }
    ).message
    assert isinstance(item, Job)
    default_object(item, now=START, uid=f"uid-{name}", priority_classes=PriorityClasses([]))
    return item


def put(world: ControllerWorld, item: Job) -> None:
    world.put(item)
    world.wait(2)


def stored(world: ControllerWorld, name: str = "sum") -> Job:
    found = world.get("Job", f"default/{name}")
    assert isinstance(found, Job)
    return found


def change(world: ControllerWorld, **spec: Any) -> None:
    changed = Job()
    changed.CopyFrom(stored(world))
    for field, value in spec.items():
        setattr(changed.spec, field, value)
    put(world, changed)


def pods(world: ControllerWorld) -> list[Pod]:
    return [pod for pod in world.objects("Pod").values() if isinstance(pod, Pod)]
