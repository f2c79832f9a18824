"""The past usage of LocalQueues, which orders the units of ClusterQueues with fair sharing.

The leader writes it to the status of each LocalQueue after each sample, and the next leader reads
it there. The penalties of units admitted since the last sample are lost then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from podsched.api.objects import LocalQueue, object_key, seconds_of
from podsched.api.quantity import parse
from podsched.config.queues import AdmissionFairSharing
from podsched.framework.nodes import ClusterView
from podsched.queues.amounts import amount
from podsched.queues.history import Decay, History
from podsched.term.admission.tallies import QueueKey, Tallies

#: Larger weights count as this one, as floats have bounds.
_MOST_WEIGHT: Final = parse("8Ei")
_USAGE_BASED: Final = "UsageBasedAdmissionFairSharing"


class Histories:
    """The histories of all LocalQueues. Pure."""

    def __init__(self, cluster: ClusterView, settings: AdmissionFairSharing | None) -> None:
        self._cluster = cluster
        self._settings = settings
        self._decay = Decay(0.0)
        if settings is not None:
            self._decay = Decay(settings.usage_half_life_time, settings.usage_sampling_interval)
        self._of: dict[str, History] = {}
        self._sampled_at: float | None = None

    def orders(self, name: str) -> bool:
        """Whether past usage orders the units of a ClusterQueue."""
        queue = self._cluster.get("ClusterQueue", "", name)
        if queue is None or self._settings is None:
            return False
        return bool(queue.spec.admission_scope.admission_mode == _USAGE_BASED)

    def usage(self, key: str) -> float:
        """Return the weighted past usage of a LocalQueue, "namespace/name"; less goes first."""
        item = self._item(key)
        if self._settings is None or item is None:
            return 0.0
        return self.of(key).usage(self._settings.resource_weights, weight_of(item))

    def of(self, key: str) -> History:
        """Return the history of a LocalQueue."""
        found = self._of.get(key)
        if found is None:
            item = self._item(key)
            found = self._of[key] = History(0.0) if item is None else stored_history(item)
        return found

    def forget(self, key: str) -> None:
        """Forget a LocalQueue that is gone: one that is made again under its name is another."""
        self._of.pop(key, None)

    def admitted(self, key: str, unit: str, requests: Mapping[str, int]) -> None:
        """Count the requests of an admitted unit at once, before the next sample (a penalty)."""
        self._of[key] = self.of(key).admit(unit, requests, self._decay)

    def next_time(self) -> float | None:
        """Return when the next sample is due."""
        if self._settings is None:
            return None
        return (self._sampled_at or 0.0) + self._decay.interval

    def sample(self, now: float, tallies: Tallies) -> Collection[str]:
        """Take samples of what LocalQueues use, if they are due; return their keys."""
        due = self.next_time()
        if due is None or now < due:
            return ()
        self._sampled_at, sampled = now, dict[str, None]()
        for local in self._cluster.list("LocalQueue"):
            if not self.orders(local.spec.cluster_queue):
                continue
            key, runs = object_key(local), Counter[str]()
            for of, number in tallies.of(QueueKey("LocalQueue", key)).usage.items():
                runs[of.resource] += number
            history, sampled[key] = self.of(key), None
            if not history.sampled_at:  # It begins now.
                history = replace(history, sampled_at=now)
            self._of[key] = history.sample(runs, now, self._decay)
        for gone in self._of.keys() - sampled.keys():
            del self._of[gone]
        return sampled.keys()

    def _item(self, key: str) -> LocalQueue | None:
        namespace, _, name = key.partition("/")
        return self._cluster.get("LocalQueue", namespace, name)


def weight_of(item: LocalQueue) -> float:
    """Return the weight of a LocalQueue in fair sharing. Raises QuantityError."""
    sharing = item.spec.fair_sharing
    return float(min(parse(sharing.weight), _MOST_WEIGHT)) if sharing.HasField("weight") else 1.0


def stored_history(item: LocalQueue) -> History:
    """Return the history in the status of a LocalQueue. Raises QuantityError."""
    status = item.status.fair_sharing.admission_fair_sharing_status
    consumed = {name: float(amount(name, text)) for name, text in status.consumed_resources.items()}
    return History(seconds_of(status.last_update), consumed)
