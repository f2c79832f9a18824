"""Requests as an attacker would send them: valid ones, changed in odd ways along their descriptors.

Everything follows from a seed. Nothing here knows a field by number or a method by hand: methods
and fields are those of the descriptors, so that new ones are attacked without a change here. Only
the values for fields of some names (``kind``, ``name``, selectors, quantities) are chosen so that a
good part of the requests gets past the first check.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import EncodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.kinds import KINDS, kind_of, wrap
from podsched.api.manifest import from_manifest, load_documents, to_manifest
from podsched.api.objects import AnyObject
from podsched.v1 import api_pb2 as v1
from podsched.v1 import scheduling_pb2
from support.api_objects import LOCK
from support.fuzz_texts import configuration
from support.fuzz_values import (
    DOUBLES,
    INTEGERS,
    QUANTITIES,
    SELECTORS,
    TEXTS,
    WORDS,
    places,
)

#: Every method of every service of the API.
METHODS: Mapping[str, MethodDescriptor] = {
    f"/{service.full_name}/{method.name}": method
    for file in (v1.DESCRIPTOR, scheduling_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}
#: By which replicas take questions.
ANSWER = "/podsched.v1.Scheduling/Answer"


class FuzzRequest(NamedTuple):
    """One call: its method, and the request's bytes, which need not be a message."""

    method: str
    raw: bytes

    def __repr__(self) -> str:
        try:
            decoded = str(GetMessageClass(METHODS[self.method].input_type).FromString(self.raw))
        except Exception:
            decoded = repr(self.raw)
        return f"{self.method} {decoded[:4000]}"


def seeds() -> list[AnyObject]:
    """Ordinary objects of every kind."""
    root = Path(__file__).parents[2]
    files = [Path(__file__).with_name("fuzz_seeds.yaml")]
    files += sorted((root / "deploy" / "examples").rglob("*.yaml"))
    documents = [document for file in files for document in load_documents(file.read_text())]
    return [
        from_manifest(document).message for document in documents if document.get("kind") in KINDS
    ]


SEEDS = seeds()
_PODS = [seed for seed in SEEDS if seed.DESCRIPTOR.name == "Pod"]

_SECONDS = (0, 1, -1, 253402300799, 253402300800, -62135596800, -62135596801, 2**63 - 1, -(2**63))
_NANOS = (0, 0, 1, 999_999_999, 10**9, -1, 2**31 - 1)
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "in", "")
_RESOURCES = (
    "cpu",
    "memory",
    "pods",
    "example.com/gpu",
    "hugepages-2Mi",
    "ephemeral-storage",
    "",
    "CPU",
)
_KINDS = (*KINDS, "pods", "po", "", "Secret", "POD", "List")
NAMES = (*tuple(sorted({seed.metadata.name for seed in SEEDS})), "absent", "kube-scheduler")
NAMESPACES = (
    "default",
    "default",
    "default",
    "",
    "kube-system",
    "kube-node-lease",
    "team",
    "absent",
)
_BY_FIELD: Mapping[str, tuple[str, ...]] = {
    "kind": _KINDS, "name": NAMES, "namespace": NAMESPACES, "node_name": NAMES,
    "label_selector": SELECTORS, "field_selector": SELECTORS, "operator": _OPERATORS,
    "kinds": _KINDS, "lock": (LOCK, "", "/", "a", "a/b/c", "kube-system/other"),
    "claim_name": NAMES, "volume_name": NAMES, "storage_class_name": NAMES,
    "replica": ("", "replica-1", "odd", "absent"), "identity": ("replica-1", "odd", ""),
}  # fmt: skip
_CURSORS = (
    '{"rv":1e400,"start":""}', '{"rv":9223372036854775808,"start":"a"}', "[" * 2000,
    '{"rv":1,"start":"\\ud800"}', '{"rv":3,"start":"default/a"}', '{"rv":true,"start":"a"}',
    '{"rv":5,"start":null}', '{"rv":2,"start":"\\u0000"}', '{"rv":' + "9" * 3000 + ',"start":"a"}',
)  # fmt: skip
TOKENS = (
    *("garbage", "!!!!", "é", "e30="),
    *(base64.urlsafe_b64encode(text.encode()).decode() for text in _CURSORS),
)
#: Names of lists that patches merge, which may stand anywhere.
_LISTS = (
    "env",
    "containers",
    "finalizers",
    "conditions",
    "volumes",
    "labels",
    "metadata",
    "status",
)
#: JSON texts that Python's encoder would not write.
RAW_JSON = (
    "1e400", "-1e400", "NaN", "Infinity", '"\\ud800"', '"\\udc00x"', "9" * 5000, "-0", "1E2",
    '"\\u0000"', "[" * 60 + "]" * 60, '{"a":' * 60 + "1" + "}" * 60, "[" * 3000 + "]" * 3000,
    '{"a":1,"a":2}', '{"\\ud800":1}',
    *('{"a":' * depth + "1" + "}" * depth for depth in (25, 99, 300, 700, 900)),
    "1" + "0" * 400, "9" * 4000,
    "9223372036854775808", "1.5", "true", "null", "[]", "{}", '""', "[null]", "[[1],{}]",
)  # fmt: skip
DIRECTIVES: tuple[Mapping[str, Any], ...] = (
    {"$patch": "delete"}, {"$patch": "replace"}, {"$patch": 1}, {"$patch": "merge"},
    {"$retainKeys": ["a"]}, {"$retainKeys": 1}, {"$setElementOrder/containers": [{"name": "app"}]},
    {"$setElementOrder/containers": [1, None]}, {"$deleteFromPrimitiveList/finalizers": ["a"]},
    {"$deleteFromPrimitiveList/finalizers": {}}, {"$unknown": 1},
)  # fmt: skip


#: Characters of a patch that is made long; more would test the limit of a request only.
_LARGE = 500_000


#: Levels of a message that are filled.
_FULL = 1


class Fuzzer:
    """Makes one request from a seed."""

    def __init__(self, seed: int, term: int = 1) -> None:
        self.rng = random.Random(seed)
        self._term = term

    def request(self, method: str) -> FuzzRequest:
        """A request of the method: filled, changed up to six times, sometimes damaged as bytes."""
        message = GetMessageClass(METHODS[method].input_type)()
        self._fill(message)
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2, 3, 6))):
            self._mutate(message)
        try:
            raw = message.SerializeToString()
        except EncodeError:  # nested more deeply than protobuf itself writes
            return self.request(method)
        if self.rng.random() < 0.06:
            raw = self._damaged(raw)
        return FuzzRequest(method, raw)

    def answer(self, question: scheduling_pb2.Question) -> bytes:
        """An answer of a replica to a question, or something else."""
        message = scheduling_pb2.ReplicaMessage()
        answer = message.answer
        self._fill(answer)
        if self.rng.random() < 0.7:
            answer.ClearField("code")
        for _ in range(self.rng.choice((0, 1, 2, 4))):
            self._mutate(message)
        if self.rng.random() < 0.9:
            message.answer.id = question.id
        raw = message.SerializeToString()
        return self._damaged(raw) if self.rng.random() < 0.03 else raw

    # ------------------------------------------------------------------ ordinary requests

    def _fill(self, message: Message, depth: int = 0) -> None:
        """Set the fields of a request as a client would; of what is deep, only some."""
        rng = self.rng
        asks = message.DESCRIPTOR.file is scheduling_pb2.DESCRIPTOR
        target = rng.choice(_PODS if asks else SEEDS)
        for field in _one_of_each(message.DESCRIPTOR, rng):
            inner = field.message_type
            if depth > _FULL and self.rng.random() < 0.7:
                continue
            if (
                inner is v1.Object.DESCRIPTOR
                or inner is v1.Object.DESCRIPTOR.fields[0].message_type
            ):
                self._fill_objects(message, field)
            elif inner is v1.Fence.DESCRIPTOR:
                if rng.random() < 0.5:
                    getattr(message, field.name).CopyFrom(v1.Fence(lock=LOCK, term=self._term))
            elif _is_map(field):
                self._change_map(getattr(message, field.name), field)
            elif inner is not None and inner.full_name in _SPECIAL:
                if rng.random() < 0.2:
                    self._change(message, field)
            elif inner is not None and field.is_repeated:
                for _ in range(rng.choice((1, 1, 2, 5))):
                    self._fill(getattr(message, field.name).add(), depth + 1)
            elif inner is not None:
                chosen = field.name == "binding" or field.containing_oneof is not None
                if chosen or rng.random() < 0.3:
                    self._fill(getattr(message, field.name), depth + 1)
            else:
                self._fill_scalar(message, field, target)

    def _fill_objects(self, message: Message, field: FieldDescriptor) -> None:
        wrapped = field.message_type is v1.Object.DESCRIPTOR
        for _ in range(self.rng.choice((1, 1, 2, 5)) if field.is_repeated else 1):
            item = self.object(self.rng.choice(SEEDS if wrapped else _PODS))
            value: Message = wrap(item) if wrapped else item
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                getattr(message, field.name).CopyFrom(value)

    def object(self, seed: AnyObject) -> AnyObject:
        """A copy of a seed, half of the time under a name of its own, and mostly changed."""
        item = type(seed)()
        item.CopyFrom(seed)  # type: ignore[arg-type]
        if self.rng.random() < 0.6:
            item.metadata.name = f"{item.metadata.name}-{self.rng.randrange(20)}"
        for _ in range(self.rng.choice((0, 1, 1, 2, 4))):
            self._mutate(item)
        return item

    def _fill_scalar(self, message: Message, field: FieldDescriptor, target: AnyObject) -> None:
        rng = self.rng
        if field.name == "merge_patch":
            setattr(message, field.name, self._patch(target))
        elif field.name == "kind":
            setattr(message, field.name, kind_of(target).name)
        elif field.name == "kinds":
            getattr(message, field.name).extend(rng.choices(tuple(KINDS), k=rng.randrange(4)))
        elif field.name in ("namespace", "name"):
            setattr(message, field.name, getattr(target.metadata, field.name))
        elif field.name == "scheduler_configuration":
            setattr(message, field.name, configuration(rng))
        elif field.name == "replica" and rng.random() < 0.6:
            setattr(message, field.name, rng.choice(_BY_FIELD["replica"]))
        elif field.name == "node_name":
            setattr(message, field.name, rng.choice(("node-1", "node-2", "absent")))
        elif field.name == "continue":
            if rng.random() < 0.2:
                setattr(message, field.name, rng.choice(TOKENS))
        elif field.name in ("send_initial_events", "limit", "type") and rng.random() < 0.5:
            setattr(message, field.name, type(getattr(message, field.name))(1))

    def _patch(self, target: AnyObject) -> bytes:
        """A JSON patch: some of a manifest, with odd values in odd places."""
        rng = self.rng
        manifest = to_manifest(target)
        if rng.random() < 0.5:
            # An object of this fuzzer's own may have text where JSON belongs.
            with suppress(ValueError):
                manifest = to_manifest(self.object(target))
        members = [key for key in manifest if key not in ("apiVersion", "kind")] or ["kind"]
        patch: dict[str, Any] = {
            key: manifest[key] for key in rng.sample(members, rng.randint(1, len(members)))
        }
        patch = json.loads(json.dumps(patch))
        raw: list[str] = []
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            self._mutate_json(patch, raw)
        text = json.dumps(patch)
        for index, replacement in enumerate(raw):
            text = text.replace(f'"@@{index}@@"', replacement)
        if rng.random() < 0.03:
            return rng.choice(RAW_JSON).encode()
        return text.encode()

    def _mutate_json(self, value: Any, raw: list[str]) -> None:
        rng = self.rng
        found = list(places(value))
        if not found:
            return
        holder, key = rng.choice(found)
        chance = rng.random()
        if chance < 0.45:
            raw.append(rng.choice(RAW_JSON))
            holder[key] = f"@@{len(raw) - 1}@@"
        elif chance < 0.7:
            holder[key] = rng.choice((*TEXTS, *INTEGERS, *QUANTITIES, None, True))
        elif chance < 0.85 and isinstance(holder, dict):
            holder.update(rng.choice(DIRECTIVES))
        elif isinstance(holder, dict):
            key = rng.choice((*TEXTS, *_LISTS))
            holder[key] = rng.choice((1, "x", None, {}, [], [{"name": "x"}], ["x"]))
        else:
            times = rng.choice((2, 50, 500))
            if len(json.dumps(holder)) * times < _LARGE:
                holder *= times

    # ------------------------------------------------------------------ changes along descriptors

    def _mutate(self, message: Message) -> None:
        """Change one field somewhere below a message."""
        rng = self.rng
        current = message
        while True:
            field = self._field(current)
            if field is None:
                return
            inner = field.message_type
            if inner is None or _is_map(field) or inner.full_name in _SPECIAL or rng.random() < 0.1:
                break
            below = self._below(current, field)
            if below is None:
                break
            current = below
        self._change(current, field)

    def _field(self, message: Message) -> FieldDescriptor | None:
        """A field to go on with: mostly one that is set."""
        fields = message.DESCRIPTOR.fields
        held = [field for field, _ in message.ListFields()]
        if held and self.rng.random() < 0.6:
            return self.rng.choice(held)
        return self.rng.choice(fields) if fields else None

    def _below(self, message: Message, field: FieldDescriptor) -> Message | None:
        value = getattr(message, field.name)
        if not field.is_repeated:
            if field.containing_oneof is not None and not message.HasField(field.name):
                return None
            value.SetInParent()
            result: Message = value
            return result
        if not value or self.rng.random() < 0.2:
            added: Message = value.add()
            return added
        chosen: Message = self.rng.choice(value)
        return chosen

    def _change(self, message: Message, field: FieldDescriptor) -> None:
        rng = self.rng
        if rng.random() < 0.12:
            message.ClearField(field.name)
            return
        value = getattr(message, field.name)
        if _is_map(field):
            self._change_map(value, field)
        elif field.is_repeated:
            self._change_list(value, field)
        elif field.message_type is not None:
            self._set_message(value)
        else:
            setattr(message, field.name, self._scalar(field))

    def _change_map(self, value: Any, field: FieldDescriptor) -> None:
        rng = self.rng
        entry = field.message_type.fields_by_name["value"]
        for index in range(rng.choice((1, 1, 1, 3, 300))):
            key = rng.choice((*_RESOURCES, *WORDS, *TEXTS, *value)) + (str(index) if index else "")
            if entry.message_type is not None:
                self._set_message(value[key])
            elif entry.type != FieldDescriptor.TYPE_STRING:
                value[key] = self._scalar(entry)
            elif field.name in ("labels", "annotations", "match_labels", "node_selector"):
                value[key] = rng.choice((*WORDS, *TEXTS))
            else:
                value[key] = rng.choice((*QUANTITIES, *TEXTS))

    def _change_list(self, value: Any, field: FieldDescriptor) -> None:
        rng = self.rng
        times = rng.choice((1, 1, 2, 40, 1500 if rng.random() < 0.2 else 3))
        if field.message_type is None:
            value.extend(self._scalar(field) for _ in range(min(times, 200)))
        elif value and rng.random() < 0.6:
            copied = rng.choice(value)
            value.extend([copied] * (times if copied.ByteSize() < 2000 else 2))
        else:
            for _ in range(min(times, 40)):
                self._set_message(value.add())

    def _set_message(self, value: Message) -> None:
        rng = self.rng
        if isinstance(value, Timestamp):
            value.seconds, value.nanos = rng.choice(_SECONDS), rng.choice(_NANOS)
        elif isinstance(value, Struct):
            self._set_struct(value)
        else:
            value.SetInParent()
            for field in rng.sample(
                list(value.DESCRIPTOR.fields), min(3, len(value.DESCRIPTOR.fields))
            ):
                if field.message_type is None and not field.is_repeated:
                    setattr(value, field.name, self._scalar(field))

    def _set_struct(self, value: Struct) -> None:
        rng = self.rng
        chance = rng.random()
        if chance < 0.4:
            nested: Any = rng.choice(TEXTS)
            for _ in range(rng.choice((2, 20, 24, 25, 30))):
                nested = {"a": nested} if rng.random() < 0.7 else [nested]
            value.update({"a": nested})
        elif chance < 0.6:
            value.fields["n"].number_value = rng.choice(DOUBLES)
        elif chance < 0.7:
            value.fields["nothing"].SetInParent()
        else:
            value.update({text: rng.choice((1, "x", None, True, [], {})) for text in TEXTS[:9]})

    def _scalar(self, field: FieldDescriptor) -> Any:
        rng = self.rng
        if field.type == FieldDescriptor.TYPE_STRING:
            known = _BY_FIELD.get(field.name)
            if known is not None and rng.random() < 0.6:
                return rng.choice(known)
            return rng.choice(rng.choice((TEXTS, WORDS, QUANTITIES, TEXTS)))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return rng.choice((b"", b"{", b"\xff\xfe", b'{"a":1}', *map(str.encode, RAW_JSON)))
        if field.type == FieldDescriptor.TYPE_BOOL:
            return rng.random() < 0.5
        if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return rng.choice(DOUBLES)
        low, high = _RANGES[field.cpp_type]
        return min(max(rng.choice(INTEGERS), low), high)

    # ------------------------------------------------------------------ bytes

    def _damaged(self, raw: bytes) -> bytes:
        rng = self.rng
        chance = rng.randrange(6)
        if chance == 0:
            return raw[: rng.randrange(len(raw) + 1)]
        if chance == 1:
            return rng.randbytes(rng.randrange(200))
        if chance == 2:
            return raw + raw
        if chance == 3:
            return raw + rng.choice(
                (b"\xff" * 20, b"\x0b" * 120, b"\x0a\x80\x80\x80\x80\x10", b"\x0a\x00" * 3000)
            )
        damaged = bytearray(raw)
        for _ in range(rng.choice((1, 3, 20)) if damaged else 0):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 0xFF, 0x80, rng.randrange(256)))
        return bytes(damaged)


def _one_of_each(descriptor: Descriptor, rng: random.Random) -> Iterator[FieldDescriptor]:
    """Every field of a message, but of those that exclude one another only one."""
    chosen = {group.name: rng.choice(group.fields) for group in descriptor.oneofs}
    for field in descriptor.fields:
        group = field.containing_oneof
        if group is None or chosen[group.name] is field:
            yield field


_SPECIAL = (Timestamp.DESCRIPTOR.full_name, Struct.DESCRIPTOR.full_name)
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}


def _is_map(field: FieldDescriptor) -> bool:
    inner: Descriptor | None = field.message_type
    return inner is not None and inner.GetOptions().map_entry
