"""Turns the devices that a search has found into the allocations of the claims.

Source: Allocate and createNodeSelector of Kubernetes v1.36 (allocator_incubating.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from podsched.api.objects import NodeSelectorRequirement
from podsched.api.quantity import format_quantity
from podsched.lib.groups import lists_by_key
from podsched.plugins.dynamic_resources.candidates import Alternative
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.model import Features, Node, ResourceClaim
from podsched.plugins.dynamic_resources.taken import Taken
from podsched.v1 import objects_pb2 as v1

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"
#: Stands for the ID of a share, which is random: decisions draw no random numbers. Reserve replaces
#: it (``reservation.allocated_for``).
NEW_SHARE = "*"

_Configuration = v1.DeviceClassConfiguration | v1.DeviceClaimConfiguration


def make_allocation(
    claim: ResourceClaim,
    taken: Sequence[Taken],
    chosen: Sequence[Alternative],
    node: Node,
    features: Features,
) -> v1.AllocationResult:
    """Return the allocation of a claim; ``chosen``: the chosen alternative of each request.

    Shares have the ID NEW_SHARE. Raises AllocationError if a slice has a node selector that
    validation would refuse.
    """
    made = v1.AllocationResult()
    devices = made.devices
    devices.SetInParent()
    for one in taken:
        _add_result(one, features, devices)
    for source, requests, config in _configurations(claim, chosen):
        opaque = config.opaque if config.HasField("opaque") else None
        devices.config.add(source=source, requests=requests, opaque=opaque)
    _set_node_selector(made, claim, taken, node)
    return made


def _add_result(taken: Taken, features: Features, devices: v1.DeviceAllocationResult) -> None:
    alternative, device, identity = taken.alternative, taken.candidate.device, taken.candidate.id
    driver, pool, name = identity
    made = devices.results.add(request=alternative.full_name, driver=driver, pool=pool, device=name)
    # This is also made for every node that Filter searches, so nothing is set that is empty.
    if alternative.request.tolerations:
        made.tolerations.extend(alternative.request.tolerations)
    if alternative.request.admin_access:
        made.admin_access = True
    if features.binding_conditions and device.binding_conditions:
        made.binding_conditions.extend(device.binding_conditions)
    if features.binding_conditions and device.binding_failure_conditions:
        made.binding_failure_conditions.extend(device.binding_failure_conditions)
    if taken.consumed is not None:
        made.share_id = NEW_SHARE
        for name, amount in taken.consumed.items():
            made.consumed_capacity[name] = format_quantity(amount)


def _configurations(
    claim: ResourceClaim, chosen: Sequence[Alternative]
) -> Iterator[tuple[str, Iterable[str], _Configuration]]:
    """Yield the configurations of each used class once, then those of the claim.

    Each with its source and the requests that it is for.
    """
    by_class = lists_by_key((alternative.device_class.name, alternative) for alternative in chosen)
    for alternatives in by_class.values():
        names = [alternative.full_name for alternative in alternatives]
        for of_class in alternatives[0].device_class.config:
            yield FROM_CLASS, names, of_class
    for config in claim.config:
        users = [
            alternative
            for alternative in chosen
            if {alternative.base_name, alternative.full_name} & set(config.requests)
        ]
        # As in Kubernetes, it is repeated for each request that it names.
        for _ in users if config.requests else ("all",):
            yield FROM_CLAIM, config.requests, config


def _set_node_selector(
    made: v1.AllocationResult, claim: ResourceClaim, taken: Sequence[Taken], node: Node
) -> None:
    """Set the selector of the nodes that reach all devices; none if all nodes do."""
    merged = v1.NodeSelectorTerm()
    for one in taken:
        piece, device = one.candidate.slice, one.candidate.device
        nodes = device.nodes if piece.per_device_node_selection else piece.nodes
        if nodes.node_name or device.binds_to_node:
            made.node_selector.node_selector_terms.add().match_fields.add(
                key="metadata.name", operator="In", values=[node.name]
            )
            return
        terms = nodes.node_selector.node_selector_terms if nodes.node_selector else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.match_fields, merged.match_fields)
            _add_new(term.match_expressions, merged.match_expressions)
    if merged.match_fields or merged.match_expressions:
        made.node_selector.node_selector_terms.append(merged)


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
