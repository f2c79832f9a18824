"""Answers the writing verbs of the REST API, also for the subresources status and finalize."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, cast

from podsched.api.etcd_keys import local_key
from podsched.api.kubelet_defaults import set_kubelet_defaults
from podsched.api.objects import AnyObject, Pod, copy_of
from podsched.api.pod_parts import POD_PARTS, with_part
from podsched.lib.event_loop import Turn
from podsched.serve.server import errors
from podsched.serve.server.access.rights import rights
from podsched.serve.server.call_warnings import add_warnings
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest.bodies import (
    MAX_WARNINGS,
    Decoded,
    asks_dry_run,
    check_kind,
    manager_of,
    read_object,
    validation_of,
)
from podsched.serve.server.rest.checks import (
    admission_error,
    applied_config,
    check_event,
    check_identity,
    check_namespace,
    check_new,
    check_patch_options,
    check_replacement,
    check_version,
    read_patched,
    uid_mismatch,
    update_error,
)
from podsched.serve.server.rest.large_bodies import apart, made_before, parsed_body
from podsched.serve.server.rest.managers import Manager, applied, managed, normalized
from podsched.serve.server.rest.media import Form, form_of
from podsched.serve.server.rest.messages import Answer, Request
from podsched.serve.server.rest.options import flag
from podsched.serve.server.rest.patches import APPLY, effort_of, patch_type, patched_content
from podsched.serve.server.rest.pod_warnings import pod_warnings
from podsched.serve.server.rest.reading import Reading
from podsched.serve.server.rest.resources import Resource
from podsched.serve.server.rest.routes import Target
from podsched.serve.server.rest.shapes import keep_absent
from podsched.serve.server.rest.views import patchable, typed
from podsched.serve.server.rewriting import Make, Rewrite

#: Kinds of which an update creates the object that it does not find: AllowCreateOnUpdate of
#: Kubernetes' strategies.
_CREATED_BY_UPDATE: Final = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        *("Endpoints", "Event", "Lease", "LimitRange", "RuntimeClass", "Service"),
    }
)


class Writing:
    """Answers writes. Methods raise ApiError.

    For a large object, such as a ResourceSlice with 128 devices, parsing, reading, checking and
    showing take 10 ms each, so there are pauses between them.
    """

    def __init__(self, core: ServerCore, reading: Reading) -> None:
        self._core = core
        self._reading = reading

    # ------------------------------------------------------------------ create

    async def create(self, target: Target, request: Request) -> Answer:
        """Create an object, and answer with it."""
        resource = target.resource
        form = _form(request)
        level = validation_of(request, "CreateOptions")
        dry = asks_dry_run(request, "CreateOptions")
        manager_of(request, "CreateOptions")
        rights().check("create", resource.kind, target.namespace)
        turn = Turn()
        decoded = await _body_of(request, resource, level, turn)
        add_warnings(*decoded.warnings)
        message = decoded.message
        check_new(target, message)
        check_event(target, message)
        set_kubelet_defaults(message)
        await self._check_namespace(target)
        await turn.pause()
        try:
            entry = await self._core.creator.create(message, dry_run=dry, of_kubernetes=True)
        except ApiError as error:
            raise await self._explained(error, message) from None
        add_warnings(*islice(pod_warnings(message), MAX_WARNINGS))
        await turn.wait()
        return self._reading.shown(target, entry, form, request, 201)

    async def _check_namespace(self, target: Target) -> None:
        """Raise ApiError NOT_FOUND for a namespace that does not exist.

        Kubernetes' clients rely on it; podsched's own may use a namespace without creating it.
        """
        if target.resource.kind.namespaced:
            await self._core.namespaces.require(target.namespace)

    async def _explained(self, error: ApiError, message: AnyObject) -> ApiError:
        """Return a creation's error, extended if the existing object is being deleted."""
        if error.reason == "INVALID":
            return admission_error(error)
        if error.reason != "ALREADY_EXISTS" or error.about is None:
            return error
        kind, name = error.about
        known = self._core.cache.get(kind, local_key(kind, message.metadata.namespace, name))
        if known is not None and known.message.metadata.HasField("deletion_timestamp"):
            error.message = f"object is being deleted: {error.message}"
        return error

    # ------------------------------------------------------------------ update

    async def update(self, target: Target, request: Request) -> Answer:
        """Replace an object, and answer with the result."""
        resource = target.resource
        form = _form(request)
        level = validation_of(request, "UpdateOptions")
        dry = asks_dry_run(request, "UpdateOptions")
        manager = Manager(manager_of(request, "UpdateOptions"), "Update", target.subresource)
        verb, kind = "update", resource.kind
        rights().check(verb, kind, target.namespace, target.name, target.subresource)
        turn = Turn()
        decoded = await _body_of(request, resource, level, turn)
        check_replacement(target, decoded.message)
        await turn.pause()
        uid = decoded.message.metadata.uid

        def make(entry: Entry) -> AnyObject:
            if uid and uid != entry.message.metadata.uid:
                raise uid_mismatch(target, uid, entry.message.metadata.uid)
            check_version(target, decoded.message)
            message = copy_of(decoded.message)
            check_event(target, message, entry.message)
            message = _own_part(target, message, entry)
            set_kubelet_defaults(message, entry.message)
            keep_absent(resource.kind, message, entry.message)
            return managed(resource, entry, message, manager)

        before = await made_before(self._core.cache, target, len(request.body), make)

        def create() -> Awaitable[Entry]:
            return self._created(target, copy_of(decoded.message), dry)

        by_update = create if kind.name in _CREATED_BY_UPDATE else None
        entry, status = await self._stored(target, verb, before, dry, by_update)
        add_warnings(*decoded.warnings)
        await turn.wait()
        return self._reading.shown(target, entry, form, request, status)

    async def _created(self, target: Target, message: AnyObject, dry: bool) -> Entry:
        """Create the object of an update that has found none. Raises ApiError."""
        if message.metadata.uid:
            raise uid_mismatch(target, message.metadata.uid, "")
        rights().check("create", target.resource.kind, target.namespace)
        message.metadata.resource_version = ""
        check_new(target, message)
        check_event(target, message)
        await self._check_namespace(target)
        return await self._core.creator.create(message, dry_run=dry, of_kubernetes=True)

    async def _rewritten(self, target: Target, verb: str, make: Make, dry: bool) -> Entry:
        kind, subresource = target.resource.kind, target.subresource
        change = Rewrite(kind, target.namespace, target.name, verb, subresource, make, dry)
        try:
            return await self._core.rewriter.rewrite(change)
        except ApiError as error:
            raise update_error(error) from None

    async def _stored(
        self,
        target: Target,
        verb: str,
        make: Make,
        dry: bool,
        create: Callable[[], Awaitable[Entry]] | None,
    ) -> tuple[Entry, int]:
        """Rewrite an object, or create it if there is none; return it and the answer's status."""
        try:
            return await self._rewritten(target, verb, make, dry), 200
        except ApiError as error:
            if error.reason != "NOT_FOUND" or target.subresource or create is None:
                raise
        try:
            return await create(), 201
        except ApiError as error:
            if error.reason != "ALREADY_EXISTS":
                raise
        # Another request has created it since.
        return await self._rewritten(target, verb, make, dry), 200

    # ------------------------------------------------------------------ patch

    async def patch(self, target: Target, request: Request) -> Answer:
        """Patch or apply an object, and answer with the result."""
        resource = target.resource
        form = _form(request)
        level = validation_of(request, "PatchOptions")
        dry = asks_dry_run(request, "PatchOptions")
        named = manager_of(request, "PatchOptions")
        kind = patch_type(request)
        check_patch_options(request, apply=kind == APPLY)
        operation = "Apply" if kind == APPLY else "Update"
        manager = Manager(named, operation, target.subresource)
        rights().check("patch", resource.kind, target.namespace, target.name, target.subresource)
        if kind == APPLY:
            return await self._apply(target, request, manager, level, dry)
        turn = Turn()
        size = len(request.body)
        change = await apart(size, patched_content, kind, request.body, resource.kind.name)
        await turn.pause()
        warnings: list[str] = []

        def make(entry: Entry) -> AnyObject:
            content = change(typed(resource, patchable(resource, entry)))
            message = _patched(target, entry, content, level, warnings)
            return managed(resource, entry, message, manager)

        before = await made_before(self._core.cache, target, effort_of(kind, request.body), make)
        entry = await self._rewritten(target, "patch", before, dry)
        add_warnings(*warnings)
        await turn.wait()
        return self._reading.shown(target, entry, form, request)

    async def _apply(
        self, target: Target, request: Request, manager: Manager, level: str, dry: bool
    ) -> Answer:
        """Apply a configuration (server-side apply), creating the object if it does not exist."""
        resource = target.resource
        turn = Turn()
        size = len(request.body)
        config = await apart(size, applied_config, target, request)
        await turn.pause()
        given = await apart(size, read_object, resource, config, (), level)
        config, empty = await apart(size, normalized, resource, config)
        await turn.pause()
        force = flag(request.query, "force")
        version, kind = resource.api_version, resource.kind.name
        apply = partial(applied, force=force, version=version, kind=kind, empty=empty)

        def make(entry: Entry) -> AnyObject:
            live = patchable(resource, entry)
            content = apply(live, config, manager)
            # The object has no unknown fields but those of the configuration.
            return _patched(target, entry, content, "Ignore", [])

        before = await made_before(self._core.cache, target, size, make)

        def create() -> Awaitable[Entry]:
            return self._apply_new(target, config, manager, dry, size)

        entry, status = await self._stored(target, "patch", before, dry, create)
        add_warnings(*given.warnings)
        await turn.wait()
        return self._reading.shown(target, entry, _form(request), request, status)

    async def _apply_new(
        self, target: Target, config: Mapping[str, Any], manager: Manager, dry: bool, size: int
    ) -> Entry:
        if uid := config["metadata"].get("uid"):
            # It was about an object that is gone, and must not bring it back.
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object"
            raise errors.conflict(target.resource.kind, target.name, f"{why} was found")
        rights().check("create", target.resource.kind, target.namespace)
        await self._check_namespace(target)
        version, kind = target.resource.api_version, target.resource.kind.name
        apply = partial(applied, force=True, version=version, kind=kind)
        content = await apart(size, apply, {"metadata": {}}, config, manager)
        decoded = await apart(size, read_object, target.resource, content, (), "Warn")
        check_namespace(target, decoded.message)
        check_event(target, decoded.message)
        set_kubelet_defaults(decoded.message)
        return await self._core.creator.create(decoded.message, dry_run=dry, of_kubernetes=True)


def _patched(
    target: Target, entry: Entry, content: Mapping[str, Any], level: str, warnings: list[str]
) -> AnyObject:
    """Decode and check the object that a patch results in. Raises ApiError."""
    message = read_patched(target.resource, content, level, warnings)
    check_identity(target, message, entry)
    check_event(target, message, entry.message)
    message = _own_part(target, message, entry)
    set_kubelet_defaults(message, entry.message)
    keep_absent(target.resource.kind, message, entry.message)
    return message


async def _body_of(request: Request, resource: Resource, level: str, turn: Turn) -> Decoded:
    """Return the object in the body of a request. Raises ApiError."""
    kind = resource.kind.name
    content, doubled = await parsed_body(request, kind)
    check_kind(content, kind, (resource.api_version,))
    await turn.pause()
    return await apart(len(request.body), read_object, resource, content, doubled, level)


def _own_part(target: Target, message: AnyObject, entry: Entry) -> AnyObject:
    """Return the replacement, limited to the part of a pod that the subresource changes."""
    if target.subresource in POD_PARTS and isinstance(message, Pod):
        return with_part(cast(Pod, entry.message), message, target.subresource)
    return message


def _form(request: Request) -> Form:
    return form_of(request.headers.get("accept"), Form.TABLE, Form.PARTIAL)
