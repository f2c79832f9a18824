"""Decodes bodies in Kubernetes' protobuf, for the kinds that clients send in that form.

Answers are JSON: a client that accepts only protobuf gets 406. But ``kubectl create``, ``drain``
and ``auth`` always send protobuf, and so does kube-scheduler for bindings, leases and events. So
these few kinds are read: a message is converted to the JSON of the object by the field numbers of
Kubernetes' types (generated.proto of v1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from podsched.api import codec
from podsched.api.objects import Timestamp

MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"

# A field is "number:name:type". Types: s (string), i (integer), b (boolean), t (time), u (time with
# microseconds), q (quantity), n (number or string), y (bytes), or a message, never recursive; the
# suffix "*" means a list and "%" a map from strings.
_TYPES: Final[Mapping[str, str]] = {
    "ObjectMeta": "1:name:s 2:generateName:s 3:namespace:s 5:uid:s 6:resourceVersion:s "
    "11:labels:s% 12:annotations:s% 13:ownerReferences:OwnerReference* 14:finalizers:s*",
    "OwnerReference": "1:kind:s 3:name:s 4:uid:s 5:apiVersion:s 6:controller:b "
    "7:blockOwnerDeletion:b",
    "ObjectReference": "1:kind:s 2:namespace:s 3:name:s 4:uid:s 5:apiVersion:s "
    "6:resourceVersion:s 7:fieldPath:s",
    "LabelSelector": "1:matchLabels:s% 2:matchExpressions:LabelSelectorRequirement*",
    "LabelSelectorRequirement": "1:key:s 2:operator:s 3:values:s*",
    "Preconditions": "1:uid:s 2:resourceVersion:s",
    "DeleteOptions": "1:gracePeriodSeconds:i 2:preconditions:Preconditions 3:orphanDependents:b "
    "4:propagationPolicy:s 5:dryRun:s*",
    "Eviction": "1:metadata:ObjectMeta 2:deleteOptions:DeleteOptions",
    "Binding": "1:metadata:ObjectMeta 2:target:ObjectReference",
    "Namespace": "1:metadata:ObjectMeta 2:spec:NamespaceSpec",
    "NamespaceSpec": "1:finalizers:s*",
    "ConfigMap": "1:metadata:ObjectMeta 2:data:s% 3:binaryData:y% 4:immutable:b",
    "PriorityClass": "1:metadata:ObjectMeta 2:value:i 3:globalDefault:b 4:description:s "
    "5:preemptionPolicy:s",
    "PodDisruptionBudget": "1:metadata:ObjectMeta 2:spec:PodDisruptionBudgetSpec",
    "PodDisruptionBudgetSpec": "1:minAvailable:n 2:selector:LabelSelector 3:maxUnavailable:n "
    "4:unhealthyPodEvictionPolicy:s",
    "ResourceQuota": "1:metadata:ObjectMeta 2:spec:ResourceQuotaSpec",
    "ResourceQuotaSpec": "1:hard:q% 2:scopes:s* 3:scopeSelector:ScopeSelector",
    "ScopeSelector": "1:matchExpressions:ScopedResourceSelectorRequirement*",
    "ScopedResourceSelectorRequirement": "1:scopeName:s 2:operator:s 3:values:s*",
    "PolicyRule": "1:verbs:s* 2:apiGroups:s* 3:resources:s* 4:resourceNames:s* "
    "5:nonResourceURLs:s*",
    "Role": "1:metadata:ObjectMeta 2:rules:PolicyRule*",
    "ClusterRole": "1:metadata:ObjectMeta 2:rules:PolicyRule* 3:aggregationRule:AggregationRule",
    "AggregationRule": "1:clusterRoleSelectors:LabelSelector*",
    "Subject": "1:kind:s 2:apiGroup:s 3:name:s 4:namespace:s",
    "RoleRef": "1:apiGroup:s 2:kind:s 3:name:s",
    "RoleBinding": "1:metadata:ObjectMeta 2:subjects:Subject* 3:roleRef:RoleRef",
    "ClusterRoleBinding": "1:metadata:ObjectMeta 2:subjects:Subject* 3:roleRef:RoleRef",
    "Lease": "1:metadata:ObjectMeta 2:spec:LeaseSpec",
    "LeaseSpec": "1:holderIdentity:s 2:leaseDurationSeconds:i 3:acquireTime:u 4:renewTime:u "
    "5:leaseTransitions:i 6:strategy:s 7:preferredHolder:s",
    "Event": "1:metadata:ObjectMeta 2:involvedObject:ObjectReference 3:reason:s 4:message:s "
    "5:source:EventSource 6:firstTimestamp:t 7:lastTimestamp:t 8:count:i 9:type:s 10:eventTime:u "
    "11:series:EventSeries 12:action:s 13:related:ObjectReference 14:reportingComponent:s "
    "15:reportingInstance:s",
    "events.k8s.io/v1 Event": "1:metadata:ObjectMeta 2:eventTime:u 3:series:EventSeries "
    "4:reportingController:s 5:reportingInstance:s 6:action:s 7:reason:s "
    "8:regarding:ObjectReference 9:related:ObjectReference 10:note:s 11:type:s "
    "12:deprecatedSource:EventSource 13:deprecatedFirstTimestamp:t 14:deprecatedLastTimestamp:t "
    "15:deprecatedCount:i",
    "EventSource": "1:component:s 2:host:s",
    "EventSeries": "1:count:i 2:lastObservedTime:u",
    "SelfSubjectReview": "1:metadata:ObjectMeta",
    "SelfSubjectAccessReview": "1:metadata:ObjectMeta 2:spec:SelfSubjectAccessReviewSpec",
    "SelfSubjectAccessReviewSpec": "1:resourceAttributes:ResourceAttributes "
    "2:nonResourceAttributes:NonResourceAttributes",
    "ResourceAttributes": "1:namespace:s 2:verb:s 3:group:s 4:version:s 5:resource:s "
    "6:subresource:s 7:name:s",
    "NonResourceAttributes": "1:path:s 2:verb:s",
    "SelfSubjectRulesReview": "1:metadata:ObjectMeta 2:spec:SelfSubjectRulesReviewSpec",
    "SelfSubjectRulesReviewSpec": "1:namespace:s",
}
_MESSAGES: Final[Mapping[str, Mapping[int, tuple[str, str]]]] = {
    message: {
        int(number): (name, form)
        for number, name, form in (field.split(":") for field in fields.split())
    }
    for message, fields in _TYPES.items()
}


#: Max fields in all messages of a body together.
_MAX_FIELDS: Final = 50_000
_WORD: Final = 1 << 64


class ProtobufError(ValueError):
    """Bytes that are not a message of the expected type."""


class UnsupportedKindError(ValueError):
    """A kind that is not read as protobuf."""


def decode(raw: bytes) -> dict[str, Any]:
    """Decode the object in a body of Kubernetes' protobuf to JSON.

    Raises ProtobufError and UnsupportedKindError.
    """
    if not raw.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    try:
        return _Decoder().decode(raw[len(_MAGIC) :])
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtobufError(f"the message cannot be decoded: {error}") from None


class _Decoder:
    """Decodes one body of at most _MAX_FIELDS fields."""

    def __init__(self) -> None:
        self._left = _MAX_FIELDS

    def decode(self, raw: bytes) -> dict[str, Any]:
        """Return the object in a ``runtime.Unknown``."""
        parts = self._parts(raw)
        meta = self._parts(_bytes(parts.get(1)))
        version, kind = _text(meta.get(1)), _text(meta.get(2))
        # Events have a different schema in each of their groups.
        message = next((name for name in (f"{version} {kind}", kind) if name in _MESSAGES), "")
        if not message:
            raise UnsupportedKindError(f"{kind[:100]} is not read as protobuf here, only as JSON")
        content = self._message(_bytes(parts.get(2)), message)
        return {"apiVersion": version, "kind": kind, **content}

    def _message(self, raw: bytes, message: str) -> dict[str, Any]:
        known = _MESSAGES[message]
        found: dict[str, Any] = {}
        for number, value in self._fields(raw):
            if number not in known:
                continue
            name, form = known[number]
            if form.endswith("*"):
                found.setdefault(name, []).append(self._value(value, form[:-1]))
            elif form.endswith("%"):
                entry = self._parts(_bytes(value))
                inner = self._value(entry.get(2, b""), form[:-1])
                found.setdefault(name, {})[_text(entry.get(1))] = inner
            else:
                found[name] = self._value(value, form)
        return found

    def _value(self, value: Any, form: str) -> Any:
        if form == "i":
            return _number(value)
        if form == "b":
            return bool(_number(value))
        if form == "s":
            return _text(value)
        raw = _bytes(value)
        if form == "y":
            return base64.b64encode(raw).decode()
        if form == "q":
            return _text(self._parts(raw).get(1))
        if form == "n":
            parts = self._parts(raw)
            is_text = _number(parts.get(1))
            return _text(parts.get(3)) if is_text else _number(parts.get(2))
        if form in ("t", "u"):
            return self._time(raw, micros=form == "u") if raw else None  # Go's zero time is empty
        return self._message(raw, form)

    def _time(self, raw: bytes, *, micros: bool) -> str:
        parts = self._parts(raw)
        seconds, nanos = _number(parts.get(1)), _number(parts.get(2))
        if not codec.FIRST_SECOND <= seconds <= codec.LAST_SECOND or not 0 <= nanos < 10**9:
            raise ProtobufError("a time is not one of the years 1 to 9999")
        text = codec.format_time(Timestamp(seconds=seconds, nanos=nanos // 1000 * 1000))
        return text if "." in text or not micros else f"{text[:-1]}.000000Z"

    def _parts(self, raw: bytes) -> dict[int, Any]:
        """Return the last value of each field."""
        return dict(self._fields(raw))

    def _fields(self, raw: bytes) -> Iterator[tuple[int, Any]]:
        """Yield number and value of each field: an int for a varint, bytes, or a float.

        A float stands for a number of fixed size, which none of these messages has.
        """
        at = 0
        while at < len(raw):
            self._left -= 1
            if self._left < 0:
                raise ProtobufError(f"the message has more than {_MAX_FIELDS:,} fields")
            tag, at = _varint(raw, at)
            number, wire = tag >> 3, tag & 7
            if wire == 0:
                value, at = _varint(raw, at)
                yield number, value
                continue
            size, at = _varint(raw, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, -1), at)
            if size < 0 or at + size > len(raw):
                raise ProtobufError("the message is cut short")
            yield number, raw[at : at + size] if wire == 2 else float("nan")
            at += size


def _bytes(value: Any) -> bytes:
    """Return the bytes of a field, empty if absent."""
    if value is None:
        return b""
    if not isinstance(value, bytes):
        raise ProtobufError("a value does not fit its field")
    return value


def _text(value: Any) -> str:
    return _bytes(value).decode()


def _number(value: Any) -> int:
    """Return the number of a field, zero if absent."""
    if value is None:
        return 0
    if not isinstance(value, int):
        raise ProtobufError("a value does not fit its field")
    return value - _WORD if value >= _WORD >> 1 else value


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value % _WORD, at
        shift += 7
        if shift > 63:
            raise ProtobufError("a number is too long")
