"""Maps of quantities: names, signs, whole numbers, and requests beside limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from fractions import Fraction

from podsched.api import quantity, resources
from podsched.api.extended_resources import is_extended
from podsched.api.names import dns1123_label, qualified_name
from podsched.api.objects import PodSpec, ResourceRequirements
from podsched.api.validation.place import MAX_ITEMS, Place

#: Max names that an error lists, and max letters of each: all letters of a valid name.
_MOST_NAMES, _MOST_LETTERS = 32, 63
_STANDARD = ("cpu", "memory", "ephemeral-storage")


def is_huge_page(name: str) -> bool:
    """Whether the resource is huge pages of some size."""
    return name.startswith(resources.HUGE_PAGES_PREFIX)


def may_overcommit(name: str) -> bool:
    """Whether a container's limit of the resource may be above its request."""
    is_native = "/" not in name or "kubernetes.io/" in name
    return is_native and not is_huge_page(name)


def parse_or_report(at: Place, text: str) -> Fraction | None:
    """Return the amount, or None after adding an error."""
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        at.invalid(text, str(error))
        return None


def validate_quantities(at: Place, quantities: Mapping[str, str], *, dotted: bool = False) -> None:
    """Check resources: names are qualified, amounts not negative, devices whole.

    dotted: paths end in ".cpu", as Kubernetes' of a node's status do, and not in "[cpu]".
    """
    for name in at.keys(quantities):
        item = at(name) if dotted else at[name]
        item.rule(name, qualified_name)
        _amount(item, name, quantities[name])


def _amount(at: Place, name: str, text: str) -> Fraction | None:
    """Return the amount, with an error if there cannot be so much; None if it is none."""
    whole = is_extended(name) or is_huge_page(name) or name == resources.PODS
    return not_negative(at, text, whole=whole)


def not_negative(at: Place, text: str, *, whole: bool = False) -> Fraction | None:
    """Return the amount, with an error if it is negative; None if it is none.

    whole: with an error if it has a fraction, too.
    """
    amount = parse_or_report(at, text)
    if amount is not None and amount.numerator < 0:
        at.invalid(text, "must be greater than or equal to 0")
    elif amount is not None and whole and amount.denominator != 1:
        at.invalid(text, "must be an integer")
    return amount


def container_resource_name(at: Place, name: str) -> None:
    """Check that containers can request a resource of this name."""
    known = "/" in name or name in _STANDARD or is_huge_page(name)
    if at.rule(name, qualified_name) and not known:
        at.invalid(name, "must be a standard resource for containers")


def validate_requirements(
    at: Place, requirements: ResourceRequirements, claims: Collection[str] = ()
) -> None:
    """Validate requests, limits and claims of a container; ``claims``: the names of its pod's."""
    if not _are_plain(requirements):
        _check_amounts(at, requirements)
    if requirements.claims:
        _check_claims(at("claims"), requirements, claims)


def _check_claims(at: Place, requirements: ResourceRequirements, claims: Collection[str]) -> None:
    seen: dict[str, set[str]] = {}
    for item, claim in at.each(requirements.claims):
        name, request = claim.name, claim.request
        if not item.present(name):
            continue
        # Of a claim a container uses some requests, or all: the request "".
        requests = seen.setdefault(name, set())
        if "" in requests or (requests and not request):
            item.duplicate(name)
        elif request:
            item("request").rule(request, dns1123_label)
            item.once(request, requests, f"{name}/{request}")
        requests.add(request)
        if name not in claims:
            known = f": {_some_of(claims)}" if claims else " which is empty"
            item.not_found(name, f"must be one of the names in pod.spec.resourceClaims{known}")


def _some_of(names: Collection[str]) -> str:
    """Return names in order, but not more than an error message has room for."""
    first, more = sorted(names)[:_MOST_NAMES], len(names) - _MOST_NAMES
    return ", ".join([name[:_MOST_LETTERS] for name in first] + ["..."] * (more > 0))


def _check_amounts(at: Place, requirements: ResourceRequirements) -> None:
    limits = _validated(at("limits"), requirements.limits)
    requests = _validated(at("requests"), requirements.requests)
    for name, limit in limits.items():
        if not may_overcommit(name):
            requests.setdefault(name, limit)
    _requests_within_limits(at, requests, limits, requirements)
    names = set(limits) | set(requests)
    if any(is_huge_page(name) for name in names) and not names & {"cpu", "memory"}:
        at.forbidden("HugePages require cpu or memory")


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


def _validated(at: Place, quantities: Mapping[str, str]) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for name in at.keys(sorted(quantities)):
        container_resource_name(at[name], name)
        amount = _amount(at[name], name, quantities[name])
        if amount is not None:
            found[name] = amount
    return found


def _requests_within_limits(
    at: Place,
    requests: Mapping[str, Fraction],
    limits: Mapping[str, Fraction],
    requirements: ResourceRequirements,
) -> None:
    for name, amount in requests.items():
        limit = limits.get(name)
        text = requirements.requests.get(name, "")
        if limit is None:
            if not may_overcommit(name) and name not in requirements.limits:
                at("limits").required("Limit must be set for non overcommitable resources")
        elif amount != limit and not may_overcommit(name):
            reason = f"must be equal to {name} limit of {requirements.limits[name]}"
            at("requests").invalid(text, reason)
        elif amount > limit:
            reason = f"must be less than or equal to {name} limit of {requirements.limits[name]}"
            at("requests").invalid(text, reason)


def validate_pod_level(at: Place, spec: PodSpec, claims: Collection[str]) -> None:
    """Validate spec.resources: names, limits, and not less than the containers request.

    claims: the names of the pod's claims, which only its containers use.
    """
    known = len(at.errors)
    if spec.resources.claims:
        at("claims").forbidden("claims may not be set for Resources at pod-level")
        _check_claims(at("claims"), spec.resources, claims)
    for part, quantities in (
        ("limits", spec.resources.limits),
        ("requests", spec.resources.requests),
    ):
        for name in at(part).keys(quantities):
            if not resources.is_pod_level_resource(name):
                at(part)[name].not_supported(name, ("cpu", "hugepages-*", "memory"))
    if len(at.errors) == known:
        _check_amounts(at, spec.resources)
    if len(at.errors) == known:
        with suppress(quantity.QuantityError):
            _at_least_the_containers(at("requests"), spec)
            _within_the_pod(at("containers"), spec)


def _within_the_pod(at: Place, spec: PodSpec) -> None:
    """Check that containers have no higher limits than the pod; the path is Kubernetes' own."""
    for index, container in enumerate(spec.containers[:MAX_ITEMS]):
        for name, text in container.resources.limits.items():
            most = spec.resources.limits.get(name, text)
            if quantity.parse(text) > quantity.parse(most):
                reason = f"must be less than or equal to pod limits of {most}"
                at[index][name]("limits").invalid(text, reason)


def _at_least_the_containers(at: Place, spec: PodSpec) -> None:
    together = resources.container_requests(spec)
    for name, text in spec.resources.requests.items():
        needed = together.get(name)
        if needed is not None and quantity.parse(text) < needed:
            at[name].invalid(
                text,
                "must be greater than or equal to aggregate container requests of "
                + quantity.format_decimal(needed),
            )
