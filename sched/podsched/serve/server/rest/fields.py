"""Checks field selectors: Kubernetes supports only a few fields of each kind."""

from __future__ import annotations

from typing import Final

from podsched.api.field_selectors import parse_field_selector
from podsched.api.selectors import SelectorError
from podsched.serve.server.rest.failures import bad_request
from podsched.serve.server.rest.resources import EVENTS_GROUP, OLD_NAMES, Resource

_ALL: Final = ("metadata.name", "metadata.namespace")
#: Fields that are stored under another name than they are selected by.
_STORED: Final = {"source": "source.component", "status.successful": "status.succeeded"}


def checked_fields(resource: Resource, text: str) -> str:
    """Return a field selector with the names of the stored fields. Raises RestError 400."""
    if not text.strip():
        return ""
    try:
        terms = parse_field_selector(text).terms
    except SelectorError as error:
        raise bad_request(str(error)) from None
    known = (*_ALL, *resource.kind.selectable)
    renamed = []
    for term in terms:
        first, dot, rest = term.path.partition(".")
        path = (
            OLD_NAMES.get(first, first) + dot + rest
            if resource.group == EVENTS_GROUP
            else term.path
        )
        if path not in known:
            raise bad_request(f"field label not supported: {term.path}")
        path = _STORED.get(path, path)
        value = term.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        renamed.append(f"{path}{'=' if term.equal else '!='}{value}")
    return ",".join(renamed)
