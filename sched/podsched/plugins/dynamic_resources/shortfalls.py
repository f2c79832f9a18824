"""How many devices a node has for each request of a pod's claims, for explanations.

Each request is measured step by step: devices of its class, those that match each of its selectors,
those that are free. A constraint is measured by the free devices that satisfy it together. Where a
step has too few devices, the later ones do not count: they would have too few as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from podsched.plugins.dynamic_resources.candidates import Candidates, SelectorCompiler
from podsched.plugins.dynamic_resources.choices import Alternative, Candidate, Level
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.model import Features, Node
from podsched.plugins.dynamic_resources.node_search import PodNeeds
from podsched.plugins.dynamic_resources.pools import gather_pools
from podsched.plugins.dynamic_resources.requests import Requests

#: Characters of a selector, and values of a device, that are shown.
_LONGEST_SELECTOR: Final = 80
_MOST_VALUES: Final = 3


class Measured(NamedTuple):
    """A number of devices that is wanted, and that a node has.

    ``example``: a device that is not counted, with the values that a selector reads; "" for none.
    """

    what: str
    wanted: int
    available: int
    example: str = ""


def measure(node: Node, needs: PodNeeds, compile_selector: SelectorCompiler) -> list[Measured]:
    """Return the same steps for every node that the same pod is measured on.

    Returns nothing for a node on which a selector or a request is invalid.
    """
    features, devices = Features(), needs.devices
    pools = gather_pools(devices.slices_for(node), node, features)
    candidates = Candidates(pools, node, features, devices.allocated, compile_selector)
    try:
        levels = Requests(devices.classes, pools, candidates, features).levels(needs.claims)
        return list(_steps(levels, candidates, node))
    except AllocationError:
        return []


def _steps(levels: Sequence[Level], candidates: Candidates, node: Node) -> Iterator[Measured]:
    free: dict[int, list[tuple[Alternative, list[Candidate]]]] = {}
    for level in levels:
        for of in level.alternatives:
            found: list[Candidate] = []
            yield from _up_to_first_lack(_of_request(of, candidates, node, found))
            free.setdefault(of.claim_index, []).append((of, found))
    for of_claim in free.values():
        yield from _constraints(of_claim, candidates)


def _up_to_first_lack(steps: Iterable[Measured]) -> Iterator[Measured]:
    lacks = False
    for step in steps:
        yield step._replace(available=step.wanted, example="") if lacks else step
        lacks |= step.available < step.wanted


def _of_request(
    of: Alternative, candidates: Candidates, node: Node, free: list[Candidate]
) -> Iterator[Measured]:
    """Yield the steps of a request, and add the devices that it could get to ``free``."""
    wanted = max(of.request.count, 1) if of.all_devices is None else 1
    name = f"claim {of.claim.name}, request {of.full_name}: devices"
    of_class = of.device_class
    left = [
        each
        for each in candidates.devices
        if candidates.select(f"class {of_class.name}", of_class.selectors, each)
    ]
    yield Measured(f"{name} of class {of_class.name}", wanted, len(left))
    for expression in of.request.selectors:
        selected = [
            each for each in left if candidates.select(f"claim {of.claim}", [expression], each)
        ]
        refused = next((each for each in left if each not in selected), None)
        text = " ".join((expression or "").split())
        if len(text) > _LONGEST_SELECTOR:
            text = f"{text[:_LONGEST_SELECTOR]}…"
        example = "" if refused is None else _values(expression or "", refused, node)
        yield Measured(f"{name} that match {text}", wanted, len(selected), example)
        left = selected
    suitable = [each for each in left if candidates.needs(of, each) is not None]
    if of.request.capacity:
        yield Measured(f"{name} with the requested capacity", wanted, len(suitable))
    tolerated = [each for each in suitable if candidates.tolerates(of, each)]
    yield Measured(f"{name} whose taints it tolerates", wanted, len(tolerated))
    admin = of.request.admin_access
    free += [each for each in tolerated if admin or not candidates.is_allocated(each)]
    yield Measured(f"{name} that are free", wanted, len(free))


def _values(expression: str, candidate: Candidate, node: Node) -> str:
    """Return the values of a device that an expression names."""
    view, words = candidate.device.view, set(re.findall(r"\w+", expression))
    found = [f"driver {candidate.id.driver}"] if "driver" in words else []
    for name, value in view.attributes.items():
        if name.rpartition("/")[2] in words:
            shown = next((v for v in value.values() if v is not None), None)
            found.append(f"{name.rpartition('/')[2]} {shown}")
    found += [f"{name} {of}" for name, of in view.capacity.items() if name in words]
    about = ", ".join(found[:_MOST_VALUES]) or "none of what it names"
    return f"{candidate.id.device} of {node.name} has {about}"


def _constraints(
    requests: Sequence[tuple[Alternative, list[Candidate]]], candidates: Candidates
) -> Iterator[Measured]:
    """Yield for each constraint of a claim how many free devices satisfy it together."""
    claim = requests[0][0].claim
    for index, of in enumerate(claim.constraints):
        under = [(each, found) for each, found in requests if index in each.constraints]
        if not under:
            continue
        wanted = sum(max(each.count, 1) for each in _firsts(each for each, _ in under))
        enough = all(len(found) >= max(each.count, 1) for each, found in under)
        counts: Counter[object] = Counter()
        for each, device in {(a, c.index): (a, c) for a, found in under for c in found}.values():
            counts.update(candidates.values(each, index, device) or ())
        if of.match_attribute:
            what = f"free devices of the same {of.match_attribute}"
            available = max(counts.values(), default=0)
        else:
            what, available = f"free devices that differ in {of.distinct_attribute}", len(counts)
        yield Measured(f"claim {claim.name}: {what}", wanted, available if enough else wanted)


def _firsts(alternatives: Iterable[Alternative]) -> list[Alternative]:
    """Return one alternative of each request."""
    return list({of.base_name: of for of in reversed(list(alternatives))}.values())
