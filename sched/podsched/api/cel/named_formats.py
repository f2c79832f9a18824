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


def _matching(
    pattern: str, most: int, error: str, *, prefix: bool = False
) -> Callable[[str], list[str]]:
    expression = re.compile(pattern, re.ASCII)

    def errors(text: str) -> list[str]:
        # As in Kubernetes (``maskTrailingDash``): a prefix may end with a dash, since more follows.
        if prefix and len(text) > 1 and text.endswith("-"):
            text = text[:-2] + "a"
        found = (
            [f"must be no more than {most} bytes"]
            if len(text.encode("utf-8", "replace")) > most
            else []
        )
        # Too long a text is refused anyway; the expression takes its time with it.
        if len(text) > 4 * most or not expression.fullmatch(text):
            found.append(error)
        return found

    return errors


_subdomain_errors = _matching(names.SUBDOMAIN, 253, names.SUBDOMAIN_ERROR)
_name_errors = _matching(names.QUALIFIED, 63, names.NAME_PART_ERROR)


def _qualified_name_errors(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [
            "a valid qualified name must consist of alphanumeric characters with an optional DNS"
            " subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    found = []
    if slash:
        found = (
            [f"prefix part {error}" for error in _subdomain_errors(prefix)]
            if prefix
            else ["prefix part must be non-empty"]
        )
    if not name:
        found.append("name part must be non-empty")
    return found + _name_errors(name)


def _valid(test: Callable[[str], bool], error: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [error]


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return bool(text)


def _is_time(text: str) -> bool:
    return parse_timestamp(text) is not None


_UUID = re.compile("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


def _is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


#: Go's names of formats that exist for prefixes of names as well: patterns, most bytes, sizes.
_NAMES = (
    ("DNS1123Label", names.LABEL, 63, names.LABEL_ERROR, 30),
    ("DNS1123Subdomain", names.SUBDOMAIN, 253, names.SUBDOMAIN_ERROR, 60),
    ("DNS1035Label", names.LABEL_1035, 63, names.LABEL_1035_ERROR, 30),
)
_OTHERS: tuple[tuple[str, str, Callable[[str], list[str]], int], ...] = (
    ("qualifiedName", "QualifiedName", _qualified_name_errors, 60),
    ("labelValue", "LabelValue", _matching(names.VALUE, 63, names.VALUE_ERROR), 40),
    ("uri", "URI", _valid(is_url, "invalid URI for request"), 1103),
    ("uuid", "uuid", _valid(_is_uuid, "does not match the UUID format"), 81),
    ("byte", "byte", _valid(_is_base64, "invalid base64"), 84),
    ("date", "date", _valid(lambda t: _is_time(f"{t}T00:00:00Z"), "invalid date"), 108),
    ("datetime", "datetime", _valid(lambda t: _is_time(t.upper()), "invalid datetime"), 108),
)
FORMATS = {
    f"dns{name[3:]}{suffix}": Format(
        name + suffix, _matching(pattern, most, error, prefix=bool(suffix)), size
    )
    for name, pattern, most, error, size in _NAMES
    for suffix in ("", "Prefix")
} | {name: Format(go_name, errors, size) for name, go_name, errors, size in _OTHERS}


declare_each({f"format.{name}() -> Format": partial(FORMATS.get, name) for name in FORMATS})
declare_each(
    {
        "format.named(string) -> optional(Format)": lambda name: (
            Optional(True, FORMATS[name]) if name in FORMATS else NONE
        ),
        ".validate(Format, string) -> optional(list(string))": lambda value, text: (
            Optional(True, errors) if (errors := value.errors(text)) else NONE
        ),
    }
)
