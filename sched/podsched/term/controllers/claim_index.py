"""Which pods and PodGroups use, own or wait for which ResourceClaims."""

from __future__ import annotations

from collections.abc import Iterable

from podsched.api.conditions import is_finished, is_terminating
from podsched.api.device_claims import known_claim_names
from podsched.api.objects import AnyObject, OwnerReference, Pod, PodGroup
from podsched.api.owners import controller_of
from podsched.api.pod_groups import group_key
from podsched.lib.groups import Grouped, Groups
from podsched.term.controllers.controller import Ref
from podsched.term.controllers.workqueue import WorkQueue

CLAIM, TEMPLATE, GROUP = "ResourceClaim", "ResourceClaimTemplate", "PodGroup"
#: Max deleted pods remembered. For others the API server is asked whether they exist.
_MOST_DELETED = 20_000


class ClaimIndex:
    """These relations; ``changed`` keeps them, and queues what has to be examined again."""

    def __init__(self, queue: WorkQueue[Ref]) -> None:
        self._queue = queue
        #: By claim, the pods that use it. All keys and values here are "namespace/name".
        self.users = Groups[str, str, None]()
        #: By kind and uid of their controllers, the claims that a pod or PodGroup controls.
        self.owned = {"Pod": Groups[str, str, None](), GROUP: Groups[str, str, None]()}
        #: By name of a template that does not exist, the pods and PodGroups that wait for it.
        self._waiting = Groups[str, Ref, None]()
        self.deleted: dict[str, None] = {}
        """The uids of pods and PodGroups that are gone."""
        #: The pods with claims of each PodGroup.
        self._members = Grouped[str, str, None]()

    def changed(self, kind: str, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        if kind == TEMPLATE:
            if new is not None:
                self._queue.update(self._waiting.pop(key))
        elif kind == CLAIM:
            self._claim_changed(key, old, new)
        elif kind == GROUP:
            self._group_changed(key, old, new)
        else:
            self._pod_changed(key, old, new)

    def _pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        # Most pods have no claims: they must cost little, in clusters without devices, too.
        if not (self.owned["Pod"] or _names_claims(old) or _names_claims(new)):
            return
        before, used = _claim_keys(old), _claim_keys(new)
        if isinstance(old, Pod) and (new is None or new.metadata.uid != old.metadata.uid):
            self._pod_gone(key, old)
        if used != before:
            for claim in before:
                self.users.drop(claim, key)
            for claim in used:
                self.users.put(claim, key, None)
        group = group_key(new) if isinstance(new, Pod) and new.spec.resource_claims else ""
        self._members.move(key, group or None, None)
        if not isinstance(new, Pod):
            return
        if is_done(new):
            self._enqueue(CLAIM, (*used, *self.owned["Pod"].of(new.metadata.uid)))
        elif new.spec.resource_claims:
            self._queue.add(Ref("Pod", key))

    def _pod_gone(self, key: str, pod: Pod) -> None:
        owned = self.owned["Pod"].of(pod.metadata.uid)
        claims = {**dict.fromkeys(_claim_keys(pod)), **owned}
        self._waits_no_more(pod, Ref("Pod", key))
        if claims:
            self._enqueue(CLAIM, claims)
            self._note_deleted(pod.metadata.uid)

    def _waits_no_more(self, owner: Pod | PodGroup, ref: Ref) -> None:
        for claim in owner.spec.resource_claims:
            template = f"{owner.metadata.namespace}/{claim.resource_claim_template_name}"
            self._waiting.drop(template, ref)

    def _note_deleted(self, uid: str) -> None:
        self.deleted[uid] = None
        if len(self.deleted) > _MOST_DELETED:
            del self.deleted[next(iter(self.deleted))]

    def _group_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        if isinstance(old, PodGroup) and (new is None or new.metadata.uid != old.metadata.uid):
            names = [of.resource_claim_name for of in old.spec.resource_claims]
            names += [of.resource_claim_name for of in old.status.resource_claim_statuses]
            self._waits_no_more(old, Ref(GROUP, key))
            if any(names):
                self._note_deleted(old.metadata.uid)
            namespace = old.metadata.namespace
            self._enqueue(CLAIM, (f"{namespace}/{name}" for name in names if name))
        if isinstance(new, PodGroup) and new.spec.resource_claims:
            self._queue.add(Ref(GROUP, key))
            self._enqueue("Pod", self._members.of(key))

    def _claim_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        before, after = owner_of(old), owner_of(new)
        if before is not None:
            self.owned[before.kind].drop(before.uid, key)
        if after is not None:
            self.owned[after.kind].put(after.uid, key, None)
        for owner in (before, after):
            if owner is not None:  # Its status may not name the claim yet.
                self._queue.add(Ref(owner.kind, f"{key.partition('/')[0]}/{owner.name}"))
        self.examine_claim(key)

    def wait_for(self, template: str, owner: Ref) -> bool:
        """Queue an owner once a template exists; return whether it did not wait for it yet."""
        is_new = owner not in self._waiting.of(template)
        self._waiting.put(template, owner, None)
        return is_new

    def examine_claim(self, key: str) -> None:
        """Queue a claim and the pods that use it."""
        self._enqueue("Pod", self.users.of(key))
        self._queue.add(Ref(CLAIM, key))

    def _enqueue(self, kind: str, keys: Iterable[str]) -> None:
        self._queue.update(Ref(kind, key) for key in keys)


def is_done(pod: Pod) -> bool:
    """Return whether a pod has ended, or is deleted before it was bound."""
    never_runs = is_terminating(pod) and not pod.spec.node_name
    return is_finished(pod) or never_runs


def _names_claims(pod: AnyObject | None) -> bool:
    return isinstance(pod, Pod) and (
        bool(pod.spec.resource_claims) or pod.status.HasField("extended_resource_claim_status")
    )


def _claim_keys(pod: AnyObject | None) -> list[str]:
    if not isinstance(pod, Pod):
        return []
    return [f"{pod.metadata.namespace}/{name}" for name in known_claim_names(pod)]


def owner_of(claim: AnyObject | None) -> OwnerReference | None:
    """Return the reference to the pod or PodGroup that controls a claim."""
    owner = None if claim is None else controller_of(claim.metadata)
    if owner is None or (owner.kind, owner.api_version) == ("Pod", "v1") or owner.kind == GROUP:
        return owner
    return None
