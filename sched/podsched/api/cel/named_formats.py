"""Kubernetes' named formats for CEL (v1.36, ``apiserver/pkg/cel/library/format.go``)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from podsched.api.cel.declarations import declare
from podsched.api.cel.kubernetes import parse_url
from podsched.api.cel.times import parse_timestamp
from podsched.api.cel.values import NONE, Format, Optional

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_ERROR = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for"
    f" validation is '{_LABEL}')"
)
_SUBDOMAIN_ERROR = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    rf" validation is '{_LABEL}(\.{_LABEL})*')"
)
_LABEL_1035_ERROR = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    f" regex used for validation is '{_LABEL_1035}')"
)
_NAME_ERROR = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    f" validation is '{_NAME}')"
)
_VALUE_ERROR = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    rf" '12345', regex used for validation is '(({_NAME[1:-1]}]))?')"
)


def _matching(
    pattern: str, most: int, error: str, *, prefix: bool = False
) -> Callable[[str], list[str]]:
    expression = re.compile(pattern, re.ASCII)

    def errors(text: str) -> list[str]:
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


_subdomain_errors = _matching(rf"{_LABEL}(\.{_LABEL})*", 253, _SUBDOMAIN_ERROR)
_name_errors = _matching(_NAME, 63, _NAME_ERROR)


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
    except (binascii.Error, ValueError):
        return False
    return bool(text)


def _is_date(text: str) -> bool:
    return parse_timestamp(f"{text}T00:00:00Z") is not None


_UUID = re.compile("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")

FORMATS = {
    name: Format(go_name, errors, size)
    for name, go_name, errors, size in (
        ("dns1123Label", "DNS1123Label", _matching(_LABEL, 63, _LABEL_ERROR), 30),
        ("dns1123Subdomain", "DNS1123Subdomain", _subdomain_errors, 60),
        ("dns1035Label", "DNS1035Label", _matching(_LABEL_1035, 63, _LABEL_1035_ERROR), 30),
        ("qualifiedName", "QualifiedName", _qualified_name_errors, 60),
        (
            "dns1123LabelPrefix",
            "DNS1123LabelPrefix",
            _matching(_LABEL, 63, _LABEL_ERROR, prefix=True),
            30,
        ),
        (
            "dns1123SubdomainPrefix",
            "DNS1123SubdomainPrefix",
            _matching(rf"{_LABEL}(\.{_LABEL})*", 253, _SUBDOMAIN_ERROR, prefix=True),
            60,
        ),
        (
            "dns1035LabelPrefix",
            "DNS1035LabelPrefix",
            _matching(_LABEL_1035, 63, _LABEL_1035_ERROR, prefix=True),
            30,
        ),
        ("labelValue", "LabelValue", _matching(f"({_NAME})?", 63, _VALUE_ERROR), 40),
        ("uri", "URI", _valid(lambda t: parse_url(t) is not None, "invalid URI for request"), 1103),
        (
            "uuid",
            "uuid",
            _valid(lambda t: _UUID.fullmatch(t) is not None, "does not match the UUID format"),
            81,
        ),
        ("byte", "byte", _valid(_is_base64, "invalid base64"), 84),
        ("date", "date", _valid(_is_date, "invalid date"), 108),
        (
            "datetime",
            "datetime",
            _valid(lambda t: parse_timestamp(t.upper()) is not None, "invalid datetime"),
            108,
        ),
    )
}


def _declare_format(name: str) -> None:
    @declare(f"format.{name}() -> Format")
    def constant() -> Format:
        return FORMATS[name]


for _format in FORMATS:
    _declare_format(_format)


@declare("format.named(string) -> optional(Format)")
def _named_format(name: str) -> Optional:
    return Optional(True, FORMATS[name]) if name in FORMATS else NONE


@declare(".validate(Format, string) -> optional(list(string))")
def _validate_format(value: Format, text: str) -> Any:
    errors = value.errors(text)
    return Optional(True, errors) if errors else NONE
