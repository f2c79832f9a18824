"""Calls over gRPC in the terms of HTTP, in which client-go's metrics count requests.

The codes are those that the same request gets over REST, as far as the status tells.
"""

from __future__ import annotations

import re
from typing import Final

#: Instead of a code, where there was no answer.
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


def verb_of(method: str) -> str:
    """Return HTTP's method for a method of the API, such as "BindPods"."""
    return next((verb for names, verb in _VERBS if names.match(method)), "POST")


def code_of(method: str, status: str, *, answered: bool = True) -> str:
    """Return HTTP's code for the name of a gRPC status; ``answered``: by a server of the API."""
    if not answered:
        return NO_ANSWER
    if status == "OK":
        return "201" if verb_of(method) == "POST" else "200"
    return _CODES.get(status, "500")
