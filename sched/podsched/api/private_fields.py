"""Fields of objects that may contain credentials, and that no scheduling decision reads."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from podsched.api.objects import (
    AnyObject,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Pod,
    PodSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

_OF_CONTAINERS: Final = (
    "env", "env_from", "command", "args", "lifecycle", "liveness_probe", "readiness_probe",
    "startup_probe",
)  # fmt: skip
#: The annotation in which kubectl apply keeps whole manifests.
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def without_private_fields(item: AnyObject) -> AnyObject:
    """Return a copy without environments, commands and probes of containers, also in templates."""
    plain = deepcopy(item)
    plain.metadata.annotations.pop(_LAST_APPLIED, "")
    for spec in _pod_specs(plain):
        for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
            for name in _OF_CONTAINERS:
                container.ClearField(name)
    return plain


def _pod_specs(item: AnyObject) -> Iterator[PodSpec]:
    templated = Deployment | DaemonSet | ReplicaSet | StatefulSet | ReplicationController | Job
    if isinstance(item, Pod):
        yield item.spec
    elif isinstance(item, CronJob):
        yield item.spec.job_template.spec.template.spec
    elif isinstance(item, templated):
        yield item.spec.template.spec
