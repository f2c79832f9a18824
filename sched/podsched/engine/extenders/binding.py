"""Bind by an extender: it makes the call to the API server, and the informer tells that it did.

A pod that an extender binds does not go through the BindingQueue. Its assignment ends in exactly
one of ``bound`` and ``failed``, or goes to ``otherwise`` when an ignorable extender failed. Such a
bind carries no fence: an extender that is asked by a leader paused past its lease still binds, and
only that a pod is bound at most once protects the cluster then.

Source: Scheduler.bind and extendersBinding of kube-scheduler v1.36, which takes the extender's word
that a pod is bound; here it has to be seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from podsched.cache.cache import Cache
from podsched.engine.cycle.pre_bind import ClusterChanges
from podsched.engine.extenders.calls import ExtenderClient, Extenders
from podsched.engine.extenders.wire import ExtenderError
from podsched.engine.writes.bind_batches import Assignment, BindFailure
from podsched.telemetry.logs import get_logger

_log = get_logger("extenders")

#: Seconds within which the informer has to show what an extender says it has bound.
CONFIRMED_WITHIN = 30.0
REASON_EXTENDER = "EXTENDER"
REASON_NOT_CONFIRMED = "NOT_CONFIRMED"


class ExtenderBinding:
    """The binds that extenders make, each in a task of its own."""

    def __init__(
        self,
        extenders: Extenders,
        cache: Cache,
        changes: ClusterChanges,
        bound: Callable[[Sequence[Assignment]], None],
        failed: Callable[[Assignment, BindFailure], None],
        otherwise: Callable[[Sequence[Assignment]], None],
    ) -> None:
        self._extenders = extenders
        self._cache = cache
        self._changes = changes
        self._bound = bound
        self._failed = failed
        self._otherwise = otherwise
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Binds under way."""
        return len(self._tasks)

    def start(self, assignment: Assignment) -> bool:
        """Begins the bind and returns; False when no extender binds this pod."""
        binders = self._extenders.binders(assignment.pod.cls.spec)
        if not binders:
            return False
        task = asyncio.create_task(
            self._run(assignment, binders[0]), name=f"extender binds {assignment.pod.key}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return True

    async def stop(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "an extender's bind ended unexpectedly", "exception": error}
            )

    async def _run(self, assignment: Assignment, client: ExtenderClient) -> None:
        pod = assignment.pod
        try:
            await client.bind(pod, assignment.node_name)
        except ExtenderError as error:
            if not client.config.ignorable:
                self._failed(assignment, BindFailure(REASON_EXTENDER, str(error)))
                return
            _log.info(
                "Skipped an ignorable extender that failed to bind",
                extender=client.name,
                pod=pod.key,
                error=str(error),
            )
            self._otherwise([assignment])
            return
        if await self._is_confirmed(assignment):
            self._bound([assignment])
            return
        message = (
            f'extender "{client.name}" says that it has bound the pod to node '
            f'"{assignment.node_name}", but it is not bound'
        )
        self._failed(assignment, BindFailure(REASON_NOT_CONFIRMED, message))

    async def _is_confirmed(self, assignment: Assignment) -> bool:
        """Whether the pod is seen with a node before time is up and before it is gone."""
        pod, cache = assignment.pod, self._cache
        clock = asyncio.get_running_loop().time
        deadline = clock() + CONFIRMED_WITHIN
        while cache.is_assumed(pod.uid):
            known = cache.cluster.pods.get(pod.key)
            left = deadline - clock()
            if known is None or known.uid != pod.uid or left <= 0:
                return False
            await self._changes.next(left)
        return True
