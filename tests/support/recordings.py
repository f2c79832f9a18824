"""Small recordings, written as ``sched record`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Node, Pod
from podsched.lab.replay.recording import Recording, RecordingWriter, read_recording
from podsched.serve.client.informer import EventType

BEGAN = 1_800_000_000.0


def a_node(name: str, cpu: str = "4") -> Node:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    message = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "status": {"allocatable": amounts},
        }
    ).message
    assert isinstance(message, Node)
    return message


def a_pod(name: str, cpu: str = "1", on: str = "", **spec: Any) -> Pod:
    """A pod of the default scheduler; ``on``: the node that it is bound to."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    message = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [container],
                **({"nodeName": on} if on else {}),
                **spec,
            },
        }
    ).message
    assert isinstance(message, Pod)
    return message


class Script:
    """Writes a recording change by change, each at its time."""

    def __init__(self, path: Path, *objects: AnyObject, **header: Any) -> None:
        self.path = path
        self.writer = RecordingWriter(path, {"time": BEGAN, **header})
        self.revision = 10
        self.at = 0.0
        for item in objects:
            self.writer.object(item)
        self.writer.synced(self.revision)

    def _change(self, at: float, type_: EventType, *items: AnyObject) -> Script:
        self.at = at
        for item in items:
            self.revision += 1
            self.writer.change(at, self.revision, type_, item)
        return self

    def added(self, at: float, *items: AnyObject) -> Script:
        return self._change(at, EventType.ADDED, *items)

    def modified(self, at: float, *items: AnyObject) -> Script:
        return self._change(at, EventType.MODIFIED, *items)

    def deleted(self, at: float, *items: AnyObject) -> Script:
        return self._change(at, EventType.DELETED, *items)

    def bound(self, at: float, pod: Pod, node: str) -> Script:
        """The pod with its node; what is handed in is changed."""
        pod.spec.node_name = node
        return self.modified(at, pod)

    def ended(self, at: float) -> Recording:
        """The recording, read from its file."""
        self.writer.close(at, "time is up")
        return read_recording(self.path)
