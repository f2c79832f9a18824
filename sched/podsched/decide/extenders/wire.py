"""Write the requests to extenders and read their answers, as JSON.

The types are those of k8s.io/kube-scheduler/extender/v1. They have no JSON tags: fields have their
Go names ("NodeNames"), missing fields are null, and names in answers are case-insensitive. Objects
are Kubernetes manifests.

Guarantee: reading any answer returns a value or raises ExtenderError. Non-goals: HTTP (``http``),
and the effect of an answer on the pod (``calls``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsched.api.manifest import to_manifest
from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1

#: Stands for all extenders among a pod's unschedulable plugins. Any event may help such a pod.
EXTENDER_NAME = "Extender"
#: MaxExtenderPriority: the highest score that an extender should return.
MAX_EXTENDER_PRIORITY = 10
#: Max texts of nodes kept, some 20 MB; more only if one call has more than half as many nodes.
MAX_KEPT = 10_000


class ExtenderError(Exception):
    """An extender failed, did not answer in time, or returned an invalid answer.

    The extender is at fault, not the pod, which may be tried again.
    """


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """An extender's answer to a filter call.

    ``passed``: names of the remaining nodes, in the extender's order. The others have a reason by
    node name: in ``failed`` if preemption may help there, in ``unresolvable`` if not.
    """

    passed: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetaVictims:
    """Victims on a node by uid."""

    uids: tuple[str, ...]
    num_pdb_violations: int = 0


class NodeTexts:
    """Caches the JSON of nodes.

    Writing a node takes some 50 µs, so writing 5,000 of them for each pod would take as long as
    all the rest of a scheduling cycle.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[v1.Node, str]] = {}

    def of(self, nodes: Sequence[v1.Node]) -> list[str]:
        """Return the nodes' manifests."""
        if len(self._known) > max(2 * len(nodes), MAX_KEPT):
            # Most of these nodes must have been removed since.
            self._known.clear()
        return [self._text(node) for node in nodes]

    def _text(self, node: v1.Node) -> str:
        known = self._known.get(node.metadata.name)
        if known is not None and known[0] is node:
            return known[1]
        text = _json(to_manifest(node))
        self._known[node.metadata.name] = (node, text)
        return text


# ------------------------------------------------------------------ requests


def extender_args(pod: v1.Pod, nodes: Sequence[str] | None, names: Sequence[str] | None) -> bytes:
    """Return ExtenderArgs. ``nodes``: manifests; ``names``: for extenders with a node cache."""
    listed = "null" if nodes is None else f'{{"metadata":{{}},"items":[{",".join(nodes)}]}}'
    named = _json(None if names is None else list(names))
    return f'{{"Pod":{_json(to_manifest(pod))},"Nodes":{listed},"NodeNames":{named}}}'.encode()


def preemption_args(pod: v1.Pod, victims: Mapping[str, Victims], *, by_uid: bool) -> bytes:
    """Return ExtenderPreemptionArgs; ``by_uid``: with the victims' uids instead of manifests."""
    by_node = {
        name: {
            "Pods": [{"UID": pod.uid} if by_uid else to_manifest(pod.pod) for pod in here.pods],
            "NumPDBViolations": here.num_pdb_violations,
        }
        for name, here in victims.items()
    }
    return _json(
        {
            "Pod": to_manifest(pod),
            "NodeNameToVictims": None if by_uid else by_node,
            "NodeNameToMetaVictims": by_node if by_uid else None,
        }
    ).encode()


def binding_args(pod: PodInfo, node_name: str) -> bytes:
    """Return ExtenderBindingArgs."""
    return _json(
        {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
    ).encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# ------------------------------------------------------------------ responses


def read_filter_result(body: bytes, *, by_name: bool) -> FilterAnswer:
    """Read an ExtenderFilterResult; ``by_name``: NodeNames takes precedence if present.

    Raises ExtenderError, also for an error that the answer contains.
    """
    result = _object(_parsed(body), "ExtenderFilterResult")
    if problem := _text(result, "Error"):
        raise ExtenderError(problem)
    passed: tuple[str, ...] = ()
    names, nodes = _field(result, "NodeNames"), _field(result, "Nodes")
    if by_name and names is not None:
        passed = tuple(_string(name, "NodeNames") for name in _list(names, "NodeNames"))
    elif nodes is not None:
        items = _field(_object(nodes, "Nodes"), "items")
        passed = tuple(_name_of(node) for node in _list(items, "Nodes.items"))
    failed, unresolvable = (
        _reasons(result, name) for name in ("FailedNodes", "FailedAndUnresolvableNodes")
    )
    return FilterAnswer(passed, failed, unresolvable)


def read_priorities(body: bytes) -> list[tuple[str, int]]:
    """Read a HostPriorityList as (node name, score). Raises ExtenderError."""
    entries = [_object(e, "HostPriority") for e in _list(_parsed(body), "HostPriorityList")]
    return [(_text(e, "Host"), _integer(_field(e, "Score"), "Score")) for e in entries]


def read_preemption_result(body: bytes) -> dict[str, MetaVictims]:
    """Read an ExtenderPreemptionResult. Raises ExtenderError."""
    result = _object(_parsed(body), "ExtenderPreemptionResult")
    name = "NodeNameToMetaVictims"
    return {
        str(node): _meta_victims(here) for node, here in _object(_field(result, name), name).items()
    }


def _meta_victims(here: Any) -> MetaVictims:
    victims = _object(here, "MetaVictims")
    pods = [_object(pod, "MetaPod") for pod in _list(_field(victims, "Pods"), "Pods")]
    violations = _integer(_field(victims, "NumPDBViolations"), "NumPDBViolations")
    return MetaVictims(tuple(_text(pod, "UID") for pod in pods), violations)


def read_binding_result(body: bytes) -> None:
    """Read an ExtenderBindingResult. Raises ExtenderError if the pod was not bound."""
    if problem := _text(_object(_parsed(body), "ExtenderBindingResult"), "Error"):
        raise ExtenderError(problem)


def _parsed(body: bytes) -> Any:
    try:
        answer = json.loads(body.decode())
        if b"\\ud" in body.lower():
            # JSON can contain half of a surrogate pair, which cannot be encoded as UTF-8. Reject it
            # here (``decode`` does so if it is no escape), before an event or a pod's condition
            # would fail to encode it.
            json.dumps(answer, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ExtenderError(f"the answer is not JSON: {error}") from error
    return answer


def _field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field by its name, else by its name in another case; None if it is missing."""
    if name in fields:
        return fields[name]
    lower = name.lower()
    return next((value for key, value in fields.items() if key.lower() == lower), None)


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ExtenderError(f"the answer makes no sense: {what} must be an object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ExtenderError(f"the answer makes no sense: {what} must be a list")
    return value


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ExtenderError(f"the answer makes no sense: {what} must hold strings")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = _field(fields, name)
    return "" if value is None else _string(value, name)


def _integer(value: Any, what: str) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise ExtenderError(f"the answer makes no sense: {what} must be an integer of 64 bits")
    return value


def _reasons(result: Mapping[str, Any], name: str) -> dict[str, str]:
    return {
        str(node): _string(reason, name)
        for node, reason in _object(_field(result, name), name).items()
    }


def _name_of(node: Any) -> str:
    metadata = _object(_field(_object(node, "Node"), "metadata"), "metadata")
    return _text(metadata, "name")
