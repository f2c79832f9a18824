"""The needs of a pod with extended resources by node: devices for resources that the node lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from podsched.api.extended_resources import may_be_devices
from podsched.framework.nodes import NodeColumns
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.extended_claims import IN_MEMORY, Provided, extended_claim
from podsched.plugins.dynamic_resources.node_search import PodNeeds


def needs_by_row(
    needs: PodNeeds, pod: PodInfo, extended: Sequence[Provided], nodes: NodeColumns
) -> PodNeeds:
    """Return the needs with a variant for each set of resources that some node lacks.

    ``needs``: the needs of the pod's claims. ``extended``: the resources that devices can provide.
    """
    if not extended:
        return needs
    lacking = np.zeros(nodes.size, dtype=np.int64)
    for bit, one in enumerate(extended):
        lacking[nodes.allocatable(one.resource) == 0] |= 1 << bit
    variants: list[PodNeeds] = []
    variant = np.zeros(nodes.size, dtype=np.int64)
    for bits in np.unique(lacking[nodes.alive]).tolist():
        if bits:
            of_bits = tuple(one for bit, one in enumerate(extended) if bits >> bit & 1)
            variants.append(_without(needs, pod, of_bits))
            variant[lacking == bits] = len(variants)
    for name in _not_provided(pod, extended):
        variant[nodes.allocatable(name) == 0] = -1
    return replace(needs, variants=tuple(variants), variant=variant)


def lacking_on(extended: Sequence[Provided], nodes: NodeColumns, row: int) -> tuple[Provided, ...]:
    """Return the resources that the node of a row lacks."""
    return tuple(one for one in extended if not nodes.allocatable(one.resource)[row])


def needs_on(
    needs: PodNeeds, pod: PodInfo, extended: Sequence[Provided], nodes: NodeColumns, row: int
) -> PodNeeds:
    """Return the needs on the node of a row."""
    lacking = lacking_on(extended, nodes, row)
    return _without(needs, pod, lacking) if lacking else needs


def _without(needs: PodNeeds, pod: PodInfo, lacking: tuple[Provided, ...]) -> PodNeeds:
    """Return the needs on a node without some of the resources."""
    made = extended_claim(pod.cls, lacking)
    return replace(
        needs,
        names=(*needs.names, IN_MEMORY),
        claims=(*needs.claims, made.for_pod(pod)),
        kind=(*needs.kind, made.kind),
        lacking=lacking,
    )


def _not_provided(pod: PodInfo, extended: Sequence[Provided]) -> Iterator[str]:
    """Yield the extended resources that the pod requests and no DeviceClass provides."""
    known = {one.resource for one in extended}
    for name, amount in pod.cls.requests.items():
        if amount and name not in known and may_be_devices(name):
            yield name
