"""Rewrites objects: computes the replacement from the current version, admits it and stores it.

The REST API uses this for PUT and PATCH, because it computes the new object itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from podsched.api.defaulting import NAMESPACE_NAME_LABEL
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject, Namespace, ObjectMeta, Pod, copy_of
from podsched.api.pod_parts import POD_PARTS, RESIZE
from podsched.api.validation import validate
from podsched.serve.server import errors
from podsched.serve.server.access.object_checks import check_change, check_status
from podsched.serve.server.access.rights import rights
from podsched.serve.server.admission import admit_status, admit_update, encoded
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.certificate_requests import APPROVAL
from podsched.serve.server.deletion import can_be_removed, replacement
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step, only_entry
from podsched.serve.server.quotas.growth import GrowthCharging
from podsched.serve.server.scope import local_namespace
from podsched.serve.server.writes import GuardedWrites

#: Metadata that an update of the status writes, too.
_WITH_STATUS = ("labels", "annotations")
#: Kinds for which an update of the status writes neither labels nor annotations: their strategies
#: in Kubernetes call ``ResetObjectMetaForStatus``.
_STATUS_ALONE = ("DeviceTaintRule", "PodGroup", "ResourceClaim", "VolumeAttachment")

Make = Callable[[Entry], AnyObject]
"""Returns an object's replacement. Raises ApiError; called again if the object has changed."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change of an object. verb: the verb to authorize.

    subresource: "" for the whole object, "status", "finalize" of a namespace, "approval" of a
    CertificateSigningRequest, or a part of a pod.
    """

    kind: Kind
    namespace: str
    name: str
    verb: str
    subresource: str
    make: Make
    dry_run: bool = False


class Rewriter:
    """Executes rewrites. now: Unix time in seconds."""

    def __init__(
        self,
        sources: AdmissionSources,
        growth: GrowthCharging,
        writes: GuardedWrites,
        *,
        now: Callable[[], float],
    ) -> None:
        self._sources = sources
        self._growth = growth
        self._writes = writes
        self._now = now

    async def rewrite(self, change: Rewrite) -> Entry:
        """Change an object and return it. Raises ApiError.

        If the new object has a resourceVersion, it must be the stored one.
        """
        kind, name = change.kind, change.name
        namespace = local_namespace(kind, change.namespace)
        rights().check(change.verb, kind, namespace, name, change.subresource)
        key = local_key(kind, namespace, name)
        last = b""

        def step(entry: Entry) -> Step | None:
            nonlocal last
            message = _with_times(self._changed(change, entry), entry.message)
            # Its last state, if the change removes its last finalizer, and so the object.
            last = encoded(kind, message) if can_be_removed(message) else b""
            return replacement(kind, message, entry.message)

        planned: Sequence[Mutation | ApiError] = [Mutation(kind, key, step)]
        if change.subresource not in ("status", APPROVAL):
            resized = change.subresource == RESIZE
            planned = await self._growth.charged(planned, resized=resized)
        entry = only_entry(await self._writes.change(planned, None, dry_run=change.dry_run))
        return entry.changed(last) if last else entry

    def _changed(self, change: Rewrite, entry: Entry) -> AnyObject:
        """Return the new version of an object, admitted. Raises ApiError."""
        kind, old = change.kind, entry.message
        message = change.make(entry)
        version = message.metadata.resource_version
        if version and version != str(entry.revision):
            raise errors.conflict(kind, change.name)
        message.metadata.resource_version = ""
        if change.subresource in ("status", APPROVAL):
            updated = admit_status(
                kind,
                message,
                old,
                now=self._now(),
                sources=self._sources,
                approval=change.subresource == APPROVAL,
            )
            check_status(kind, old, updated, change.verb)
            message = _with_metadata(kind, updated, message, old)
        else:
            # ``admit_update`` keeps a namespace's finalizers; only "finalize" may change them.
            wanted = [*message.spec.finalizers] if isinstance(message, Namespace) else []
            part = change.subresource if change.subresource in POD_PARTS else ""
            admit_update(kind, message, old, now=self._now(), sources=self._sources, part=part)
            if change.subresource == "finalize" and isinstance(message, Namespace):
                message.spec.finalizers[:] = wanted
        check_change(kind, old, message)
        return message


def _with_times(message: AnyObject, old: AnyObject) -> AnyObject:
    """Return an object with the old times of its field managers, if nothing else has changed.

    For a new time alone it would be written, and shown to all watches, each time that it is
    applied. Only here, because what is applied may differ from the object by its defaults. Source:
    apiserver/pkg/endpoints/handlers/fieldmanager/equality.go of Kubernetes.
    """
    if not old.metadata.managed_fields:
        return message
    kept = copy_of(message)
    for new, before in zip(kept.metadata.managed_fields, old.metadata.managed_fields, strict=False):
        if "time" in before.fields:
            new.fields["time"].CopyFrom(before.fields["time"])
    return kept if kept == old else message


def _keep_qos_class(kind: Kind, updated: AnyObject, old: AnyObject) -> None:
    """Keep a pod's QoS class, which depends only on its spec. Raises ApiError for another one."""
    if not isinstance(updated, Pod) or not isinstance(old, Pod):
        return
    new, before = updated.status.qos_class, old.status.qos_class
    if new and new != before:
        raise errors.immutable(kind, old.metadata.name, "status.qosClass", new)
    updated.status.qos_class = before


def metadata_with_status(kind: str) -> Sequence[str]:
    """Return the fields of metadata that an update of the status writes, too."""
    return () if kind in _STATUS_ALONE else _WITH_STATUS


def _with_metadata(kind: Kind, updated: AnyObject, message: AnyObject, old: AnyObject) -> AnyObject:
    """Return ``updated``, which has a new status, with the metadata that is written with it.

    These are labels and annotations of ``message``, but not of the kinds in _STATUS_ALONE.
    Raises ApiError.
    """
    _keep_qos_class(kind, updated, old)
    new, before = message.metadata, old.metadata
    if new.uid and new.uid != before.uid:
        raise errors.immutable(kind, before.name, "metadata.uid", new.uid)
    written = (*metadata_with_status(kind.name), "managed_fields")
    if any(getattr(new, field) != getattr(before, field) for field in written):
        for field in written:
            updated.metadata.ClearField(field)
            updated.metadata.MergeFrom(ObjectMeta(**{field: getattr(new, field)}))
        if isinstance(updated, Namespace):
            updated.metadata.labels[NAMESPACE_NAME_LABEL] = before.name
        if problems := validate(kind, updated, old):
            raise errors.invalid_fields(kind, before.name, problems)
    return updated
