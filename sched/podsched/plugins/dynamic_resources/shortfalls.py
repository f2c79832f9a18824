"""Measures the devices that a node has for each request of a pod's claims, for explanations.

A request is measured in steps: the devices of its class, of these the devices that match each of
its selectors, and of these the free ones. A constraint is measured by the number of free devices
that satisfy it together. After the first step with too few devices, later steps count as
sufficient, because they would only repeat the lack.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from podsched.api.cel.syntax import conjuncts
from podsched.framework.requirements import Parts
from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.choices import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.extended_claims import IN_MEMORY
from podsched.plugins.dynamic_resources.model import DeviceID, Node
from podsched.plugins.dynamic_resources.node_search import PodNeeds, candidates_on
from podsched.plugins.dynamic_resources.requests import make_levels
from podsched.plugins.dynamic_resources.selectors import SelectorCompiler

#: Max characters of a selector, and values of a device, that are shown.
_LONGEST_SELECTOR: Final = 80
_MOST_VALUES: Final = 3
#: Max devices that are looked at for one example, and max devices of a node that are explained.
_MOST_NAMED: Final = 16
_MOST_DEVICES: Final = 1024

#: Returns the user of a device, such as "in use by claim default/train for pod web-0"; "" if
#: unknown.
Users = Callable[[DeviceID], str]


class Measured(NamedTuple):
    """A step: the number of devices that is wanted, and the number that a node has.

    ``example``: a device that does not count, with the values that a selector reads; "" for none.
    """

    what: str
    wanted: int
    available: int
    example: str = ""


def measure(
    node: Node, needs: PodNeeds, compile_selector: SelectorCompiler, users: Users
) -> list[Measured]:
    """Return the steps of all requests; they are the same steps for each node.

    Return no steps if a selector or a request is invalid on the node.
    """
    try:
        levels, candidates = _prepared(node, needs, compile_selector)
        return list(_steps(levels, candidates, node, users))
    except AllocationError:
        return []


def _prepared(
    node: Node, needs: PodNeeds, compile_selector: SelectorCompiler
) -> tuple[Sequence[Level], Candidates]:
    """Return the requests and the devices of a node. Raises AllocationError."""
    candidates = candidates_on(node, needs, compile_selector)
    return make_levels(needs.claims, candidates), candidates


def _steps(
    levels: Sequence[Level], candidates: Candidates, node: Node, users: Users
) -> Iterator[Measured]:
    free: dict[int, list[tuple[Alternative, list[Candidate]]]] = {}
    for level in levels:
        for alternative in level.alternatives:
            found: list[Candidate] = []
            yield from _up_to_first_lack(
                _steps_of_request(alternative, candidates, node, users, found)
            )
            free.setdefault(alternative.claim_index, []).append((alternative, found))
    for of_claim in free.values():
        yield from _constraints(of_claim, candidates)


def _up_to_first_lack(steps: Iterable[Measured]) -> Iterator[Measured]:
    """Yield the steps; those after the first with too few devices count as sufficient."""
    lacks = False
    for step in steps:
        yield step._replace(available=step.wanted, example="") if lacks else step
        lacks |= step.available < step.wanted


def _steps_of_request(
    alternative: Alternative,
    candidates: Candidates,
    node: Node,
    users: Users,
    free: list[Candidate],
) -> Iterator[Measured]:
    """Yield the steps of a request, and append the devices that it could get to ``free``."""
    wanted = max(alternative.request.count, 1) if alternative.all_devices is None else 1
    name = f"{_name(alternative)}: devices"
    of_class = alternative.device_class
    left = [
        each
        for each in candidates.devices
        if candidates.select("class", of_class.name, of_class.selectors, each)
    ]
    example = ""
    if len(left) < wanted:
        example = _nearest(of_class.selectors, candidates.devices, left, candidates, node)
    yield Measured(f"{name} of class {of_class.name}", wanted, len(left), example)
    for expression in alternative.request.selectors:
        selected = [
            each
            for each in left
            if candidates.select("claim", alternative.claim, [expression], each)
        ]
        example = ""
        if len(selected) < wanted:
            example = _nearest([expression], left, selected, candidates, node)
        text = shortened(expression or "")
        yield Measured(f"{name} that match {text}", wanted, len(selected), example)
        left = selected
    suitable = [each for each in left if candidates.needs(alternative, each) is not None]
    if alternative.request.capacity:
        yield Measured(f"{name} with the requested capacity", wanted, len(suitable))
    tolerated = [each for each in suitable if candidates.tolerates(alternative, each)]
    yield Measured(f"{name} whose taints it tolerates", wanted, len(tolerated))
    usable = [each for each in tolerated if not _is_in_use(alternative, each)]
    free += usable
    example = ""
    if len(usable) < wanted:
        example = _in_use([each.id for each in tolerated if each not in usable], node, users)
    yield Measured(f"{name} that are free", wanted, len(usable), example)


def _name(alternative: Alternative) -> str:
    claim = (
        "extended resources"
        if alternative.claim.name == IN_MEMORY
        else f"claim {alternative.claim.name}"
    )
    return f"{claim}, request {alternative.full_name}"


def _is_in_use(alternative: Alternative, candidate: Candidate) -> bool:
    return not alternative.request.admin_access and candidate.is_allocated


def _in_use(taken: Sequence[DeviceID], node: Node, users: Users) -> str:
    """Return a text with the users of devices."""
    by_user: dict[str, list[str]] = {}
    for device in taken[:_MOST_NAMED]:
        by_user.setdefault(users(device), []).append(device.device)
    found = [f"{', '.join(names)}: {user}" for user, names in by_user.items() if user]
    more = f", and {len(taken) - _MOST_NAMED} more" if len(taken) > _MOST_NAMED else ""
    return f"on {node.name} {'; '.join(found)}{more}" if found else ""


def _nearest(
    expressions: Sequence[str | None],
    tried: Sequence[Candidate],
    selected: Sequence[Candidate],
    candidates: Candidates,
    node: Node,
) -> str:
    """Return why the device that fails the fewest terms is refused; "" if none is refused."""
    refused = [each for each in tried if each not in selected][:_MOST_NAMED]
    missed = [(_missed(expressions, each, candidates), each) for each in refused]
    if not missed:
        return ""
    (terms, nearest) = min(missed, key=lambda one: len(one[0]))
    about = f"{nearest.id.device} of {node.name}"
    values = _values(terms[0], nearest)
    if [" ".join(terms[0].split())] == [" ".join((each or "").split()) for each in expressions]:
        return f"{about} has {values}"
    return f"{shortened(terms[0])} is false of {about}, which has {values}"


def _missed(
    expressions: Iterable[str | None], candidate: Candidate, candidates: Candidates
) -> list[str]:
    """Return the terms of selectors that are false for a device, or fail; at least one."""
    whole = [expression or "" for expression in expressions]
    terms = [term for expression in whole for term in conjuncts(expression)]
    return [term for term in terms if not _holds(term, candidate, candidates)] or whole


def _holds(term: str, candidate: Candidate, candidates: Candidates) -> bool:
    try:
        return candidates.select("", "", [term], candidate)
    except AllocationError:
        return False


def _values(expression: str, candidate: Candidate) -> str:
    """Return the values of a device that an expression names."""
    view, words = candidate.device.view, set(re.findall(r"\w+", expression))
    found = [f"driver {candidate.id.driver}"] if "driver" in words else []
    for name, value in view.attributes.items():
        if name.rpartition("/")[2] in words:
            shown = next((v for v in value.values() if v is not None), None)
            shown = str(shown).lower() if isinstance(shown, bool) else shown
            found.append(f"{name.rpartition('/')[2]} {shown}")
    found += [f"{name} {amount}" for name, amount in view.capacity.items() if name in words]
    return ", ".join(found[:_MOST_VALUES]) or "none of what it names"


def shortened(expression: str) -> str:
    """Return a selector in one line of bounded length."""
    text = " ".join(expression.split())
    return f"{text[:_LONGEST_SELECTOR]}…" if len(text) > _LONGEST_SELECTOR else text


def verdicts(
    node: Node, needs: PodNeeds, compile_selector: SelectorCompiler, users: Users
) -> list[Parts]:
    """Return, request by request, why it cannot get each device of a node.

    Raises AllocationError if a request is invalid.
    """
    levels, candidates = _prepared(node, needs, compile_selector)
    found = []
    for level in levels:
        for alternative in level.alternatives:
            by_reason: dict[str, list[str]] = {}
            for each in candidates.devices[:_MOST_DEVICES]:
                why = _why_not(alternative, each, candidates, users)
                by_reason.setdefault(why, []).append(each.id.device)
            found += [
                Parts(_name(alternative), names, why) for why, names in sorted(by_reason.items())
            ]
    return found


def _why_not(
    alternative: Alternative, each: Candidate, candidates: Candidates, users: Users
) -> str:
    """Return the first reason, in the allocator's order, why a request cannot get a device."""
    selectors = (
        (f"class {alternative.device_class.name}", alternative.device_class.selectors),
        ("", alternative.request.selectors),
    )
    for author, expressions in selectors:
        try:
            if candidates.select("claim", alternative.claim, expressions, each):
                continue
        except AllocationError as error:
            return str(error)
        term = _missed(expressions, each, candidates)[0]
        by = f"{author}: " if author else ""
        return f"{by}{shortened(term)} is false: it has {_values(term, each)}"
    if candidates.needs(alternative, each) is None:
        return "it lacks the capacity, or is not for this node"
    if not candidates.tolerates(alternative, each):
        taints = ", ".join(
            f"{taint.key}={taint.value}:{taint.effect}" for taint in each.device.taints
        )
        return f"taint {taints}"
    if _is_in_use(alternative, each):
        return users(each.id) or "in use"
    return ""


def _constraints(
    requests: Sequence[tuple[Alternative, list[Candidate]]], candidates: Candidates
) -> Iterator[Measured]:
    """Yield a step for each constraint of a claim: the free devices that satisfy it together."""
    claim = requests[0][0].claim
    for index, constraint in enumerate(claim.constraints):
        under = [(each, found) for each, found in requests if index in each.constraints]
        if not under:
            continue
        of_requests = {each.base_name: each for each, _ in reversed(under)}  # The first of each.
        wanted = sum(max(each.count, 1) for each in of_requests.values())
        enough = all(len(found) >= max(each.count, 1) for each, found in under)
        counts: Counter[object] = Counter()
        for each, device in {(a, c.index): (a, c) for a, found in under for c in found}.values():
            counts.update(candidates.values(each, index, device) or ())
        if constraint.match_attribute:
            what = f"free devices of the same {constraint.match_attribute}"
            available = max(counts.values(), default=0)
        else:
            what, available = (
                f"free devices that differ in {constraint.distinct_attribute}",
                len(counts),
            )
        yield Measured(f"claim {claim.name}: {what}", wanted, available if enough else wanted)
