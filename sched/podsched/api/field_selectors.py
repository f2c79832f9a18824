"""Field selectors: "spec.nodeName=n1,status.phase!=Failed".

Kubernetes serves a short list of fields of each kind; here every scalar field of a message can be
named by its path in the manifest. Comparison is by the text a manifest shows; an unset field is "".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from podsched.api.selectors import MAX_TEXT, SelectorError
from podsched.lib.remembering import remember_short

_MOST_CACHED = 1000
#: Terms of a field selector, each of which takes 0.8 us an object.
MAX_TERMS = 50
# Possessive, so that each character is read once: a text of blanks took hours.
_TERM = re.compile(r"\s*+([A-Za-z0-9_./-]++)\s*+(!=|==|=)((?:[^,\\]|\\.)*+)")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comparison of one field."""

    path: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All comparisons must hold; none at all means everything."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, message: Message) -> bool:
        """Whether an object meets every comparison. Raises SelectorError for an unknown field."""
        return all(
            (field_text(message, term.path) == term.value) == term.equal for term in self.terms
        )

    def wanted(self, path: str) -> str | None:
        """Return the value a field must equal, when the selector says so."""
        for term in self.terms:
            if term.path == path and term.equal:
                return term.value
        return None


@remember_short(1024, _MOST_CACHED)
def parse_field_selector(text: str) -> FieldSelector:
    """Parse a field selector. Raises SelectorError."""
    if len(text) > MAX_TEXT:
        raise SelectorError(f"a selector may have at most {MAX_TEXT} characters")
    terms: list[FieldTerm] = []
    for part in re.split(r"(?<!\\),", text):
        if not part.strip():
            continue
        match = _TERM.fullmatch(part)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part.strip()}'")
        path, operator, value = match.groups()
        value = re.sub(r"\\(.)", r"\1", value).strip()
        terms.append(FieldTerm(path, operator != "!=", value))
    if len(terms) > MAX_TERMS:
        raise SelectorError(f"a field selector may have at most {MAX_TERMS} terms")
    return FieldSelector(tuple(terms))


@lru_cache(4096)
def _steps(descriptor: Descriptor, path: str) -> tuple[str, ...]:
    names: list[str] = []
    current: Descriptor | None = descriptor
    for part in path.split("."):
        fields = current.fields if current is not None else ()
        field = next((f for f in fields if f.json_name == part), None)
        if field is None or field.is_repeated:
            raise SelectorError(f"field label not supported: {path}")
        names.append(field.name)
        current = field.message_type
    if current is not None:
        raise SelectorError(f"field label not supported: {path}")
    return tuple(names)


def check_fields(selector: FieldSelector, descriptor: Descriptor) -> None:
    """Raise SelectorError if the selector names a field that the message does not have."""
    for term in selector.terms:
        _steps(descriptor, term.path)


def field_text(message: Message, path: str) -> str:
    """Return the text of a scalar field by its path in the manifest. Raises SelectorError."""
    value: object = message
    for name in _steps(message.DESCRIPTOR, path):
        value = getattr(value, name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
