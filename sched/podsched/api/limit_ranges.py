"""LimitRange admission: default requests and limits of containers, and their bounds.

Source: plugin/pkg/admission/limitranger and SetDefaults_LimitRangeItem of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from podsched.api import objects as o
from podsched.api import quantity, resources

CONTAINER, POD, CLAIM = "Container", "Pod", "PersistentVolumeClaim"
ANNOTATION = "kubernetes.io/limit-ranger"

_Quantities = Mapping[str, str]


def default_limit_range(limit_range: o.LimitRange) -> None:
    """Fill in a range's own defaults, in place: limits from max, requests from limits and min."""
    for item in limit_range.spec.limits:
        if item.type != CONTAINER:
            continue
        for source, target in (
            (item.max, item.default),
            (item.default, item.default_request),
            (item.min, item.default_request),
        ):
            for name, text in source.items():
                if name not in target:
                    target[name] = text


def apply_limit_ranges(pod: o.Pod, ranges: Sequence[o.LimitRange]) -> list[str]:
    """Set defaults of a new pod's containers in place; return violations of the ranges.

    Quantities that cannot be read are validation's to report: nothing is checked then.
    """
    for limit_range in ranges:
        _complete(pod, [item for item in limit_range.spec.limits if item.type == CONTAINER])
    try:
        return [error for item in _items(ranges) for error in _pod_errors(item, pod)]
    except quantity.QuantityError:
        return []


def claim_errors(
    claim: o.PersistentVolumeClaim,
    ranges: Sequence[o.LimitRange],
    old: o.PersistentVolumeClaim | None = None,
) -> list[str]:
    """Return a claim's violations of limit ranges; for an update, only of changed fields."""
    requests = claim.spec.resources.requests
    before: _Quantities = old.spec.resources.requests if old is not None else {}
    unchanged = {name for name, text in requests.items() if before.get(name) == text}
    try:
        found = [
            _bound(which, CLAIM, name, bounds[name], ("request", requests))
            for item in _items(ranges)
            if item.type == CLAIM
            for name in sorted({*item.min, *item.max} - unchanged)
            for which, bounds in (("minimum", item.min), ("maximum", item.max))
            if name in bounds
        ]
    except quantity.QuantityError:
        return []
    return [error for error in found if error]


def aggregate(errors: Sequence[str]) -> str:
    """Return errors as one text, as Kubernetes joins them; "" for none."""
    distinct = dict.fromkeys(errors)
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


def _items(ranges: Iterable[o.LimitRange]) -> Iterator[o.LimitRangeItem]:
    return (item for limit_range in ranges for item in limit_range.spec.limits)


def _complete(pod: o.Pod, items: Sequence[o.LimitRangeItem]) -> None:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for item in items:
        requests.update(item.default_request)
        limits.update(item.default)
    if not requests and not limits:
        return
    notes: list[str] = []
    for kind, containers in (
        ("container", pod.spec.containers),
        ("init container", pod.spec.init_containers),
    ):
        for container in containers:
            for what, defaults, target in (
                ("request", requests, container.resources.requests),
                ("limit", limits, container.resources.limits),
            ):
                missing = sorted(name for name in defaults if name not in target)
                for name in missing:
                    target[name] = defaults[name]
                if missing:
                    notes.append(f"{', '.join(missing)} {what} for {kind} {container.name}")
    if notes:
        pod.metadata.annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _pod_errors(item: o.LimitRangeItem, pod: o.Pod) -> Iterator[str]:
    if item.type == CONTAINER:
        for container in _containers(pod):
            yield from _errors(item, container.resources.requests, container.resources.limits)
    elif item.type == POD:
        yield from _errors(item, _together(pod), _together(_with_limits_as_requests(pod)))


def _errors(item: o.LimitRangeItem, requests: _Quantities, limits: _Quantities) -> Iterator[str]:
    asked, limited = ("request", requests), ("limit", limits)
    found = [
        *(_bound("minimum", item.type, n, item.min[n], asked, limited) for n in sorted(item.min)),
        *(_bound("maximum", item.type, n, item.max[n], limited, asked) for n in sorted(item.max)),
        *(
            _ratio(item.type, n, item.max_limit_request_ratio[n], requests, limits)
            for n in sorted(item.max_limit_request_ratio)
        ),
    ]
    return (error for error in found if error)


def _bound(
    which: str, kind: str, name: str, enforced: str, *usage: tuple[str, _Quantities]
) -> str | None:
    """Return the violation of a "minimum" or "maximum"; the first usage must name the resource."""
    rule, bound = f"{which} {name} usage per {kind} is {enforced}", quantity.parse(enforced)
    if name not in usage[0][1]:
        return f"{rule}.  No {usage[0][0]} is specified"
    for what, quantities in usage:
        amount = quantity.parse(quantities.get(name, enforced))
        if amount < bound if which == "minimum" else amount > bound:
            return f"{rule}, but {what} is {quantities[name]}"
    return None


def _ratio(
    kind: str, name: str, enforced: str, requests: _Quantities, limits: _Quantities
) -> str | None:
    rule = f"{name} max limit to request ratio per {kind} is {enforced}"
    request = quantity.parse(requests.get(name, "0"))
    limit = quantity.parse(limits.get(name, "0"))
    if not request:
        return f"{rule}, but no request is specified or request is 0"
    if not limit:
        return f"{rule}, but no limit is specified or limit is 0"
    if limit > request * quantity.parse(enforced):
        return f"{rule}, but provided ratio is {ratio_text(limit / request)}"
    return None


def ratio_text(ratio: Fraction) -> str:
    """Return a ratio with six decimals, even if it is too large for a float."""
    whole, millionths = divmod(round(ratio * 10**6), 10**6)
    return f"{whole}.{millionths:06}"


def _together(pod: o.Pod) -> dict[str, str]:
    """Return a pod's requests without its overhead, as quantities."""
    total = resources.container_requests(pod.spec)
    texts = {name: _written(name, amount, pod) for name, amount in total.items()}
    own = pod.spec.resources.requests
    return texts | {name: own[name] for name in own if resources.is_pod_level_resource(name)}


def _written(name: str, amount: Fraction, pod: o.Pod) -> str:
    """Return a sum with the same sort of suffix as its parts."""
    parts = (c.resources.requests.get(name, "") for c in _containers(pod))
    if amount and any(part.endswith("i") for part in parts):
        for suffix, bits in reversed(quantity.BINARY.items()):
            if not amount % (1 << bits):
                return f"{amount / (1 << bits)}{suffix}"
    return quantity.format_decimal(amount)


def _containers(pod: o.Pod) -> tuple[o.Container, ...]:
    return (*pod.spec.containers, *pod.spec.init_containers)


def _with_limits_as_requests(pod: o.Pod) -> o.Pod:
    limited = o.Pod(spec=pod.spec)
    for own in (limited.spec.resources, *(c.resources for c in _containers(limited))):
        own.requests.clear()
        own.requests.update(own.limits)
    return limited
