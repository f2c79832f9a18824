"""Delete objects whose owners are deleted, and then remove the owners' finalizers.

    owner                          its dependents
    does not exist                 deleted; with another owner they only lose the reference
    has foregroundDeletion         deleted first; those with blockOwnerDeletion delay the owner
    has orphan                     lose the reference, then the owner is deleted

Guarantees: an owner counts as deleted only if the API server has no object of its uid; decisions
depend only on stored objects, so a new leader continues the work of the previous one. An index of
dependents by their owner's uid is updated by event, so the cost of a deletion depends only on the
number of dependents. Owners of kinds that are not stored here (custom resources) are ignored, and
kinds that a cluster consists of (``KEPT_KINDS``) are never deleted. Source:
pkg/controller/garbagecollector of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from podsched.api.codec import write
from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ObjectMeta, OwnerReference, joined_key
from podsched.api.owners import FOREGROUND_FINALIZER, KEPT_KINDS, ORPHAN_FINALIZER, owner_kind
from podsched.lib.groups import Groups
from podsched.serve.client.cluster import object_deletion
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import (
    Instant,
    Objects,
    QueueController,
    Ref,
    metadata_patch,
    without_finalizer,
)
from podsched.term.controllers.write_queues import AbsentObject, Writes

COLLECTED_KINDS = tuple(
    kind.name for kind in KINDS.values() if kind.name != "Event" and not kind.secret
)
"""All kinds but Event and Secret.

Events expire soon by themselves, and there are many. The leader has no right to read Secrets.
"""


class _Owners(NamedTuple):
    """The owners of an object, by their state."""

    solid: list[OwnerReference]
    dangling: list[OwnerReference]
    waiting: list[OwnerReference]
    """Being deleted in the foreground: after their dependents."""
    orphaning: list[OwnerReference]
    """Being deleted with orphaning: the dependents are kept."""


class GarbageCollector(QueueController):
    """Deletes the dependents of deleted owners."""

    name = "garbage-collector"
    kinds = COLLECTED_KINDS
    most_at_once = 500  # Some 5 ms.
    pause = 0.01

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        #: By the owner's uid.
        self._dependents = Groups[str, Ref, None]()
        self._waiting: dict[str, Ref] = {}
        """Owners with a finalizer of the garbage collector, by uid."""

    def changed(self, event: Event, now: Instant) -> None:
        before = event.old.metadata if event.old is not None else None
        after = event.new.metadata if event.new is not None else None
        if before is not None and (after is None or after.uid != before.uid):
            self._waiting.pop(before.uid, None)
            self._queue.update(self._dependents.of(before.uid))
        ref = Ref(event.kind, event.key)
        self._index(ref, _owners_of(before), _owners_of(after))
        if after is None or not after.HasField("deletion_timestamp"):
            return
        policy = _policy_of(after)
        if not policy:
            # If finalizers of others keep it, it counts as an owner again, as in Kubernetes.
            self._waiting.pop(after.uid, None)
        else:
            if after.uid not in self._waiting or before is None or _policy_of(before) != policy:
                self._waiting[after.uid] = ref
                self._queue.update(self._dependents.of(after.uid))
            self._queue.add(ref)

    def _index(self, ref: Ref, before: Sequence[str], uids: Sequence[str]) -> None:
        # Reexamine waiting owners: this dependent may have been the last one.
        for uid in before:
            if uid in self._waiting:
                self._queue.add(self._waiting[uid])
        if uids == before:
            return
        for uid in before:
            self._dependents.drop(uid, ref)
        for uid in uids:
            self._dependents.put(uid, ref, None)
        if uids:
            self._queue.add(ref)

    def _examine(self, ref: Ref, now: Instant) -> None:
        item = self._objects.get(*ref)
        if item is None:
            return
        metadata = item.metadata
        if metadata.uid in self._waiting:
            self._release_owner(ref, item)
        owners = self._classify_references(item)
        if owners.orphaning:
            # Its owner was perhaps to be deleted after it before: the deletion may still wait.
            self._writes.cancel_deletion(*ref)
            others = [*owners.solid, *owners.dangling, *owners.waiting]
            self._keep_owners(ref, item, others, ())
            return
        if metadata.HasField("deletion_timestamp") or not (owners.dangling or owners.waiting):
            return
        if ref.kind in KEPT_KINDS:
            return
        absent = [_absent_object(item, owner) for owner in owners.dangling]
        if owners.solid:
            self._keep_owners(ref, item, owners.solid, absent)
            return
        policy = _policy_of(metadata) or "Background"
        if owners.waiting and metadata.uid in self._dependents:
            # An owner waits until all below it is gone, so this object waits for its own.
            policy = "Foreground"
            self._open_circle(ref, item)
        request = object_deletion(item, policy)
        # A later version may have another owner.
        request.preconditions.resource_version = int(metadata.resource_version or 0)
        self._writes.send(ref.key, request, self._queue.adder(ref), without=absent)

    def _open_circle(self, ref: Ref, item: AnyObject) -> None:
        """Let an object delay no owner if a dependent waits for its own: perhaps for an owner."""
        owners = item.metadata.owner_references
        # Else each try to delete it would fail, because this has made another version.
        blocks = any(reference.block_owner_deletion for reference in owners)
        below = (self._objects.get(*of) for of in self._dependents.of(item.metadata.uid))
        if blocks and any(of is not None and of.metadata.uid in self._waiting for of in below):
            shown = map(write, owners)
            references = [{**reference, "blockOwnerDeletion": False} for reference in shown]
            patch = metadata_patch(item, {"ownerReferences": references})
            patch.resource_version = 0  # The deletion changes it.
            self._writes.send(ref.key, patch, self._queue.adder(ref))

    def _classify_references(self, item: AnyObject) -> _Owners:
        owners = _Owners([], [], [], [])
        for reference in item.metadata.owner_references:
            kind = owner_kind(reference)
            unknown = kind is None or kind.name not in COLLECTED_KINDS
            # An object without a namespace cannot have an owner in one; such a reference counts as
            # unresolvable in Kubernetes, too, and nothing is deleted for it.
            if unknown or (kind is not None and kind.namespaced and not item.metadata.namespace):
                owners.solid.append(reference)
                continue
            absentee = _absent_object(item, reference)
            key = joined_key(absentee.namespace, absentee.name)
            found = self._objects.get(absentee.kind, key)
            if found is None or found.metadata.uid != reference.uid:
                owners.dangling.append(reference)
            elif reference.uid not in self._waiting:
                owners.solid.append(reference)
            elif _policy_of(found.metadata) == "Orphan":
                owners.orphaning.append(reference)
            else:
                owners.waiting.append(reference)
        return owners

    def _release_owner(self, ref: Ref, item: AnyObject) -> None:
        """Remove the finalizer of an owner if no dependent delays its deletion any more."""
        uid = item.metadata.uid
        dependents = self._dependents.of(uid)
        if _policy_of(item.metadata) == "Orphan":
            if not dependents:
                self._drop_finalizer(ref, item, ORPHAN_FINALIZER)
        elif not any(self._blocks(dependent, uid) for dependent in dependents):
            self._drop_finalizer(ref, item, FOREGROUND_FINALIZER)

    def _blocks(self, dependent: Ref, uid: str) -> bool:
        found = self._objects.get(*dependent) if dependent.kind not in KEPT_KINDS else None
        references = found.metadata.owner_references if found is not None else ()
        return any(r.uid == uid and r.block_owner_deletion for r in references)

    def _keep_owners(
        self,
        ref: Ref,
        item: AnyObject,
        owners: Sequence[OwnerReference],
        absent: Sequence[AbsentObject],
    ) -> None:
        """Remove all other owner references from an object."""
        patch = metadata_patch(item, {"ownerReferences": [*map(write, owners)] or None})
        self._writes.send(ref.key, patch, self._queue.adder(ref), without=absent)

    def _drop_finalizer(self, ref: Ref, item: AnyObject, finalizer: str) -> None:
        self._writes.send(ref.key, without_finalizer(item, finalizer), self._queue.adder(ref))


def _owners_of(metadata: ObjectMeta | None) -> Sequence[str]:
    """Return the uids of an object's owners, each once."""
    if metadata is None or not metadata.owner_references:
        return ()
    return list(dict.fromkeys(reference.uid for reference in metadata.owner_references))


def _policy_of(metadata: Any) -> str:
    """Return the propagation policy that an object's finalizers express."""
    for finalizer in metadata.finalizers:
        if finalizer == ORPHAN_FINALIZER:
            return "Orphan"
        if finalizer == FOREGROUND_FINALIZER:
            return "Foreground"
    return ""


def _absent_object(item: AnyObject, owner: OwnerReference) -> AbsentObject:
    namespaced = KINDS[owner.kind].namespaced
    return AbsentObject(
        owner.kind, item.metadata.namespace if namespaced else "", owner.name, owner.uid
    )
