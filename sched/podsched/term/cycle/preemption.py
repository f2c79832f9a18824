"""Carry out preemption: evict the victims that a PostFilter plugin chose.

The preemptors are one pod, or the members of a PodGroup. A victim that is not bound yet (at Permit
or PreBind) returns to the queue; other victims are evicted. Evictions run concurrently with the
scheduling cycle:

    evictions_started --all but one--> preemptors_released --the last one--> (5 s) evictions_ended
            |                                                     |
            '--- one fails ---> preemptors_released, evictions_ended, preemptors back off

A plugin that is an ``EvictionListener`` is notified of these moments. DefaultPreemption keeps the
preemptors out of activeQ between the first two (with its PreEnqueue), so that the deletion of the
last victim wakes them. If an eviction fails, the preemptors try again after their backoff. If the
last victim is already gone, they do so at once, because its deletion came before they were
released. Victims that are already terminating are not evicted again, and do not count here.

Source: ``framework/preemption/executor.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from podsched.api.conditions import REASON_PREEMPTION_BY_SCHEDULER
from podsched.api.kinds import KINDS
from podsched.api.reasons import StatusCode
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import PodGroup
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import EvictionListener
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import eviction
from podsched.serve.client.errors import ClientError
from podsched.telemetry.logs import get_logger
from podsched.term.cycle.evictions import GONE, Evict
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

LISTENER_WORDING = 'notifying plugin "{}" of its evictions'

#: The reason for rejecting a pod that was preempted before it was bound.
PREEMPTED = "preempted"
#: Seconds after which the cache has certainly seen an eviction.
SEEN_WITHIN = 5.0

_log = get_logger("scheduler")


class EvictionFailed(Exception):
    """A victim could not be evicted; the preemptor is tried again."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Preemptors, the victims, and the plugin that chose them.

    ``node_name``: where the victims are, "" if they are on several nodes. ``group``: that of the
    preemptors. ``note``: returns the text of a victim's event, if it is not kube-scheduler's.
    """

    pods: tuple[PodInfo, ...]
    node_name: str
    victims: Victims
    plugin: str
    listener: EvictionListener | None = None
    group: PodGroup | None = None
    note: Callable[[PodInfo], str] | None = None

    @property
    def scheduler_name(self) -> str:
        return self.pods[0].cls.scheduler_name

    @property
    def key(self) -> str:
        """The "namespace/name" of the preemptor, or of the preemptors' group."""
        return self.pods[0].key if self.group is None else self.group.key

    @property
    def uid(self) -> str:
        """The uid of the preemptor, or of the preemptors' group."""
        return self.pods[0].uid if self.group is None else self.group.uid

    @property
    def reference(self) -> v1.ObjectReference:
        """The preemptor, or the preemptors' group."""
        kind = "Pod" if self.group is None else "PodGroup"
        version = KINDS[kind].api_version
        namespace, _, name = self.key.partition("/")
        return v1.ObjectReference(
            kind=kind, api_version=version, namespace=namespace, name=name, uid=self.uid
        )

    def event_note(self, victim: PodInfo, *, evicted: bool) -> str:
        if self.note is not None:
            return self.note(victim)
        text = f"Preempted by podgroup {self.uid} on node cluster"
        if self.group is None:
            text = f"Preempted by pod {self.uid} on node {self.node_name}"
        return text if evicted else f"{text} (in kube-scheduler memory)."

    @property
    def evicts_anybody(self) -> bool:
        """Whether some victim is not terminating yet (possibly for another reason)."""
        return not all(victim.terminating for victim in self.victims.pods)


class PreemptionReport(Protocol):
    """Receives the outcomes of preemptions."""

    def preempted(self, victim: PodInfo, preemption: Preemption, *, evicted: bool) -> None:
        """Note that a victim is being evicted, or lost its place before it was bound."""

    def preemptors_released(self, preemption: Preemption) -> None:
        """Note that the plugin does not hold the preemptors back any more."""

    def preemption_finished(
        self, preemption: Preemption, result: str, seconds: float, *, try_again: bool
    ) -> None:
        """Note the end, "success" or "error"; ``try_again``: no deletion will wake the pods."""


class Evictor:
    """Carries out preemptions, each in its own task."""

    def __init__(
        self,
        evict: Evict,
        preempt_waiting: Callable[[PodInfo, str], bool],
        report: PreemptionReport,
        tasks: TaskSet,
    ) -> None:
        """``preempt_waiting``: see ``WaitingCycles.preempt``."""
        self._evict = evict
        self._preempt_waiting = preempt_waiting
        self._report = report
        self._tasks = tasks
        #: Preemptions whose evictions the cache may not show yet.
        self.under_way: list[Preemption] = []
        #: The uids of victims that gave up their place: they may get another one meanwhile.
        self._gave_way: set[str] = set()
        self._evicting = 0

    @property
    def is_idle(self) -> bool:
        """Whether no preemption has evictions to come."""
        return not self._evicting

    def victims(self) -> set[str]:
        """Return the uids of the victims whose evictions the cache may not show yet."""
        uids = {pod.uid for preemption in self.under_way for pod in preemption.victims.pods}
        return uids - self._gave_way

    def start(self, preemption: Preemption) -> None:
        """Begin the evictions and return. Some victim must not be terminating yet."""
        self.under_way.append(preemption)
        self._evicting += 1
        # Not in the task: the preemptors return to the queue before it begins, and PreEnqueue has
        # to keep them out of activeQ.
        _notify(preemption, "evictions_started", preemption.pods, preemption.victims)
        self._tasks.start(self._run(preemption), f"preempt for {preemption.key}")

    async def _run(self, preemption: Preemption) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result, try_again = "error", False
        try:
            *first, last = (v for v in preemption.victims.pods if not v.terminating)
            try:
                await self._evict_all(first, preemption)
            finally:
                # Before the last eviction: its deletion event has to find the preemptors in a queue
                # that it can wake. Only once: during the last eviction they may already have
                # begun another preemption, which keeps them out of activeQ again.
                _notify(preemption, "preemptors_released", preemption.pods)
            self._report.preemptors_released(preemption)
            try_again = await self._evict_all([last], preemption)
            result = "success"
        except EvictionFailed as failure:
            _log.warning("Preemption failed", preemptor=preemption.key, error=str(failure))
            try_again = True
            self.end(preemption)
        else:
            # The cache sees evictions shortly after their answers.
            loop.call_later(SEEN_WITHIN, self.end, preemption)
        self._evicting -= 1
        seconds = loop.time() - began
        self._report.preemption_finished(preemption, result, seconds, try_again=try_again)

    def end(self, preemption: Preemption) -> None:
        """Tell the plugin that the cache shows which victims are terminating."""
        self.under_way.remove(preemption)
        self._gave_way.difference_update(victim.uid for victim in preemption.victims.pods)
        _notify(preemption, "evictions_ended", preemption.victims)

    async def _evict_all(self, victims: Sequence[PodInfo], preemption: Preemption) -> bool:
        """Evict pods; return whether one was already gone. Raises EvictionFailed."""
        evicted = []
        for victim in victims:
            # A pod that is not bound yet gives up its place without an eviction.
            if self._preempt_waiting(victim, preemption.plugin):
                self._gave_way.add(victim.uid)
                self._report.preempted(victim, preemption, evicted=False)
            else:
                evicted.append(victim)
        if not evicted:
            return False
        try:
            results = await self._evict([_eviction_of(one, preemption) for one in evicted])
        except ClientError as error:
            raise EvictionFailed(str(error)) from error
        failure, gone = "", False
        for victim, result in zip(evicted, results, strict=True):
            if result.code == StatusCode.OK:
                self._report.preempted(victim, preemption, evicted=True)
            elif result.reason in GONE:
                gone = True
            else:
                failure = result.message or result.reason
        if failure:
            raise EvictionFailed(failure)
        return gone


def _eviction_of(victim: PodInfo, preemption: Preemption) -> api_pb2.EvictRequest:
    preemptor = "pod" if preemption.group is None else "podgroup"
    text = f"preempting to accommodate a higher priority {preemptor}"
    message = f"{preemption.scheduler_name}: {text}"
    return eviction(victim.pod, REASON_PREEMPTION_BY_SCHEDULER, message)


def _notify(
    preemption: Preemption,
    moment: Literal["evictions_started", "preemptors_released", "evictions_ended"],
    *args: Any,
) -> None:
    """Call a method of the listener. A failure is only logged, because nothing depends on it."""
    if preemption.listener is None:
        return
    try:
        guarded(preemption.plugin, LISTENER_WORDING, getattr(preemption.listener, moment), *args)
    except PluginFailure as failure:
        _log.error("A plugin failed", plugin=failure.plugin, error=str(failure))
