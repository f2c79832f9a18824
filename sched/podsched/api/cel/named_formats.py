"""Kubernetes' named formats for CEL (v1.36, ``apiserver/pkg/cel/library/format.go``)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial

from podsched.api import names
from podsched.api.cel.declarations import declare_each
from podsched.api.cel.kubernetes import is_url
from podsched.api.cel.times import parse_timestamp
from podsched.api.cel.values import NONE, Format, Optional


def _beginning(rule: names.NameRule) -> names.NameRule:
    """Return the rule of a name's beginning, which may end with a dash, since more follows."""
    # As in Kubernetes (``maskTrailingDash``), which replaces two characters.
    return lambda text: rule(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _valid(test: Callable[[str], bool], error: str) -> names.NameRule:
    return lambda text: [] if test(text) else [error]


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return bool(text)


def _is_date(text: str) -> bool:
    return parse_timestamp(f"{text}T00:00:00Z") is not None


_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


def _is_datetime(text: str) -> bool:
    # As in kube-openapi: any sign before the decimals, any offset, and no look beyond another "t".
    date, *rest = text.lower().split("t")
    return bool(rest) and _is_date(date) and _CLOCK.fullmatch(rest[0]) is not None


_UUID = re.compile("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


def _is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


#: Go's names of formats that exist for beginnings of names as well, and sizes.
_NAMES: tuple[tuple[str, names.NameRule, int], ...] = (
    ("DNS1123Label", names.dns1123_label, 30),
    ("DNS1123Subdomain", names.dns1123_subdomain, 60),
    ("DNS1035Label", names.dns1035_label, 30),
)
_OTHERS: tuple[tuple[str, str, names.NameRule, int], ...] = (
    ("qualifiedName", "QualifiedName", names.qualified_name, 60),
    ("labelValue", "LabelValue", names.label_value, 40),
    ("uri", "URI", _valid(is_url, "invalid URI for request"), 1103),
    ("uuid", "uuid", _valid(_is_uuid, "does not match the UUID format"), 81),
    ("byte", "byte", _valid(_is_base64, "invalid base64"), 84),
    ("date", "date", _valid(_is_date, "invalid date"), 108),
    ("datetime", "datetime", _valid(_is_datetime, "invalid datetime"), 108),
)
FORMATS = {
    f"dns{name[3:]}{suffix}": Format(name + suffix, rule, size)
    for name, whole, size in _NAMES
    for suffix, rule in (("", whole), ("Prefix", _beginning(whole)))
} | {name: Format(go_name, errors, size) for name, go_name, errors, size in _OTHERS}


declare_each({f"format.{name}() -> Format": partial(FORMATS.get, name) for name in FORMATS})
declare_each(
    {
        "format.named(string) -> optional(Format)": lambda name: (
            Optional(True, FORMATS[name]) if name in FORMATS else NONE
        ),
        ".validate(Format, string) -> optional(list(string))": lambda value, text: (
            Optional(True, [*errors]) if (errors := value.errors(text)) else NONE
        ),
    }
)
