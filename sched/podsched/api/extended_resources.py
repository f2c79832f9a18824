"""Extended resources, such as ``nvidia.com/gpu``, and the DeviceClasses that provide them.

Source: ``extendedresourcecache`` of dynamic-resource-allocation, and ``IsExtendedResourceName``, of
Kubernetes v1.36.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from podsched.api import objects as o

#: Each DeviceClass provides a resource whose name is this and its own name.
CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
#: The annotation, "true", of the claim that is made for a pod's extended resources.
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"

_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."


def is_extended(name: str) -> bool:
    """Return whether the name is one of an extended resource."""
    return "/" in name and _NATIVE_DOMAIN not in name and not name.startswith(_QUOTA_PREFIX)


@functools.lru_cache(maxsize=1024)
def may_be_devices(name: str) -> bool:
    """Return whether a DeviceClass can provide the resource."""
    return is_extended(name) or name.startswith(CLASS_RESOURCE_PREFIX)


def classes_by_resource(classes: Iterable[o.DeviceClass]) -> dict[str, str]:
    """Return the name of the class that provides each resource.

    Of several classes it is the newest or, of equal age, the one whose name comes first.
    """
    found: dict[str, str] = {}
    by_name = sorted(classes, key=lambda each: each.metadata.name, reverse=True)
    # Of those that provide the same resource, the last one counts.
    for each in sorted(by_name, key=lambda each: each.metadata.creation_timestamp.ToNanoseconds()):
        found[CLASS_RESOURCE_PREFIX + each.metadata.name] = each.metadata.name
        if each.spec.extended_resource_name:
            found[each.spec.extended_resource_name] = each.metadata.name
    return found


def extended_claim_owner(claim: o.ResourceClaim) -> str:
    """Return the uid of the pod for whose extended resources a claim was made; "" for others."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ""
    owners = claim.metadata.owner_references
    return next((owner.uid for owner in owners if owner.controller and owner.kind == "Pod"), "")
