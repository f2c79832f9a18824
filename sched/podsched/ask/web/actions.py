"""What the page can do to the cluster, each as one request of Kubernetes' REST API.

The names come from the page, so they are checked before they become part of a path.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

#: What Kubernetes allows in a name that stands in a path.
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON: Final = "application/json"


class Act(NamedTuple):
    """A request. content_type: of the body."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = _JSON


def act(verb: str, name: str) -> Act | None:
    """Return what a verb does: cordon, uncordon NODE; delete NAMESPACE/POD. None: nothing known."""
    parts = name.split("/")
    if not all(_NAME.fullmatch(part) for part in parts):
        return None
    match verb, parts:
        case (("cordon" | "uncordon"), [node]):
            patch = {"spec": {"unschedulable": True if verb == "cordon" else None}}
            body = json.dumps(patch).encode()
            return Act("PATCH", f"/api/v1/nodes/{node}", body, _MERGE_PATCH)
        case "delete", [namespace, pod]:
            return Act("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}")
    return None


def review(verb: str, resource: str, subresource: str = "") -> Act:
    """Return the question whether the caller may do something, in all namespaces."""
    asked = {"verb": verb, "resource": resource, "subresource": subresource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return Act("POST", path, json.dumps(body).encode())
