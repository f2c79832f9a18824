"""Answers the subresources binding, eviction and scale of the REST API."""

from __future__ import annotations

from typing import Any, Final

from podsched.api import codec
from podsched.api.columns import replicas
from podsched.api.field_errors import invalid
from podsched.api.kinds import KINDS
from podsched.api.node_labels import REGION, ZONE
from podsched.api.objects import AnyObject, LabelSelector
from podsched.api.selectors import compile_selector, from_labels
from podsched.serve.server import errors
from podsched.serve.server.access.rights import rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import only_entry
from podsched.serve.server.pods import EVICTED
from podsched.serve.server.rest.bodies import asks_dry_run, check_kind, manager_of, member
from podsched.serve.server.rest.checks import (
    check_replacement,
    deletion_error,
    storage_error,
    uid_mismatch,
)
from podsched.serve.server.rest.deleting import options_of
from podsched.serve.server.rest.failures import SUCCESS, RestError, bad_request
from podsched.serve.server.rest.large_bodies import apart, made_before, parsed_body
from podsched.serve.server.rest.managers import Manager, managed
from podsched.serve.server.rest.messages import Answer, Request, encode
from podsched.serve.server.rest.patches import APPLY, effort_of, patch_type, patched_content
from podsched.serve.server.rest.routes import Target
from podsched.serve.server.rewriting import Rewrite
from podsched.v1 import api_pb2 as v1

_CREATED: Final = encode({**SUCCESS, "code": 201})
#: Labels that Kubernetes' admission plugin PodTopologyLabels copies from the node.
_PLACES: Final = (ZONE, REGION)
_SCALES: Final = "autoscaling/v1"


class Subresources:
    """Answers requests of subresources. Methods raise ApiError."""

    def __init__(self, core: ServerCore) -> None:
        self._core = core

    # ------------------------------------------------------------------ pods

    async def bind(self, target: Target, request: Request) -> Answer:
        """Bind a pod to the node that a Binding names."""
        dry = asks_dry_run(request, "CreateOptions")
        content, _ = await parsed_body(request, "Binding")
        check_kind(content, "Binding", ("v1",))
        metadata, node = member(content, "metadata"), member(content, "target")
        if target.name and metadata.get("name") != target.name:
            raise bad_request("name in URL does not match name in Binding object")
        _check_right(target, str(metadata.get("name") or ""))
        await self._core.namespaces.require(target.namespace)
        _check_target(node)
        binding = v1.Binding(
            namespace=target.namespace,
            name=str(metadata.get("name") or ""),
            uid=str(metadata.get("uid") or ""),
            node_name=str(node["name"]),
            annotations=_texts(metadata, "annotations"),
        )
        version = str(metadata.get("resourceVersion") or "")
        labels = _texts(metadata, "labels") | self._places(binding.node_name)
        try:
            await self._core.pods.bind_like_kubernetes(
                binding, labels, version=version, dry_run=dry
            )
        except ApiError as error:
            raise _of_binding(target, binding, error) from None
        return Answer(_CREATED, 201)

    def _places(self, node_name: str) -> dict[str, str]:
        """Return the labels that a pod gets with its node, of the node's topology."""
        node = self._core.cache.get(KINDS["Node"], node_name)
        labels = node.message.metadata.labels if node is not None else {}
        return {key: labels[key] for key in _PLACES if key in labels}

    async def evict(self, target: Target, request: Request) -> Answer:
        """Evict a pod if its disruption budget permits."""
        dry = asks_dry_run(request, "CreateOptions")
        content, _ = await parsed_body(request, "Eviction")
        check_kind(content, "Eviction", ("policy/v1", "policy/v1beta1"))
        metadata = member(content, "metadata")
        if metadata.get("name") != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        _check_right(target, target.name)
        options = options_of(member(content, "deleteOptions"))
        await self._core.namespaces.require(target.namespace)
        evict = v1.EvictRequest(namespace=target.namespace, name=target.name)
        if options.grace is not None:
            evict.grace_period_seconds = max(options.grace, 0)
        evict.condition.CopyFrom(EVICTED)
        evict.preconditions.uid = options.uid
        evict.preconditions.resource_version = options.version
        try:
            dry_run = dry or options.dry_run
            only_entry(await self._core.pods.evict([evict], None, dry_run=dry_run))
        except ApiError as error:
            raise deletion_error(error) from None
        return Answer(_CREATED, 201)

    # ------------------------------------------------------------------ scale

    async def get_scale(self, target: Target, request: Request) -> Answer:
        """Answer with the Scale of a workload."""
        entry = await self._core.registry.get(
            target.resource.kind.name, target.namespace, target.name, target.subresource
        )
        return Answer(encode(_scale(entry)))

    async def set_scale(self, target: Target, request: Request) -> Answer:
        """Set a workload's replicas, by PUT or PATCH of its Scale."""
        kind = target.resource.kind
        rights().check(target.verb, kind, target.namespace, target.name, "scale")
        dry = asks_dry_run(request, "UpdateOptions")
        manager = Manager(manager_of(request, "UpdateOptions"), "Update", "scale")
        raw, effort = request.body, len(request.body)
        if target.verb == "patch":
            media = patch_type(request)
            if media == APPLY:
                # As a strategic merge patch it would take over what others have applied.
                raise RestError(415, "UnsupportedMediaType", "a Scale cannot be applied", {})
            effort = effort_of(media, raw)
            change = await apart(len(raw), patched_content, media, raw, "Scale")
        else:
            content, _ = await parsed_body(request, "Scale")
            check_kind(content, "Scale", (_SCALES,))

            def change(_: dict[str, Any]) -> dict[str, Any]:
                return dict(content)

        def make(entry: Entry) -> AnyObject:
            scaled = _scaled(target, entry, change(_scale(entry)))
            return managed(target.resource, entry, scaled, manager)

        before = await made_before(self._core.cache, target, effort, make)
        entry = await self._core.rewriter.rewrite(
            Rewrite(kind, target.namespace, target.name, target.verb, "scale", before, dry)
        )
        return Answer(encode(_scale(entry)))


def _check_right(target: Target, name: str) -> None:
    """Raise ApiError unless the caller may: who may not is not told which namespaces exist."""
    kind = target.resource.kind
    rights().check("create", kind, target.namespace, name, target.subresource)


def _texts(metadata: dict[str, Any], name: str) -> dict[str, str]:
    return {key: str(value) for key, value in member(metadata, name).items()}


def _check_target(node: dict[str, Any]) -> None:
    kind = node.get("kind")
    if kind not in ("", None, "Node"):
        text = f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        raise RestError(500, "", text)
    if not node.get("name"):
        raise RestError(500, "", "target.name: Required value")


def _of_binding(target: Target, binding: v1.Binding, error: ApiError) -> ApiError:
    """Return a binding's error with Kubernetes' message."""
    kind = target.resource.kind
    if error.reason in ("ALREADY_BOUND", "POD_DELETING", "SCHEDULING_GATED"):
        message = error.message.replace(f"on {kind.plural} ", f"on {kind.plural}/binding ", 1)
        details = {"name": binding.name, "kind": f"{kind.plural}/binding"}
        return RestError(409, "Conflict", message, details, code=error.code)
    if error.reason == "PRECONDITION_FAILED":
        why = error.message.partition(": ")[2]
        return storage_error(kind, binding.namespace, binding.name, why)
    return error


def _scale(entry: Entry) -> dict[str, Any]:
    """Return the ``Scale`` of a workload."""
    message: Any = entry.message
    metadata, spec = message.metadata, message.spec
    of_labels = isinstance(spec.selector, LabelSelector)
    selector = compile_selector(spec.selector) if of_labels else from_labels(spec.selector)
    shown = {
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "resourceVersion": str(entry.revision),
        "creationTimestamp": codec.format_time(metadata.creation_timestamp),
    }
    status = {"replicas": message.status.replicas, "selector": str(selector)}
    wanted = replicas(message)
    return {
        "kind": "Scale",
        "apiVersion": _SCALES,
        "metadata": shown,
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def _scaled(target: Target, entry: Entry, scale: dict[str, Any]) -> AnyObject:
    """Return a copy of a workload with the replicas of a ``Scale``. Raises ApiError."""
    message: Any = entry.decode()
    given, metadata = member(scale, "metadata"), message.metadata
    uid = str(given.get("uid") or metadata.uid)
    if uid != metadata.uid:
        raise uid_mismatch(target, uid, metadata.uid)
    metadata.name, metadata.namespace = (
        str(given.get(field) or "") for field in ("name", "namespace")
    )
    metadata.resource_version = str(given.get("resourceVersion") or "")
    check_replacement(target, message)
    wanted = member(scale, "spec").get("replicas", 0)
    if type(wanted) is not int or not 0 <= wanted < 2**31:
        found = invalid("spec.replicas", wanted, "must be greater than or equal to 0")
        raise errors.invalid_fields(entry.kind, message.metadata.name, [found])
    message.spec.replicas = wanted
    return message  # type: ignore[no-any-return]
