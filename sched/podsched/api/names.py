"""The syntax of names, labels and keys (apimachinery/pkg/util/validation).

Outside of ``validation``, because device selectors read it, which that package checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from podsched.lib.remembering import remember_short

NameRule = Callable[[str], Sequence[str]]
"""Returns what is wrong with a name; nothing if it is valid."""

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE = f"({QUALIFIED})?"


def _regex_error(what: str, pattern: str, *examples: str) -> str:
    """Return the message on a text that does not match a pattern, with examples that do."""
    quoted = ",  or ".join(f"'{example}'" for example in examples)
    return f"{what} (e.g. {quoted}, regex used for validation is '{pattern}')"


_ALPHANUMERIC = "must start and end with an alphanumeric character"
LABEL_ERROR = _regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    + _ALPHANUMERIC,
    *(LABEL, "my-name", "123-abc"),
)
SUBDOMAIN_ERROR = _regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', and {_ALPHANUMERIC}",
    *(SUBDOMAIN, "example.com"),
)
_LABEL_1035_ERROR = _regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    *(_LABEL_1035, "my-name", "abc-123"),
)
_NAME = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ALPHANUMERIC}"
_EXAMPLES = ("MyName", "my.name", "123-abc")
NAME_PART_ERROR = _regex_error(f"name part {_NAME}", QUALIFIED, *_EXAMPLES)
KEY_ERROR = (
    _regex_error(f"a valid label key {_NAME}", QUALIFIED, *_EXAMPLES)
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
VALUE_ERROR = _regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    f"'.', and {_ALPHANUMERIC}",
    *(VALUE, "MyValue", "my_value", "12345"),
)

_PERCENT = "[0-9]+%"
_LABEL_RE, _SUBDOMAIN_RE = re.compile(LABEL), re.compile(SUBDOMAIN)
_LABEL_1035_RE, _QUALIFIED_RE = re.compile(_LABEL_1035), re.compile(QUALIFIED)
_VALUE_RE, _PERCENT_RE = re.compile(VALUE), re.compile(_PERCENT)
_PORT_RE = re.compile("[-a-z0-9]+")

# What is longer than any name is judged each time.
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


def dns1035_label(name: str) -> list[str]:
    """Check the name of a service: my-name, which does not begin with a digit."""
    return _label(name, _LABEL_1035_RE, _LABEL_1035_ERROR)


def path_segment_name(name: str) -> list[str]:
    """Check the name of a role or of a binding, which is almost free: system:node."""
    if len(name) > 253:
        return [_too_long(253, "bytes")]
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in name]


def port_name(name: str) -> list[str]:
    """Check the name of a container's port: http."""
    errors = [_too_long(15)] if len(name) > 15 else []
    if _PORT_RE.fullmatch(name) is None:
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= letter <= "z" for letter in name):
        errors.append("must contain at least one letter (a-z)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


@remember_short(_CACHE, _MOST_CACHED)
def qualified_name(key: str) -> tuple[str, ...]:
    """Check a label key, a resource or a gate: example.com/my.name."""
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


@remember_short(_CACHE, _MOST_CACHED)
def label_value(value: str) -> tuple[str, ...]:
    """Check the value of a label."""
    errors = [_too_long(63, "bytes")] if len(value) > 63 else []
    if _VALUE_RE.fullmatch(value) is None:
        errors.append(VALUE_ERROR)
    return tuple(errors)


def percent(value: str) -> list[str]:
    """Check a percentage such as "30%"."""
    if _PERCENT_RE.fullmatch(value):
        return []
    what = "a valid percent string must be a numeric string followed by an ending '%'"
    return [_regex_error(what, _PERCENT, "1%", "93%")]
