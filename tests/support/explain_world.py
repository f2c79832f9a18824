"""A replica's state made of manifests, to be asked about pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsched.api.kinds import kind_of
from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject
from podsched.ask.live_explanation import Clock, explain_live
from podsched.config.load import default_config
from podsched.registry import factories
from podsched.serve.client.informer import Event, EventType
from podsched.term.state import SchedulingState, build_state
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation
from support.engine_world import node, pod

#: Unix time when the queue's clock says 0.
EPOCH = 1_700_000_000.0


class ExplainWorld:
    """Nodes, pods and a queue, at a time that the test sets."""

    def __init__(self) -> None:
        self.state: SchedulingState = build_state(default_config(), factories(), seed=1)
        self.now = 100.0
        self._known: dict[tuple[str, str], AnyObject] = {}

    def put(self, obj: AnyObject) -> None:
        """Add or replace an object, as the informer reports it."""
        kind = kind_of(obj)
        namespace = obj.metadata.namespace
        key = f"{namespace}/{obj.metadata.name}" if kind.namespaced else obj.metadata.name
        old = self._known.get((kind.name, key))
        change = EventType.ADDED if old is None else EventType.MODIFIED
        self.state.apply(Event(change, kind.name, key, old, obj), self.now)
        self._known[kind.name, key] = obj

    def node(self, name: str, **parts: Any) -> None:
        self.put(node(name, **parts))

    def pod(self, name: str, cpu: str = "100m", on: str = "", **spec: Any) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        labels = spec.pop("labels", {})
        given = {"containers": [container], "schedulerName": "default-scheduler", **spec}
        self.put(pod(name, given | ({"nodeName": on} if on else {}), labels=labels))

    def manifest(self, manifest: Mapping[str, Any]) -> None:
        message: Any = from_manifest(manifest).message
        self.put(message)

    def fail(self, name: str, *plugins: str) -> None:
        """Attempt the next pod, which must be this one; these plugins reject it, or an error."""
        popped = self.state.queue.attempts.pop(self.now)
        assert popped is not None and popped.info.name == name
        self.state.queue.attempts.add_unschedulable_if_not_present(
            popped, self.now, unschedulable_plugins=plugins
        )

    def explain(self, name: str, *nodes: str) -> Explanation:
        request = ExplainRequest(namespace="default", name=name, nodes=nodes)
        found = explain_live(self.state, request, Clock(self.now, EPOCH + self.now))
        assert found is not None
        return found
