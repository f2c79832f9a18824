"""Whether some request or constraint cannot be satisfied, whatever devices the others get.

A search would find that out by trying all devices of the requests before. What is compared: how
many devices a request can get; for a matchAttribute, how many of them have a value in common; for a
distinctAttribute, how many values they have. The search never passes a request that cannot be
satisfied, so the requests behind it, and the errors that they may raise, do not matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.choices import Alternative, Level
from podsched.plugins.dynamic_resources.constraints import Values
from podsched.plugins.dynamic_resources.equivalence import Equivalence

#: The alternatives of a request that can be satisfied alone.
_Request = Sequence[Alternative]
#: Of each alternative of a request: how many devices it wants, and the values of those it can get.
_Wanted = Sequence[tuple[int, Sequence[Values]]]


def is_unsatisfiable(
    levels: Sequence[Level], candidates: Candidates, equivalence: Equivalence
) -> Iterator[bool]:
    """Yield, after each look at all devices, whether it is certain that the search fails.

    True is the last; it may fail also if there is none.
    """
    by_claim: dict[int, list[_Request]] = defaultdict(list)
    for level in levels:
        if not equivalence.is_safe(level):
            break
        request = [of for of in level.alternatives if _is_enough(of, candidates)]
        yield not request
        by_claim[level.claim_index].append(request)
    for requests in by_claim.values():
        for index, of in enumerate(requests[0][0].claim.constraints):
            wanted = list(_wanted(requests, index, candidates))
            if all(all(values) for request in wanted for _, values in request):
                yield _has_no_common(wanted) if of.match_attribute else _has_too_few(wanted)


def _is_enough(alternative: Alternative, candidates: Candidates) -> bool:
    count = alternative.count
    return count > 0 and len(candidates.available(alternative)) >= count


def _wanted(
    requests: Sequence[_Request], constraint: int, candidates: Candidates
) -> Iterator[_Wanted]:
    """Yield what the requests want that a constraint concerns with all their alternatives."""
    for request in requests:
        if all(constraint in of.constraints for of in request):
            yield [
                (
                    of.count,
                    [
                        candidates.values(of, constraint, device) or frozenset()
                        for device in candidates.available(of)
                    ],
                )
                for of in request
            ]


def _has_no_common(wanted: Sequence[_Wanted]) -> bool:
    """Whether there is no value of which each request can get enough devices."""
    common: set[Any] | None = None
    for request in wanted:
        mine = {
            value
            for count, values in request
            for value, number in Counter(value for of in values for value in of).items()
            if number >= count
        }
        common = mine if common is None else common & mine
    return common is not None and not common


def _has_too_few(wanted: Sequence[_Wanted]) -> bool:
    """Whether the requests want more devices than there are values."""
    least = sum(min(count for count, _ in request) for request in wanted)
    found = {value for request in wanted for _, values in request for of in values for value in of}
    return least > len(found)
