"""Find the smallest reduction of requests that makes the pod fit.

On one node the answer is unique: each request that does not fit is lowered to the free amount. The
cost is the sum of relative reductions, ``sum((request - free) / request)``, and the cheapest node
wins. So no lowered request could be a unit larger, and no other combination costs less. Candidates
are nodes that are rejected only for a lack of resources and have room for one more pod. A request
for an overcommitted resource is lowered to 0, because NodeResourcesFit does not check resources
that the pod does not request.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from fractions import Fraction

import numpy as np

from podsched.api import quantity
from podsched.api.resources import (
    CPU,
    HUGE_PAGES_PREFIX,
    PODS,
    is_pod_level_resource,
    is_sidecar,
    requests_in_units,
)
from podsched.ask.explain.changes.question import MOST_TRIES, Kind, Question
from podsched.framework.nodes import Int64s
from podsched.framework.plugin import Remedy
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change


def lower_requests(question: Question) -> Change | None:
    """Return the cheapest reduction of requests; None if none is enough."""
    rejections = question.rejections
    if rejections is None or not question.demand:
        return None
    rows = rejections.rows[rejections.by_none_but(question.with_remedy(Remedy.REQUESTS))]
    demand, room = question.demand, question.room(rows)
    open_to_pods = room[PODS] > 0
    if not open_to_pods.any():
        return None
    affordable = np.stack(
        [np.clip(room[resource][open_to_pods], 0, wanted) for resource, wanted in demand.items()]
    )
    wanted = np.array(list(demand.values()), dtype=np.float64)[:, None]
    cost = ((wanted - affordable) / wanted).sum(axis=0)
    return _cheapest(question, affordable, cost)


def _cheapest(question: Question, affordable: Int64s, cost: Int64s) -> Change | None:
    """Try the distinct amounts, the cheapest first; ``affordable``: by resource and node."""
    demand = question.demand
    distinct, first = np.unique(affordable, axis=1, return_index=True)
    order = np.lexsort((first, cost[first]))
    for number in order[:MOST_TRIES].tolist():
        amounts = dict(zip(demand, distinct[:, number].tolist(), strict=True))
        lowered = {name: n for name, n in amounts.items() if n < demand[name]}
        pod = with_requests(question.pod.pod, lowered)
        if pod is None:
            continue
        price = float(cost[first[number]])
        found = question.pod_change(Kind.REQUESTS, _described(demand, lowered), price, pod)
        if found is not None:
            return found
    return None


def _described(demand: Mapping[str, int], lowered: Mapping[str, int]) -> str:
    parts = [
        f"{name} from {_text(name, demand[name])} to {_text(name, amount)}"
        for name, amount in lowered.items()
    ]
    listed = " and ".join(", ".join(parts).rsplit(", ", 1))
    return f"lower its request{'s' if len(parts) > 1 else ''} of {listed}"


def _text(resource: str, amount: int) -> str:
    return quantity.format_quantity(_exact(resource, amount))


def _exact(resource: str, amount: int) -> Fraction:
    return Fraction(amount, 1000) if resource == CPU else Fraction(amount)


def with_requests(pod: v1.Pod, wanted: Mapping[str, int]) -> v1.Pod | None:
    """Return the pod with lower requests: ``wanted`` in total.

    ``wanted`` is in millicores for cpu, else in whole units. The container with the largest request
    is reduced first; init containers are capped. Returns None if the overhead alone exceeds
    ``wanted``.
    """
    changed = deepcopy(pod)
    for resource, amount in wanted.items():
        budget = _exact(resource, amount) - _parsed(pod.spec.overhead, resource)
        if budget < 0:
            return None
        _lower(changed.spec, resource, budget)
    total = requests_in_units(changed)
    return changed if all(total.get(name, 0) == n for name, n in wanted.items()) else None


def _lower(spec: v1.PodSpec, resource: str, budget: Fraction) -> None:
    sidecars = [container for container in spec.init_containers if is_sidecar(container)]
    running = [*spec.containers, *sidecars]
    excess = sum((_request(c, resource) for c in running), Fraction(0)) - budget
    for container in sorted(running, key=lambda c: -_request(c, resource)):
        if excess <= 0:
            break
        given_up = min(excess, _request(container, resource))
        _set(container.resources, resource, _request(container, resource) - given_up)
        excess -= given_up
    started = Fraction(0)
    for container in spec.init_containers:
        if is_sidecar(container):
            started += _request(container, resource)
        elif _request(container, resource) > budget - started:
            _set(container.resources, resource, budget - started)
    if is_pod_level_resource(resource) and resource in spec.resources.requests:
        _set(spec.resources, resource, budget)


def _set(resources: v1.ResourceRequirements, resource: str, amount: Fraction) -> None:
    text = quantity.format_quantity(amount)
    resources.requests[resource] = text
    # Kubernetes requires equal requests and limits for extended resources and huge pages.
    exact = "/" in resource or resource.startswith(HUGE_PAGES_PREFIX)
    if exact and resource in resources.limits:
        resources.limits[resource] = text


def _request(container: v1.Container, resource: str) -> Fraction:
    return _parsed(container.resources.requests, resource)


def _parsed(quantities: Mapping[str, str], resource: str) -> Fraction:
    return quantity.parse(quantities[resource]) if resource in quantities else Fraction(0)
