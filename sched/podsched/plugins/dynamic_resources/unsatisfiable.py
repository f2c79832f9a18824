"""Finds out whether a request or constraint can never be satisfied, whatever the others get.

Without this, the search would try all devices of the requests before it. A request is compared with
the number of devices that it can get alone; a matchAttribute with the number of these that have a
value in common; a distinctAttribute with the number of their values. The search never gets past a
request that cannot be satisfied, so later requests, and errors that they may raise, do not matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidates, Level
from podsched.plugins.dynamic_resources.constraints import Values
from podsched.plugins.dynamic_resources.equivalence import Equivalence

#: The alternatives of a request that can be satisfied alone.
_Request = Sequence[Alternative]
#: For each alternative of a request: the number of devices, and the values of those it can get.
_Wanted = Sequence[tuple[int, Sequence[Values]]]


def is_unsatisfiable(
    levels: Sequence[Level], candidates: Candidates, equivalence: Equivalence
) -> Iterator[bool]:
    """Yield, after each pass over all devices, whether the search certainly fails.

    The caller stops after the first True. Without a True, the search may still fail.
    """
    by_claim: dict[int, list[_Request]] = defaultdict(list)
    for level in levels:
        if not equivalence.is_safe(level):
            break
        request = [
            alternative for alternative in level.alternatives if _is_enough(alternative, candidates)
        ]
        yield not request
        by_claim[level.claim_index].append(request)
    for requests in by_claim.values():
        for index, constraint in enumerate(requests[0][0].claim.constraints):
            wanted = list(_wanted(requests, index, candidates))
            if all(all(values) for request in wanted for _, values in request):
                yield _has_no_common(wanted) if constraint.match_attribute else _has_too_few(wanted)


def _is_enough(alternative: Alternative, candidates: Candidates) -> bool:
    count = alternative.count
    return count > 0 and len(candidates.available(alternative)) >= count


def _wanted(
    requests: Sequence[_Request], constraint: int, candidates: Candidates
) -> Iterator[_Wanted]:
    """Yield the wants of the requests whose alternatives are all subject to a constraint."""
    for request in requests:
        if all(constraint in alternative.constraints for alternative in request):
            yield [
                (
                    alternative.count,
                    [
                        candidates.values(alternative, constraint, device) or frozenset()
                        for device in candidates.available(alternative)
                    ],
                )
                for alternative in request
            ]


def _has_no_common(wanted: Sequence[_Wanted]) -> bool:
    """Return whether there is no value of which each request can get enough devices."""
    common: set[Any] | None = None
    for request in wanted:
        mine = {
            value
            for count, values in request
            for value, number in Counter(value for own in values for value in own).items()
            if number >= count
        }
        common = mine if common is None else common & mine
    return common is not None and not common


def _has_too_few(wanted: Sequence[_Wanted]) -> bool:
    """Return whether the requests want more devices than there are values."""
    least = sum(min(count for count, _ in request) for request in wanted)
    found = {
        value for request in wanted for _, values in request for own in values for value in own
    }
    return least > len(found)
