"""Create the controllers that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from podsched.api.kinds import WATCHED_KINDS
from podsched.api.objects import AnyObject, Pod
from podsched.config.settings import ControllerSettings
from podsched.serve.client.cluster import InformerPort
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller
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
#: Controllers that need nothing but objects and writes.
_PLAIN: tuple[type[Any], ...] = (
    DisruptionController,
    NamespaceController,
    EphemeralVolumeController,
    PodGroupProtectionController,
)


@dataclass(frozen=True, slots=True)
class _AllObjects:
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
    metrics: ControllerMetrics | None
    queues: WriteQueues
    skip: Skip

    def stand_ins(self) -> Mapping[str, Callable[[], Controller]]:
        """Return what creates the stand-ins for a kube-controller-manager, by name."""
        made, recorder, gangs = self._made, self.recorder, self.settings.job_gangs
        return {
            ReplicaSetController.name: partial(made, ReplicaSetController, recorder),
            JobController.name: partial(made, JobController, recorder, gangs=gangs),
            TtlAfterFinishedController.name: partial(made, TtlAfterFinishedController),
        }

    def of_all_kinds(self, others: InformerPort, root_ca: str) -> list[Controller]:
        """Return the controllers that need the metadata of all kinds."""
        every = _AllObjects(self.informer, others)
        found: list[Controller] = [
            cls(every, self._writes_of(cls.name))
            for cls in (GarbageCollector, ServiceAccountController)
            if self.settings.runs(cls.name)
        ]
        if root_ca and self.settings.runs(RootCaPublisher.name):
            found.append(RootCaPublisher(every, self._writes_of(RootCaPublisher.name), root_ca))
        return found

    def throughout(self) -> list[Controller]:
        """Return the controllers that run throughout the term."""
        runs, made, recorder = self.settings.runs, self._made, self.recorder
        found = [made(cls) for cls in _PLAIN if runs(cls.name)]
        pods_on: Callable[[str], Collection[str]] = self._pods_on
        if runs(TaintEvictionController.name):
            evictor = made(TaintEvictionController, recorder, self.metrics)
            assert isinstance(evictor, TaintEvictionController)
            pods_on = evictor.pods_on
            found.append(evictor)
        if runs(DeviceTaintEvictionController.name):
            found.append(made(DeviceTaintEvictionController, recorder, self.metrics))
        if runs(NodeLifecycleController.name):
            found.append(made(NodeLifecycleController, self.settings, pods_on))
        if runs(PodGarbageCollector.name):
            found.append(made(PodGarbageCollector, self.settings))
        if runs(ResourceClaimController.name):
            found.append(made(ResourceClaimController, recorder))
        return found

    def _made(
        self, controller: Callable[..., Controller], *parts: object, **options: object
    ) -> Controller:
        name: str = controller.name  # type: ignore[attr-defined]
        return controller(self.informer, self._writes_of(name), *parts, **options)

    def _pods_on(self, node: str) -> Collection[str]:
        pods = self.informer.objects("Pod")
        return [
            key for key, pod in pods.items() if isinstance(pod, Pod) and pod.spec.node_name == node
        ]

    def _writes_of(self, controller: str) -> Writes:
        return Writes(controller, self.queues, self.skip)
