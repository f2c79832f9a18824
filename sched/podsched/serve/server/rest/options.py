"""Parses and checks query parameters as Kubernetes does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from podsched.api.selectors import SelectorError, parse_selector
from podsched.serve.server.rest.failures import RestError, bad_request, failed_option

_FALSE: Final = frozenset({"0", "false", "f", "F", "FALSE", "False"})
#: These numbers are int64 in Kubernetes.
_LARGEST: Final = 2**63 - 1

Query = Mapping[str, str]


def flag(query: Query, name: str) -> bool:
    """Return a boolean parameter; without a value it is true."""
    value = query.get(name)
    return value is not None and value not in _FALSE


def number(query: Query, name: str) -> int | None:
    """Return a numeric parameter, None if absent. Raises RestError 400."""
    text = query.get(name)
    if text is None or text == "":
        return None
    try:
        value = int(text)
    except ValueError:
        value = _LARGEST + 1
    if not -_LARGEST <= value <= _LARGEST:
        raise bad_request(f'{name}: Invalid value: "{text[:100]}": must be a number')
    return value


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list, watch and deletecollection. version: 0 for "any", None for the latest."""

    labels: str
    fields: str
    version: int | None
    match: str
    limit: int
    token: str
    timeout: int | None
    bookmarks: bool
    initial_events: bool | None

    @classmethod
    def of(cls, query: Query, *, watch: bool = False) -> ListOptions:
        """Parse the options of a query. Raises RestError."""
        initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
        match = query.get("resourceVersionMatch", "")
        _check(query, match, watch=watch, initial=initial)
        return cls(
            labels=checked_labels(query.get("labelSelector", "")),
            fields=query.get("fieldSelector", ""),
            version=version_of(query, watch=watch),
            match=match,
            limit=max(number(query, "limit") or 0, 0),
            token=query.get("continue", ""),
            timeout=number(query, "timeoutSeconds"),
            bookmarks=flag(query, "allowWatchBookmarks"),
            initial_events=initial,
        )


def checked_labels(text: str) -> str:
    """Return a valid label selector. Raises RestError 400 with Kubernetes' message."""
    try:
        parse_selector(text)
    except SelectorError as error:
        # Kubernetes omits this prefix for text that is not a requirement at all.
        text = str(error)
        lead = "" if "'end of string'" in text else "unable to parse requirement: "
        raise bad_request(lead + text) from None
    return text


def is_version(text: str) -> bool:
    """Return whether a text is a valid resourceVersion: ASCII digits only, not ``str.isdigit``."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def version_of(query: Query, *, watch: bool = False) -> int | None:
    """Return the resourceVersion of a query, None if absent. Raises RestError 400 or 500."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not is_version(text):
        why = f'resourceVersion: Invalid value: "{text[:100]}": must be a number'
        if watch:
            raise RestError(500, "", why)
        raise bad_request(f"invalid resource version: {why}")
    return int(text)


def _check(query: Query, match: str, *, watch: bool, initial: bool | None) -> None:
    """Raise RestError 422 for combinations of options that Kubernetes refuses.

    Source: ValidateListOptions of k8s.io/apimachinery/pkg/apis/meta/internalversion/validation.
    """
    version = query.get("resourceVersion", "")
    if initial is not None and not watch:
        raise _refused("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if initial is not None and not match:
        raise _refused(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )
    if watch:
        _check_watch(match, initial=initial)
        return
    if not match:
        return
    if query.get("continue"):
        raise _refused("resourceVersionMatch", "resourceVersionMatch is forbidden for continue")
    if not version:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _refused("resourceVersionMatch", text)
    if match not in ("Exact", "NotOlderThan"):
        raise _unsupported(match, '"Exact", "NotOlderThan", ""')
    if match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _refused("resourceVersionMatch", text)


def _check_watch(match: str, *, initial: bool | None) -> None:
    if not match:
        return
    if initial is None:
        why = "is forbidden for watch unless sendInitialEvents is provided"
        raise _refused("resourceVersionMatch", f"resourceVersionMatch {why}")
    if match != "NotOlderThan":
        raise _unsupported(match, '"NotOlderThan"')


def _refused(field: str, text: str) -> Exception:
    return failed_option("ListOptions", field, "Forbidden", text)


def _unsupported(value: str, supported: str) -> Exception:
    text = f'"{value[:100]}": supported values: {supported}'
    return failed_option("ListOptions", "resourceVersionMatch", "Unsupported value", text)
