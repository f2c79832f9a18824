"""Trace context (W3C) as podsched passes it on: in metadata of calls, and with pods through etcd.

A context is a traceparent, "" for none. A call that is about several traced pods has the context of
each, separated by commas: the first as ``traceparent``, which everyone understands, and all of them
under a key of podsched's own. A pod has its context in an annotation, and beside it, as W3C's
tracestate, when it was admitted: creationTimestamp has whole seconds.

Source: https://www.w3.org/TR/trace-context/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TypeAlias

TRACEPARENT = "traceparent"
ALL_TRACEPARENTS = "podsched-traceparents"
TRACEPARENT_ANNOTATION = "podsched.io/traceparent"
TRACESTATE_ANNOTATION = "podsched.io/tracestate"
#: Contexts of one call that are passed on and continued; they take 56 bytes each, and metadata may
#: have 8 KiB.
MOST_CONTEXTS = 32

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]

_PARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_STATE = re.compile(r"(?:^|,)\s*podsched=t([0-9]{1,19})(?:,|$)")
_SAMPLED = 0x01


def parse(context: str) -> tuple[int, int, bool] | None:
    """Return trace id, span id and whether it is sampled; None for what is not a traceparent."""
    match = _PARENT.fullmatch(context)
    if match is None:
        return None
    return int(match[1], 16), int(match[2], 16), bool(int(match[3], 16) & _SAMPLED)


def trace_id(context: str) -> str:
    """Return the trace's id in 32 hexadecimal digits, "" without one."""
    match = _PARENT.match(context)
    return match[1] if match else ""


def joined(contexts: Iterable[str]) -> str:
    """Return the contexts of one call as one, those that are "" left out."""
    found = dict.fromkeys(context for context in contexts if context)
    return ",".join(list(found)[:MOST_CONTEXTS])


def to_metadata(context: str) -> tuple[tuple[str, str], ...]:
    """Return a call's metadata for its contexts."""
    if not context:
        return ()
    first, comma, _ = context.partition(",")
    parent = (TRACEPARENT, first)
    return (parent, (ALL_TRACEPARENTS, context)) if comma else (parent,)


def of_metadata(metadata: Metadata) -> str:
    """Return the contexts in a call's metadata, "" without any."""
    found = ""
    for key, value in metadata:
        if key == ALL_TRACEPARENTS:
            return str(value)
        if key == TRACEPARENT:
            found = str(value)
    return found


def contexts(context: str) -> Sequence[str]:
    """Return each context of a call."""
    return context.split(",")[:MOST_CONTEXTS]


def annotate(annotations: MutableMapping[str, str], context: str, unix_nanoseconds: int) -> None:
    """Give a pod that is being admitted its context, unless its creator has given it one."""
    if TRACEPARENT_ANNOTATION not in annotations:
        annotations[TRACEPARENT_ANNOTATION] = context
        annotations[TRACESTATE_ANNOTATION] = f"podsched=t{unix_nanoseconds}"


def context_of(annotations: Mapping[str, str]) -> str:
    """Return a pod's context, "" without one."""
    return annotations.get(TRACEPARENT_ANNOTATION, "")


def admitted_at(annotations: Mapping[str, str]) -> int:
    """Return when a traced pod was admitted, in nanoseconds since 1970; 0 if that is not known."""
    match = _STATE.search(annotations.get(TRACESTATE_ANNOTATION, ""))
    return int(match[1]) if match else 0
