"""Find pods that repeatedly end terms with an unexpected exception.

If a decision raises, only its pod's attempt fails. Any other unexpected exception ends the term,
and the replica begins a new one. A pod that repeatedly ends terms is set aside until it changes.

    suspected --worked on alone, the term ends--> at fault once, twice --> set aside
        ^
        '-- one of several pods that were worked on together when a term ended
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from podsched.api.objects import Pod, key_of
from podsched.serve.client.errors import FenceLost

#: A pod that has ended more terms than this is set aside.
MOST_ENDED = 2
#: Max pods remembered; the oldest are dropped first.
_MOST_PODS = 1000


class PodFault(Exception):
    """An unexpected exception (the ``__cause__``) was raised while working on these pods.

    Without pods it is unknown which pod caused it, for example if the queue fails to pop.
    """

    def __init__(self, pods: Sequence[Pod]) -> None:
        super().__init__(", ".join(key_of(pod) for pod in pods[:3]) or "no pod that is known")
        self.pods = pods


@contextmanager
def working_on(*pods: Pod) -> Iterator[None]:
    """Attribute exceptions of the block to pods."""
    try:
        yield
    except (FenceLost, PodFault):
        raise
    except Exception as bug:
        raise PodFault(pods) from bug


@dataclass(slots=True)
class _Ended:
    pod: Pod
    ended: int = 0
    reason: str = ""


class FaultyPods:
    """Counts the terms that pods have ended, over all terms of a replica."""

    def __init__(self) -> None:
        self._pods: dict[str, _Ended] = {}

    def add(self, fault: PodFault) -> None:
        """Note that a term has ended: a single pod is at fault, several are only suspected."""
        for pod in fault.pods:
            key = key_of(pod)
            known = self._pods.get(key)
            if known is None or _differs(known.pod, pod):
                known = self._pods[key] = _Ended(pod)
            if len(fault.pods) == 1:
                known.ended += 1
                known.reason = f"{known.ended} terms ended on it: {fault.__cause__!r}"
        while len(self._pods) > _MOST_PODS:
            del self._pods[next(iter(self._pods))]

    def is_suspected(self, key: str) -> bool:
        """Whether a pod must be scheduled alone, to find out whether it is at fault."""
        return key in self._pods

    def reason(self, key: str, pod: Pod | None) -> str:
        """Return why the current version of a pod is to be set aside; "" if it is not."""
        known = self._pods.get(key)
        if known is None:
            return ""
        if pod is None or _differs(known.pod, pod):
            del self._pods[key]
            return ""
        return known.reason if known.ended > MOST_ENDED and not pod.spec.node_name else ""


def _differs(before: Pod, after: Pod) -> bool:
    """Whether anything but the status has changed; schedulers write the status themselves."""
    old, new = before.metadata, after.metadata
    return (
        old.uid != new.uid
        or old.labels != new.labels
        or old.annotations != new.annotations
        or before.spec != after.spec
    )
