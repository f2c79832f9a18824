"""Maps gRPC calls to HTTP verbs and codes, and reads warnings in HTTP's format.

client-go's metrics count requests by verb and code. The codes are those of the same request over
REST, as far as the status determines them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

#: The code of a call without an answer.
NO_ANSWER: Final = "<error>"

_VERBS: Final = (
    (re.compile("Get|List|Watch"), "GET"),
    (re.compile("Update"), "PUT"),
    (re.compile("Patch"), "PATCH"),
    (re.compile("Delete"), "DELETE"),
)
_CODES: Final = {
    "CANCELLED": NO_ANSWER,
    "INVALID_ARGUMENT": "422",
    "DEADLINE_EXCEEDED": "504",
    "NOT_FOUND": "404",
    "ALREADY_EXISTS": "409",
    "PERMISSION_DENIED": "403",
    "RESOURCE_EXHAUSTED": "429",
    "FAILED_PRECONDITION": "409",
    "ABORTED": "409",
    "OUT_OF_RANGE": "410",
    "UNIMPLEMENTED": "404",
    "UNAVAILABLE": "503",
    "UNAUTHENTICATED": "401",
}
#: Key of servers' warnings in the trailing metadata, and their format: code, agent and text
#: (RFC 7234, 5.5).
_WARNING_KEY: Final = "warning"
_WARNING: Final = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def verb_of(method: str) -> str:
    """Return the HTTP method for a method of the API, such as "BindPods"."""
    return next((verb for names, verb in _VERBS if names.match(method)), "POST")


def code_of(method: str, status: str, *, answered: bool = True) -> str:
    """Return the HTTP code for a gRPC status by name; ``answered``: by an API server."""
    if not answered:
        return NO_ANSWER
    if status == "OK":
        return "201" if verb_of(method) == "POST" else "200"
    return _CODES.get(status, "500")


def warnings_in(metadata: Iterable[tuple[str, str | bytes]] | None) -> Iterator[str]:
    """Yield the warnings in a call's trailing metadata."""
    for key, value in metadata or ():
        if key == _WARNING_KEY and isinstance(value, str) and (found := _WARNING.match(value)):
            yield re.sub(r"\\(.)", r"\1", found[1])
