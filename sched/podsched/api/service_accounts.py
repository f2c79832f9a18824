"""Gives a new pod its ServiceAccount and the volume with the account's token.

Source: plugin/pkg/admission/serviceaccount of Kubernetes v1.36. Mirror pods are left alone: a
kubelet runs them before there is an API server.
"""

from __future__ import annotations

from podsched.api.metadata_defaulting import generated_name
from podsched.api.objects import Pod, ServiceAccount, Volume
from podsched.api.pod_references import mounts_tokens, references

DEFAULT_ACCOUNT = "default"
ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"
#: Where client libraries look for the token.
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
MIRROR_POD = "kubernetes.io/config.mirror"
_VOLUME_PREFIX = "kube-api-access-"
#: An hour and 7 seconds, by which Kubernetes recognizes tokens that no user has asked for.
_TOKEN_SECONDS = 3607
_DEFAULT_MODE = 0o644


def is_mirror_pod(pod: Pod) -> bool:
    """Return whether a pod only shows what a kubelet runs from a file."""
    return MIRROR_POD in pod.metadata.annotations


def mirror_pod_refusal(pod: Pod) -> str:
    """Return why a mirror pod is refused, "" if it is not."""
    if pod.spec.service_account_name:
        return "a mirror pod may not reference service accounts"
    if any(kind == "Secret" and name for kind, name in references(pod)):
        return "a mirror pod may not reference secrets"
    if mounts_tokens(pod):
        return "a mirror pod may not use service account token volume projections"
    return ""


def set_default_account(pod: Pod) -> str:
    """Set the name of a pod's ServiceAccount, if it has none; return it."""
    spec = pod.spec
    name = spec.service_account_name or spec.service_account or DEFAULT_ACCOUNT
    spec.service_account_name = spec.service_account = name
    return name


def apply_service_account(pod: Pod, account: ServiceAccount | None) -> None:
    """Complete a pod by what its account says; None: an account without settings of its own."""
    spec = pod.spec
    automount = True
    if spec.HasField("automount_service_account_token"):
        automount = spec.automount_service_account_token
    elif account is not None and account.HasField("automount_service_account_token"):
        automount = account.automount_service_account_token
    if automount:
        _mount_token(pod)
    if account is not None and account.image_pull_secrets and not spec.image_pull_secrets:
        spec.image_pull_secrets.MergeFrom(account.image_pull_secrets)


def _mount_token(pod: Pod) -> None:
    spec = pod.spec
    present = (v.name for v in spec.volumes if v.name.startswith(_VOLUME_PREFIX))
    found = next(present, "")
    name = found or generated_name(_VOLUME_PREFIX, pod.metadata.uid)
    mounted = False
    for container in (*spec.init_containers, *spec.containers):
        if all(mount.mount_path != TOKEN_PATH for mount in container.volume_mounts):
            container.volume_mounts.add(name=name, read_only=True, mount_path=TOKEN_PATH)
            mounted = True
    if mounted and not found:
        spec.volumes.append(_TOKEN_VOLUME)
        spec.volumes[-1].name = name


def _token_volume() -> Volume:
    certificate = {"key": "ca.crt", "path": "ca.crt"}
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    found = Volume()
    found.projected["defaultMode"] = _DEFAULT_MODE
    found.projected["sources"] = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CA_CONFIG_MAP, "items": [certificate]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
    ]
    return found


_TOKEN_VOLUME = _token_volume()
