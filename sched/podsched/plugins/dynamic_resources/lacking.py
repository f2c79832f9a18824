"""Explains which devices rows lack for a pod's claims, as requirements or device by device.

A request is measured in steps: the devices of its class, of these the devices that match each of
its selectors, and of these the free ones. A constraint is measured by the number of free devices
that satisfy it together. After the first step with too few devices, later steps count as
sufficient, because they would only repeat the lack.

Rows with equal devices are measured once, and at most ``_MOST_MEASURED`` different ones. For a
claim with one usual request, the columns of ``free_devices`` have the number of free devices of the
others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.api.cel.syntax import conjuncts
from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.requirements import Parts, Requirement
from podsched.framework.verdicts import Rows
from podsched.lib.counted import listed
from podsched.lib.groups import lists_by_key
from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Candidates, Level
from podsched.plugins.dynamic_resources.errors import AllocationAborted, AllocationError
from podsched.plugins.dynamic_resources.extended_claims import IN_MEMORY
from podsched.plugins.dynamic_resources.in_use import DevicesInUse
from podsched.plugins.dynamic_resources.model import DeviceID, Node
from podsched.plugins.dynamic_resources.node_search import PodNeeds, candidates_on
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from podsched.plugins.dynamic_resources.requests import make_levels
from podsched.plugins.dynamic_resources.selectors import SelectorCompiler, quick_selector
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.matching import match_terms
from podsched.v1 import objects_pb2 as v1

#: Max nodes with different devices that are measured: eight GPUs take 0.3 ms, their 112 partitions
#: some 2 ms.
_MOST_MEASURED: Final = 16
#: Max nodes that are compared with the measured ones, which takes 20 µs each.
_MOST_ROWS: Final = 400
#: Max characters of selectors whose terms are tried: compiling them takes some milliseconds.
_LONGEST_TRIED: Final = 1024
#: Max characters of a selector, and values of a device, that are shown.
_LONGEST_SELECTOR: Final = 80
_MOST_VALUES: Final = 3
#: Max devices that are looked at for one example, and max devices of a node that are explained.
_MOST_NAMED: Final = 16
_MOST_DEVICES: Final = 1024
#: Max pods that are named in the text about a claim.
_MOST_PODS: Final = 2

#: Returns the user of a device, such as "in use by claim default/train for pod web-0"; "" if
#: unknown.
Users = Callable[[DeviceID], str]


class _Step(NamedTuple):
    """A step: the number of devices that is wanted, and the number that a node has.

    ``example``: a device that does not count, with the values that a selector reads; "" for none.
    """

    what: str
    wanted: int
    available: int
    example: str = ""


class _Check(NamedTuple):
    """A condition for a request to get a device.

    ``what``: the devices that it leaves, "" if it is no step. ``why_not``: returns why a device
    fails it. ``example``: returns a text about some of the devices that do, or "".
    """

    what: str
    passes: Callable[[Candidate], bool]
    why_not: Callable[[Candidate], str]
    example: Callable[[Sequence[Candidate]], str] = lambda _: ""


def requirements_of(
    needs: PodNeeds,
    nodes: NodeColumns,
    rows: Rows,
    compile_selector: SelectorCompiler,
    cluster: ClusterView,
) -> Iterator[Requirement]:
    """Yield the number of devices that each request wants, and the numbers that the rows have.

    ``cluster``: to find the users of devices. On rows that are not measured, requirements are met.
    """
    for terms in needs.allocated:
        reached = match_terms(terms, nodes, rows)
        yield Requirement.met("the devices of an allocated claim, within reach", reached)
    base = rows_of_base(nodes, rows)
    users = _users_of(needs.devices.in_use, cluster)
    for variant, mine in needs.by_variant(base):
        if variant.claims:
            by_row = _measured(variant, mine, nodes, rows, compile_selector, users)
            yield from _requirements(by_row)
            unmeasured = mine & np.array([not steps for steps in by_row], dtype=np.bool_)
            yield from _free(variant, base, unmeasured)


def parts_of(
    needs: PodNeeds,
    nodes: NodeColumns,
    row: int,
    compile_selector: SelectorCompiler,
    cluster: ClusterView,
) -> list[Parts]:
    """Return why requests cannot get each device of a row; nothing if a request is invalid."""
    users = _users_of(needs.devices.in_use, cluster)
    found: list[Parts] = []
    for variant, mine in needs.by_variant(rows_of_base(nodes, np.array([row]))):
        if mine[0] and variant.claims:
            try:
                found += _verdicts(nodes.node(row).metadata, variant, compile_selector, users)
            except AllocationError:
                return []
    return found


def _measured(
    needs: PodNeeds,
    mine: Bools,
    nodes: NodeColumns,
    rows: Rows,
    compile_selector: SelectorCompiler,
    users: Users,
) -> list[list[_Step]]:
    """Return the steps of ``_measure`` by row; none for rows not in ``mine`` or not measured."""
    measured: dict[Hashable, list[_Step]] = {}
    by_row: list[list[_Step]] = [[] for _ in range(len(rows))]
    for place in np.flatnonzero(mine)[:_MOST_ROWS].tolist():
        node = nodes.node(int(rows[place])).metadata
        situation = needs.devices.situation(node) or node.name
        if situation not in measured and len(measured) < _MOST_MEASURED:
            measured[situation] = _measure(node, needs, compile_selector, users)
        by_row[place] = measured.get(situation, [])
    return by_row


def _requirements(by_row: Sequence[Sequence[_Step]]) -> Iterator[Requirement]:
    """Yield a requirement for each step, and one for rows on which no single step fails."""
    steps = max(by_row, key=len, default=[])
    lacking = np.zeros(len(by_row), dtype=np.bool_)
    for at, step in enumerate(steps):
        has = [row_steps[at].available if row_steps else step.wanted for row_steps in by_row]
        available = np.array(has, dtype=np.int64)
        lacks = available < step.wanted
        examples = (
            row_steps[at].example
            for row_steps, missing in zip(by_row, lacks, strict=True)
            if missing
        )
        example = next(filter(None, examples), "")
        what = f"{step.what} ({example})" if example else step.what
        yield Requirement(what, "", np.full_like(available, step.wanted), available)
        lacking |= lacks
    if steps:
        unknown = np.array([not row_steps for row_steps in by_row], dtype=np.bool_)
        yield Requirement.met("devices for all requests of its claims at once", lacking | unknown)


def _free(needs: PodNeeds, base: Rows, unmeasured: Bools) -> Iterator[Requirement]:
    """Yield the numbers of free suitable devices on rows that were not measured."""
    if needs.fitting is None or needs.fitting.left is None:
        return
    (claim,) = needs.claims
    (request,) = claim.requests
    wanted = np.full(len(base), needs.count, dtype=np.int64)
    known = unmeasured & ~needs.fitting.unsure[base]
    available = np.where(known, needs.fitting.left[base] + needs.count, wanted)
    what = f"claim {claim.name}, request {request.name}: suitable devices that are free"
    yield Requirement(what, "", wanted, available)


def _measure(
    node: Node, needs: PodNeeds, compile_selector: SelectorCompiler, users: Users
) -> list[_Step]:
    """Return the steps of all requests; they are the same steps for each node.

    Return no steps if a selector or a request is invalid on the node.
    """
    candidates = candidates_on(node, needs, compile_selector)
    try:
        return list(_steps(make_levels(needs.claims, candidates), candidates, users))
    except AllocationError:
        return []


def _verdicts(
    node: Node, needs: PodNeeds, compile_selector: SelectorCompiler, users: Users
) -> list[Parts]:
    """Return, request by request, why it cannot get each device of a node.

    Raises AllocationError if a request is invalid.
    """
    candidates = candidates_on(node, needs, compile_selector)
    found = []
    for level in make_levels(needs.claims, candidates):
        for alternative in level.alternatives:
            checks = list(_checks(alternative, candidates, users))
            first = candidates.devices[:_MOST_DEVICES]
            by_reason = lists_by_key((_why_not(each, checks), each.id.device) for each in first)
            found += [
                Parts(_name(alternative), names, why) for why, names in sorted(by_reason.items())
            ]
    return found


def _why_not(candidate: Candidate, checks: Sequence[_Check]) -> str:
    """Return why a request cannot get a device, "" if it can."""
    try:
        failed = (check for check in checks if not check.passes(candidate))
        return next((check.why_not(candidate) for check in failed), "")
    except AllocationError as error:
        return str(error)


def _steps(levels: Sequence[Level], candidates: Candidates, users: Users) -> Iterator[_Step]:
    free: dict[int, list[tuple[Alternative, list[Candidate]]]] = {}
    for level in levels:
        for alternative in level.alternatives:
            wanted = max(alternative.request.count, 1) if alternative.all_devices is None else 1
            left, lacks = candidates.devices, False
            for check in _checks(alternative, candidates, users):
                tried, left = left, [each for each in left if check.passes(each)]
                what = f"{_name(alternative)}: devices {check.what}"
                if check.what and (lacks or len(left) >= wanted):
                    yield _Step(what, wanted, max(len(left), wanted))
                elif check.what:
                    example = check.example([each for each in tried if each not in left])
                    yield _Step(what, wanted, len(left), example)
                    lacks = True
            free.setdefault(alternative.claim_index, []).append((alternative, left))
    for of_claim in free.values():
        yield from _constraints(of_claim, candidates)


def _checks(alternative: Alternative, candidates: Candidates, users: Users) -> Iterator[_Check]:
    """Yield what a device must satisfy, in the allocator's order."""
    of_class, request = alternative.device_class, alternative.request
    yield _Check(
        f"of class {of_class.name}",
        partial(candidates.select, "class", of_class.name, of_class.selectors),
        partial(_is_false, of_class.selectors, candidates, f"class {of_class.name}: "),
        partial(_nearest, of_class.selectors, candidates),
    )
    for index, expression in enumerate(request.selectors):
        yield _Check(
            f"that match {_shortened(expression or '')}",
            # The earlier ones match. With these, an error has the selector's index.
            partial(candidates.select, "claim", alternative.claim, request.selectors[: index + 1]),
            partial(_is_false, [expression], candidates, ""),
            partial(_nearest, [expression], candidates),
        )
    yield _Check(
        "with the requested capacity" if request.capacity else "",
        lambda each: candidates.needs(alternative, each) is not None,
        lambda each: "it lacks the capacity, or is not for this node",
    )
    yield _Check(
        "whose taints it tolerates",
        partial(candidates.tolerates, alternative),
        lambda each: "taint " + ", ".join(map(_taint, each.device.taints)),
    )
    yield _Check(
        "that are free",
        lambda each: bool(request.admin_access) or not each.is_allocated,
        lambda each: users(each.id) or "in use",
        partial(_in_use, users, candidates),
    )


def _taint(taint: v1.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"


def _name(alternative: Alternative) -> str:
    claim = (
        "extended resources"
        if alternative.claim.name == IN_MEMORY
        else f"claim {alternative.claim.name}"
    )
    return f"{claim}, request {alternative.full_name}"


def _in_use(users: Users, candidates: Candidates, taken: Sequence[Candidate]) -> str:
    """Return a text with the users of devices."""
    by_user = lists_by_key((users(each.id), each.id.device) for each in taken[:_MOST_NAMED])
    found = [f"{', '.join(names)}: {user}" for user, names in by_user.items() if user]
    more = f", and {len(taken) - _MOST_NAMED} more" if len(taken) > _MOST_NAMED else ""
    return f"on {candidates.node.name} {'; '.join(found)}{more}" if found else ""


def _is_false(
    expressions: Sequence[str | None], candidates: Candidates, by: str, candidate: Candidate
) -> str:
    """Return which term of selectors is false for a device; ``by`` begins the text."""
    term = _missed(expressions, candidates, candidate)[0]
    return f"{by}{_shortened(term)} is false: it has {_values(term, candidate)}"


def _nearest(
    expressions: Sequence[str | None], candidates: Candidates, refused: Sequence[Candidate]
) -> str:
    """Return why the device that fails the fewest terms is refused; "" if none is refused."""
    missed = [(_missed(expressions, candidates, each), each) for each in refused[:_MOST_NAMED]]
    if not missed:
        return ""
    (terms, nearest) = min(missed, key=lambda one: len(one[0]))
    about = f"{nearest.id.device} of {candidates.node.name}"
    values = _values(terms[0], nearest)
    if [" ".join(terms[0].split())] == [" ".join((each or "").split()) for each in expressions]:
        return f"{about} has {values}"
    return f"{_shortened(terms[0])} is false of {about}, which has {values}"


def _missed(
    expressions: Iterable[str | None], candidates: Candidates, candidate: Candidate
) -> list[str]:
    """Return the terms of selectors that are false for a device, or fail; at least one."""
    whole = [expression or "" for expression in expressions]
    if sum(map(len, whole)) > _LONGEST_TRIED:
        return whole
    try:
        terms = [term for expression in whole for term in conjuncts(expression)]
        return [term for term in terms if not _holds(term, candidates, candidate)] or whole
    except AllocationAborted:
        return whole


def _holds(term: str, candidates: Candidates, candidate: Candidate) -> bool:
    """Raise AllocationAborted if this takes too long."""
    try:
        return quick_selector(candidates.features, term).matches(candidate.device.view)
    except (CompileError, EvaluationError):
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


def _shortened(expression: str) -> str:
    """Return a selector in one line of bounded length."""
    text = " ".join(expression.split())
    return f"{text[:_LONGEST_SELECTOR]}…" if len(text) > _LONGEST_SELECTOR else text


def _constraints(
    requests: Sequence[tuple[Alternative, list[Candidate]]], candidates: Candidates
) -> Iterator[_Step]:
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
            what = f"free devices that differ in {constraint.distinct_attribute}"
            available = len(counts)
        yield _Step(f"claim {claim.name}: {what}", wanted, available if enough else wanted)


def _users_of(in_use: DevicesInUse, cluster: ClusterView) -> Users:
    """Return a function that returns a text with the claims and pods that use a device."""

    def users(device: DeviceID) -> str:
        claims = (cluster.assumed(CLAIM).get(*key) for key in in_use.users(device))
        return ", ".join(_user(claim) for claim in claims if claim is not None)

    return users


def _user(claim: v1.ResourceClaim) -> str:
    pods = [consumer.name for consumer in claim.status.reserved_for]
    shown = listed(pods, _MOST_PODS)
    name = f"in use by claim {claim.metadata.namespace}/{claim.metadata.name}"
    return f"{name} for pod{'s' if len(pods) > 1 else ''} {shown}" if shown else name
