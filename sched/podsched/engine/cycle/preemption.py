"""Preemption carried out: the evictions that a PostFilter plugin asked for.

A victim that is not bound yet, waiting at Permit or in PreBind, loses its place and goes back to
the queue; others are evicted. The evictions run beside the scheduling cycle:

    evictions_started --all but one--> preemptor_released --the last one--> (5 s) evictions_ended
            |                                                    |
            '--- one fails ---> preemptor_released, evictions_ended, preemptor activated

The plugin is told of these moments if it is an ``EvictionListener``. DefaultPreemption keeps the
preemptor out of activeQ between the first two (its PreEnqueue), so that the deletion of the last
victim is the event that wakes the preemptor. An eviction that fails activates the preemptor, to
try again; so does a last victim that turns out to be gone, whose deletion came before the
preemptor was released. Victims that are terminating already are not evicted again, and none of
them is the last one.

Source: ``framework/preemption/executor.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from podsched.api.conditions import DISRUPTION_TARGET, REASON_PREEMPTION_BY_SCHEDULER
from podsched.api.reasons import StatusCode, StatusReason
from podsched.engine.cycle.waiting_pods import WaitingPods
from podsched.engine.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import EvictionListener
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

LISTENER_WORDING = 'telling plugin "{}" of its evictions'

#: Why a pod was turned down that lost its place before it was bound.
PREEMPTED = "preempted"
#: Results of an eviction after which the victim is as good as gone.
GONE = frozenset({StatusReason.NOT_FOUND, StatusReason.PRECONDITION_FAILED})

#: Seconds after which the cache has certainly been told of an eviction.
SEEN_WITHIN = 5.0

_log = get_logger("scheduler")


class EvictionFailed(Exception):
    """A victim could not be evicted; the preemptor is tried again."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who preempts whom where, and the plugin that asked for it."""

    pod: PodInfo
    node_name: str
    victims: Victims
    plugin: str
    listener: EvictionListener | None = None

    @property
    def evicts_anybody(self) -> bool:
        """False when all victims are terminating already, on behalf of somebody else maybe."""
        return not all(victim.terminating for victim in self.victims.pods)


class Evictor:
    """Carries preemptions out, each in a task of its own."""

    def __init__(
        self,
        evict: Callable[[Sequence[api_pb2.EvictRequest]], Awaitable[Sequence[api_pb2.BatchResult]]],
        waiting: WaitingPods,
        cancel_pre_bind: Callable[[PodInfo, str], bool],
        preempted: Callable[[PodInfo, Preemption], None],
        activate: Callable[[PodInfo], None],
        finished: Callable[[str, float], None],
    ) -> None:
        """``cancel_pre_bind`` ends the binding cycle of a pod in PreBind on behalf of a plugin, False
        when it is in none; ``preempted`` records the event on a victim, ``activate`` has the preemptor tried again,
        ``finished`` counts (result, seconds).
        """
        self._evict = evict
        self._waiting = waiting
        self._cancel_pre_bind = cancel_pre_bind
        self._preempted = preempted
        self._activate = activate
        self._finished = finished
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, preemption: Preemption) -> None:
        """Begin the evictions and return. Some victim must not be terminating yet."""
        _tell(preemption, "evictions_started", preemption.pod, preemption.victims)
        task = asyncio.create_task(self._run(preemption), name=f"preempt for {preemption.pod.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, preemption: Preemption) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = "error"
        try:
            *first, last = (v for v in preemption.victims.pods if not v.terminating)
            await self._evict_all(first, preemption)
            _tell(preemption, "preemptor_released", preemption.pod)
            gone = await self._evict_all([last], preemption)
            result = "success"
            if gone:
                self._activate(preemption.pod)
        except EvictionFailed:
            _tell(preemption, "preemptor_released", preemption.pod)
            _tell(preemption, "evictions_ended", preemption.victims)
            self._activate(preemption.pod)
        else:
            # The cache sees the evictions a moment after they were answered.
            loop.call_later(SEEN_WITHIN, _tell, preemption, "evictions_ended", preemption.victims)
        finally:
            _tell(preemption, "preemptor_released", preemption.pod)
            self._finished(result, loop.time() - began)

    async def _evict_all(self, victims: Sequence[PodInfo], preemption: Preemption) -> bool:
        """Whether one of them had gone by itself. Raises EvictionFailed."""
        requests, evicted = [], []
        for victim in victims:
            if self._takes_place_of(victim, preemption.plugin):
                self._preempted(victim, preemption)
            else:
                requests.append(self._request(victim, preemption))
                evicted.append(victim)
        if not requests:
            return False
        results = await self._evict(requests)
        failure, gone = "", False
        for victim, result in zip(evicted, results, strict=True):
            if result.code == StatusCode.OK:
                self._preempted(victim, preemption)
            elif result.reason in GONE:
                gone = True
            else:
                failure = result.message or result.reason
        if failure:
            raise EvictionFailed(failure)
        return gone

    def _takes_place_of(self, victim: PodInfo, plugin: str) -> bool:
        """Whether the victim was on its way to the node, and is no longer."""
        waiting = self._waiting.get(victim.uid)
        if waiting is not None and waiting.preempt(plugin, PREEMPTED):
            return True
        return self._cancel_pre_bind(victim, plugin)

    def _request(self, victim: PodInfo, preemption: Preemption) -> api_pb2.EvictRequest:
        scheduler = preemption.pod.cls.scheduler_name
        return api_pb2.EvictRequest(
            namespace=victim.namespace,
            name=victim.name,
            preconditions=api_pb2.Preconditions(uid=victim.uid),
            ignore_disruption_budgets=True,
            condition=v1.PodCondition(
                type=DISRUPTION_TARGET,
                status="True",
                reason=REASON_PREEMPTION_BY_SCHEDULER,
                message=f"{scheduler}: preempting to accommodate a higher priority pod",
            ),
        )


def _tell(
    preemption: Preemption,
    moment: Literal["evictions_started", "preemptor_released", "evictions_ended"],
    *args: Any,
) -> None:
    """Call a method of the plugin's; nobody can act on a failure of it, so that is logged."""
    if preemption.listener is None:
        return
    try:
        guarded(preemption.plugin, LISTENER_WORDING, getattr(preemption.listener, moment), *args)
    except PluginFailure as failure:
        _log.error("A plugin failed", plugin=failure.plugin, error=str(failure))
