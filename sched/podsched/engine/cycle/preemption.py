"""Preemption carried out: the evictions that a PostFilter plugin asked for (P8 to P10).

A victim that is not bound yet, waiting at Permit or in PreBind, loses its place and goes back to
the queue; others are evicted. The evictions run beside the scheduling cycle. Until they have all
been asked for, the preemptor stays out of activeQ (the plugin's PreEnqueue sees its uid in
``preempting``); the last victim goes alone and after that mark is gone, so that its deletion is the
event that wakes the preemptor. An eviction that fails activates the preemptor, to try again; so
does a last victim that turns out to be gone, whose deletion came while the mark was set.
Victims that are terminating already are nobody's last victim: they go without being asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from podsched.api.conditions import DISRUPTION_TARGET, REASON_PREEMPTION_BY_SCHEDULER
from podsched.api.reasons import StatusCode, StatusReason
from podsched.engine.cycle.waiting_pods import WaitingPods
from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

#: Who turned a pod down that lost its place before it was bound, and why.
PREEMPTION_PLUGIN = "DefaultPreemption"
PREEMPTED = "preempted"
#: Results of an eviction after which the victim is as good as gone.
GONE = frozenset({StatusReason.NOT_FOUND, StatusReason.PRECONDITION_FAILED})

#: Seconds after which the cache has certainly been told of an eviction.
SEEN_WITHIN = 5.0


class EvictionFailed(Exception):
    """A victim could not be evicted; the preemptor is tried again."""


class Preempting(Protocol):
    """The plugin's record of preemptors and victims whose evictions are under way."""

    preempting: set[str]
    evicting: set[str]
    """Victims whose eviction has been asked for, so that nobody asks for others meanwhile."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who preempts whom where."""

    pod: PodInfo
    node_name: str
    victims: Victims

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
        cancel_pre_bind: Callable[[PodInfo], bool],
        preempted: Callable[[PodInfo, Preemption], None],
        activate: Callable[[PodInfo], None],
        finished: Callable[[str, float], None],
    ) -> None:
        """``cancel_pre_bind`` ends the binding cycle of a pod in PreBind, False when it is in none;
        ``preempted`` records the event on a victim, ``activate`` has the preemptor tried again,
        ``finished`` counts (result, seconds).
        """
        self._evict = evict
        self._waiting = waiting
        self._cancel_pre_bind = cancel_pre_bind
        self._preempted = preempted
        self._activate = activate
        self._finished = finished
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, plugin: Preempting, preemption: Preemption) -> None:
        """Begins the evictions and returns. Some victim must not be terminating yet."""
        plugin.preempting.add(preemption.pod.uid)
        plugin.evicting.update(victim.uid for victim in preemption.victims.pods)
        task = asyncio.create_task(
            self._run(plugin, preemption), name=f"preempt for {preemption.pod.key}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, plugin: Preempting, preemption: Preemption) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        uids = [victim.uid for victim in preemption.victims.pods]
        result = "error"
        try:
            *first, last = (v for v in preemption.victims.pods if not v.terminating)
            await self._evict_all(first, preemption)
            plugin.preempting.discard(preemption.pod.uid)
            gone = await self._evict_all([last], preemption)
            result = "success"
            if gone:
                self._activate(preemption.pod)
        except EvictionFailed:
            plugin.preempting.discard(preemption.pod.uid)
            plugin.evicting.difference_update(uids)
            self._activate(preemption.pod)
        finally:
            plugin.preempting.discard(preemption.pod.uid)
            # The cache sees the evictions a moment after they were answered.
            loop.call_later(SEEN_WITHIN, plugin.evicting.difference_update, uids)
            self._finished(result, loop.time() - began)

    async def _evict_all(self, victims: Sequence[PodInfo], preemption: Preemption) -> bool:
        """Whether one of them had gone by itself. Raises EvictionFailed."""
        requests, evicted = [], []
        for victim in victims:
            if self._takes_place_of(victim):
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

    def _takes_place_of(self, victim: PodInfo) -> bool:
        """Whether the victim was on its way to the node, and is no longer."""
        waiting = self._waiting.get(victim.uid)
        if waiting is not None and waiting.preempt(PREEMPTION_PLUGIN, PREEMPTED):
            return True
        return self._cancel_pre_bind(victim)

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
