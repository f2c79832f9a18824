"""Parses and checks query parameters as Kubernetes does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from podsched.api.selectors import SelectorError, parse_selector
from podsched.serve.server.errors import Violation
from podsched.serve.server.rest.failures import RestError, bad_request, failed_options

_FALSE: Final = frozenset({"0", "false", "f", "F", "FALSE", "False"})
#: These numbers are int64 in Kubernetes.
LARGEST: Final = 2**63 - 1
_CONTINUED: Final = "resourceVersionMatch is forbidden when continue is provided"

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
        value = LARGEST + 1
    if not -LARGEST <= value <= LARGEST:
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
    """Raise RestError 422 for combinations of options that Kubernetes refuses; it names all.

    Source: ValidateListOptions of k8s.io/apimachinery/pkg/apis/meta/internalversion/validation.
    """
    problems = [*(_of_watch if watch else _of_list)(query, match, initial)]
    if problems:
        raise failed_options("ListOptions", *problems)


def _of_list(query: Query, match: str, initial: bool | None) -> Iterator[Violation]:
    version = query.get("resourceVersion", "")
    if match and not version:
        yield _refused("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match and query.get("continue"):
        yield _refused(_CONTINUED)
    if match not in ("", "Exact", "NotOlderThan"):
        yield _unsupported(match, '"Exact", "NotOlderThan", ""')
    if match == "Exact" and version == "0":
        yield _refused('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if initial is not None:
        yield _refused("sendInitialEvents is forbidden for list", "sendInitialEvents")


def _of_watch(query: Query, match: str, initial: bool | None) -> Iterator[Violation]:
    if initial is not None and match != "NotOlderThan":
        yield _refused("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match and initial is None:
        why = "is forbidden for watch unless sendInitialEvents is provided"
        yield _refused(f"resourceVersionMatch {why}")
    if match not in ("", "NotOlderThan"):
        yield _unsupported(match, '"NotOlderThan"')
    if match and query.get("continue"):
        yield _refused(_CONTINUED)


def _refused(text: str, field: str = "resourceVersionMatch") -> Violation:
    return Violation(field, f"Forbidden: {text}", "Forbidden")


def _unsupported(value: str, supported: str) -> Violation:
    text = f'Unsupported value: "{value[:100]}": supported values: {supported}'
    return Violation("resourceVersionMatch", text, "Unsupported value")
