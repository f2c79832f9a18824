"""The syntax of names, labels and keys (apimachinery/pkg/util/validation)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from podsched.api.name_syntax import (
    KEY_ERROR,
    LABEL,
    LABEL_1035,
    LABEL_1035_ERROR,
    LABEL_ERROR,
    NAME_PART_ERROR,
    QUALIFIED,
    SUBDOMAIN,
    SUBDOMAIN_ERROR,
    VALUE,
    VALUE_ERROR,
    regex_error,
)

NameRule = Callable[[str], Sequence[str]]
"""Returns what is wrong with a name; nothing if it is valid."""

_PERCENT = "[0-9]+%"
_LABEL_RE, _SUBDOMAIN_RE = re.compile(LABEL), re.compile(SUBDOMAIN)
_LABEL_1035_RE, _QUALIFIED_RE = re.compile(LABEL_1035), re.compile(QUALIFIED)
_VALUE_RE, _PERCENT_RE = re.compile(VALUE), re.compile(_PERCENT)

# What is longer than any name is judged each time: caches count entries, whatever their size.
_CACHE, _MOST_CACHED = 1 << 14, 400
_MOST_SUBDOMAIN = 253


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def _label(name: str, rule: re.Pattern[str], error: str) -> list[str]:
    errors = [_too_long(63)] if len(name) > 63 else []
    return errors if rule.fullmatch(name) else [*errors, error]


def dns1123_label(name: str) -> list[str]:
    """Check the name of a namespace, a container or a volume: my-name."""
    found = _label(name, _LABEL_RE, LABEL_ERROR)
    # Longer than a subdomain it is not matched once more: see there.
    if found and len(name) <= _MOST_SUBDOMAIN and "." in name and _SUBDOMAIN_RE.fullmatch(name):
        found[-1] = "must not contain dots"
    return found


def dns1123_subdomain(name: str) -> list[str]:
    """Check the name of most objects: example.com."""
    if len(name) > _MOST_SUBDOMAIN:
        # Not matched as well: the pattern backtracks, which long input could make slow.
        return [_too_long(_MOST_SUBDOMAIN)]
    return [] if _SUBDOMAIN_RE.fullmatch(name) else [SUBDOMAIN_ERROR]


def path_segment_name(name: str) -> list[str]:
    """Check the name of a role or of a binding, which is almost free: system:node."""
    if len(name) > 253:
        return [_too_long(253, "bytes")]
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in name]


def dns1035_label(name: str) -> list[str]:
    """Check the name of a Service, which starts with a letter."""
    return _label(name, _LABEL_1035_RE, LABEL_1035_ERROR)


def qualified_name(key: str) -> tuple[str, ...]:
    """Check a label key, a resource or a gate: example.com/my.name."""
    return (_qualified_name if len(key) <= _MOST_CACHED else _qualified_name.__wrapped__)(key)


@lru_cache(_CACHE)
def _qualified_name(key: str) -> tuple[str, ...]:
    prefix, slash, name = key.rpartition("/")
    errors: list[str] = []
    if "/" in prefix:
        return (KEY_ERROR,)
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        if len(prefix) > _MOST_SUBDOMAIN:
            errors.append(f"prefix part {_too_long(_MOST_SUBDOMAIN, 'bytes')}")
        else:
            errors += [f"prefix part {problem}" for problem in dns1123_subdomain(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append(f"name part {_too_long(63, 'bytes')}")
    if _QUALIFIED_RE.fullmatch(name) is None:
        errors.append(NAME_PART_ERROR)
    return tuple(errors)


def label_value(value: str) -> tuple[str, ...]:
    """Check the value of a label."""
    return (_label_value if len(value) <= _MOST_CACHED else _label_value.__wrapped__)(value)


@lru_cache(_CACHE)
def _label_value(value: str) -> tuple[str, ...]:
    errors = [_too_long(63, "bytes")] if len(value) > 63 else []
    if _VALUE_RE.fullmatch(value) is None:
        errors.append(VALUE_ERROR)
    return tuple(errors)


def percent(value: str) -> list[str]:
    """Check a percentage such as "30%"."""
    if _PERCENT_RE.fullmatch(value):
        return []
    what = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_error(what, _PERCENT, "1%", "93%")]
