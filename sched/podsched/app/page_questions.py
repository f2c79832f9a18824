"""Build the web page's questions to a scheduler, and convert the answers to JSON."""

from __future__ import annotations

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

from podsched.v1.scheduling_pb2 import ExplainRequest


def explain_request(kind: str, key: str, *, changes: bool) -> ExplainRequest:
    """Return a request to explain a Pod or PodGroup, "namespace/name"."""
    namespace, _, name = key.partition("/")
    return ExplainRequest(kind=kind, namespace=namespace, name=name, changes=changes)


def as_json(answer: Message) -> bytes:
    """Return an answer as JSON, as ``sched explain -o json`` prints it."""
    text: str = MessageToJson(answer, indent=None)
    return text.encode()
