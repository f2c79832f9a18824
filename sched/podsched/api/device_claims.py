"""ResourceClaims: their limits, and where they ask for access to devices for administrators."""

from __future__ import annotations

from typing import Final

from podsched.api import objects as o

#: Limits of Kubernetes' API; what is beyond is not filled in, because validation refuses it.
MOST_REQUESTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_DEVICES: Final = 128

#: The label of namespaces whose claims may have it, if it is "true".
ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"


def admin_request(item: o.ResourceClaim | o.ResourceClaimTemplate) -> str:
    """Return the path at which a claim or a template asks for it, "" if it does not."""
    spec = item.spec.spec if isinstance(item, o.ResourceClaimTemplate) else item.spec
    for index, request in enumerate(spec.devices.requests):
        if request.exactly.admin_access:
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


def admin_result(claim: o.ResourceClaim) -> str:
    """Return the path at which the allocation of a claim has it, "" if it does not."""
    for index, result in enumerate(claim.status.allocation.devices.results):
        if result.admin_access:
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""
