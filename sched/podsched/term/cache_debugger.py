"""Write the cache and the queue to the log on request; kube-scheduler does so on SIGUSR2.

A request compares the cache and the queue with the informer's store, checks the invariants of both
and dumps them. Dumping yields to other tasks after every ``NODES_AT_ONCE`` nodes. Comparing and
checking cannot yield, because the cache must not change meanwhile: they take some 0.1 ms per node
with ten pods, half a second for 5,000 nodes. A leader that is blocked for longer than the election
timeout of 0.4 s is replaced, so use a standby in clusters of more than 3,000 nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

from podsched.cache.debugger import compare_nodes, compare_pods, describe_pod, dump_nodes
from podsched.cache.invariants import CacheInconsistentError, check
from podsched.framework.pods import PodInfo
from podsched.queue.scheduling_queue import QueueCorrupted
from podsched.telemetry.logs import get_logger
from podsched.term.state import SchedulingState

_log = get_logger("cache-debugger")

#: Nodes dumped before other tasks run; some 20 ms.
NODES_AT_ONCE: Final = 100
#: Pods per line of the queue's dump.
PODS_IN_A_LINE: Final = 100
#: Max nodes, and max pods, in the text; some 2 MB.
MOST_LINES: Final = 10_000


class CacheDebugger:
    """Compares and dumps on request; ``stored`` returns the informer's objects of a kind by key."""

    def __init__(
        self,
        state: Callable[[], SchedulingState],
        stored: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._state = state
        self._stored = stored
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Request a comparison and a dump; may be called from a signal handler of the loop."""
        self._requested.set()

    async def run(self) -> None:
        """Serve requests until cancelled."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            # A trial shows pods on nodes that they may not get.
            await self._state().after_trial.wait()
            self.compare()
            self.check()
            await self.dump()

    def compare(self) -> None:
        """Log how the cache and the queue differ from the informer's store."""
        state = self._state()
        nodes, pods = self._stored("Node"), self._stored("Pod")
        waiting = [queued.info for queued in state.queue.pending]
        running = [flight.pod.info for flight in state.queue.in_flight]
        mismatches = {
            "nodes": compare_nodes(state.cache, nodes),
            "pods": compare_pods(state.cache, pods.values(), waiting, running),
        }
        for what, found in mismatches.items():
            if found:
                parts = asdict(found).items()
                _log.warning("Cache mismatch", **{f"{name}_{what}": keys for name, keys in parts})
        if not any(mismatches.values()):
            _log.info("Cache matches the informer's store", nodes=len(nodes), pods=len(pods))

    def check(self) -> None:
        """Log violated invariants of the cache and the queue."""
        state = self._state()
        try:
            check(state.cache)
        except CacheInconsistentError as error:
            _log.error("Cache is inconsistent", error=str(error))
        try:
            state.queue.check_invariants()
        except QueueCorrupted as error:
            _log.error("Scheduling queue is inconsistent", error=str(error))

    async def text(self) -> str:
        """Return the cache and the queue as text, with a line per node and per waiting pod.

        Other tasks run in between, so the lines may describe different moments.
        """
        await self._state().after_trial.wait()
        state = self._state()
        lines = [f"nodes: {len(state.cache.columns.node_table)}"]
        for number, node in enumerate(islice(dump_nodes(state.cache), MOST_LINES), start=1):
            lines.append(
                f"node {node.name}{' (deleted)' if node.deleted else ''}: "
                f"requested {dict(node.requested)}, allocatable {dict(node.allocatable)}, "
                f"pods {list(node.pods)}, nominated {list(node.nominated)}"
            )
            if number % NODES_AT_ONCE == 0:
                await _others_run(state)
        pods = [queued.info for queued in state.queue.pending.in_order()]
        lines.append(f"waiting: {len(pods)} pods; {state.queue.pending.summary()}")
        for number, pod in enumerate(islice(pods, MOST_LINES), start=1):
            lines.append(_describe_queued(pod, state))
            if number % NODES_AT_ONCE == 0:
                await _others_run(state)
        return "\n".join([*lines, ""])

    async def dump(self) -> None:
        """Log each node of the cache and each waiting pod."""
        state = self._state()
        for number, node in enumerate(dump_nodes(state.cache), start=1):
            _log.info(
                "Dump of cached NodeInfo",
                node=node.name,
                deleted=node.deleted,
                requested=node.requested,
                allocatable=node.allocatable,
                pods=node.pods,
                nominated_pods=node.nominated,
            )
            if number % NODES_AT_ONCE == 0:
                await _others_run(state)
        pods = [queued.info for queued in state.queue.pending.in_order()]
        summary = state.queue.pending.summary()
        for start in range(0, max(1, len(pods)), PODS_IN_A_LINE):
            part = pods[start : start + PODS_IN_A_LINE]
            described = [_describe_queued(pod, state) for pod in part]
            _log.info("Dump of scheduling queue", summary=summary, pods=described)


async def _others_run(state: SchedulingState) -> None:
    """Let other tasks run, until no trial is open: it shows pods on nodes that they may not get."""
    await asyncio.sleep(0)
    await state.after_trial.wait()


def _describe_queued(pod: PodInfo, state: SchedulingState) -> str:
    text = f"{describe_pod(pod, state.cache)}, queue: {state.queue.place(pod.uid)}"
    queued = state.queue.pending.get(pod.uid)
    if queued is None:
        return text
    rejecting = sorted(queued.unschedulable_plugins | queued.pending_plugins)
    return f"{text}, attempts: {queued.attempts}, rejected by: {', '.join(rejecting) or '-'}"
