"""Answers the verbs delete and deletecollection of the REST API.

Their DeleteOptions are in the body of a request or, if there is none, in the query.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from podsched.api.etcd_keys import local_key
from podsched.api.kinds import Kind
from podsched.api.owners import FOREGROUND_FINALIZER
from podsched.serve.server.access.rights import rights
from podsched.serve.server.call_warnings import add_warnings
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError, Violation
from podsched.serve.server.rest.bodies import dry_run
from podsched.serve.server.rest.checks import deletion_error
from podsched.serve.server.rest.failures import SUCCESS, about, bad_request, failed_options
from podsched.serve.server.rest.large_bodies import parsed_body
from podsched.serve.server.rest.media import Form, form_of
from podsched.serve.server.rest.messages import DRY_RUN, Answer, Request, encode
from podsched.serve.server.rest.options import LARGEST, ListOptions, flag, is_version, number
from podsched.serve.server.rest.reading import Reading
from podsched.serve.server.rest.routes import Target
from podsched.v1 import api_pb2 as v1

_POLICIES: Final = ("Foreground", "Background", "Orphan")
_OPTIONS: Final = "DeleteOptions"
#: Kinds that keep their pods by default: DefaultGarbageCollectionPolicy of Kubernetes' strategies.
_KEEP_PODS: Final = ("Job", "ReplicationController")
#: Source: pkg/registry/batch/job/storage, v1.36.
_JOBS_KEEP_PODS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete. grace: seconds, None: the object's own; version: 0 matches any."""

    grace: int | None = None
    uid: str = ""
    version: int = 0
    policy: str = ""
    dry_run: bool = False

    @classmethod
    async def of(cls, request: Request) -> DeleteOptions:
        """Read the options of a request. Raises ApiError."""
        if not request.body.strip():
            return cls._of_query(request)
        content, _ = await parsed_body(request, _OPTIONS)
        if not isinstance(content, dict):
            raise bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
        # As in Kubernetes, a body makes the query ignored, even its dryRun.
        return options_of(content)

    @classmethod
    def _of_query(cls, request: Request) -> DeleteOptions:
        query = request.query
        found: dict[str, Any] = {
            "gracePeriodSeconds": number(query, "gracePeriodSeconds"),
            "propagationPolicy": query.get("propagationPolicy"),
            DRY_RUN: [*request.values.get(DRY_RUN, ())],
        }
        if "orphanDependents" in query:
            found["orphanDependents"] = flag(query, "orphanDependents")
        return options_of(found)

    def for_kind(self, kind: Kind) -> DeleteOptions:
        """Return the options with the default of a kind; a Job keeps its pods with a warning."""
        if kind.name not in _KEEP_PODS or self.policy:
            return self
        if kind.name == "Job":
            add_warnings(_JOBS_KEEP_PODS)
        return replace(self, policy="Orphan")

    def fill(self, request: v1.DeleteRequest) -> None:
        """Set the fields of a request."""
        if self.grace is not None:
            # A negative grace period is taken as one second.
            request.grace_period_seconds = self.grace if self.grace >= 0 else 1
        request.propagation_policy = self.policy
        request.preconditions.uid = self.uid
        request.preconditions.resource_version = self.version


def options_of(content: dict[str, Any]) -> DeleteOptions:
    """Return the options that JSON describes. Raises RestError."""
    found = content.get("preconditions") or {}
    grace, policy = content.get("gracePeriodSeconds"), content.get("propagationPolicy") or ""
    values, orphan = content.get("dryRun") or [], content.get("orphanDependents")
    good = (
        isinstance(found, dict)
        and (grace is None or (type(grace) is int and -LARGEST <= grace <= LARGEST))
        and isinstance(policy, str)
        and isinstance(values, list)
        and (orphan is None or isinstance(orphan, bool))
    )
    if not good:
        text = json.dumps(content)[:200]
        raise bad_request(f"json: cannot unmarshal {text} into Go value of type v1.DeleteOptions")
    _check_policy(policy, orphan)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    version = str(found.get("resourceVersion") or "0")
    return DeleteOptions(
        grace=grace,
        uid=str(found.get("uid") or ""),
        version=int(version) if is_version(version) else -1,
        policy=policy,
        dry_run=dry_run([str(value) for value in values], _OPTIONS),
    )


def _check_policy(policy: str, orphan: Any) -> None:
    problems = []
    if policy and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        text = f'Invalid value: "{policy}": {why}'
        problems.append(Violation("propagationPolicy", text, "Invalid value"))
    if policy and policy not in _POLICIES:
        supported = '"Foreground", "Background", "Orphan", "nil"'
        text = f'Unsupported value: "{policy}": supported values: {supported}'
        problems.append(Violation("propagationPolicy", text, "Unsupported value"))
    if problems:
        raise failed_options(_OPTIONS, *problems)


def _deletes_dependents(entry: Entry | None) -> bool:
    """Return whether an earlier deletion waits for the dependents: no default changes that."""
    return entry is not None and FOREGROUND_FINALIZER in entry.message.metadata.finalizers


class Deleting:
    """Answers deletions. Methods raise ApiError."""

    def __init__(self, core: ServerCore, reading: Reading) -> None:
        self._core = core
        self._reading = reading

    async def delete(self, target: Target, request: Request) -> Answer:
        """Delete an object; answer with it, or with a ``Status`` that names it."""
        resource = target.resource
        form = form_of(request.headers.get("accept"), Form.TABLE, Form.PARTIAL)
        kind = resource.kind
        rights().check("delete", kind, target.namespace, target.name)
        asked = await DeleteOptions.of(request)
        options = asked.for_kind(kind)
        known = self._core.cache.get(kind, local_key(kind, target.namespace, target.name))
        wanted = v1.DeleteRequest(kind=kind.name, namespace=target.namespace, name=target.name)
        (asked if _deletes_dependents(known) else options).fill(wanted)
        try:
            entry = await self._core.deleter.delete_in_two_steps(wanted, dry_run=options.dry_run)
        except ApiError as error:
            raise deletion_error(error) from None
        if kind.answers_deletion or entry.message.metadata.finalizers:
            return self._reading.shown(target, entry, form, request)
        details = {**about(kind, target.name), "uid": entry.message.metadata.uid}
        return Answer(encode({**SUCCESS, "details": details}))

    async def delete_collection(self, target: Target, request: Request) -> Answer:
        """Delete the selected objects, and answer with the list of them as they were before."""
        resource = target.resource
        rights().check("deletecollection", resource.kind, target.namespace)
        query = ListOptions.of(request.query)
        asked = await DeleteOptions.of(request)
        options = asked.for_kind(resource.kind)
        page = await self._reading.page(target, query, "deletecollection")
        for entry in page.entries:
            one = v1.DeleteRequest(kind=resource.kind.name)
            one.namespace, _, one.name = entry.key.rpartition("/")
            (asked if _deletes_dependents(entry) else options).fill(one)
            try:
                # The right to delete the collection includes each of its objects.
                await self._core.deleter.delete_in_two_steps(one, dry_run=options.dry_run)
            except ApiError as error:
                if error.reason != "NOT_FOUND":  # it no longer exists
                    raise
        return await self._reading.listed(target, page, Form.OBJECT, request)
