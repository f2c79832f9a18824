"""Create the claims of PodGroups from templates, and write their names to the groups' statuses.

Kubernetes v1.36 does this behind the gate DRAWorkloadResourceClaims. With the gate off, its API
drops the claims of PodGroups, as podsched's API does. A group owns its claims, so they are deleted
with it. Source: handlePodGroupClaim of pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from podsched.api.conditions import is_terminating
from podsched.api.device_claims import POD_CLAIM_NAME, claim_of_template
from podsched.api.objects import (
    AnyObject,
    PodGroup,
    PodResourceClaim,
    ResourceClaimTemplate,
    object_key,
)
from podsched.api.owners import controller_of
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes

_GROUP: Final = "PodGroup"
_CLAIM: Final = "ResourceClaim"
_TEMPLATE: Final = "ResourceClaimTemplate"
#: Max groups examined per call of ``work``, and seconds until the next.
_AT_ONCE: Final = 50
_PAUSE: Final = 0.001


class PodGroupClaimController:
    """See the module; in Kubernetes it is a part of the controller of pods' claims."""

    name = "resource-claim"
    kinds = (_GROUP, _CLAIM, _TEMPLATE)
    ignores_bare_pods = True

    def __init__(self, objects: Objects, writes: Writes) -> None:
        self._objects = objects
        self._writes = writes
        self._owned: dict[str, dict[str, None]] = {}
        """The keys of the claims that a group controls, by the group's uid."""
        self._waiting: dict[str, dict[str, None]] = {}
        """By key of a template that does not exist, the keys of the groups that wait for it."""
        self._queue = WorkQueue[str]()

    def start(self, now: Instant) -> Iterator[None]:
        for kind in (_CLAIM, _GROUP):
            for key, item in list(self._objects.objects(kind).items()):
                yield
                self._changed(kind, key, None, item)

    def changed(self, event: Event, now: Instant) -> None:
        self._changed(event.kind, event.key, event.old, event.new)

    def _changed(self, kind: str, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        if kind == _TEMPLATE:
            self._queue.update(self._waiting.pop(key, ()) if new is not None else ())
        elif kind == _CLAIM:
            if old is not None:
                self._claim_changed(key, old, is_there=False)
            if new is not None:
                self._claim_changed(key, new, is_there=True)
        elif isinstance(new, PodGroup) and new.spec.resource_claims:
            self._queue.add(key)

    def _claim_changed(self, key: str, claim: AnyObject, *, is_there: bool) -> None:
        owner = controller_of(claim.metadata)
        if owner is None or owner.kind != _GROUP:
            return
        owned = self._owned.setdefault(owner.uid, {})
        if is_there:
            owned[key] = None
        else:
            owned.pop(key, None)
        if not owned:
            del self._owned[owner.uid]
        self._queue.add(f"{claim.metadata.namespace}/{owner.name}")

    def work(self, now: Instant) -> float | None:
        for key in self._queue.take(_AT_ONCE):
            with self._writes.skipping(_GROUP, key):
                self._examine(key)
        return now.monotonic + _PAUSE if self._queue else None

    def _examine(self, key: str) -> None:
        group = self._objects.get(_GROUP, key)
        if not isinstance(group, PodGroup) or is_terminating(group):
            return
        known = {of.name: of.resource_claim_name for of in group.status.resource_claim_statuses}
        found: dict[str, str] = {}
        for ref in group.spec.resource_claims:
            if ref.resource_claim_template_name:
                of_pods = PodResourceClaim.FromString(ref.SerializeToString())
                found[ref.name] = self._claim_of(key, group, of_pods, known.get(ref.name, ""))
        found = {name: claim for name, claim in found.items() if claim}
        if {**known, **found} != known:
            statuses = [{"name": n, "resourceClaimName": c} for n, c in {**known, **found}.items()]
            request = object_patch(group, {"status": {"resourceClaimStatuses": statuses}})
            request.resource_version = 0  # Only this controller writes these.
            self._writes.patch(key, request, self._queue.adder(key))

    def _claim_of(self, key: str, group: PodGroup, ref: PodResourceClaim, name: str) -> str:
        """Return the name of the claim that was generated; if there is none, create it."""
        namespace = group.metadata.namespace
        if name and self._exists(namespace, name):
            return name
        for owned in self._owned.get(group.metadata.uid, ()):
            claim = self._objects.get(_CLAIM, owned)
            if claim is not None and claim.metadata.annotations.get(POD_CLAIM_NAME) == ref.name:
                return claim.metadata.name
        wanted = f"{namespace}/{ref.resource_claim_template_name}"
        template = self._objects.get(_TEMPLATE, wanted)
        if isinstance(template, ResourceClaimTemplate):
            made = claim_of_template(group, ref, template, partial(self._exists, namespace))
            self._writes.create(object_key(made), made, self._queue.adder(key))
        else:
            self._waiting.setdefault(wanted, {})[key] = None
        return name

    def _exists(self, namespace: str, name: str) -> bool:
        return self._objects.get(_CLAIM, f"{namespace}/{name}") is not None
