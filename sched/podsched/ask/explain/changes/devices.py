"""Relax the pod's claims: ask for fewer devices, or drop one selector or constraint.

Each change is tried in a trial with the changed claim. The largest number of devices that fits is
found by bisection, which is correct because a smaller number never fits fewer nodes. Allocated
claims are not changed. For a claim that was made from a template the suggestion changes the
template, so it takes effect for pods that are created later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Final, NamedTuple

import yaml

from podsched.api.device_claims import claim_names
from podsched.api.manifest import merge_patch, to_manifest
from podsched.ask.explain.changes.question import Kind, Question, best
from podsched.cache.trial import Trial
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change

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
    def template(self) -> str:
        """The template that the claim was made from, "" for none."""
        return self.ref.resource_claim_template_name

    @property
    def name(self) -> str:
        of = f" of template {self.template}" if self.template else ""
        return f"claim {self.claim.metadata.name}{of}"


def fewer_devices(question: Question) -> Change | None:
    """Return the smallest reduction of one request's count that is enough; None if none is."""
    requests = (
        (asked, place)
        for asked in _claims(question)
        for place, (_, request) in enumerate(_requests(asked.claim))
        if request.count > 1
    )
    return best(requests, lambda one: _largest(question, *one), sys.maxsize)


def _largest(question: Question, asked: _Asked, place: int) -> Change | None:
    """Return the change of a request's count to the largest number with which the pod fits."""
    name, request = _requests(asked.claim)[place]
    best, low, high = None, 0, request.count
    while high - low > 1:
        middle = (low + high) // 2 if best else 1
        claim = deepcopy(asked.claim)
        _requests(claim)[place][1].count = middle
        text = f"ask for {middle} in place of {request.count} devices in request {name}"
        change = _change(question, Kind.DEVICE_COUNT, text, asked, claim, request.count - middle)
        if change is not None:
            low, best = middle, change
        elif best is None:
            return None
        else:
            high = middle
    return best


def drop_from_claim(question: Question, kind: Kind) -> Change | None:
    """Return the best selector or constraint to drop; None if none is enough."""
    dropped = (
        (f"drop {text}", asked, claim)
        for asked in _claims(question)
        for text, claim in DEMANDS[kind](asked)
    )
    return best(dropped, lambda one: _change(question, kind, *one), _MOST_TRIES)


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


def _change(
    question: Question,
    kind: Kind,
    text: str,
    asked: _Asked,
    claim: v1.ResourceClaim,
    cost: float = 1.0,
) -> Change | None:
    """Return the change of a claim if the pod then fits, else None."""
    with Trial(question.cache) as trial:
        trial.put(_CLAIM, claim)
        rows = question.feasible(question.pod)
    change = question.change(kind, f"in {asked.name}, {text}", cost, rows)
    if change is not None:
        patch, template = merge_patch(to_manifest(asked.claim), to_manifest(claim)), asked.template
        name = f"{claim.metadata.namespace}/{template or claim.metadata.name}"
        change.patched = f"{'ResourceClaimTemplate' if template else _CLAIM} {name}"
        change.patch = yaml.safe_dump({"spec": patch} if template else patch, sort_keys=False)
    return change


def _selectors(asked: _Asked) -> Iterator[tuple[str, v1.ResourceClaim]]:
    for place, (name, request) in enumerate(_requests(asked.claim)):
        for index, selector in enumerate(request.selectors):
            claim = deepcopy(asked.claim)
            del _requests(claim)[place][1].selectors[index]
            text = " ".join(selector.cel.expression.split())
            if len(text) > _LONGEST_SELECTOR:
                text = f"{text[:_LONGEST_SELECTOR]}…"
            yield f"selector {text} of request {name}", claim


def _constraints(asked: _Asked) -> Iterator[tuple[str, v1.ResourceClaim]]:
    for index, constraint in enumerate(asked.claim.spec.devices.constraints):
        claim = deepcopy(asked.claim)
        del claim.spec.devices.constraints[index]
        if constraint.match_attribute:
            text = f"that all devices have the same {constraint.match_attribute}"
        else:
            text = f"that all devices differ in {constraint.distinct_attribute}"
        yield f"the constraint {text}", claim


DEMANDS: Final[Mapping[Kind, Callable[[_Asked], Iterator[tuple[str, v1.ResourceClaim]]]]] = {
    Kind.DEVICE_SELECTOR: _selectors,
    Kind.DEVICE_CONSTRAINT: _constraints,
}
