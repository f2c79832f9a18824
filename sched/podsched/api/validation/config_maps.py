"""ConfigMaps, Secrets and ServiceAccounts (pkg/apis/core/validation)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from podsched.api.objects import ConfigMap, Secret, ServiceAccount
from podsched.api.validation.place import Place

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MAX_KEY = 253
#: Max keys of the data; Kubernetes bounds the bytes alone.
_MOST_KEYS = 10_000
#: Kubernetes' ``MaxSecretSize``: of all values together.
MAX_CONFIG_MAP_BYTES = 1 << 20


def validate_config_map(at: Place, item: ConfigMap) -> None:
    """Validate the keys and the size of the data."""
    size = 0
    for key in at("data").keys(item.data, _MOST_KEYS):
        here = at("data")[key]
        _check_key(here, key)
        if key in item.binary_data:
            here.invalid(key, "duplicate of key present in binaryData")
        size += len(item.data[key].encode())
    size += _binary_size(at("binaryData"), item.binary_data)
    at.within(size, MAX_CONFIG_MAP_BYTES)


def _binary_size(at: Place, data: Mapping[str, str], *, secret: bool = False) -> int:
    """Check the keys and the base64 of data; return its size. secret: do not show values."""
    size = 0
    for key in at.keys(data, _MOST_KEYS):
        _check_key(at[key], key)
        try:
            size += len(base64.b64decode(data[key], validate=True))
        except ValueError:  # binascii.Error, and what is not ASCII
            at[key].invalid("" if secret else data[key][:64], "must be base64")
    return size


#: Keys that a Secret of a type must have.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def validate_secret(at: Place, item: Secret) -> None:
    """Validate the keys and the size of the data. Errors do not show values."""
    at.within(_binary_size(at("data"), item.data, secret=True), MAX_CONFIG_MAP_BYTES)
    for key in _SECRET_KEYS.get(item.type, ()):
        if key not in item.data:
            at("data")[key].required()
    if item.type == _ACCOUNT_TOKEN and not item.metadata.annotations.get(_ACCOUNT_NAME):
        at("metadata.annotations")[_ACCOUNT_NAME].required()


def validate_service_account(at: Place, item: ServiceAccount) -> None:
    """Validate that the lists are of a size that can be read."""
    at("secrets").bounded(item.secrets)
    at("imagePullSecrets").bounded(item.image_pull_secrets)


def validate_config_map_update(at: Place, new: ConfigMap | Secret, old: ConfigMap | Secret) -> None:
    """Validate that what is immutable stays as it is."""
    changed = {"immutable": not new.immutable, "data": new.data != old.data}
    if isinstance(new, ConfigMap) and isinstance(old, ConfigMap):
        changed["binaryData"] = new.binary_data != old.binary_data
    for name in changed:
        if old.immutable and changed[name]:
            at(name).forbidden("field is immutable when `immutable` is set")


validate_secret_update = validate_config_map_update


def _check_key(at: Place, key: str) -> None:
    if len(key) > _MAX_KEY:
        at.invalid(key, f"must be no more than {_MAX_KEY} characters")
    if not _KEY.fullmatch(key):
        at.invalid(
            key, "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        )
    elif key == "." or key.startswith(".."):
        at.invalid(key, "must not be '.' or start with '..'")
