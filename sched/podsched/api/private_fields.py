"""Fields of objects that may contain credentials, and that no scheduling decision reads."""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from podsched.api.kubelet_defaults import template_of
from podsched.api.objects import AnyObject, Pod

_OF_CONTAINERS: Final = (
    "env", "env_from", "command", "args", "lifecycle", "liveness_probe", "readiness_probe",
    "startup_probe",
)  # fmt: skip
#: The annotation in which kubectl apply keeps whole manifests.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def without_private_fields(item: AnyObject) -> AnyObject:
    """Return a copy without environments, commands and probes of containers, also in templates."""
    plain = deepcopy(item)
    plain.metadata.annotations.pop(LAST_APPLIED, "")
    owner = plain if isinstance(plain, Pod) else template_of(plain)
    if owner is not None:
        spec = owner.spec
        for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
            for name in _OF_CONTAINERS:
                container.ClearField(name)
    return plain
