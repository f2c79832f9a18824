"""Decides the effect of a deletion by Kubernetes' rules: the object is removed or marked.

    state                     request                     effect
    bound pod, still running  grace > 0 (or its own)      marked: deletionTimestamp = now + grace
    marked pod                grace shorter than before   marked again with the shorter one
    marked pod                none, or not shorter        unchanged
    any                       grace 0, or not such a pod  removed
    undecodable               any                         removed
    any with finalizers       that would remove it        marked with grace 0 until none is left
    any                       Orphan, Foreground          gets a finalizer for the garbage collector

Namespaces follow other rules (``namespaces``). Pure: ``now`` is an argument.
"""

from __future__ import annotations

from podsched.api.conditions import is_finished
from podsched.api.etcd_keys import name_in
from podsched.api.field_errors import invalid, not_supported
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject, Namespace, Pod, timestamp
from podsched.api.owners import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from podsched.serve.server import errors
from podsched.serve.server.admission import encoded
from podsched.serve.server.entries import Entry
from podsched.serve.server.mutations import Step
from podsched.v1.api_pb2 import Preconditions

#: 68 years: with more, the deletion time could exceed the representable range.
MAX_GRACE_PERIOD = 2**31 - 1
_POLICIES = ("", "Background", "Foreground", "Orphan")
_FINALIZERS = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER}


def check_preconditions(entry: Entry, wanted: Preconditions) -> None:
    """Raise ApiError if uid or resourceVersion differ from the preconditions."""
    name = name_in(entry.key)
    if wanted.uid:
        uid = entry.message.metadata.uid
        if uid != wanted.uid:
            raise errors.precondition(entry.kind, name, "UID", wanted.uid, uid)
    if wanted.resource_version and wanted.resource_version != entry.revision:
        raise errors.precondition(
            entry.kind, name, "ResourceVersion", str(wanted.resource_version), str(entry.revision)
        )


def grace_of(kind: Kind, message: AnyObject, asked: int | None) -> int:
    """Return the grace period in seconds; 0 for objects that are removed at once.

    Raises ApiError if the request exceeds MAX_GRACE_PERIOD.
    """
    if kind.name != "Pod" or not isinstance(message, Pod):
        return 0
    if not message.spec.node_name or is_finished(message):
        return 0
    if asked is not None and asked > MAX_GRACE_PERIOD:
        found = invalid("gracePeriodSeconds", asked, f"must be at most {MAX_GRACE_PERIOD}")
        raise errors.invalid_fields(kind, message.metadata.name, [found])
    grace = asked if asked is not None else message.spec.termination_grace_period_seconds
    # A negative period means 1 s, as in CheckGracefulDelete of Kubernetes' pod strategy.
    return min(grace, MAX_GRACE_PERIOD) if grace >= 0 else 1


def check_propagation(policy: str) -> None:
    """Raise ApiError for an unknown propagation policy."""
    if policy not in _POLICIES:
        found = not_supported("propagationPolicy", policy, [p for p in _POLICIES if p])
        raise errors.bad_request(str(found), found.path)


def deletion_step(
    entry: Entry,
    asked: int | None,
    now: float,
    propagation: str = "",
    message: AnyObject | None = None,
) -> Step | None:
    """Return the step of a deletion; ``asked``: seconds of grace (None: the object's own).

    message: the decoded entry, with changes to be stored by the same write. Returns None if the
    object is already being deleted and nothing changes. An undecodable object is removed at once.
    """
    if message is None or not entry.is_of(message):
        if not entry.is_readable():
            return Step(None)
        message = entry.decode()
    changed = _set_propagation(message, propagation)
    step = _deletion_step(entry.kind, message, asked, now)
    # As in Kubernetes: until the grace period ends, only its length may change.
    if step is None and changed and not message.metadata.deletion_grace_period_seconds:
        return Step(None) if can_be_removed(message) else Step(message.SerializeToString())
    return step


def _set_propagation(message: AnyObject, policy: str) -> bool:
    """Set the finalizers of a propagation policy; return whether they changed."""
    if not policy:
        return False
    metadata = message.metadata
    wanted = [f for f in metadata.finalizers if f not in _FINALIZERS.values()]
    if policy in _FINALIZERS:
        wanted.append(_FINALIZERS[policy])
    if wanted == [*metadata.finalizers]:
        return False
    metadata.finalizers[:] = wanted
    return True


def _deletion_step(kind: Kind, message: AnyObject, asked: int | None, now: float) -> Step | None:
    metadata = message.metadata
    grace = grace_of(kind, message, asked)
    if metadata.HasField("deletion_timestamp"):
        # Marked before: the deletion can only be brought forward.
        before = metadata.deletion_grace_period_seconds
        if grace > 0 and (asked is None or grace >= before):
            return None
        if grace == 0 and before == 0 and metadata.finalizers:
            return None
        if asked is None and before > 0:
            return None
        if grace == 0 and not metadata.finalizers:
            return Step(None)
        end = metadata.deletion_timestamp.seconds - before + grace
        if end < now:
            # What remains is the least: the kubelet still has to end the pod.
            end, grace = int(now), min(grace, 1)
        return Step(_marked(message, end, grace))
    if grace == 0 and not metadata.finalizers:
        return Step(None)
    return Step(_marked(message, int(now) + grace, grace))


def marked_first(entry: Entry, step: Step | None, now: float, propagation: str) -> Step | None:
    """Return the step that marks a pod with zero grace, if ``step`` would remove it.

    Other steps are returned unchanged.
    """
    if step is None or step.value is not None or entry.kind.name != "Pod":
        return step
    if not entry.is_readable() or can_be_removed(entry.message):
        return step
    message = entry.decode()
    _set_propagation(message, propagation)
    return Step(_marked(message, int(now), 0))


def _marked(message: AnyObject, end: int, grace: int) -> bytes:
    """Serialize an object marked for deletion; end: Unix seconds, grace: seconds."""
    metadata = message.metadata
    # As in BeforeDelete of Kubernetes (apiserver/pkg/registry/rest): the mark is a new generation.
    if metadata.generation and not metadata.HasField("deletion_timestamp"):
        metadata.generation += 1
    metadata.deletion_timestamp.CopyFrom(timestamp(end, whole=True))
    metadata.deletion_grace_period_seconds = grace
    return message.SerializeToString()


def can_be_removed(message: AnyObject) -> bool:
    """Return whether a marked object can be removed: zero grace period and no finalizers."""
    metadata = message.metadata
    return (
        metadata.HasField("deletion_timestamp")
        and metadata.deletion_grace_period_seconds == 0
        and not metadata.finalizers
        and not (isinstance(message, Namespace) and message.spec.finalizers)
    )


def replacement(kind: Kind, message: AnyObject, old: AnyObject) -> Step | None:
    """Return the step that stores an object in place of ``old``, None if they are equal.

    A marked object without the last finalizer is removed instead. Raises ApiError.
    """
    if can_be_removed(message):
        return Step(None)
    return None if message == old else Step(encoded(kind, message))
