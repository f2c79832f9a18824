"""Answers Kubernetes' reviews in the REST API: who a caller is, and what a subject may do.

    SelfSubject...Review         of the caller itself; everyone may ask
    TokenReview                  of a bearer token
    SubjectAccessReview          of any user; kubelets and other servers ask about their callers
    LocalSubjectAccessReview     the same in one namespace

They are answered to a create and never stored. The token of a TokenReview is not in its answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from podsched.api.kinds import KINDS
from podsched.serve.server.access.authentication import Authenticator, CallAuthenticator
from podsched.serve.server.access.identity import Authentication, Identity, TokenRejected, caller
from podsched.serve.server.access.reviews import MAX_GROUPS, Reviews
from podsched.serve.server.access.rights import Rights, rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest.bodies import check_kind
from podsched.serve.server.rest.failures import RestError, bad_request, check_method
from podsched.serve.server.rest.large_bodies import parsed_body
from podsched.serve.server.rest.messages import Answer, Request, encode
from podsched.v1 import api_pb2 as v1

if TYPE_CHECKING:
    from podsched.serve.server.access.service_accounts import ServiceAccountTokens

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
#: The kinds by (group, version) and plural.
REVIEWS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    (AUTHENTICATION, "v1"): {
        "selfsubjectreviews": "SelfSubjectReview",
        "tokenreviews": "TokenReview",
    },
    (AUTHORIZATION, "v1"): {
        "localsubjectaccessreviews": "LocalSubjectAccessReview",
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
        "subjectaccessreviews": "SubjectAccessReview",
    },
}
#: The kinds that are created in a namespace.
NAMESPACED_REVIEWS: Final = frozenset({"LocalSubjectAccessReview"})
#: Of these a kubelet may list and watch its own alone.
_SELECTED: Final = {"pods": KINDS["Pod"], "nodes": KINDS["Node"]}
_LONGEST_NAME, _MOST_AUDIENCES = 1024, 64


class RestReviews:
    """Answers reviews; tokens: None if the server issues none."""

    def __init__(
        self, core: ServerCore, authenticate: Authenticator, tokens: ServiceAccountTokens | None
    ) -> None:
        self._reviews = Reviews(core.authorizer)
        self._authorizer = core.authorizer
        self._authenticate = authenticate
        self._tokens = tokens

    async def answer(self, request: Request, segments: Sequence[str]) -> Answer | None:
        """Answer a review; None for any other path. Raises ApiError."""
        found = _review(segments)
        if found is None:
            return None
        group, version, plural, namespace = found
        kind = REVIEWS[group, version][plural]
        check_method(request, "POST")
        if not kind.startswith("Self"):
            rights().check_resource(f"{plural}.{group}", "create", group, plural, namespace)
        content, _ = await parsed_body(request, kind)
        check_kind(content, kind, (f"{group}/{version}",))
        spec = content.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        status = await self._status(kind, spec, namespace)
        shown: dict[str, Any] = {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}}
        if kind != "SelfSubjectReview":
            shown["spec"] = {key: value for key, value in spec.items() if key != "token"}
        return Answer(encode({**shown, "status": status}), 201)

    async def _status(self, kind: str, spec: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        if kind == "SelfSubjectReview":
            return {"userInfo": _user_info(caller())}
        if kind == "TokenReview":
            return self._token(spec)
        if kind == "SelfSubjectRulesReview":
            return self._rules(str(spec.get("namespace") or ""))
        if kind == "SelfSubjectAccessReview":
            return _access(rights(), spec)
        if kind == "LocalSubjectAccessReview":
            attributes = spec.get("resourceAttributes")
            named = attributes.get("namespace") if isinstance(attributes, dict) else None
            if named != namespace:
                raise _invalid(kind, "spec.resourceAttributes.namespace", "must match metadata")
        asked = self._rights_of(kind, spec)
        await self._authorizer.prepare(asked)
        return _access(asked, spec)

    def _rights_of(self, kind: str, spec: Mapping[str, Any]) -> Rights:
        """Return the rights of the user in a review."""
        user, groups = spec.get("user") or "", spec.get("groups") or []
        good = isinstance(user, str) and isinstance(groups, list)
        if not good or not all(isinstance(group, str) for group in groups):
            raise bad_request("spec: user is a string, groups is a list of strings")
        if not user and not groups:
            raise _invalid(kind, "spec.user", "at least one of user or group must be specified")
        if len(groups) > MAX_GROUPS or any(len(name) > _LONGEST_NAME for name in (user, *groups)):
            raise bad_request("spec: names are too long or too many")
        identity = Identity(user, frozenset(groups), Authentication.NONE)
        return self._authorizer.rights_of(identity)

    def _token(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the status of a TokenReview."""
        token, asked = spec.get("token") or "", spec.get("audiences") or []
        if not isinstance(token, str) or not token:
            raise _invalid("TokenReview", "spec.token", "a token must be specified")
        good = isinstance(asked, list) and all(isinstance(item, str) for item in asked)
        if not good or len(asked) > _MOST_AUDIENCES:
            raise bad_request(f"spec.audiences: at most {_MOST_AUDIENCES} strings")
        try:
            return self._token_user(token, asked)
        except TokenRejected as rejected:
            return {"user": {}, "error": str(rejected)}

    def _token_user(self, token: str, asked: Sequence[str]) -> dict[str, Any]:
        """Return the user of a token that is valid for one of the audiences, by default this API's.

        Raises TokenRejected.
        """
        if not isinstance(self._authenticate, CallAuthenticator):
            raise TokenRejected("this server does not authenticate its callers")
        own = self._tokens.audiences if self._tokens is not None else ()
        identity = self._authenticate.of_token(token, asked)
        of_token: Sequence[str] = own
        if identity.how is Authentication.SERVICE_ACCOUNT and self._tokens is not None:
            of_token = self._tokens.audiences_of(token)
        audiences = [name for name in asked or own if name in of_token]
        if asked and not audiences:
            raise TokenRejected("the token is not for these audiences")
        shown = {"authenticated": True, "user": _user_info(identity)}
        return {**shown, "audiences": audiences} if audiences else shown

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


def _review(segments: Sequence[str]) -> tuple[str, str, str, str] | None:
    """Return group, version, plural and namespace of a review; None if a path is none."""
    namespace = ""
    if len(segments) == 6 and segments[3] == "namespaces":
        namespace, segments = segments[4], [*segments[:3], segments[5]]
    if len(segments) != 4 or segments[0] != "apis":
        return None
    group, version, plural = segments[1:]
    kind = REVIEWS.get((group, version), {}).get(plural)
    if kind is None or bool(namespace) != (kind in NAMESPACED_REVIEWS):
        return None
    return group, version, plural, namespace


def _user_info(identity: Identity) -> dict[str, Any]:
    """Return an identity as ``UserInfo``."""
    shown = {
        "username": identity.user,
        "uid": identity.uid,
        "groups": sorted(identity.groups),
        "extra": identity.extra_by_key(),
    }
    return {key: value for key, value in shown.items() if value}


def _access(asked: Rights, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a review of a subject's rights."""
    path = spec.get("nonResourceAttributes")
    if isinstance(path, dict):
        verb = str(path.get("verb") or "")
        return {"allowed": asked.permit_path(verb, str(path.get("path") or ""))}
    attributes = spec.get("resourceAttributes")
    if not isinstance(attributes, dict):
        attributes = {}
    group, resource = str(attributes.get("group") or ""), str(attributes.get("resource") or "")
    if attributes.get("subresource"):
        resource = f"{resource}/{attributes['subresource']}"
    namespace, name = str(attributes.get("namespace") or ""), str(attributes.get("name") or "")
    verb = str(attributes.get("verb") or "")
    allowed = asked.permit(verb, group, resource, namespace, name)
    kind = _SELECTED.get(resource) if not group and verb in ("list", "watch") else None
    if allowed and kind is not None and asked.node is not None:
        try:
            asked.node.check_selection(kind, _fields(attributes, name))
        except ApiError as error:
            return {"allowed": False, "reason": error.message}
    return {"allowed": allowed}


def _fields(attributes: Mapping[str, Any], name: str) -> str:
    """Return the field selector of a review as text, as far as it asks for single values."""
    given = attributes.get("fieldSelector")
    found = given if isinstance(given, dict) else {}
    raw, required = found.get("rawSelector"), found.get("requirements")
    terms = [f"metadata.name={name}"] if name else []
    terms += [raw] if isinstance(raw, str) and raw else []
    for one in required if isinstance(required, list) else ():
        values = one.get("values") if isinstance(one, dict) and one.get("operator") == "In" else ()
        if isinstance(values, list) and len(values) == 1:
            terms.append(f"{one.get('key')}={values[0]}")
    return ",".join(terms)


def _invalid(kind: str, field: str, why: str) -> ApiError:
    group = AUTHENTICATION if kind == "TokenReview" else AUTHORIZATION
    text = f'{kind}.{group} "" is invalid: {field}: Invalid value: "": {why}'
    return RestError(422, "Invalid", text, {"group": group, "kind": kind})
