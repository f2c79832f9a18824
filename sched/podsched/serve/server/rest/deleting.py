"""Reads the DeleteOptions of a request, from the body or, if there is none, from the query."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from podsched.api.kinds import Kind
from podsched.serve.server.call_warnings import add_warnings
from podsched.serve.server.errors import Violation
from podsched.serve.server.rest.bodies import dry_run, parsed
from podsched.serve.server.rest.failures import bad_request, failed_options
from podsched.serve.server.rest.messages import Request
from podsched.serve.server.rest.options import flag, is_version, number
from podsched.v1 import api_pb2 as v1

_POLICIES: Final = ("Foreground", "Background", "Orphan")
_OPTIONS: Final = "DeleteOptions"
#: Source: pkg/registry/batch/job/storage, v1.36. Only jobs of batch/v1 have this default.
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
    def of(cls, request: Request) -> DeleteOptions:
        """Read the options of a request. Raises ApiError."""
        raw = request.body
        if not raw.strip():
            return cls._of_query(request)
        content, _ = parsed(request, raw, _OPTIONS)
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
            "dryRun": [*request.dry_run],
        }
        if "orphanDependents" in query:
            found["orphanDependents"] = flag(query, "orphanDependents")
        return options_of(found)

    def for_kind(self, kind: Kind) -> DeleteOptions:
        """Return the options with the default of a kind; a Job keeps its pods, with a warning."""
        if kind.name != "Job" or self.policy:
            return self
        add_warnings(_JOBS_KEEP_PODS)
        return replace(self, policy="Orphan")

    def fill(self, request: v1.DeleteRequest | v1.DeleteCollectionRequest) -> None:
        """Set the fields that both kinds of deletion requests have."""
        if self.grace is not None:
            # A negative grace period is taken as one second.
            request.grace_period_seconds = self.grace if self.grace >= 0 else 1
        request.propagation_policy = self.policy
        if isinstance(request, v1.DeleteRequest):
            request.preconditions.uid = self.uid
            request.preconditions.resource_version = self.version


def options_of(content: dict[str, Any]) -> DeleteOptions:
    """Return the options that JSON describes. Raises RestError."""
    found = content.get("preconditions") or {}
    grace, policy = content.get("gracePeriodSeconds"), content.get("propagationPolicy") or ""
    values = content.get("dryRun") or []
    good = (
        isinstance(found, dict)
        and (grace is None or type(grace) is int)
        and isinstance(policy, str)
        and isinstance(values, list)
    )
    if not good:
        text = json.dumps(content)[:200]
        raise bad_request(f"json: cannot unmarshal {text} into Go value of type v1.DeleteOptions")
    orphan = content.get("orphanDependents")
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
