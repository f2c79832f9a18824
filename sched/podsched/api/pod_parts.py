"""The parts of a pod that have a subresource of their own: ephemeral containers, and resources.

Source: podEphemeralContainersStrategy and podResizeStrategy of pkg/registry/core/pod, v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podsched.api.objects import Pod, copy_field, copy_of

EPHEMERAL_CONTAINERS: Final = "ephemeralcontainers"
#: Changes requests and limits of a pod that may be running (in-place resize).
RESIZE: Final = "resize"
#: The subresources that change a part of a pod.
POD_PARTS: Final = (EPHEMERAL_CONTAINERS, RESIZE)

_RESIZED: Final = ("name", "resources", "resizePolicy")


def with_part(old: Pod, new: Pod, subresource: str) -> Pod:
    """Return a copy of ``old`` with the part of ``new`` that a subresource changes.

    A list in which containers were added, removed or renamed is taken as it is, to be refused.
    """
    found = copy_of(old)
    for name in ("uid", "resource_version", "managed_fields"):
        copy_field(found.metadata, new.metadata, name)
    if subresource == EPHEMERAL_CONTAINERS:
        copy_field(found.spec, new.spec, "ephemeral_containers")
        return found
    for group in ("containers", "init_containers"):
        containers, wanted = getattr(found.spec, group), getattr(new.spec, group)
        if [c.name for c in containers] != [c.name for c in wanted]:
            copy_field(found.spec, new.spec, group)
            continue
        for container, given in zip(containers, wanted, strict=True):
            container.resources.CopyFrom(given.resources)
            copy_field(container, given, "resize_policy")
    copy_field(found.spec, new.spec, "resources")
    return found


def part_of_spec(spec: Mapping[str, Any], subresource: str) -> dict[str, Any]:
    """Return the part of a spec's JSON that a subresource changes, with the names of containers."""
    if subresource == EPHEMERAL_CONTAINERS:
        return {key: value for key, value in spec.items() if key == "ephemeralContainers"}
    found = {key: value for key, value in spec.items() if key == "resources"}
    for group in ("containers", "initContainers"):
        if group in spec:
            items = [{k: v for k, v in item.items() if k in _RESIZED} for item in spec[group]]
            found[group] = items
    return found
