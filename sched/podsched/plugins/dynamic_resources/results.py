"""Turns the devices that a search has found into the allocations of the claims.

Source: Allocate and createNodeSelector of Kubernetes v1.36 (allocator_incubating.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from podsched.api.objects import NodeSelector, NodeSelectorRequirement
from podsched.plugins.dynamic_resources.choices import Alternative
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.model import (
    AllocatedConfiguration,
    AllocationResult,
    DeviceRequestAllocationResult,
    Features,
    Node,
    ResourceClaim,
)
from podsched.plugins.dynamic_resources.taken import Taken

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def make_allocation(
    claim: ResourceClaim,
    taken: Sequence[Taken],
    chosen: Sequence[Alternative],
    node: Node,
    features: Features,
) -> AllocationResult:
    """Return the allocation of a claim; ``chosen``: the chosen alternative of each request.

    Raises AllocationError if a slice has a node selector that validation would refuse.
    """
    return AllocationResult(
        tuple(_result(one, features) for one in taken),
        tuple(_configurations(claim, chosen)),
        _node_selector(claim, taken, node),
    )


def _result(taken: Taken, features: Features) -> DeviceRequestAllocationResult:
    request, device = taken.alternative.request, taken.candidate.device
    with_conditions = features.binding_conditions
    return DeviceRequestAllocationResult(
        request=taken.alternative.full_name,
        id=taken.candidate.id,
        admin_access=bool(request.admin_access),
        tolerations=request.tolerations,
        binding_conditions=device.binding_conditions if with_conditions else (),
        binding_failure_conditions=device.binding_failure_conditions if with_conditions else (),
        consumed_capacity=taken.consumed,
    )


def _configurations(
    claim: ResourceClaim, chosen: Sequence[Alternative]
) -> Iterable[AllocatedConfiguration]:
    """Yield the configurations of each used class once, then those of the claim."""
    by_class: dict[str, list[Alternative]] = {}
    for alternative in chosen:
        by_class.setdefault(alternative.device_class.name, []).append(alternative)
    for alternatives in by_class.values():
        names = tuple(alternative.full_name for alternative in alternatives)
        for opaque in alternatives[0].device_class.config:
            yield AllocatedConfiguration(FROM_CLASS, names, opaque)
    for config in claim.config:
        users = [
            alternative
            for alternative in chosen
            if {alternative.base_name, alternative.full_name} & set(config.requests)
        ]
        # As in Kubernetes, it is repeated for each request that it names.
        for _ in users if config.requests else ("all",):
            yield AllocatedConfiguration(FROM_CLAIM, config.requests, config.opaque)


def _node_selector(claim: ResourceClaim, taken: Sequence[Taken], node: Node) -> NodeSelector | None:
    """Return a selector of the nodes that reach all devices; None for all nodes."""
    found = NodeSelector()
    merged = found.node_selector_terms.add()
    for one in taken:
        piece, device = one.candidate.slice, one.candidate.device
        nodes = device.nodes if piece.per_device_node_selection else piece.nodes
        if nodes.node_name or device.binds_to_node:
            return _only(node)
        terms = nodes.node_selector.node_selector_terms if nodes.node_selector else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.match_fields, merged.match_fields)
            _add_new(term.match_expressions, merged.match_expressions)
    return found if merged.match_fields or merged.match_expressions else None


def _only(node: Node) -> NodeSelector:
    selector = NodeSelector()
    selector.node_selector_terms.add().match_fields.add(
        key="metadata.name", operator="In", values=[node.name]
    )
    return selector


def _add_new(
    requirements: Iterable[NodeSelectorRequirement],
    known: RepeatedCompositeFieldContainer[NodeSelectorRequirement],
) -> None:
    for requirement in requirements:
        content = _content(requirement)
        if all(_content(other) != content for other in known):
            known.append(requirement)


def _content(requirement: NodeSelectorRequirement) -> tuple[str, str, frozenset[str]]:
    return requirement.key, requirement.operator, frozenset(requirement.values)
