"""What is wrong with a configuration: all of it at once, each mistake with its field path.

The texts follow Kubernetes' ``field.Error``: ``profiles[0].schedulerName: Required value``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ConfigError(ValueError):
    """The user's configuration cannot be used; nothing was started. Retrying does not help.

    ``errors`` holds every mistake found, ``source`` the file it came from ("" when there is none).
    """

    def __init__(self, errors: Sequence[FieldError], source: str = "") -> None:
        self.errors = list(errors)
        self.source = source
        prefix = f"{source}: " if source else ""
        super().__init__("\n".join(f"{prefix}{error}" for error in self.errors))


class ErrorType(StrEnum):
    """Kubernetes' kinds of field error; the value is what users read."""

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
    """One mistake: where (``path``), which value, of what kind, and why ("" for no more words)."""

    path: str
    value: Any
    reason: str
    type: ErrorType = ErrorType.INVALID

    def __str__(self) -> str:
        if not self.path and self.value is None and self.reason:
            return self.reason  # the source as a whole, as when it is not even YAML
        text = f"{self.path}: {self.type.value}" if self.path else self.type.value
        if self.type not in _WITHOUT_VALUE:
            text += f": {_show(self.value)}"
        return f"{text}: {self.reason}" if self.reason else text


def invalid(path: str, value: Any, reason: str) -> FieldError:
    return FieldError(path, value, reason, ErrorType.INVALID)


def required(path: str, reason: str = "") -> FieldError:
    return FieldError(path, None, reason, ErrorType.REQUIRED)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, value, "", ErrorType.DUPLICATE)


def forbidden(path: str, reason: str) -> FieldError:
    return FieldError(path, None, reason, ErrorType.FORBIDDEN)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """``supported`` is shown sorted, quoted, separated by commas, as Kubernetes does."""
    values = ", ".join(json.dumps(item) for item in sorted(supported))
    return FieldError(path, value, f"supported values: {values}", ErrorType.NOT_SUPPORTED)


def unknown_field(path: str) -> FieldError:
    return FieldError(path, None, "", ErrorType.UNKNOWN_FIELD)


def _show(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
