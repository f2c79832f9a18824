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


# A message travels in HTTP/2 trailers, which are bounded.
_MAX_SHOWN = 256
_WITHOUT_VALUE = (ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake: ``str()`` is the line that Kubernetes prints."""

    path: str
    type: ErrorType
    value: object = None
    reason: str = ""

    def __str__(self) -> str:
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
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if value is None or isinstance(value, (Mapping, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))[:_MAX_SHOWN]
    return str(value)


def required(path: str, reason: str = "") -> FieldError:
    """Return the error: the field must be set."""
    return FieldError(path, ErrorType.REQUIRED, None, reason)


def invalid(path: str, value: object, reason: str) -> FieldError:
    """Return the error: the value breaks a rule."""
    return FieldError(path, ErrorType.INVALID, value, reason)


def not_supported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    """Return the error: the value is none of those allowed, which are shown in this order."""
    allowed = ", ".join(f'"{item}"' for item in supported)
    return FieldError(path, ErrorType.NOT_SUPPORTED, value, f"supported values: {allowed}")


def forbidden(path: str, reason: str) -> FieldError:
    """Return the error: the field may not be set or changed."""
    return FieldError(path, ErrorType.FORBIDDEN, None, reason)
