"""Delete the content of terminating namespaces until the API server deletes them.

    Active --deleted--> Terminating --content deleted, pods first--> empty --deleted again--> gone

This is tried again when a pod of the namespace is deleted, and otherwise with growing backoff,
because deletions of other objects with finalizers are not watched here. It ends when the API server
finds the namespace empty: then only finalizers of others may keep it. A new leader begins with the
namespaces that are terminating then. Source: pkg/controller/namespace of Kubernetes 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from podsched.api.conditions import is_terminating
from podsched.api.objects import Namespace
from podsched.api.owners import KUBERNETES_FINALIZER
from podsched.lib.due_times import earliest
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Controller, Instant, Objects
from podsched.term.controllers.write_queues import Writes

#: Seconds until a namespace that has content left is emptied again, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(slots=True)
class _Terminating:
    """A terminating namespace; ``due`` is None during a call."""

    uid: str
    due: float | None
    pause: float = _FIRST_PAUSE


class NamespaceController(Controller):
    """Empties terminating namespaces."""

    name = "namespace"
    kinds = ("Namespace", "Pod")

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        self._terminating: dict[str, _Terminating] = {}
        self._again: list[str] = []

    def changed(self, event: Event, now: Instant) -> None:
        item = event.new
        found = self._terminating.get(event.key.partition("/")[0])
        if event.kind == "Pod":
            if item is None and found is not None and found.due is not None:
                found.pause = _FIRST_PAUSE
                found.due = min(found.due, now.monotonic + _FIRST_PAUSE)
        elif not isinstance(item, Namespace) or not _is_to_be_emptied(item):
            self._terminating.pop(event.key, None)
        elif found is None or found.uid != item.metadata.uid:
            self._terminating[event.key] = _Terminating(item.metadata.uid, now.monotonic)

    def work(self, now: Instant) -> float | None:
        while self._again:
            name = self._again.pop()
            found = self._terminating.get(name)
            if found is not None and found.due is None:
                found.due = now.monotonic + found.pause
                found.pause = min(2 * found.pause, _LONGEST_PAUSE)
        for name, found in self._terminating.items():
            if found.due is not None and found.due <= now.monotonic:
                found.due = None
                self._writes.empty(name, found.uid, partial(self._again.append, name))
        return earliest(*(found.due for found in self._terminating.values()))


def _is_to_be_emptied(namespace: Namespace) -> bool:
    return is_terminating(namespace) and KUBERNETES_FINALIZER in namespace.spec.finalizers
