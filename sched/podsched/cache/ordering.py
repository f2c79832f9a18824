"""Places in the order of pods, to which a pod can come back: preemption decides by that order."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from podsched.framework.pods import PodInfo


def preceding(ordered: Mapping[str, object], uid: str) -> frozenset[str]:
    """Return the uids that stand before one."""
    uids = list(ordered)
    return frozenset(uids[: uids.index(uid)])


def move_behind(ordered: dict[str, PodInfo], uid: str, preceding: Collection[str]) -> None:
    """Move a uid right behind those that are to precede it, as far as they are there."""
    others = [other for other in ordered if other != uid and other not in preceding]
    for later in (uid, *others):
        ordered[later] = ordered.pop(later)
