"""ConfigMaps (ValidateConfigMap of pkg/apis/core/validation)."""

from __future__ import annotations

import base64
import re

from podsched.api.objects import ConfigMap
from podsched.api.validation.place import Place

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MAX_KEY = 253
#: Beyond Kubernetes, which bounds the bytes alone.
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
    for key in at("binaryData").keys(item.binary_data, _MOST_KEYS):
        here, value = at("binaryData")[key], item.binary_data[key]
        _check_key(here, key)
        try:
            size += len(base64.b64decode(value, validate=True))
        except ValueError:  # binascii.Error, and what is not ASCII
            here.invalid(value[:64], "must be base64")
    if size > MAX_CONFIG_MAP_BYTES:
        at.too_long(MAX_CONFIG_MAP_BYTES)


def validate_config_map_update(at: Place, new: ConfigMap, old: ConfigMap) -> None:
    """Validate that what is immutable stays as it is."""
    for name, changed in (
        ("immutable", not new.immutable),
        ("data", new.data != old.data),
        ("binaryData", new.binary_data != old.binary_data),
    ):
        if old.immutable and changed:
            at(name).forbidden("field is immutable when `immutable` is set")


def _check_key(at: Place, key: str) -> None:
    if len(key) > _MAX_KEY:
        at.invalid(key, f"must be no more than {_MAX_KEY} characters")
    if not _KEY.fullmatch(key):
        at.invalid(
            key, "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        )
    elif key == "." or key.startswith(".."):
        at.invalid(key, "must not be '.' or start with '..'")
