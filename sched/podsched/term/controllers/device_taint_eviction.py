"""Evict pods that use a device with a NoExecute taint which their request does not tolerate.

ResourceSlices and DeviceTaintRules add such taints. A pod is evicted when the taint is added, or
tolerationSeconds later, at the same time under every leader. Only pods for which an allocated claim
is reserved are evicted. A rule's status has the number of pods that it evicts. Source:
pkg/controller/devicetainteviction of Kubernetes 1.36; as there, a toleration delays an eviction
only if it names the effect NoExecute.

    a slice, rule, claim or pod changes  -->  pods to examine  -->  ``TimedEvictions``
"""

from __future__ import annotations

from typing import cast

from podsched.api.conditions import is_terminating
from podsched.api.objects import DeviceTaintRule, Pod, ResourceClaim, ResourceSlice
from podsched.lib.due_times import earliest
from podsched.serve.client.informer import Event
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller, Instant, Objects, find
from podsched.term.controllers.device_pools import DevicePools, claims_of
from podsched.term.controllers.device_taint_status import RuleStatuses, leaving_time
from podsched.term.controllers.timed_evictions import Meters, Notices, TimedEvictions
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

RULE = "DeviceTaintRule"
_NOTICES = Notices(
    reason="DeletionByDeviceTaintManager",
    message="Device Taint manager: deleting due to NoExecute taint",
    event="DeviceTaintManagerEviction",
    marking="Marking for deletion",
    cancelling="Cancelling deletion",
    controller="device-taint-eviction-controller",
)
#: Max pods that one round of work looks at: about 10 ms.
_MOST_PODS = 500


class DeviceTaintEvictionController(Controller):
    """Evicts pods from tainted devices, and writes the status of DeviceTaintRules."""

    name = "device-taint-eviction"
    kinds = ("ResourceSlice", "ResourceClaim", RULE, "Pod")

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        recorder: EventRecorder,
        metrics: ControllerMetrics,
    ) -> None:
        super().__init__(objects, writes)
        total = metrics.device_pod_deletions_total
        meters = Meters(total, metrics.device_pod_deletion_duration_seconds)
        self._evictions = TimedEvictions(objects, writes, recorder, _NOTICES, meters)
        self._pools = DevicePools(objects)
        self._statuses = RuleStatuses(objects, writes, self._pools)
        self._changed_claims = WorkQueue[str]()
        self._changed_pods = WorkQueue[str]()
        self._causes: dict[str, frozenset[str]] = {}
        """The uids of the rules that evict a pod, by the pod's key."""

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == "Pod":
            old, new = cast(Pod | None, event.old), cast(Pod | None, event.new)
            self._note_pod(event.key, old, new, now)
        elif event.kind == RULE:
            former = cast(DeviceTaintRule | None, event.old)
            self._note_rule(event.key, former, cast(DeviceTaintRule | None, event.new), now)
        else:
            for item in (event.old, event.new):
                if isinstance(item, ResourceSlice):
                    self._pools.note_slice(event.key, item, is_there=item is event.new)
                elif isinstance(item, ResourceClaim):
                    self._pools.note_claim(event.key, item, is_there=item is event.new)
                    # Of the old claim, too, for pods that it was reserved for.
                    self._changed_pods.update(self._pools.consumers_of(item))

    def _note_pod(self, key: str, old: Pod | None, new: Pod | None, now: Instant) -> None:
        self._pools.note_pod(key, new)
        if new is None or is_terminating(new):
            forget = self._evictions.forget if new is None else self._evictions.forget_terminating
            causes = self._causes.pop(key, frozenset())
            if forget(key):
                self._statuses.note_eviction(causes, now)
        if new is None or not (_has_claims(new) or _has_claims(old)):
            return
        if old is None or not _is_used_equally(old, new):
            self._changed_pods.add(key)

    def _note_rule(
        self, key: str, old: DeviceTaintRule | None, new: DeviceTaintRule | None, now: Instant
    ) -> None:
        known = None if old is None else (old.metadata.uid, old.spec)
        if new is not None and known == (new.metadata.uid, new.spec):
            return
        for rule in (old, new):
            if rule is not None:
                for pool in self._pools.allocated_to(rule):
                    self._changed_claims.update(self._pools.users.of(pool))
        self._statuses.note_rule(key, old, new, now)

    def work(self, now: Instant) -> float | None:
        """Examine the pods that a change concerns, and evict the pods whose time has come."""
        self._changed_claims.update(self._pools.claims_with_new_taints())
        for key in self._changed_claims.take():
            claim = find(self._objects, ResourceClaim, key)
            if claim is not None:
                self._changed_pods.update(self._pools.consumers_of(claim))
        # Before the evictions, so that a rule's status announces them.
        status_due = self._statuses.work(now)
        for key in self._changed_pods.take(_MOST_PODS):
            with self._writes.skipping("Pod", key):
                self._look_at_pod(key, now)
        rest = now.monotonic if self._changed_pods else None
        return earliest(rest, status_due, self._evictions.work(now))

    def _look_at_pod(self, key: str, now: Instant) -> None:
        pod = find(self._objects, Pod, key)
        if pod is None or is_terminating(pod):
            return
        times: list[float] = []
        causes: set[str] = set()
        for claim in claims_of(self._objects, pod):
            for result in claim.status.allocation.devices.results:
                for taint, rule in self._pools.evicting_taints(result):
                    if (at := leaving_time(taint, result)) is not None:
                        times.append(at)
                        causes.update(() if rule is None else (rule.metadata.uid,))
        if not times:
            self._causes.pop(key, None)
            self._evictions.cancel(key, pod)
            return
        self._causes[key] = frozenset(causes)
        self._statuses.announce(causes, now)
        self._evictions.schedule(key, pod, min(times))


def _has_claims(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.resource_claims)


def _is_used_equally(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod are on the same node with the same claims."""
    return (
        old.metadata.uid == new.metadata.uid
        and old.spec.node_name == new.spec.node_name
        and old.status.resource_claim_statuses == new.status.resource_claim_statuses
    )
