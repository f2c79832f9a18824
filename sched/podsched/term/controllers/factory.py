"""Create the controllers that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from podsched.api.kinds import WATCHED_KINDS
from podsched.api.objects import AnyObject, Pod
from podsched.config.settings import ControllerSettings
from podsched.serve.client.cluster import InformerPort
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller, Objects
from podsched.term.controllers.device_taint_eviction import DeviceTaintEvictionController
from podsched.term.controllers.dispatch import Skip
from podsched.term.controllers.disruption import DisruptionController
from podsched.term.controllers.ephemeral_volumes import EphemeralVolumeController
from podsched.term.controllers.garbage_collector import COLLECTED_KINDS, GarbageCollector
from podsched.term.controllers.jobs import JobController
from podsched.term.controllers.namespace_objects import RootCaPublisher, ServiceAccountController
from podsched.term.controllers.namespaces import NamespaceController
from podsched.term.controllers.node_lifecycle import NodeLifecycleController
from podsched.term.controllers.pod_gc import PodGarbageCollector
from podsched.term.controllers.pod_group_protection import PodGroupProtectionController
from podsched.term.controllers.replica_sets import ReplicaSetController
from podsched.term.controllers.resource_claims import ResourceClaimController
from podsched.term.controllers.taint_eviction import TaintEvictionController
from podsched.term.controllers.ttl_after_finished import TtlAfterFinishedController
from podsched.term.controllers.write_queues import WriteQueues, Writes
from podsched.term.writes.event_recorder import EventRecorder

#: Kinds that the scheduler itself does not watch, and some controllers do.
OTHER_KINDS = tuple(kind for kind in COLLECTED_KINDS if kind not in WATCHED_KINDS)
#: The classes of controllers, and what each needs besides objects and writes.
_Parts = dict[type[Any], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class AllObjects:
    """``Objects`` of all kinds, from two informers."""

    informer: InformerPort
    others: InformerPort

    def objects(self, kind: str) -> Mapping[str, AnyObject]:
        return (self.others if kind in OTHER_KINDS else self.informer).objects(kind)

    def get(self, kind: str, key: str) -> AnyObject | None:
        return self.objects(kind).get(key)


@dataclass(frozen=True, slots=True)
class ControllerFactory:
    """Creates controllers, each with its own ``Writes``."""

    informer: InformerPort
    settings: ControllerSettings
    recorder: EventRecorder
    metrics: ControllerMetrics
    queues: WriteQueues
    skip: Skip

    def stand_ins(self) -> Mapping[str, Callable[[], Controller]]:
        """Return what creates the stand-ins for a kube-controller-manager, by name."""
        parts: _Parts = {
            ReplicaSetController: (self.recorder,),
            JobController: (self.recorder, self.settings.job_gangs),
            TtlAfterFinishedController: (),
        }
        return {of.name: partial(self._make, of, self.informer, parts[of]) for of in parts}

    def of_all_kinds(self, objects: AllObjects, root_ca: str) -> list[Controller]:
        """Return the controllers that need the metadata of all kinds."""
        parts: _Parts = {GarbageCollector: (), ServiceAccountController: ()}
        if root_ca:
            parts[RootCaPublisher] = (root_ca,)
        return self._made(parts, objects)

    def throughout(self) -> list[Controller]:
        """Return the controllers that run throughout the term."""
        parts: _Parts = {
            DisruptionController: (self.recorder,),
            NamespaceController: (),
            EphemeralVolumeController: (self.recorder,),
            PodGroupProtectionController: (),
            TaintEvictionController: (self.recorder, self.metrics),
            DeviceTaintEvictionController: (self.recorder, self.metrics),
            PodGarbageCollector: (self.settings,),
            ResourceClaimController: (self.recorder,),
        }
        made = self._made(parts, self.informer)
        evictors = (of.pods_on for of in made if isinstance(of, TaintEvictionController))
        pods_on = next(evictors, self._pods_on)
        lifecycle: _Parts = {NodeLifecycleController: (self.recorder, self.settings, pods_on)}
        return [*made, *self._made(lifecycle, self.informer)]

    def _made(self, parts: _Parts, objects: Objects) -> list[Controller]:
        return [self._make(of, objects, parts[of]) for of in parts if self.settings.runs(of.name)]

    def _make(self, of: type[Any], objects: Objects, parts: Sequence[object]) -> Controller:
        made: Controller = of(objects, Writes(of.name, self.queues, self.skip), *parts)
        return made

    def _pods_on(self, node: str) -> Collection[str]:
        pods = self.informer.objects("Pod")
        return [
            key for key, pod in pods.items() if isinstance(pod, Pod) and pod.spec.node_name == node
        ]
