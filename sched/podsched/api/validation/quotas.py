"""ResourceQuotas (ValidateResourceQuota of pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Mapping

from podsched.api.field_errors import FieldError, forbidden, invalid
from podsched.api.objects import ResourceQuota
from podsched.api.quota import COUNT_PREFIX, is_quota_resource
from podsched.api.resources import CPU
from podsched.api.validation.meta import bounded
from podsched.api.validation.names import qualified_name
from podsched.api.validation.resource_lists import parse_or_report

_NO_SCOPES = "scopes are not supported: a quota counts all objects of its namespace"
_NOT_COUNTED = (
    "is not counted here; what is: count/RESOURCE[.GROUP], pods, services, configmaps, "
    "replicationcontrollers, persistentvolumeclaims, resourcequotas, cpu, memory and "
    "ephemeral-storage (also as requests. and limits.), hugepages-SIZE, and "
    "requests.DOMAIN/DEVICE"
)


def validate_resource_quota(item: ResourceQuota) -> list[FieldError]:
    """Validate what is limited, and how much of it."""
    spec = item.spec
    found = _quantities(spec.hard, "spec.hard")
    if spec.scopes:
        found.append(forbidden("spec.scopes", _NO_SCOPES))
    if spec.HasField("scope_selector"):
        found.append(forbidden("spec.scopeSelector", _NO_SCOPES))
    return found


def validate_resource_quota_status(item: ResourceQuota) -> list[FieldError]:
    """Validate what is used."""
    status = item.status
    return _quantities(status.hard, "status.hard") + _quantities(status.used, "status.used")


def _quantities(quantities: Mapping[str, str], path: str) -> list[FieldError]:
    found = bounded(path, quantities)
    for name, text in quantities.items():
        here = f"{path}[{name}]"
        found += [invalid(here, name, reason) for reason in qualified_name(name)]
        if not is_quota_resource(name):
            found.append(invalid(here, name, _NOT_COUNTED))
        amount = parse_or_report(here, text, found)
        if amount is None:
            continue
        if amount < 0:
            found.append(invalid(here, text, "must be greater than or equal to 0"))
        elif not _may_be_divided(name) and amount.denominator != 1:
            found.append(invalid(here, text, "must be an integer"))
    return found


def _may_be_divided(name: str) -> bool:
    return not name.startswith(COUNT_PREFIX) and name.rpartition(".")[2] == CPU
