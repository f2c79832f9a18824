"""Maps of quantities: names, signs, whole numbers, and requests beside limits."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from podsched.api import quantity, resources
from podsched.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from podsched.api.objects import Pod, PodSpec, ResourceRequirements
from podsched.api.validation.meta import bounded_items
from podsched.api.validation.names import qualified_name

_STANDARD = ("cpu", "memory", "ephemeral-storage")


def is_huge_page(name: str) -> bool:
    """Whether the resource is huge pages of some size."""
    return name.startswith(resources.HUGE_PAGES_PREFIX)


def is_native(name: str) -> bool:
    """Whether the resource belongs to Kubernetes itself."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether the resource is somebody's own, such as example.com/gpu."""
    return not is_native(name) and not name.startswith("requests.")


def parse_or_report(path: str, text: str, errors: list[FieldError]) -> Fraction | None:
    """Return the amount, or None after adding an error."""
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        errors.append(invalid(path, text, str(error)))
        return None


def validate_quantities(
    quantities: Mapping[str, str], path: str, *, dotted: bool = False
) -> list[FieldError]:
    """Check resources: names are qualified, amounts not negative, devices whole.

    dotted: paths end in ".cpu", as Kubernetes' of a node's status do, and not in "[cpu]".
    """
    errors: list[FieldError] = []
    for _, name in bounded_items(path, quantities, errors):
        text = quantities[name]
        here = f"{path}.{name}" if dotted else f"{path}[{name}]"
        errors += [invalid(here, name, reason) for reason in qualified_name(name)]
        amount = parse_or_report(here, text, errors)
        if amount is not None:
            errors += _amount(here, name, text, amount)
    return errors


def _amount(path: str, name: str, text: str, amount: Fraction) -> list[FieldError]:
    if amount.numerator < 0:
        return [invalid(path, text, "must be greater than or equal to 0")]
    whole = is_extended(name) or is_huge_page(name) or name == resources.PODS
    if whole and amount.denominator != 1:
        return [invalid(path, text, "must be an integer")]
    return []


def container_resource_name(path: str, name: str) -> list[FieldError]:
    """Check that containers can request a resource of this name."""
    errors = [invalid(path, name, reason) for reason in qualified_name(name)]
    if errors:
        return errors
    if "/" not in name and name not in _STANDARD and not is_huge_page(name):
        return [invalid(path, name, "must be a standard resource for containers")]
    return []


def validate_requirements(requirements: ResourceRequirements, path: str) -> list[FieldError]:
    """Validate requests and limits of a container."""
    if _are_plain(requirements):
        return []
    errors: list[FieldError] = []
    limits = _validated(requirements.limits, f"{path}.limits", errors)
    requests = _validated(requirements.requests, f"{path}.requests", errors)
    for name, limit in limits.items():
        if _overcommit_allowed(name) or name in requests:
            continue
        requests[name] = limit
    errors += _requests_within_limits(requests, limits, requirements, path)
    names = set(limits) | set(requests)
    if any(is_huge_page(name) for name in names) and not names & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def _are_plain(requirements: ResourceRequirements) -> bool:
    """Whether these are standard resources, and all is well: a quarter of the time to find out."""
    limits, requests = requirements.limits, requirements.requests
    try:
        # Not items(): of protobuf's maps it is Python's, and takes longer than all the rest.
        for name in limits:
            if name not in _STANDARD or quantity.parse(limits[name]).numerator < 0:
                return False
        for name in requests:
            text = requests[name]
            if name not in _STANDARD or quantity.parse(text).numerator < 0:
                return False
            limit = limits.get(name, text)
            if limit != text and quantity.parse(limit) < quantity.parse(text):
                return False
    except quantity.QuantityError:
        return False
    return True


def _validated(
    quantities: Mapping[str, str], path: str, errors: list[FieldError]
) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for _, name in bounded_items(path, sorted(quantities), errors):
        here = f"{path}[{name}]"
        errors += container_resource_name(here, name)
        amount = parse_or_report(here, quantities[name], errors)
        if amount is not None:
            errors += _amount(here, name, quantities[name], amount)
            found[name] = amount
    return found


def _overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


def _requests_within_limits(
    requests: Mapping[str, Fraction],
    limits: Mapping[str, Fraction],
    requirements: ResourceRequirements,
    path: str,
) -> list[FieldError]:
    errors = []
    here = f"{path}.requests"
    for name, amount in requests.items():
        limit = limits.get(name)
        text = requirements.requests.get(name, "")
        if limit is None:
            if not _overcommit_allowed(name) and name not in requirements.limits:
                reason = "Limit must be set for non overcommit resources"
                errors.append(required(f"{path}.limits", reason))
        elif amount != limit and not _overcommit_allowed(name):
            reason = f"must be equal to {name} limit of {requirements.limits[name]}"
            errors.append(invalid(here, text, reason))
        elif amount > limit:
            reason = f"must be less than or equal to {name} limit of {requirements.limits[name]}"
            errors.append(invalid(here, text, reason))
    return errors


def validate_pod_level(spec: PodSpec) -> list[FieldError]:
    """Validate spec.resources: names, limits, and not less than the containers request."""
    errors: list[FieldError] = []
    if not spec.HasField("resources"):
        return errors
    path = "spec.resources"
    for part, quantities in (
        ("limits", spec.resources.limits),
        ("requests", spec.resources.requests),
    ):
        for _, name in bounded_items(f"{path}.{part}", quantities, errors):
            if not resources.is_pod_level_resource(name):
                supported = ("cpu", "hugepages-*", "memory")
                errors.append(not_supported(f"{path}.{part}[{name}]", name, supported))
    if errors:
        return errors
    errors += validate_requirements(spec.resources, path)
    return errors or _at_least_the_containers(spec, f"{path}.requests")


def _at_least_the_containers(spec: PodSpec, path: str) -> list[FieldError]:
    try:
        together = resources.container_requests(
            Pod(spec=spec), resources.RequestOptions(use_status=False)
        )
    except quantity.QuantityError:
        return []
    errors = []
    for name, text in spec.resources.requests.items():
        needed = together.get(name)
        if needed is not None and quantity.parse(text) < needed:
            reason = (
                "must be greater than or equal to aggregate container requests of "
                + quantity.format_decimal(needed)
            )
            errors.append(invalid(f"{path}[{name}]", text, reason))
    return errors
