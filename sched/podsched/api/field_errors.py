"""Errors of fields, with the texts of k8s.io/apimachinery/pkg/util/validation/field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class ErrorType(StrEnum):
    """Kubernetes' kinds of field errors; the value is the text in messages."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    DUPLICATE = "Duplicate value"
    NOT_SUPPORTED = "Unsupported value"
    FORBIDDEN = "Forbidden"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"
    NOT_FOUND = "Not found"
    UNKNOWN_FIELD = "Unknown field"


# A message travels in HTTP/2 trailers, which are bounded.
_MAX_SHOWN = 256
_WITHOUT_VALUE = (
    ErrorType.REQUIRED,
    ErrorType.FORBIDDEN,
    ErrorType.TOO_LONG,
    ErrorType.UNKNOWN_FIELD,
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake: ``str()`` is the line that Kubernetes prints."""

    path: str
    value: object
    reason: str
    type: ErrorType = ErrorType.INVALID

    def __str__(self) -> str:
        if not self.path and self.value is None and self.type is ErrorType.INVALID:
            return self.reason  # About the source as a whole, such as invalid YAML.
        parts = [self.path, self.type.value]
        if self.type not in _WITHOUT_VALUE:
            parts.append(_quoted(self.value))
        if self.reason:
            parts.append(self.reason)
        return ": ".join(part for part in parts if part)


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if len(value) > _MAX_SHOWN:
            value = value[:_MAX_SHOWN] + "..."
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, (Mapping, list, tuple)):
        shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        return shown[:_MAX_SHOWN]
    return str(value)


def required(path: str, reason: str = "") -> FieldError:
    """Return the error: the field must be set."""
    return FieldError(path, None, reason, ErrorType.REQUIRED)


def invalid(path: str, value: object, reason: str) -> FieldError:
    """Return the error: the value breaks a rule."""
    return FieldError(path, value, reason)


def not_supported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    """Return the error: the value is none of those allowed, which are shown in this order."""
    allowed = ", ".join(f'"{item}"' for item in supported)
    return FieldError(path, value, f"supported values: {allowed}", ErrorType.NOT_SUPPORTED)


def forbidden(path: str, reason: str) -> FieldError:
    """Return the error: the field may not be set or changed."""
    return FieldError(path, None, reason, ErrorType.FORBIDDEN)
