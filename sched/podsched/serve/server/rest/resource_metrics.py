"""Answers metrics.k8s.io: what nodes and pods use (``kubectl top``), as metrics-server does.

It is read from the kubelets (``kubelets.usage``). Hollow nodes and their pods are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from podsched.api import codec
from podsched.api.etcd_keys import local_key
from podsched.api.hollow_nodes import is_hollow
from podsched.api.kinds import KINDS
from podsched.api.objects import Node, Pod
from podsched.api.reasons import StatusCode
from podsched.serve.server.access.rights import rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.fairness.turns import in_turns
from podsched.serve.server.kubelets.usage import NODE, Key, KubeletUsage, Usage
from podsched.serve.server.rest.failures import RestError, check_method, no_such_resource
from podsched.serve.server.rest.messages import Answer, Request, encode, encode_list
from podsched.serve.server.rest.views import encoded
from podsched.serve.server.scope import Scope

METRICS: Final = "metrics.k8s.io"
METRICS_VERSION: Final = "v1beta1"
#: The kinds of the answers by plural.
METRICS_KINDS: Final[Mapping[str, str]] = {"nodes": "NodeMetrics", "pods": "PodMetrics"}
_API_VERSION: Final = f"{METRICS}/{METRICS_VERSION}"
#: Pods that are decoded without a pause: 1 to 2 ms.
_AT_ONCE: Final = 50


_Show = Callable[[Entry], dict[str, Any] | None]
"""Returns what is shown of a node or pod; None: its use is not known."""


class _Asked(NamedTuple):
    plural: str
    namespace: str
    name: str


def is_of_metrics(segments: Sequence[str]) -> bool:
    """Return whether a path is one of a resource of metrics.k8s.io."""
    return segments[:3] == ["apis", METRICS, METRICS_VERSION] and len(segments) > 3


class ResourceMetrics:
    """Answers requests for what nodes and pods use. Methods raise ApiError."""

    def __init__(self, core: ServerCore, usage: KubeletUsage) -> None:
        self._core = core
        self._usage = usage

    async def answer(self, request: Request, segments: Sequence[str]) -> Answer:
        """Answer with the metrics of one object or of a list."""
        asked = _asked(segments[3:])
        check_method(request, "GET", "HEAD")
        verb = "get" if asked.name else "list"
        shown = f"{asked.plural}.{METRICS}"
        rights().check_resource(shown, verb, METRICS, *asked)
        entries = await self._entries(asked, request.query)
        show = await (self._of_nodes if asked.plural == "nodes" else self._of_pods)(entries)
        kind = METRICS_KINDS[asked.plural]
        if not asked.name:
            head = {"kind": f"{kind}List", "apiVersion": _API_VERSION, "metadata": {}}
            return Answer(encode_list(head, await encoded(entries, show)))
        content = show(entries[0]) if entries else None
        if content is None:
            message = f'{kind.lower()}.{METRICS} "{asked.name[:253]}" not found'
            raise RestError(404, "NotFound", message, code=StatusCode.NOT_FOUND)
        return Answer(encode({"kind": kind, "apiVersion": _API_VERSION, **content}))

    async def _entries(self, asked: _Asked, query: Mapping[str, str]) -> Sequence[Entry]:
        kind = KINDS["Node" if asked.plural == "nodes" else "Pod"]
        if asked.name:
            await self._core.reflector.wait_until_fresh()
            entry = self._core.cache.get(kind, local_key(kind, asked.namespace, asked.name))
            return [entry] if entry is not None else []
        selectors = (query.get("labelSelector", ""), query.get("fieldSelector", ""))
        return await self._core.lister.all(Scope([kind.name], asked.namespace, *selectors))

    async def _of_nodes(self, entries: Sequence[Entry]) -> _Show:
        """Read what nodes use; return what shows it of a node."""
        nodes = (cast(Node, entry.message) for entry in entries)
        # Hollow nodes have no kubelet that could be asked.
        usage = await self._usage.of(node for node in nodes if not is_hollow(node))

        def show(entry: Entry) -> dict[str, Any] | None:
            node = cast(Node, entry.message)
            used = usage.get(node.metadata.name, {}).get(NODE)
            return None if used is None else {**_head(node, used), "usage": _amounts(used)}

        return show

    async def _of_pods(self, entries: Sequence[Entry]) -> _Show:
        """Read what the nodes of pods use; return what shows it of a pod."""
        names: set[str] = set()
        async for part in in_turns(entries, _AT_ONCE):
            names.update(cast(Pod, entry.message).spec.node_name for entry in part)
        known = (self._core.cache.get(KINDS["Node"], name) for name in sorted(names))
        nodes = (cast(Node, entry.message) for entry in known if entry is not None)
        usage = await self._usage.of(node for node in nodes if not is_hollow(node))

        def show(entry: Entry) -> dict[str, Any] | None:
            pod = cast(Pod, entry.message)
            containers = _containers(pod, usage.get(pod.spec.node_name, {}))
            if not containers:
                return None
            latest = max(containers.values(), key=lambda used: used.at)
            items = [{"name": n, "usage": _amounts(used)} for n, used in containers.items()]
            return {**_head(pod, latest), "containers": items}

        return show


def _asked(rest: Sequence[str]) -> _Asked:
    """Return what a path below the version asks for. Raises RestError."""
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) == 2 else ""
    wrong = rest[0] not in METRICS_KINDS or len(rest) > 2
    if (
        wrong
        or (namespace and rest[0] == "nodes")
        or (name and rest[0] == "pods" and not namespace)
    ):
        raise no_such_resource()
    return _Asked(rest[0], namespace, name)


def _containers(pod: Pod, usage: Mapping[Key, Usage]) -> dict[str, Usage]:
    """Return the usage of a pod's containers that its own node has reported."""
    metadata, spec = pod.metadata, pod.spec
    names = [c.name for c in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)]
    found = {name: usage.get((metadata.namespace, metadata.name, name)) for name in names}
    return {name: used for name, used in found.items() if used is not None}


def _head(item: Node | Pod, used: Usage) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": item.metadata.name}
    if item.metadata.namespace:
        metadata["namespace"] = item.metadata.namespace
    metadata["creationTimestamp"] = codec.format_seconds(time.time())
    if item.metadata.labels:
        metadata["labels"] = dict(item.metadata.labels)
    told = codec.format_seconds(used.at)
    return {"metadata": metadata, "timestamp": told, "window": f"{used.window:.3f}s"}


def _amounts(used: Usage) -> dict[str, str]:
    return {"cpu": f"{round(used.cpu * 1e9)}n", "memory": f"{used.memory // 1024}Ki"}
