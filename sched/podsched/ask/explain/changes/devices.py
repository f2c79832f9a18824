"""Relax the pod's claims: ask for fewer devices, or drop one selector or constraint.

Each change is tried in a trial with the changed claim. The largest number of devices that fits is
found by bisection, which is correct because a smaller number never fits fewer nodes. Allocated
claims are not changed. For a claim that was made from a template the suggestion changes the
template, so it takes effect for pods that are created later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from podsched.api.device_claims import claim_names
from podsched.ask.explain.changes.change import Change, ChangedClaim, Kind
from podsched.ask.explain.changes.question import Question
from podsched.cache.trial import Trial
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1

_CLAIM: Final = "ResourceClaim"
#: Max selectors or constraints that are tried: each new set of selectors takes up to 0.2 s at 5,000
#: nodes of eight devices.
_MOST_TRIES: Final = 8
_LONGEST_SELECTOR: Final = 80

_Request = v1.ExactDeviceRequest | v1.DeviceSubRequest


class _Asked(NamedTuple):
    """A claim that is not allocated, and the pod's reference to it."""

    ref: v1.PodResourceClaim
    claim: v1.ResourceClaim

    @property
    def name(self) -> str:
        template = self.ref.resource_claim_template_name
        of = f" of template {template}" if template else ""
        return f"claim {self.claim.metadata.name}{of}"

    def copy(self) -> v1.ResourceClaim:
        return deepcopy(self.claim)

    def changed(self, claim: v1.ResourceClaim) -> ChangedClaim:
        return ChangedClaim(self.claim, claim, self.ref.resource_claim_template_name)


def fewer_devices(question: Question) -> Change | None:
    """Return the smallest reduction of one request's count that is enough; None if none is."""
    found: list[Change] = []
    for asked in _claims(question):
        for place, (name, request) in enumerate(_requests(asked.claim)):
            if request.count > 1 and (tried := _largest(question, asked, place, request.count)):
                count, claim, rows = tried
                text = f"ask for {count} in place of {request.count} devices in request {name}"
                found.append(_change(question, Kind.DEVICE_COUNT, text, asked, claim, rows))
                found[-1] = replace(found[-1], cost=float(request.count - count))
    return min(found, key=lambda change: (change.cost, -change.nodes), default=None)


def _largest(
    question: Question, asked: _Asked, place: int, most: int
) -> tuple[int, v1.ResourceClaim, Rows] | None:
    """Return the largest number below ``most`` with which the pod fits, with claim and rows."""
    best, low, high = None, 0, most
    while high - low > 1:
        middle = (low + high) // 2 if best else 1
        claim = asked.copy()
        _requests(claim)[place][1].count = middle
        rows = _feasible(question, claim)
        if len(rows):
            low, best = middle, (middle, claim, rows)
        elif best is None:
            return None
        else:
            high = middle
    return best


def drop_from_claim(question: Question, kind: Kind) -> Change | None:
    """Return the best selector or constraint to drop; None if none is enough."""
    dropped = ((asked, *one) for asked in _claims(question) for one in _DEMANDS[kind](asked))
    tried = list(islice(dropped, _MOST_TRIES))
    exhaustive = next(dropped, None) is None
    found = [
        _change(question, kind, f"drop {text}", asked, claim, rows)
        for asked, text, claim in tried
        if len(rows := _feasible(question, claim))
    ]
    best = max(found, key=lambda change: change.nodes, default=None)
    return best and replace(best, exhaustive=exhaustive)


def _claims(question: Question) -> Iterator[_Asked]:
    pod = question.pod
    for ref, name in claim_names(pod.pod):
        claim = question.cluster.get(_CLAIM, pod.namespace, name) if name else None
        if claim is not None and not claim.status.HasField("allocation"):
            yield _Asked(ref, claim)


def _requests(claim: v1.ResourceClaim) -> list[tuple[str, _Request]]:
    """Return each request with its name; for one with alternatives, each alternative."""
    found: list[tuple[str, _Request]] = []
    for request in claim.spec.devices.requests:
        of = request.first_available
        found += [(f"{request.name}/{one.name}", one) for one in of]
        found += [] if of else [(request.name, request.exactly)]
    return found


def _feasible(question: Question, claim: v1.ResourceClaim) -> Rows:
    with Trial(question.cache) as trial:
        trial.put(_CLAIM, claim)
        return question.feasible(question.pod)


def _change(
    question: Question, kind: Kind, text: str, asked: _Asked, claim: v1.ResourceClaim, rows: Rows
) -> Change:
    text = f"in {asked.name}, {text}"
    return question.cluster_change(kind, text, 1.0, rows, claim=asked.changed(claim))


def _selectors(asked: _Asked) -> Iterator[tuple[str, v1.ResourceClaim]]:
    for place, (name, request) in enumerate(_requests(asked.claim)):
        for index, selector in enumerate(request.selectors):
            claim = asked.copy()
            del _requests(claim)[place][1].selectors[index]
            text = " ".join(selector.cel.expression.split())
            if len(text) > _LONGEST_SELECTOR:
                text = f"{text[:_LONGEST_SELECTOR]}…"
            yield f"selector {text} of request {name}", claim


def _constraints(asked: _Asked) -> Iterator[tuple[str, v1.ResourceClaim]]:
    for index, constraint in enumerate(asked.claim.spec.devices.constraints):
        claim = asked.copy()
        del claim.spec.devices.constraints[index]
        if constraint.match_attribute:
            text = f"that all devices have the same {constraint.match_attribute}"
        else:
            text = f"that all devices differ in {constraint.distinct_attribute}"
        yield f"the constraint {text}", claim


_DEMANDS: Final[Mapping[Kind, Callable[[_Asked], Iterator[tuple[str, v1.ResourceClaim]]]]] = {
    Kind.DEVICE_SELECTOR: _selectors,
    Kind.DEVICE_CONSTRAINT: _constraints,
}
