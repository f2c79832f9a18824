"""What a pod refers to: Secrets, ConfigMaps, claims, its ServiceAccount, audiences of tokens.

Source: VisitPodSecretNames and VisitPodConfigmapNames of pkg/api/v1/pod, and the graph of
plugin/pkg/auth/authorizer/node, v1.36. Kubelets may read only what their pods refer to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.struct_pb2 import Struct

from podsched.api.codec import object_json
from podsched.api.ephemeral_volumes import ephemeral_claim_name
from podsched.api.objects import Container, Pod, Volume

#: Fields of volumes that name a Secret with the field below.
_SECRET_REFS = ("cephfs", "cinder", "flex_volume", "iscsi", "rbd", "scale_io", "storageos", "csi")


def references(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each object of its namespace that a pod refers to."""
    spec = pod.spec
    yield "ServiceAccount", spec.service_account_name
    for reference in spec.image_pull_secrets:
        yield "Secret", reference.name
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        yield from _of_container(container)
    for volume in spec.volumes:
        yield from _of_volume(pod, volume)
    for claim in spec.resource_claims:
        yield "ResourceClaim", claim.resource_claim_name
    for status in pod.status.resource_claim_statuses:
        yield "ResourceClaim", status.resource_claim_name
    yield "ResourceClaim", pod.status.extended_resource_claim_status.resource_claim_name


def token_audiences(pod: Pod) -> set[str]:
    """Return the audiences of the tokens in a pod's projected volumes; "": that of the API."""
    return {
        str(_object(source["serviceAccountToken"]).get("audience") or "")
        for volume in pod.spec.volumes
        for source in _projected(volume)
        if "serviceAccountToken" in source
    }


def mounts_tokens(pod: Pod) -> bool:
    """Return whether a projected volume of a pod has a token."""
    return bool(token_audiences(pod))


def _of_container(container: Container) -> Iterator[tuple[str, str]]:
    for variable in container.env:
        if variable.HasField("value_from"):
            value = object_json(variable.value_from)
            yield "Secret", _name(value.get("secretKeyRef"))
            yield "ConfigMap", _name(value.get("configMapKeyRef"))
    for each in container.env_from:
        source = object_json(each)
        yield "Secret", _name(source.get("secretRef"))
        yield "ConfigMap", _name(source.get("configMapRef"))


def _of_volume(pod: Pod, volume: Volume) -> Iterator[tuple[str, str]]:
    if volume.HasField("persistent_volume_claim"):
        yield "PersistentVolumeClaim", volume.persistent_volume_claim.claim_name
    elif volume.HasField("ephemeral"):
        yield "PersistentVolumeClaim", ephemeral_claim_name(pod.metadata.name, volume)
    elif volume.HasField("secret"):
        yield "Secret", _name(object_json(volume.secret), "secretName")
    elif volume.HasField("config_map"):
        yield "ConfigMap", _name(object_json(volume.config_map))
    elif volume.HasField("azure_file"):
        yield "Secret", volume.azure_file.secret_name
    for source in _projected(volume):
        yield "Secret", _name(source.get("secret"))
        yield "ConfigMap", _name(source.get("configMap"))
    for field in _SECRET_REFS:
        if volume.HasField(field):
            yield "Secret", _secret_ref(getattr(volume, field))


def _secret_ref(source: Any) -> str:
    if isinstance(source, Struct):
        return _name(object_json(source).get("secretRef"))
    for field in ("secret_ref", "node_publish_secret_ref"):
        if field in source.DESCRIPTOR.fields_by_name and source.HasField(field):
            return _name(object_json(getattr(source, field)))
    return ""


def _projected(volume: Volume) -> Iterator[dict[str, Any]]:
    """Yield the sources of a projected volume."""
    if volume.HasField("projected"):
        sources = object_json(volume.projected).get("sources")
        for source in sources if isinstance(sources, list) else ():
            yield _object(source)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(value: Any, field: str = "name") -> str:
    return str(_object(value).get(field) or "")
