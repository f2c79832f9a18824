"""Answers reviews of identities and their rights, as Kubernetes' authorization.k8s.io does.

A review of another subject requires the verb ``impersonate`` on the users and groups in question.
"""

from __future__ import annotations

import math

from podsched.api.objects import PolicyRule
from podsched.serve.server import errors
from podsched.serve.server.access.authorizer import Authorizer
from podsched.serve.server.access.identity import AUTHENTICATED, Authentication, Identity, caller
from podsched.serve.server.access.impersonation import check_impersonation
from podsched.serve.server.access.rights import Rights, rights, scope_of
from podsched.serve.server.access.rules import ALL, Rule
from podsched.serve.server.scope import kind_named
from podsched.v1 import api_pb2 as v1

#: Max names of an identity that is reviewed, and characters of each: the caller chooses them.
MAX_GROUPS = 1000
_LONGEST_NAME = 1024


class Reviews:
    """Answers reviews. Methods raise ApiError."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def self_subject(self) -> v1.SelfSubjectReviewResponse:
        """Return the caller's identity."""
        identity, node = caller(), rights().node
        return v1.SelfSubjectReviewResponse(
            username=identity.user,
            groups=sorted(identity.groups),
            authentication=identity.how,
            expires=0.0 if math.isinf(identity.expires) else identity.expires,
            node=node.pattern if node is not None else "",
        )

    async def access(
        self, request: v1.SubjectAccessReviewRequest
    ) -> v1.SubjectAccessReviewResponse:
        """Return whether a subject may do one thing."""
        if not request.verb:
            raise errors.bad_request("verb must be specified", "verb")
        group, resource, namespace = ALL, ALL, request.namespace
        if request.resource != ALL:
            kind = kind_named(request.resource)
            group, resource = kind.group, kind.plural
            namespace = scope_of(request.verb, kind, namespace, request.name)
        if request.subresource:
            resource = f"{resource}/{request.subresource}"
        asked = self._rights_of(request.subject)
        await self._authorizer.prepare(asked)
        allowed = asked.permit(request.verb, group, resource, namespace, request.name)
        reason = ""
        if allowed and asked.node is not None:
            reason = f'write access is limited to node "{asked.node.pattern}" and what is its own'
        return v1.SubjectAccessReviewResponse(allowed=allowed, reason=reason)

    def rules(self, request: v1.SubjectRulesReviewRequest) -> v1.SubjectRulesReviewResponse:
        """Return all rules of a subject in a namespace."""
        asked = self._rights_of(request.subject)
        if asked.everything:
            every = PolicyRule(verbs=[ALL], api_groups=[ALL], resources=[ALL])
            return v1.SubjectRulesReviewResponse(rules=[every])
        found = asked.grants.rules_in(request.namespace)
        return v1.SubjectRulesReviewResponse(rules=[_message(rule) for rule in found])

    def _rights_of(self, subject: v1.ReviewedSubject) -> Rights:
        if not subject.username and not subject.groups:
            return rights()
        names = (subject.username, *subject.groups)
        if len(names) > MAX_GROUPS or any(len(name) > _LONGEST_NAME for name in names):
            raise errors.bad_request("names are too long or too many", "subject")
        user = subject.username or caller().user
        if subject.username:
            check_impersonation("", "users", "", subject.username)
        for group in subject.groups:
            check_impersonation("", "groups", "", group)
        groups = frozenset({*subject.groups, AUTHENTICATED})
        return self._authorizer.rights_of(Identity(user, groups, Authentication.NONE))


def _message(rule: Rule) -> PolicyRule:
    return PolicyRule(
        verbs=sorted(rule.verbs),
        api_groups=sorted(rule.groups),
        resources=sorted(rule.resources),
        resource_names=sorted(rule.names),
        non_resource_urls=sorted(rule.urls),
    )
