"""Errors in a configuration, each with its field path, collected and reported together.

The texts follow Kubernetes' ``field.Error``: ``profiles[0].schedulerName: Required value``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ConfigError(ValueError):
    """The user's configuration is invalid; nothing was started, and retrying does not help.

    ``errors`` has all errors found; ``source`` is the file that they are in, "" if there is none.
    """

    def __init__(self, errors: Sequence[FieldError], source: str = "") -> None:
        self.errors = list(errors)
        self.source = source
        prefix = f"{source}: " if source else ""
        super().__init__("\n".join(f"{prefix}{error}" for error in self.errors))


class ErrorType(StrEnum):
    """Kubernetes' types of field errors; the value is the text that users see."""

    INVALID = "Invalid value"
    REQUIRED = "Required value"
    NOT_SUPPORTED = "Unsupported value"
    DUPLICATE = "Duplicate value"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "Not found"
    UNKNOWN_FIELD = "Unknown field"


_WITHOUT_VALUE = frozenset({ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.UNKNOWN_FIELD})


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error: the field's path and value, the type of error, and the reason ("" for none)."""

    path: str
    value: Any
    reason: str
    type: ErrorType = ErrorType.INVALID

    def __str__(self) -> str:
        if not self.path and self.value is None and self.reason:
            return self.reason  # About the source as a whole, such as invalid YAML.
        text = f"{self.path}: {self.type.value}" if self.path else self.type.value
        if self.type not in _WITHOUT_VALUE:
            text += f": {_show(self.value)}"
        return f"{text}: {self.reason}" if self.reason else text


def invalid(path: str, value: Any, reason: str) -> FieldError:
    """Return the error of a value that is not allowed."""
    return FieldError(path, value, reason, ErrorType.INVALID)


def required(path: str, reason: str = "") -> FieldError:
    """Return the error of a missing value."""
    return FieldError(path, None, reason, ErrorType.REQUIRED)


def duplicate(path: str, value: Any) -> FieldError:
    """Return the error of a value that may occur only once."""
    return FieldError(path, value, "", ErrorType.DUPLICATE)


def forbidden(path: str, reason: str) -> FieldError:
    """Return the error of a field that must not be set here."""
    return FieldError(path, None, reason, ErrorType.FORBIDDEN)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error of a value outside an enumeration, with the supported values sorted."""
    values = ", ".join(json.dumps(item) for item in sorted(supported))
    return FieldError(path, value, f"supported values: {values}", ErrorType.NOT_SUPPORTED)


def unknown_field(path: str) -> FieldError:
    """Return the error of a field that does not exist."""
    return FieldError(path, None, "", ErrorType.UNKNOWN_FIELD)


def _show(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
