"""Create ResourceClaims from templates, and deallocate claims that no pod uses any more.

    a pod or PodGroup names a         its claim is created, controlled by that; its status names the
    template                          claim
    a pod was bound without a         its allocated claims are reserved for it
    scheduler
    a pod has ended or is gone        it is removed from status.reservedFor
    a claim has no consumer left      its allocation, device status and finalizer are removed
    a pod has ended                   claims that it controls are deleted
    no pod reserves or names an       it is deallocated after IDLE seconds; pods that wait in a
    allocated claim                   queue do not count

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

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from podsched.api.codec import write
from podsched.api.conditions import is_terminating
from podsched.api.device_claims import (
    CLAIM_FINALIZER,
    GROUPS,
    MOST_CONSUMERS,
    POD_CLAIM_NAME,
    claim_names,
    claim_of_template,
    is_for_group,
    is_own_claim,
    is_reserved_for,
)
from podsched.api.kinds import kind_of
from podsched.api.objects import (
    Pod,
    PodGroup,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
    object_key,
)
from podsched.api.pod_groups import group_key
from podsched.api.queue_labels import QUEUE_NAME
from podsched.serve.client.cluster import object_deletion, object_patch
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.term.controllers.claim_index import (
    CLAIM,
    GROUP,
    TEMPLATE,
    ClaimIndex,
    is_done,
    owner_of,
)
from podsched.term.controllers.controller import Instant, Objects, QueueController, Ref, find
from podsched.term.controllers.write_queues import AbsentObject, Writes
from podsched.term.writes.event_recorder import EventRecorder

#: Seconds after which a claim is deallocated that no pod has reserved, or names and may still use.
IDLE: Final = 60.0


class ResourceClaimController(QueueController):
    """See the module."""

    name = "resource-claim"
    kinds = (CLAIM, "Pod", GROUP, TEMPLATE)
    most_at_once = 100
    pause = 0.001

    def __init__(self, objects: Objects, writes: Writes, recorder: EventRecorder) -> None:
        super().__init__(objects, writes)
        self._recorder = recorder
        self._index = ClaimIndex(self._queue)
        self._reservations = _Reservations(objects, writes, self._index)

    @property
    def ignores_bare_pods(self) -> bool:
        """Only while none owns a claim: a claim for extended resources is not in a pod's spec."""
        return not self._index.owned["Pod"]

    def changed(self, event: Event, now: Instant) -> None:
        self._index.changed(event.kind, event.key, event.old, event.new)

    def work(self, now: Instant) -> float | None:
        idle = self._reservations.idle_since(now.monotonic - IDLE)
        self._queue.update(Ref(CLAIM, key) for key in idle)
        due = super().work(now)
        return self._reservations.next_time() if due is None else due

    def _examine(self, ref: Ref, now: Instant) -> None:
        if ref.kind == CLAIM:
            self._reservations.sync(ref.key, now)
        elif ref.kind == GROUP:
            self._sync_group(ref.key)
        else:
            self._sync_pod(ref.key)

    def _sync_pod(self, key: str) -> None:
        pod = find(self._objects, Pod, key)
        if pod is None or is_done(pod) or is_terminating(pod):
            return
        found: dict[str, str] = {}
        group = find(self._objects, PodGroup, group_key(pod))
        for ref, name in list(claim_names(pod)):
            of_group = group if group is not None and is_for_group(ref, group) else None
            if ref.resource_claim_template_name:
                if of_group is None:
                    name = self._generated_claim(key, pod, ref, name)
                else:
                    name = _claims_of(of_group).get(ref.name, name)
                if name:
                    found[ref.name] = name
            if pod.spec.node_name and name:
                claim = find(self._objects, ResourceClaim, f"{pod.metadata.namespace}/{name}")
                if claim is not None:
                    self._reservations.reserve(pod, ref, claim, of_group)
        known = _claims_of(pod)
        if {**known, **found} != known:
            kept = [{"name": name} for name in known if name not in found]
            self._write_names(key, pod, kept, found)

    def _sync_group(self, key: str) -> None:
        group = find(self._objects, PodGroup, key)
        if group is None or is_terminating(group):
            return
        known = _claims_of(group)
        named = dict(known)
        for ref in group.spec.resource_claims:
            if ref.resource_claim_template_name:
                of_pods = PodResourceClaim.FromString(ref.SerializeToString())
                name = self._generated_claim(key, group, of_pods, known.get(ref.name))
                if name:
                    named[ref.name] = name
        if named != known:
            self._write_names(key, group, [], named)

    def _write_names(
        self, key: str, owner: Pod | PodGroup, kept: list[dict[str, str]], named: dict[str, str]
    ) -> None:
        """Write the names of an owner's claims to its status, after the ``kept`` entries."""
        entries = [*kept, *({"name": n, "resourceClaimName": c} for n, c in named.items())]
        request = object_patch(owner, {"status": {"resourceClaimStatuses": entries}})
        request.resource_version = 0  # Only this controller writes these.
        self._writes.send(key, request, self._queue.adder(Ref(kind_of(owner).name, key)))

    def _generated_claim(
        self, key: str, owner: Pod | PodGroup, ref: PodResourceClaim, name: str | None
    ) -> str | None:
        """Return the name of the claim that was generated; if there is none, create it."""
        namespace, kind = owner.metadata.namespace, kind_of(owner).name
        if name and find(self._objects, ResourceClaim, f"{namespace}/{name}") is not None:
            return name
        for owned in self._index.owned[kind].of(owner.metadata.uid):
            claim = find(self._objects, ResourceClaim, owned)
            # One of another namespace may name the owner, too.
            if claim is None or claim.metadata.namespace != namespace:
                continue
            if claim.metadata.annotations.get(POD_CLAIM_NAME) == ref.name:
                return claim.metadata.name
        wanted = f"{namespace}/{ref.resource_claim_template_name}"
        template = find(self._objects, ResourceClaimTemplate, wanted)
        if template is None:
            if self._index.wait_for(wanted, Ref(kind, key)):
                named = f'"{ref.resource_claim_template_name}"'
                kinds = "resourceclaimtemplate.resource.k8s.io"
                self._record(
                    owner, ref, f"resource claim template {named}: {kinds} {named} not found"
                )
            return name
        claims = self._objects.objects(CLAIM)
        made = claim_of_template(owner, ref, template, lambda n: f"{namespace}/{n}" in claims)

        def written(failed: ClientError | None) -> None:
            if failed is not None and not failed.retryable:
                self._record(owner, ref, f"create ResourceClaim {made.metadata.name}: {failed}")

        retry = self._queue.adder(Ref(kind, key))
        self._writes.send(object_key(made), made, retry, done=written)
        return name

    def _record(self, owner: Pod | PodGroup, ref: PodResourceClaim, why: str) -> None:
        kind = kind_of(owner).name
        self._recorder.record(
            owner.metadata,
            type_="Warning",
            reason="FailedResourceClaimCreation",
            message=f"{kind}ResourceClaim {ref.name}: {why}",
            controller="resource_claim",
            kind=kind,
        )


class _Reservations:
    """Keeps the consumers of claims current, and deallocates claims that have none."""

    def __init__(self, objects: Objects, writes: Writes, index: ClaimIndex) -> None:
        self._objects = objects
        self._writes = writes
        self._index = index
        self._idle: dict[str, float] = {}
        """By claim that is allocated and unused: since when (monotonic), the earliest first."""

    def idle_since(self, latest: float) -> Iterator[str]:
        """Yield the claims that have been unused since a time or longer."""
        for key, since in self._idle.items():
            if since > latest:
                break
            yield key

    def next_time(self) -> float | None:
        """Return when the next unused claim is deallocated."""
        return next((since + IDLE for since in self._idle.values()), None)

    def reserve(
        self, pod: Pod, ref: PodResourceClaim, claim: ResourceClaim, group: PodGroup | None
    ) -> None:
        """Reserve a claim for a bound pod, or for its group, if the scheduler has not."""
        if not claim.status.HasField("allocation") or is_reserved_for(pod, claim):
            return
        if ref.resource_claim_template_name and not is_own_claim(pod, claim):
            return
        if is_terminating(claim):
            return
        consumers = [write(consumer) for consumer in claim.status.reserved_for]
        if len(consumers) < MOST_CONSUMERS:
            mine = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
            if group is not None:
                of_group = {"name": group.metadata.name, "uid": group.metadata.uid}
                mine = {"apiGroup": GROUPS, "resource": "podgroups", **of_group}
            self._change(claim, {"status": {"reservedFor": [*consumers, mine]}}, ())

    def sync(self, key: str, now: Instant) -> None:
        claim = find(self._objects, ResourceClaim, key)
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
            left = [write(of) for of in claim.status.reserved_for if of.uid in kept]
            self._change(claim, {"status": {"reservedFor": left or None}}, absent)
        elif not kept and not is_terminating(claim):
            self._delete_of_ended_pod(claim)

    def _is_idle(self, key: str, claim: ResourceClaim) -> bool:
        """Return whether a scheduler allocated a claim that no pod has reserved or may use."""
        if not claim.status.HasField("allocation") or claim.status.reserved_for:
            return False
        pods = (find(self._objects, Pod, user) for user in self._index.users.of(key))
        used = any(pod is not None and self._may_use(pod) for pod in pods)
        return not used and CLAIM_FINALIZER in claim.metadata.finalizers

    def _may_use(self, pod: Pod) -> bool:
        """Return whether a claim stays allocated for a pod that may not have reserved it."""
        group = find(self._objects, PodGroup, group_key(pod))
        of_group = {} if group is None else group.metadata.labels
        queued = QUEUE_NAME in pod.metadata.labels or QUEUE_NAME in of_group
        # A pod that waits for quota, maybe for days, would keep devices from pods that have some.
        return not is_done(pod) and not (queued and not pod.spec.node_name)

    def _judge(
        self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference
    ) -> tuple[bool, AbsentObject | None]:
        """Return whether a consumer needs the claim.

        If not, also return the object whose absence the API server must confirm, if the informer
        has not shown its deletion.
        """
        kinds = {(GROUPS, "podgroups"): GROUP, ("", "pods"): "Pod"}
        kind = kinds.get((consumer.api_group, consumer.resource))
        if kind is None:
            return True, None
        namespace = claim.metadata.namespace
        found = self._objects.get(kind, f"{namespace}/{consumer.name}")
        if found is not None:
            is_over = isinstance(found, Pod) and is_done(found)
            return found.metadata.uid == consumer.uid and not is_over, None
        if consumer.uid in self._index.deleted:
            return False, None
        return False, AbsentObject(kind, namespace, consumer.name, consumer.uid)

    def _delete_of_ended_pod(self, claim: ResourceClaim) -> None:
        """Delete a claim if the pod that controls it has ended; such a pod may exist for long."""
        if (owner := owner_of(claim)) is None:
            return
        pod = find(self._objects, Pod, f"{claim.metadata.namespace}/{owner.name}")
        if pod is not None and pod.metadata.uid == owner.uid and is_done(pod):
            key = object_key(claim)
            self._writes.send(key, object_deletion(claim), partial(self._index.examine_claim, key))

    def _change(
        self, claim: ResourceClaim, body: dict[str, Any], absent: Iterable[AbsentObject]
    ) -> None:
        key = object_key(claim)
        retry = partial(self._index.examine_claim, key)
        self._writes.send(key, object_patch(claim, body), retry, without=tuple(absent))


def _claims_of(owner: Pod | PodGroup) -> dict[str, str]:
    """Return the names of claims in an owner's status, by the owner's name for them."""
    return {of.name: of.resource_claim_name for of in owner.status.resource_claim_statuses}


def _deallocation(claim: ResourceClaim) -> dict[str, Any]:
    left = [name for name in claim.metadata.finalizers if name != CLAIM_FINALIZER]
    return {
        "metadata": {"finalizers": left or None},
        "status": {"allocation": None, "reservedFor": None, "devices": None},
    }
