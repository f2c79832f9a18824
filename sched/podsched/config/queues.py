"""The settings of job queues, in the field ``queues`` of the configuration.

The names, defaults and meanings are those of Kueue's Configuration (config.kueue.x-k8s.io), except
``requireQueue`` and ``backfill``, which are podsched's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from podsched.config.errors import FieldError, duplicate, invalid, not_supported, required
from podsched.config.model import Duration, Int32, ListOf, Model, join, unless_empty

_STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
_STRATEGY_LISTS = (_STRATEGIES[:1], _STRATEGIES[1:], _STRATEGIES)


def _negative(path: str, numbers: Mapping[str, float | None]) -> Iterator[FieldError]:
    for name, number in numbers.items():
        if number is not None and number < 0:
            yield invalid(join(path, name), number, "must be greater than or equal to 0")


def _not_positive(path: str, numbers: Mapping[str, float]) -> Iterator[FieldError]:
    for name, number in numbers.items():
        if number <= 0:
            yield invalid(join(path, name), number, "must be greater than 0")


class FairSharing(Model):
    """Fair sharing between the queues of a cohort; its presence turns it on."""

    preemption_strategies: Annotated[ListOf[str], unless_empty(_STRATEGIES)] = _STRATEGIES
    """When a victim of another queue may be taken; tried in this order."""

    def errors(self, path: str) -> Iterator[FieldError]:
        if tuple(self.preemption_strategies) not in _STRATEGY_LISTS:
            given, known = self.preemption_strategies, map(",".join, _STRATEGY_LISTS)
            yield not_supported(join(path, "preemptionStrategies"), list(given), known)


class AdmissionFairSharing(Model):
    """Past usage of LocalQueues orders the workloads of ClusterQueues with an admissionScope."""

    usage_half_life_time: Duration = 0.0
    """Seconds after which usage counts half; 0: past usage does not count."""
    usage_sampling_interval: Annotated[Duration, unless_empty(300.0)] = 300.0
    """Seconds between two samples."""
    resource_weights: Mapping[str, float] = {}
    """Weights by resource; 1 for others."""

    def errors(self, path: str) -> Iterator[FieldError]:
        yield from _negative(path, {"usageHalfLifeTime": self.usage_half_life_time})
        yield from _not_positive(path, {"usageSamplingInterval": self.usage_sampling_interval})
        yield from _negative(join(path, "resourceWeights"), self.resource_weights)


class RequeuingStrategy(Model):
    """How workloads are queued again whose pods were not ready in time."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    """The time that orders them. Eviction puts them behind workloads that came meanwhile."""
    backoff_limit_count: Int32 | None = None
    """A workload that is evicted more often than this is deactivated; unset: no limit."""
    backoff_base_seconds: Int32 = 60
    """The first backoff; each is twice the one before."""
    backoff_max_seconds: Int32 = 3600
    """The longest backoff."""


class WaitForPodsReady(Model):
    """Evict workloads whose pods are not ready in time; its presence turns this on."""

    timeout: Annotated[Duration, unless_empty(1800.0)] = 1800.0
    """Seconds from the binding of the first pod until all pods have to be ready."""
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()

    def errors(self, path: str) -> Iterator[FieldError]:
        strategy = self.requeuing_strategy
        numbers = {
            "backoffLimitCount": strategy.backoff_limit_count,
            "backoffBaseSeconds": strategy.backoff_base_seconds,
            "backoffMaxSeconds": strategy.backoff_max_seconds,
        }
        yield from _not_positive(path, {"timeout": self.timeout})
        yield from _negative(join(path, "requeuingStrategy"), numbers)


class DeviceClassMapping(Model):
    """A resource of quotas, and the DeviceClasses whose devices count as that resource."""

    name: str = ""
    device_class_names: ListOf[str] = ()


class Resources(Model):
    """How devices count as resources of quotas."""

    device_class_mappings: ListOf[DeviceClassMapping] = ()

    def errors(self, path: str) -> Iterator[FieldError]:
        seen: set[str] = set()
        for index, mapping in enumerate(self.device_class_mappings):
            at = join(path, "deviceClassMappings", index)
            if not mapping.name:
                yield required(join(at, "name"))
            if not mapping.device_class_names:
                yield required(join(at, "deviceClassNames"))
            for place, name in enumerate(mapping.device_class_names):
                if name in seen:
                    yield duplicate(join(at, "deviceClassNames", place), name)
                seen.add(name)


class Backfill(Model):
    """Which workloads are promised a start, in ClusterQueues with backfill."""

    starts_per_queue: Int32 = 1
    """With EASY: max number of workloads of a ClusterQueue that are promised a start."""
    min_age: Duration = 0.0
    """Seconds that a workload has to wait before it is promised a start."""
    min_priority: Int32 | None = None
    """The lowest priority that is promised a start; unset: any priority is."""
    window: Duration = 0.0
    """Max seconds from now until a promised start; 0: no limit."""

    def errors(self, path: str) -> Iterator[FieldError]:
        yield from _not_positive(path, {"startsPerQueue": self.starts_per_queue})
        yield from _negative(path, {"minAge": self.min_age, "window": self.window})


class QueuesConfiguration(Model):
    """The settings of job queues."""

    require_queue: ListOf[str] = ()
    """Namespaces whose pods are scheduled only if they are in a queue; "*" for all but kube-system.
    """
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    wait_for_pods_ready: WaitForPodsReady | None = None
    resources: Resources = Resources()
    backfill: Backfill = Backfill()

    def errors(self, path: str) -> Iterator[FieldError]:
        yield from self.resources.errors(join(path, "resources"))
        yield from self.backfill.errors(join(path, "backfill"))
        if self.fair_sharing is not None:
            yield from self.fair_sharing.errors(join(path, "fairSharing"))
        if self.admission_fair_sharing is not None:
            yield from self.admission_fair_sharing.errors(join(path, "admissionFairSharing"))
        if self.wait_for_pods_ready is not None:
            yield from self.wait_for_pods_ready.errors(join(path, "waitForPodsReady"))
