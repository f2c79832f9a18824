"""Answers SelfSubjectReview, SelfSubjectAccessReview and SelfSubjectRulesReview in the REST API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podsched.serve.server.access.reviews import Reviews
from podsched.serve.server.access.rights import rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest.bodies import check_kind, parsed
from podsched.serve.server.rest.failures import method_not_allowed
from podsched.serve.server.rest.messages import Answer, Request, encode
from podsched.v1 import api_pb2 as v1

#: The kinds by (group, version) and plural. They are answered to a create and never stored.
REVIEWS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("authentication.k8s.io", "v1"): {"selfsubjectreviews": "SelfSubjectReview"},
    ("authorization.k8s.io", "v1"): {
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    },
}


class SelfReviews:
    """Answers reviews of the caller."""

    def __init__(self, core: ServerCore) -> None:
        self._reviews = Reviews(core.authorizer)

    def answer(self, request: Request, segments: Sequence[str]) -> Answer | None:
        """Answer a review; None for any other path. Raises ApiError."""
        if len(segments) != 4 or segments[0] != "apis":
            return None
        group, version, plural = segments[1:]
        kind = REVIEWS.get((group, version), {}).get(plural)
        if kind is None:
            return None
        if request.method != "POST":
            raise method_not_allowed()
        content, _ = parsed(request, request.body, kind)
        check_kind(content, kind, (f"{group}/{version}",))
        spec = content.get("spec")
        status = self._status(kind, spec if isinstance(spec, dict) else {})
        shown = {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}}
        if kind != "SelfSubjectReview":
            shown["spec"] = spec or {}
        return Answer(encode({**shown, "status": status}), 201)

    def _status(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        if kind == "SelfSubjectReview":
            found = self._reviews.self_subject()
            return {"userInfo": {"username": found.username, "groups": list(found.groups)}}
        if kind == "SelfSubjectRulesReview":
            return self._rules(str(spec.get("namespace") or ""))
        return self._access(spec)

    def _access(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        path = spec.get("nonResourceAttributes")
        if isinstance(path, dict):
            return _path_access(str(path.get("verb") or ""), str(path.get("path") or ""))
        asked = spec.get("resourceAttributes")
        if not isinstance(asked, dict):
            asked = {}
        group, resource = str(asked.get("group") or ""), str(asked.get("resource") or "")
        if asked.get("subresource"):
            resource = f"{resource}/{asked['subresource']}"
        namespace, name = str(asked.get("namespace") or ""), str(asked.get("name") or "")
        verb = str(asked.get("verb") or "")
        allowed = rights().permit(verb, group, resource, namespace, name)
        return {"allowed": allowed}

    def _rules(self, namespace: str) -> dict[str, Any]:
        found = self._reviews.rules(v1.SubjectRulesReviewRequest(namespace=namespace)).rules
        about_resources = [
            {
                "verbs": list(rule.verbs),
                "apiGroups": list(rule.api_groups),
                "resources": list(rule.resources),
                **({"resourceNames": list(rule.resource_names)} if rule.resource_names else {}),
            }
            for rule in found
            if rule.resources
        ]
        about_paths = [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)}
            for rule in found
            if rule.non_resource_urls
        ]
        return {
            "resourceRules": about_resources,
            "nonResourceRules": about_paths,
            "incomplete": False,
        }


def _path_access(verb: str, path: str) -> dict[str, Any]:
    try:
        rights().check_path(verb, path)
    except ApiError:
        return {"allowed": False}
    return {"allowed": True}
