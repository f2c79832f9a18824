"""Chooses the form of an answer by the Accept header (content negotiation)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from podsched.serve.server.rest.failures import RestError
from podsched.serve.server.rest.messages import JSON

ACCEPTED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_AVAILABLE: Final = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)
#: Max media ranges that are read of an Accept header; further ones are ignored.
_MAX_RANGES: Final = 50


class Form(StrEnum):
    """The form in which objects are shown."""

    OBJECT = ""
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    PARTIAL_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class _Range:
    """A media type in an Accept header."""

    media: str
    parameters: dict[str, str]
    quality: float


_GROUPS: Final = {
    Form.TABLE: ("meta.k8s.io", ("v1", "v1beta1")),
    Form.PARTIAL: ("meta.k8s.io", ("v1", "v1beta1")),
    Form.PARTIAL_LIST: ("meta.k8s.io", ("v1", "v1beta1")),
    Form.DISCOVERY: ("apidiscovery.k8s.io", ("v2",)),
}


def form_of(accept: str | None, *forms: Form) -> Form:
    """Return the form of an answer that a client prefers.

    accept: the Accept header. forms: the forms that the path has besides plain objects. Raises
    RestError 406 if the client accepts none of them.
    """
    if not accept:
        return Form.OBJECT
    ranges = [found for found in _ranges(accept) if found.media in (JSON, "*/*", "application/*")]
    if not ranges:
        raise RestError(406, "NotAcceptable", _AVAILABLE, {})
    for found in ranges:
        wanted = found.parameters.get("as", "")
        if not wanted:
            return Form.OBJECT
        for form in forms:
            group, versions = _GROUPS[form]
            named = wanted == form and found.parameters.get("g") == group
            if named and found.parameters.get("v") in versions:
                return form
    raise not_acceptable()


def not_acceptable(message: str = "") -> RestError:
    """Make the error for an Accept header without a supported media type."""
    message = message or f"only the following media types are accepted: {ACCEPTED}"
    return RestError(406, "NotAcceptable", message)


def _ranges(accept: str) -> list[_Range]:
    found = []
    for part in accept.split(",")[:_MAX_RANGES]:
        media, *rest = (text.strip() for text in part.split(";"))
        pairs = (text.partition("=") for text in rest)
        parameters = {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
        found.append(_Range(media.lower(), parameters, _quality(parameters.get("q"))))
    return sorted(found, key=lambda item: -item.quality)


def _quality(text: str | None) -> float:
    try:
        return float(text) if text is not None else 1.0
    except ValueError:
        return 0.0
