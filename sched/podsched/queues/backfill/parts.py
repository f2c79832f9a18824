"""Which part of all promised starts each queue may have.

All queues with backfill share a number of promised starts, because each one costs time. Without
parts, a queue with many waiting units could take them all, for as long as its units may run.
"""

from __future__ import annotations

from collections.abc import Mapping


def equal_parts(total: int, needs: Mapping[str, float]) -> dict[str, int]:
    """Return the part of each queue: the same for all, at least 1.

    ``needs``: how many each queue needs at most; what it does not need is divided among the others.
    """
    parts, left = dict[str, int](), total
    for index, (queue, need) in enumerate(sorted(needs.items(), key=lambda one: one[1])):
        parts[queue] = int(min(need, max(1, left // (len(needs) - index))))
        left -= parts[queue]
    return parts


def has_one_left(
    queue: str, total: int, parts: Mapping[str, int], promised: Mapping[str, int]
) -> bool:
    """Whether one more start may be promised in a queue.

    Beyond its own part, a queue may have only what no other queue has as a part. ``promised``: the
    promised starts by queue.
    """
    used = sum(promised.values())
    if used >= total:
        return False
    if promised.get(queue, 0) < parts.get(queue, 0):
        return True
    kept = (part - promised.get(other, 0) for other, part in parts.items() if other != queue)
    return used + sum(max(0, one) for one in kept) < total
