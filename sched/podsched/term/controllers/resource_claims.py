"""Create ResourceClaims from templates, and deallocate claims that no pod uses any more.

    a pod or PodGroup names a         its claim is created, controlled by that; its status names the
    template                          claim
    a pod was bound without a         its allocated claims are reserved for it
    scheduler
    a pod has ended or is gone        it is removed from status.reservedFor
    a claim has no consumer left      its allocation, device status and finalizer are removed
    a pod has ended                   claims that it controls are deleted
    no pod reserves or names an       it is deallocated after IDLE seconds
    allocated claim

If a pod cannot be bound, its reservation is removed, but the claim stays allocated for the next
attempt. If the pod is deleted before that, the claim stays allocated in Kubernetes, and no other
claim gets its devices; here the last rule frees them. The rule applies only to claims with the
finalizer that schedulers set with an allocation. Consumers that are not pods are kept. The garbage
collector deletes the claims of deleted owners. The names of generated claims depend only on owner
and claim, so a new leader creates none twice.

Claims of PodGroups are behind the gate DRAWorkloadResourceClaims in Kubernetes v1.36. With the gate
off, its API drops them, as podsched's API does. Source: pkg/controller/resourceclaim of Kubernetes
1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from podsched.api.conditions import is_finished, is_terminating
from podsched.api.device_claims import (
    CLAIM_FINALIZER,
    GROUPS,
    MOST_CONSUMERS,
    POD_CLAIM_NAME,
    claim_names,
    claim_of_template,
    is_claim_for,
    is_for_group,
    is_group_claim_for,
    is_reserved_for,
    known_claim_names,
)
from podsched.api.kinds import kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import (
    AnyObject,
    OwnerReference,
    Pod,
    PodGroup,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
    object_key,
)
from podsched.api.owners import controller_of
from podsched.serve.client.cluster import object_deletion, object_patch
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import AbsentObject, Instant, Objects
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

_CLAIM, _TEMPLATE, _GROUP = "ResourceClaim", "ResourceClaimTemplate", "PodGroup"
#: Kind and key of an object.
_Ref = tuple[str, str]
K = TypeVar("K")
#: Max deleted pods remembered. For others the API server is asked whether they exist.
_MOST_DELETED = 20_000
#: Max objects examined per call of ``work``.
_AT_ONCE = 100
_PAUSE = 0.001
#: Seconds after which a claim is deallocated that no pod has reserved, or names and may still use.
IDLE: Final = 60.0


class ResourceClaimController:
    """See the module."""

    name = "resource-claim"
    kinds = ("Pod", _CLAIM, _TEMPLATE, _GROUP)

    def __init__(self, objects: Objects, writes: Writes, recorder: EventRecorder) -> None:
        self._objects = objects
        self._writes = writes
        self._recorder = recorder
        self._users: dict[str, dict[str, None]] = {}
        """By claim, the pods that use it. All keys and values here are "namespace/name"."""
        self._used: dict[str, tuple[str, ...]] = {}
        """The claims that each pod uses."""
        self._owned: dict[str, dict[str, dict[str, None]]] = {"Pod": {}, _GROUP: {}}
        """By kind and uid of their controllers, the claims that a pod or PodGroup controls."""
        self._waiting: dict[str, dict[_Ref, None]] = {}
        """By name of a template that does not exist, the pods and PodGroups that wait for it."""
        self._deleted: dict[str, None] = {}
        """The uids of pods and PodGroups that are gone."""
        self._members: dict[str, dict[str, None]] = {}
        """The pods with claims of each PodGroup."""
        self._idle: dict[str, float] = {}
        """By claim that is allocated and unused: since when (monotonic), the earliest first."""
        self._queue = WorkQueue[_Ref]()

    @property
    def ignores_bare_pods(self) -> bool:
        """Only while none owns a claim: a claim for extended resources is not in a pod's spec."""
        return not self._owned["Pod"]

    def start(self, now: Instant) -> Iterator[None]:
        for kind in (_CLAIM, "Pod", _GROUP):
            for key in list(self._objects.objects(kind)):
                yield
                self._changed(kind, key, None, self._objects.get(kind, key))

    def changed(self, event: Event, now: Instant) -> None:
        self._changed(event.kind, event.key, event.old, event.new)

    def _changed(self, kind: str, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        if kind == _TEMPLATE:
            if new is not None:
                self._queue.update(self._waiting.pop(key, ()))
        elif kind == _CLAIM:
            self._claim_changed(key, old, new)
        elif kind == _GROUP:
            self._group_changed(key, old, new)
        else:
            self._pod_changed(key, old, new)

    def _pod(self, key: str) -> Pod | None:
        found = self._objects.get("Pod", key)
        return found if isinstance(found, Pod) else None

    def _claim(self, key: str) -> ResourceClaim | None:
        found = self._objects.get(_CLAIM, key)
        return found if isinstance(found, ResourceClaim) else None

    def _enqueue(self, kind: str, keys: Iterable[str]) -> None:
        self._queue.update((kind, key) for key in keys)

    # ------------------------------------------------------------------ changes

    def _pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        # Most pods have no claims: they must cost little, in clusters without devices, too.
        known = key in self._used or self._owned["Pod"]
        if not known and not _names_claims(old) and not _names_claims(new):
            return
        used = tuple(_claim_keys(new)) if isinstance(new, Pod) else ()
        before = self._used.get(key, ())
        if isinstance(old, Pod) and (new is None or new.metadata.uid != old.metadata.uid):
            self._pod_gone(key, old)
        if used != before:
            for claim in before:
                _drop(self._users, claim, key)
            for claim in used:
                self._users.setdefault(claim, {})[key] = None
            self._used[key] = used
            if not used:
                del self._used[key]
        self._note_member(key, old, new)
        if not isinstance(new, Pod):
            return
        if _is_done(new):
            self._enqueue(_CLAIM, (*used, *self._owned["Pod"].get(new.metadata.uid, ())))
        elif new.spec.resource_claims:
            self._queue.add(("Pod", key))

    def _note_member(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        """Note which pods with claims a PodGroup has."""
        if isinstance(old, Pod) and new is None:
            _drop(self._members, _group_of(old), key)
        elif isinstance(new, Pod) and new.spec.resource_claims and _group_of(new):
            self._members.setdefault(_group_of(new), {})[key] = None

    def _pod_gone(self, key: str, pod: Pod) -> None:
        owned = self._owned["Pod"].get(pod.metadata.uid, {})
        claims = {**dict.fromkeys(self._used.get(key, ())), **owned}
        self._waits_no_more(pod, ("Pod", key))
        if claims:
            self._enqueue(_CLAIM, claims)
            self._note_deleted(pod.metadata.uid)

    def _waits_no_more(self, owner: Pod | PodGroup, ref: _Ref) -> None:
        for claim in owner.spec.resource_claims:
            template = f"{owner.metadata.namespace}/{claim.resource_claim_template_name}"
            _drop(self._waiting, template, ref)

    def _note_deleted(self, uid: str) -> None:
        self._deleted[uid] = None
        if len(self._deleted) > _MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]

    def _group_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        if isinstance(old, PodGroup) and (new is None or new.metadata.uid != old.metadata.uid):
            names = [of.resource_claim_name for of in old.spec.resource_claims]
            names += [of.resource_claim_name for of in old.status.resource_claim_statuses]
            self._waits_no_more(old, (_GROUP, key))
            if any(names):
                self._note_deleted(old.metadata.uid)
            namespace = old.metadata.namespace
            self._enqueue(_CLAIM, (f"{namespace}/{name}" for name in names if name))
        if isinstance(new, PodGroup) and new.spec.resource_claims:
            self._queue.add((_GROUP, key))
            self._enqueue("Pod", self._members.get(key, ()))

    def _claim_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        before, after = _owner_of(old), _owner_of(new)
        if before is not None:
            _drop(self._owned[before.kind], before.uid, key)
        if after is not None:
            self._owned[after.kind].setdefault(after.uid, {})[key] = None
        for owner in (before, after):
            if owner is not None:  # Its status may not name the claim yet.
                self._queue.add((owner.kind, f"{key.partition('/')[0]}/{owner.name}"))
        self._enqueue("Pod", self._users.get(key, ()))
        if new is not None:
            self._queue.add((_CLAIM, key))

    # ------------------------------------------------------------------ work

    def work(self, now: Instant) -> float | None:
        for key, since in self._idle.items():
            if since + IDLE > now.monotonic:
                break
            self._queue.add((_CLAIM, key))
        for kind, key in self._queue.take(_AT_ONCE):
            with self._writes.skipping(kind, key):
                if kind == _CLAIM:
                    self._sync_claim(key, now)
                elif kind == _GROUP:
                    self._sync_group(key)
                else:
                    self._sync_pod(key)
        if self._queue:
            return now.monotonic + _PAUSE
        return next((since + IDLE for since in self._idle.values()), None)

    def _sync_pod(self, key: str) -> None:
        pod = self._pod(key)
        if pod is None or _is_done(pod) or is_terminating(pod):
            return
        statuses = []
        group = self._objects.get(_GROUP, _group_of(pod))
        for ref, name in list(claim_names(pod)):
            of_group = group if isinstance(group, PodGroup) and is_for_group(ref, group) else None
            if of_group is not None and ref.resource_claim_template_name:
                told = of_group.status.resource_claim_statuses
                name = next((of.resource_claim_name for of in told if of.name == ref.name), name)
                if name:
                    statuses.append({"name": ref.name, "resourceClaimName": name})
            elif ref.resource_claim_template_name:
                name = self._generated_claim(key, pod, ref, name)
                if name:
                    statuses.append({"name": ref.name, "resourceClaimName": name})
            claim = self._claim(f"{pod.metadata.namespace}/{name}") if name else None
            if pod.spec.node_name and claim is not None:
                self._reserve(pod, ref, claim, of_group)
        known = {of.name: of.resource_claim_name for of in pod.status.resource_claim_statuses}
        found = {of["name"]: of["resourceClaimName"] for of in statuses}
        if {**known, **found} != known:
            kept = [{"name": name} for name in known if name not in found]
            request = object_patch(pod, {"status": {"resourceClaimStatuses": [*kept, *statuses]}})
            request.resource_version = 0  # Only this controller writes these.
            self._writes.patch(key, request, self._queue.adder(("Pod", key)))

    def _sync_group(self, key: str) -> None:
        group = self._objects.get(_GROUP, key)
        if not isinstance(group, PodGroup) or is_terminating(group):
            return
        known = {of.name: of.resource_claim_name for of in group.status.resource_claim_statuses}
        named = dict(known)
        for ref in group.spec.resource_claims:
            if ref.resource_claim_template_name:
                of_pods = PodResourceClaim.FromString(ref.SerializeToString())
                name = self._generated_claim(key, group, of_pods, known.get(ref.name))
                if name:
                    named[ref.name] = name
        if named != known:
            statuses = [{"name": n, "resourceClaimName": c} for n, c in named.items()]
            request = object_patch(group, {"status": {"resourceClaimStatuses": statuses}})
            request.resource_version = 0  # Only this controller writes these.
            self._writes.patch(key, request, self._queue.adder((_GROUP, key)))

    def _generated_claim(
        self, key: str, owner: Pod | PodGroup, ref: PodResourceClaim, name: str | None
    ) -> str | None:
        """Return the name of the claim that was generated; if there is none, create it."""
        namespace, kind = owner.metadata.namespace, kind_of(owner).name
        if name and self._claim(f"{namespace}/{name}") is not None:
            return name
        for owned in self._owned[kind].get(owner.metadata.uid, ()):
            claim = self._claim(owned)
            if claim is not None and claim.metadata.annotations.get(POD_CLAIM_NAME) == ref.name:
                return claim.metadata.name
        wanted = f"{namespace}/{ref.resource_claim_template_name}"
        template = self._objects.get(_TEMPLATE, wanted)
        if not isinstance(template, ResourceClaimTemplate):
            if (kind, key) not in self._waiting.setdefault(wanted, {}):
                self._waiting[wanted][kind, key] = None
                why = (
                    f'resource claim template "{ref.resource_claim_template_name}": '
                    "resourceclaimtemplate.resource.k8s.io "
                    f'"{ref.resource_claim_template_name}" not found'
                )
                self._record(owner, ref, why)
            return name
        made = claim_of_template(
            owner, ref, template, lambda name: self._claim(f"{namespace}/{name}") is not None
        )

        def written(failed: ClientError | None) -> None:
            if failed is not None and not failed.retryable:
                self._record(owner, ref, f"create ResourceClaim {made.metadata.name}: {failed}")

        retry = self._queue.adder((kind, key))
        self._writes.create(object_key(made), made, retry, done=written)
        return name

    def _reserve(
        self, pod: Pod, ref: PodResourceClaim, claim: ResourceClaim, group: PodGroup | None
    ) -> None:
        """Reserve a claim for a bound pod, or for its group, if the scheduler has not."""
        if not claim.status.HasField("allocation") or is_reserved_for(pod, claim):
            return
        is_own = is_claim_for(pod, claim) or is_group_claim_for(pod, claim)
        if ref.resource_claim_template_name and not is_own:
            return
        if is_terminating(claim):
            return
        consumers = to_manifest(claim)["status"].get("reservedFor", [])
        if len(consumers) < MOST_CONSUMERS:
            mine = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
            if group is not None:
                of_group = {"name": group.metadata.name, "uid": group.metadata.uid}
                mine = {"apiGroup": GROUPS, "resource": "podgroups", **of_group}
            self._change(claim, {"status": {"reservedFor": [*consumers, mine]}}, ())

    def _sync_claim(self, key: str, now: Instant) -> None:
        claim = self._claim(key)
        if claim is None or not self._is_idle(key, claim):
            self._idle.pop(key, None)
        elif self._idle.setdefault(key, now.monotonic) + IDLE <= now.monotonic:
            del self._idle[key]
            self._change(claim, _deallocation(claim), ())
            return
        if claim is None:
            return
        kept, absent = [], []
        for consumer in claim.status.reserved_for:
            uses, missing = self._judge(claim, consumer)
            if uses:
                kept.append(consumer.uid)
            elif missing is not None:
                absent.append(missing)
        is_free = not kept and CLAIM_FINALIZER in claim.metadata.finalizers
        if is_free and (claim.status.reserved_for or is_terminating(claim)):
            self._change(claim, _deallocation(claim), absent)
        elif len(kept) < len(claim.status.reserved_for):
            consumers = to_manifest(claim)["status"]["reservedFor"]
            left = [consumer for consumer in consumers if consumer["uid"] in kept] or None
            self._change(claim, {"status": {"reservedFor": left}}, absent)
        elif not kept and not is_terminating(claim):
            self._delete_of_ended_pod(claim)

    def _is_idle(self, key: str, claim: ResourceClaim) -> bool:
        """Return whether a scheduler allocated a claim that no pod has reserved or may use."""
        if not claim.status.HasField("allocation") or claim.status.reserved_for:
            return False
        pods = (self._pod(user) for user in self._users.get(key, ()))
        unused = all(pod is None or _is_done(pod) for pod in pods)
        return unused and CLAIM_FINALIZER in claim.metadata.finalizers

    def _judge(
        self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference
    ) -> tuple[bool, AbsentObject | None]:
        """Return whether a consumer needs the claim.

        If not, also return the object whose absence the API server must confirm, if the informer
        has not shown its deletion.
        """
        if (consumer.api_group, consumer.resource) == (GROUPS, "podgroups"):
            group = self._objects.get(_GROUP, f"{claim.metadata.namespace}/{consumer.name}")
            if group is not None or consumer.uid in self._deleted:
                return group is not None and group.metadata.uid == consumer.uid, None
            namespace = claim.metadata.namespace
            return False, AbsentObject(_GROUP, namespace, consumer.name, consumer.uid)
        if consumer.api_group or consumer.resource != "pods":
            return True, None
        pod = self._pod(f"{claim.metadata.namespace}/{consumer.name}")
        if pod is not None:
            return pod.metadata.uid == consumer.uid and not _is_done(pod), None
        if consumer.uid in self._deleted:
            return False, None
        return False, AbsentObject("Pod", claim.metadata.namespace, consumer.name, consumer.uid)

    def _delete_of_ended_pod(self, claim: ResourceClaim) -> None:
        """Delete a claim if the pod that controls it has ended; such a pod may exist for long."""
        owner = _owner_of(claim)
        pod = None if owner is None else self._pod(f"{claim.metadata.namespace}/{owner.name}")
        if owner is None or pod is None or pod.metadata.uid != owner.uid or not _is_done(pod):
            return
        key = object_key(claim)
        self._writes.delete(key, object_deletion(claim), self._queue.adder((_CLAIM, key)))

    def _change(
        self, claim: ResourceClaim, body: dict[str, Any], absent: Iterable[AbsentObject]
    ) -> None:
        key = object_key(claim)
        retry: Callable[[], None] = partial(self._look_again_at_claim, key)
        self._writes.patch(key, object_patch(claim, body), retry, without=tuple(absent))

    def _look_again_at_claim(self, key: str) -> None:
        self._queue.add((_CLAIM, key))
        self._enqueue("Pod", self._users.get(key, ()))

    def _record(self, owner: Pod | PodGroup, ref: PodResourceClaim, why: str) -> None:
        if isinstance(owner, PodGroup):
            return
        self._recorder.record(
            owner.metadata,
            type_="Warning",
            reason="FailedResourceClaimCreation",
            action="",
            message=f"PodResourceClaim {ref.name}: {why}",
            controller="resource_claim",
        )


def _drop(index: dict[str, dict[K, None]], of: str, key: K) -> None:
    """Remove a key from an index of keys."""
    keys = index.get(of, {})
    keys.pop(key, None)
    if not keys:
        index.pop(of, None)


def _group_of(pod: Pod) -> str:
    """Return the key of the pod's PodGroup, "" if it has none."""
    name = pod.spec.scheduling_group.pod_group_name
    return f"{pod.metadata.namespace}/{name}" if name else ""


def _is_done(pod: Pod) -> bool:
    """Return whether a pod has ended, or is deleted before it was bound."""
    never_runs = is_terminating(pod) and not pod.spec.node_name
    return is_finished(pod) or never_runs


def _names_claims(pod: AnyObject | None) -> bool:
    return isinstance(pod, Pod) and (
        bool(pod.spec.resource_claims) or pod.status.HasField("extended_resource_claim_status")
    )


def _claim_keys(pod: Pod) -> Iterator[str]:
    for name in known_claim_names(pod):
        yield f"{pod.metadata.namespace}/{name}"


def _owner_of(claim: AnyObject | None) -> OwnerReference | None:
    """Return the reference to the pod or PodGroup that controls a claim."""
    owner = None if claim is None else controller_of(claim.metadata)
    if owner is None or (owner.kind, owner.api_version) == ("Pod", "v1") or owner.kind == _GROUP:
        return owner
    return None


def _deallocation(claim: ResourceClaim) -> dict[str, Any]:
    left = [name for name in claim.metadata.finalizers if name != CLAIM_FINALIZER]
    return {
        "metadata": {"finalizers": left or None},
        "status": {"allocation": None, "reservedFor": None, "devices": None},
    }
