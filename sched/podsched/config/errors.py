"""Errors in a configuration, each with its field path, collected and reported together.

The texts follow Kubernetes' ``field.Error``: ``profiles[0].schedulerName: Required value``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from podsched.api import field_errors
from podsched.api.field_errors import ErrorType, FieldError, forbidden, invalid, required

__all__ = [
    "ConfigError",
    "ErrorType",
    "FieldError",
    "duplicate",
    "forbidden",
    "invalid",
    "not_supported",
    "required",
    "unknown_field",
]


class ConfigError(ValueError):
    """The user's configuration is invalid; nothing was started, and retrying does not help.

    ``errors`` has all errors found; ``source`` is the file that they are in, "" if there is none.
    """

    def __init__(self, errors: Sequence[FieldError], source: str = "") -> None:
        self.errors = list(errors)
        self.source = source
        prefix = f"{source}: " if source else ""
        super().__init__("\n".join(f"{prefix}{error}" for error in self.errors))


def duplicate(path: str, value: Any) -> FieldError:
    """Return the error of a value that may occur only once."""
    return FieldError(path, value, "", ErrorType.DUPLICATE)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error of a value outside an enumeration, with the supported values sorted."""
    return field_errors.not_supported(path, value, sorted(supported))


def unknown_field(path: str) -> FieldError:
    """Return the error of a field that does not exist."""
    return FieldError(path, None, "", ErrorType.UNKNOWN_FIELD)
