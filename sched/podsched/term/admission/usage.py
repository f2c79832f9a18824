"""The quota that a pod uses: the flavor of each of its resources, and the amounts.

The flavors of a pod are written to an annotation together with its binding, so that the next leader
knows them. A pod that got its node in another way uses the first flavor whose labels the node has.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from podsched.api.queue_labels import FLAVORS_ANNOTATION
from podsched.framework.pods import PodInfo
from podsched.lib.bounded_text import parse_json
from podsched.queues.objects import PODS, ClusterQueue
from podsched.queues.quota import FlavorResource
from podsched.term.admission.books import Books

#: The flavor of each resource.
Flavors = Mapping[str, str]


def flavors_annotation(flavors: Flavors) -> dict[str, str]:
    """Return the annotation that a binding adds to the pod."""
    return {FLAVORS_ANNOTATION: json.dumps(dict(sorted(flavors.items())), separators=(",", ":"))}


def read_flavors(pod: PodInfo) -> Flavors:
    """Return the flavors from a pod's annotation; empty if it has none that can be read."""
    text = pod.pod.metadata.annotations.get(FLAVORS_ANNOTATION, "")
    try:
        found = parse_json(text.encode()) if text else {}
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: flavor for name, flavor in found.items() if isinstance(flavor, str)}


def usage_of(
    pod: PodInfo, queue: ClusterQueue, flavors: Flavors, devices: Mapping[str, int], books: Books
) -> dict[FlavorResource, int]:
    """Return the quota that a pod with a node uses, without resources that the queue lacks.

    ``flavors``: as the pod was admitted. ``devices``: the amounts of its claims, by resource.
    """
    amounts = Counter[FlavorResource]()
    for resource, number in (*pod.cls.requests.items(), *devices.items(), (PODS, 1)):
        group = queue.group(resource)
        if group is None or not number:
            continue
        flavor = flavors.get(resource, "")
        if flavor not in group.flavors:
            flavor = _flavor_of_node(pod, group.flavors, books)
        amounts[FlavorResource(flavor, resource)] += number
    return amounts


def _flavor_of_node(pod: PodInfo, names: tuple[str, ...], books: Books) -> str:
    """Return the first flavor whose labels the pod's node has; the first of all if none."""
    node = books.cluster.get("Node", "", pod.node_name)
    labels: Mapping[str, str] = {} if node is None else node.metadata.labels
    for name in names:
        flavor = books.snapshot.flavors.get(name)
        if flavor is not None and flavor.labels.items() <= dict(labels).items():
            return name
    return names[0]
