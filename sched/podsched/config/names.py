"""Check the syntax of Kubernetes' names that occur in configurations.

Source: k8s.io/apimachinery/pkg/util/validation (IsQualifiedName, IsValidLabelValue) and
k8s.io/kubernetes/pkg/apis/core/v1/helper (IsExtendedResourceName).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from podsched.config.errors import FieldError, invalid, required

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME, _MAX_SUBDOMAIN = 63, 253


def qualified_name_errors(path: str, name: str) -> Iterator[FieldError]:
    """Yield the errors of a label key or resource name: an optional DNS prefix, "/", and a name."""
    prefix, slash, local = name.rpartition("/")
    if slash and (len(prefix) > _MAX_SUBDOMAIN or not _SUBDOMAIN.fullmatch(prefix)):
        reason = "prefix part must be a lowercase DNS subdomain of at most 253 characters"
        yield invalid(path, name, reason)
    if not local:
        yield invalid(path, name, "name part must be non-empty")
    elif len(local) > _MAX_NAME:
        yield invalid(path, name, "name part must be no more than 63 characters")
    elif not _NAME.fullmatch(local):
        yield invalid(
            path,
            name,
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start"
            " and end with an alphanumeric character",
        )


def label_value_errors(path: str, value: str) -> Iterator[FieldError]:
    """Yield the errors of a label's value, which may be empty."""
    if value and (len(value) > _MAX_NAME or not _NAME.fullmatch(value)):
        yield invalid(
            path,
            value,
            "a valid label must be an empty string or consist of at most 63 alphanumeric"
            " characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        )


def extended_resource_errors(path: str, name: str) -> Iterator[FieldError]:
    """Yield the errors of an extended resource's name, which needs a domain of its own."""
    if not name:
        yield required(path)
        return
    found = list(qualified_name_errors(path, name))
    yield from found
    native = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    if not found and native:
        yield invalid(path, name, "is an invalid extended resource name")
