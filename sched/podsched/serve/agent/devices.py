"""Publishes the devices of hollow nodes: their ResourceSlices, and the DeviceClasses for them.

The slices of a node are those of its annotation (``api.hollow_nodes``). One that is missing is
created, one that is of an earlier node or annotation is deleted. Slices that others have made are
left alone. A class is created if there is none; it stays when the nodes leave. What could not be
created is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from podsched.api.hollow_nodes import (
    DEVICES_ANNOTATION,
    BadDevicesError,
    class_of,
    parse_devices,
    slices_of,
)
from podsched.api.objects import AnyObject, DeviceClass, Node, ResourceSlice
from podsched.lib.groups import Groups
from podsched.serve.agent.deletions import deletions
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.cluster import object_deletion
from podsched.serve.client.errors import AlreadyExists
from podsched.serve.client.informer import Event, Informer
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2 as v1

_log = get_logger("agent")


class DevicePublisher:
    """Call ``changed`` for ResourceSlices and ``publish`` for nodes, and run the outboxes."""

    def __init__(
        self, client: ApiClient, informer: Informer, failed: Callable[[str], None]
    ) -> None:
        """``failed`` is called with a node that is to be published again after a while."""
        self._informer = informer
        self._failed = failed
        #: Names of the slices that agents have made, by node.
        self._made = Groups[str, str, None]()
        #: The drivers whose classes were created, or are being, and the first node of each.
        self._classes: dict[str, str] = {}
        self.creations = Outbox[AnyObject](client.create_many, self._created)
        self.deletions = deletions(client)

    def changed(self, event: Event) -> str:
        """Record a slice; return the node whose devices must be published again, or ""."""
        piece = cast(ResourceSlice, event.new or event.old)
        if DEVICES_ANNOTATION not in piece.metadata.annotations:
            return ""
        node = piece.spec.node_name
        if event.new is None:
            self._made.drop(node, event.key)
        else:
            self._made.put(node, event.key, None)
        return node

    def publish(self, node: Node) -> None:
        """Create the slices that a node lacks, and delete those that are not its own."""
        try:
            wanted = {piece.metadata.name: piece for piece in slices_of(node)}
            devices = parse_devices(node.metadata.annotations[DEVICES_ANNOTATION]) if wanted else []
        except BadDevicesError as why:
            _log.warning(f"{DEVICES_ANNOTATION} is invalid", node=node.metadata.name, why=str(why))
            return
        for of in devices:
            if of.driver not in self._classes:
                self._classes[of.driver] = node.metadata.name
                self.creations.put(f"class {of.driver}", class_of(of))
        made = self._made.of(node.metadata.name)
        for name in made.keys() - wanted.keys():
            self._put_deletion(name)
        for name, piece in wanted.items():
            found = cast(ResourceSlice | None, self._informer.get("ResourceSlice", name))
            if found is None:
                self.creations.put(name, piece)
            elif name in made and _is_outdated(found, piece):
                self._put_deletion(name)

    def withdraw(self, node: str) -> None:
        """Delete the slices of a node that is gone, which otherwise only a leader does."""
        for name in self._made.pop(node):
            self._put_deletion(name)

    def _put_deletion(self, name: str) -> None:
        self.creations.drop(name)
        found = self._informer.get("ResourceSlice", name)
        if found is not None:
            self.deletions.put(name, object_deletion(found))

    def _created(self, name: str, made: AnyObject, result: v1.BatchResult) -> None:
        failed = errors.of_result(result)
        if failed is None or isinstance(failed, AlreadyExists):
            return
        if isinstance(made, DeviceClass):
            node = self._classes.pop(made.metadata.name)
        else:
            node = cast(ResourceSlice, made).spec.node_name
        _log.warning("Publishing devices failed", name=name, node=node, error=str(failed))
        self._failed(node)


def _is_outdated(found: ResourceSlice, wanted: ResourceSlice) -> bool:
    """Whether a slice is of an earlier node, or of another annotation of it."""

    def source(piece: ResourceSlice) -> tuple[str, list[str]]:
        owners = piece.metadata.owner_references
        return piece.metadata.annotations[DEVICES_ANNOTATION], [owner.uid for owner in owners]

    return source(found) != source(wanted)
