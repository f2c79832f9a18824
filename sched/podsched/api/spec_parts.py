"""A pod's spec in two parts: the resources of its containers, and the rest.

Pods with requests of their own (from a recommender, say) mostly differ in these alone. What is
computed from the rest is remembered for all of them.
"""

from __future__ import annotations

from podsched.api import objects as o


def take_resources(spec: o.PodSpec) -> list[o.ResourceRequirements | None]:
    """Take the resources out of a spec's containers and return them; None where there are none."""
    taken: list[o.ResourceRequirements | None] = []
    for container in (*spec.containers, *spec.init_containers):
        found = None
        if container.HasField("resources"):
            found = o.ResourceRequirements()
            found.CopyFrom(container.resources)
            container.ClearField("resources")
        taken.append(found)
    return taken


def give_resources(spec: o.PodSpec, taken: list[o.ResourceRequirements | None]) -> None:
    """Put back what was taken out of the same containers."""
    for container, resources in zip((*spec.containers, *spec.init_containers), taken, strict=True):
        if resources is not None:
            container.resources.CopyFrom(resources)
