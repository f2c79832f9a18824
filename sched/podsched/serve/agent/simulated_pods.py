"""Executes what ``pods`` and ``admission`` decide for the pods of simulated nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from podsched.api.conditions import is_finished, is_node_ready
from podsched.api.objects import Node, Pod, seconds_of
from podsched.config.settings import AgentSettings
from podsched.lib.groups import Groups
from podsched.serve.agent import pods
from podsched.serve.agent.admission import Admission
from podsched.serve.agent.start_traces import StartTraces
from podsched.serve.agent.timers import Timers
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.informer import Event, Informer
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.metrics import AgentMetrics
from podsched.telemetry.tracing import Tracer
from podsched.v1 import api_pb2 as v1


class SimulatedPods:
    """The pods of the simulated nodes."""

    def __init__(
        self,
        client: ApiClient,
        informer: Informer,
        settings: AgentSettings,
        nodes: Mapping[str, bool],
        timers: Timers,
        metrics: AgentMetrics,
        tracer: Tracer,
    ) -> None:
        """``nodes``: those that are simulated now, and whether they are silent."""
        self._client = client
        self._informer = informer
        self._settings = settings
        self._simulated = nodes
        self._timers = timers
        self._traces = StartTraces(tracer)
        self._on = Groups[str, str, None]()
        self._admission = Admission()
        self._first_seen = FirstSeen()
        self._phases = PhaseCounts(metrics)
        self.statuses = Outbox(self._send, self._answered)
        self.removals = Outbox(client.evict_pods, partial(timers.answered, "Pod"))

    def changed(self, event: Event) -> None:
        """Update what is recorded of a pod, and execute its next step."""
        old, new = cast(Pod | None, event.old), cast(Pod | None, event.new)
        key = event.key
        before = old.spec.node_name if old is not None else ""
        after = new.spec.node_name if new is not None else ""
        if before and before != after:
            self._on.drop(before, key)
        if after and before != after:
            self._on.put(after, key, None)
        self._phases.count(key, new if after in self._simulated else None)
        if new is None:
            self._traces.gone(key)
        elif pods.is_waiting(new) and self._simulated.get(after) is False:
            self._traces.seen(key, new)
        if new is None or is_finished(new):
            self._admission.release(key)
        elif after and not pods.is_waiting(new):
            self._admission.add_running(key, new)
        if new is None:
            self._first_seen.forget(key)
            self._timers.drop("Pod", key)
            self.statuses.drop(key)
            self.removals.drop(key)
        elif after:
            self.handle(key, new)

    def handle_all_of(self, node: str) -> None:
        """Execute the next steps of a node's pods."""
        for key in list(self._on.of(node)):
            pod = self._informer.get("Pod", key)
            if pod is not None:
                self.handle(key, cast(Pod, pod))

    def handle(self, key: str, pod: Pod) -> None:
        """Execute the next step of a bound pod."""
        if self._simulated.get(pod.spec.node_name, True):
            return  # the node is not simulated here, or silent
        now = self._timers.now()
        node = self._informer.get("Node", pod.spec.node_name)
        if isinstance(node, Node) and pods.is_waiting(pod):
            if not self._informer.synced.is_set():
                # Pods that already run come first, and then the oldest, as for a kubelet.
                created = seconds_of(pod.metadata.creation_timestamp)
                self._timers.set("Pod", key, min(now, created))
                return
            rejection = self._admission.admit(key, pod, node)
            if rejection is not None:
                self.statuses.put(key, pods.rejected(pod, rejection, now))
                return
        action = pods.step(
            pod,
            self._first_seen.since(key, pod, now),
            now,
            self._settings.run_delay,
            node_ready=isinstance(node, Node) and is_node_ready(node.status),
            job_seconds=self._settings.job_seconds,
        )
        if isinstance(action, v1.PatchRequest):
            self.statuses.put(key, action)
        elif isinstance(action, v1.EvictRequest):
            self.statuses.drop(key)
            self.removals.put(key, action)
        elif isinstance(action, pods.Later):
            self._timers.set("Pod", key, action.at)

    async def _send(self, patches: Sequence[v1.PatchRequest]) -> Sequence[v1.BatchResult]:
        return await self._client.patch_many(patches, traceparent=self._traces.contexts(patches))

    def _answered(self, key: str, patch: object, result: v1.BatchResult) -> None:
        self._traces.answered(key, cast(Pod | None, self._informer.get("Pod", key)), result.code)
        self._timers.answered("Pod", key, patch, result)


class FirstSeen:
    """The times, by key of the pod, at which pods were first seen in their present states."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[str, str, int], float]] = {}

    def since(self, key: str, pod: Pod, now: float) -> float:
        """Return the time at which the pod was first seen in its present state."""
        metadata = pod.metadata
        deleting = metadata.HasField("deletion_timestamp")
        mark = 1 + metadata.deletion_grace_period_seconds if deleting else 0
        state = (metadata.uid, pod.status.phase, mark)
        seen = self._seen.get(key)
        if seen is None or seen[0] != state:
            seen = self._seen[key] = (state, now)
        return seen[1]

    def forget(self, key: str) -> None:
        """Forget a pod that is gone."""
        self._seen.pop(key, None)


class PhaseCounts:
    """The number of pods of each phase, for the gauge."""

    def __init__(self, metrics: AgentMetrics) -> None:
        self._metrics = metrics
        self._phases: dict[str, str] = {}

    def count(self, key: str, pod: Pod | None) -> None:
        """Count a pod in its present phase; None: it is not counted any more."""
        before = self._phases.pop(key, None)
        if before is not None:
            self._metrics.pods.labels(before).inc(-1)
        if pod is not None:
            phase = self._phases[key] = pod.status.phase or "Pending"
            self._metrics.pods.labels(phase).inc()
