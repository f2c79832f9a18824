"""Generic ephemeral volumes of pods, and their PersistentVolumeClaims.

The claim of volume ``v`` of pod ``p`` is named ``p-v`` and controlled by the pod, so it is deleted
with the pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from podsched.api.objects import PersistentVolumeClaim, Pod, Volume
from podsched.api.owners import follow_template


def ephemeral_volumes(pod: Pod) -> Iterator[Volume]:
    """Return the ephemeral volumes of a pod."""
    return (volume for volume in pod.spec.volumes if volume.HasField("ephemeral"))


def ephemeral_claim_name(pod_name: str, volume: Volume) -> str:
    """Return the name of the claim of an ephemeral volume."""
    return f"{pod_name}-{volume.name}"


def ephemeral_claim(pod: Pod, volume: Volume) -> PersistentVolumeClaim:
    """Return the claim that is to be made for an ephemeral volume of a pod, without a uid."""
    template = volume.ephemeral.volume_claim_template
    claim = PersistentVolumeClaim(spec=template.spec)
    claim.metadata.name = ephemeral_claim_name(pod.metadata.name, volume)
    follow_template(claim.metadata, template.metadata, pod)
    return claim
