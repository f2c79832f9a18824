"""ConfigMaps (ValidateConfigMap of pkg/apis/core/validation)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from podsched.api.field_errors import FieldError, forbidden, invalid, too_long
from podsched.api.objects import ConfigMap
from podsched.api.validation.meta import bounded_items

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MAX_KEY = 253
#: Beyond Kubernetes, which bounds the bytes alone.
_MOST_KEYS = 10_000
#: Kubernetes' ``MaxSecretSize``: of all values together.
MAX_CONFIG_MAP_BYTES = 1 << 20
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate_config_map(item: ConfigMap) -> list[FieldError]:
    """Validate the keys and the size of the data."""
    found: list[FieldError] = []
    size = 0
    for _, key in bounded_items("data", item.data, found, _MOST_KEYS):
        value = item.data[key]
        path = f"data[{key}]"
        found += _key_errors(path, key)
        if key in item.binary_data:
            found.append(invalid(path, key, "duplicate of key present in binaryData"))
        size += len(value.encode())
    for _, key in bounded_items("binaryData", item.binary_data, found, _MOST_KEYS):
        value = item.binary_data[key]
        path = f"binaryData[{key}]"
        found += _key_errors(path, key)
        try:
            size += len(base64.b64decode(value, validate=True))
        except ValueError:  # binascii.Error, and what is not ASCII
            found.append(invalid(path, value[:64], "must be base64"))
    if size > MAX_CONFIG_MAP_BYTES:
        found.append(too_long("", MAX_CONFIG_MAP_BYTES))
    return found


def validate_config_map_update(item: ConfigMap, old: ConfigMap) -> list[FieldError]:
    """Validate that what is immutable stays as it is."""
    if not old.immutable:
        return []
    found = []
    if not item.immutable:
        found.append(forbidden("immutable", _IMMUTABLE))
    if item.data != old.data:
        found.append(forbidden("data", _IMMUTABLE))
    if item.binary_data != old.binary_data:
        found.append(forbidden("binaryData", _IMMUTABLE))
    return found


def _key_errors(path: str, key: str) -> Iterator[FieldError]:
    if len(key) > _MAX_KEY:
        yield invalid(path, key, f"must be no more than {_MAX_KEY} characters")
    if not _KEY.fullmatch(key):
        yield invalid(
            path, key, "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        )
    elif key == "." or key.startswith(".."):
        yield invalid(path, key, "must not be '.' or start with '..'")
