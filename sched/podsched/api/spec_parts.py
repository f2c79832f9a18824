"""Parts of a pod's spec: the resources of its containers, the terms of its affinity.

Pods with requests of their own (from a recommender, say) mostly differ in their resources alone.
What is computed from the rest is remembered for all of them.
"""

from __future__ import annotations

from podsched.api import objects as o


def take_resources(spec: o.PodSpec) -> list[o.ResourceRequirements | None]:
    """Take the resources out of a spec's containers and return them; None where there are none."""
    taken: list[o.ResourceRequirements | None] = []
    for container in (*spec.containers, *spec.init_containers):
        found = None
        if container.HasField("resources"):
            # A message that is cleared in its parent keeps its contents for who refers to it.
            found = container.resources
            container.ClearField("resources")
        taken.append(found)
    return taken


def give_resources(spec: o.PodSpec, taken: list[o.ResourceRequirements | None]) -> None:
    """Put back what was taken out of the same containers."""
    for container, resources in zip((*spec.containers, *spec.init_containers), taken, strict=True):
        if resources is not None:
            container.resources.CopyFrom(resources)


def affinity_terms(spec: o.PodSpec) -> list[o.PodAffinityTerm]:
    """Return all terms of pod affinity and anti-affinity, required and preferred."""
    if not spec.HasField("affinity"):
        return []
    terms: list[o.PodAffinityTerm] = []
    for half in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        terms += half.required_during_scheduling_ignored_during_execution
        preferred = half.preferred_during_scheduling_ignored_during_execution
        terms += [weighted.pod_affinity_term for weighted in preferred]
    return terms
