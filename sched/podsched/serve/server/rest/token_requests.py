"""Answers the subresource ``token`` of ServiceAccounts, and OpenID Connect discovery.

Source: pkg/registry/core/serviceaccount/storage/token.go of Kubernetes v1.36. Neither a request nor
its answer is written to the audit log or another log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from podsched.api import codec
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS
from podsched.api.objects import (
    AnyObject,
    CSIDriver,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ServiceAccount,
)
from podsched.api.pod_references import references, token_audiences
from podsched.serve.server import errors
from podsched.serve.server.access.rights import rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError, Violation
from podsched.serve.server.rest.bodies import asks_dry_run, check_kind, member
from podsched.serve.server.rest.failures import (
    RestError,
    bad_request,
    causes_of,
    check_method,
    no_such_resource,
)
from podsched.serve.server.rest.large_bodies import parsed_body
from podsched.serve.server.rest.messages import Answer, Request, encode
from podsched.serve.server.rest.routes import Target
from podsched.serve.server.watchcache import WatchCache

if TYPE_CHECKING:
    from podsched.serve.server.access.service_accounts import Bound, ServiceAccountTokens

GROUP: Final = "authentication.k8s.io"
_VERSION: Final = f"{GROUP}/v1"
_KIND: Final = "TokenRequest"
#: Kubernetes' default and bounds of a token's life, in seconds.
_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS, _MOST_SECONDS = 600, 1 << 32
_MOST_AUDIENCES, _LONGEST_AUDIENCE = 64, 1024
_DISCOVERY: Final = [".well-known", "openid-configuration"]
_KEY_SET: Final = ["openid", "v1", "jwks"]
_UID_MISMATCH: Final = (
    "the UID in the bound object reference ({asked}) does not match the UID in record. "
    "The object might have been deleted and then recreated"
)


class TokenRequests:
    """Creates tokens of ServiceAccounts. Methods raise ApiError.

    tokens: None if the server has no key to sign them with.
    """

    def __init__(self, core: ServerCore, tokens: ServiceAccountTokens | None) -> None:
        self._core = core
        self._tokens = tokens

    async def create(self, target: Target, request: Request) -> Answer:
        """Answer a TokenRequest with a new token."""
        if self._tokens is None:
            raise no_such_resource()
        kind, namespace, name = target.resource.kind, target.namespace, target.name
        rights().check("create", kind, namespace, name, "token")
        dry = asks_dry_run(request, "CreateOptions")
        content, _ = await parsed_body(request, _KIND)
        check_kind(content, _KIND, (_VERSION,))
        metadata, spec = member(content, "metadata"), member(content, "spec")
        for field, wanted in (("name", name), ("namespace", namespace)):
            if metadata.get(field) not in (None, "", wanted):
                what = f"must match the service account {field} if specified"
                given = str(metadata[field])[:100]
                raise _invalid(name, f"metadata.{field}", f'"{given}": {what}')
        account = cast(ServiceAccount, await self._stored("ServiceAccount", namespace, name))
        audiences = _audiences(spec) or list(self._tokens.audiences)
        seconds = _seconds(spec)
        reference = member(spec, "boundObjectRef")
        bound = await self._bound(namespace, name, reference) if reference else []
        own = rights().node
        if own is not None:
            pod = None
            if bound and bound[0].claim == "pod":
                pod = cast(Pod, await self._stored("Pod", namespace, bound[0].name))
            named = _named_audiences(self._core.cache, pod) if pod is not None else set[str]()
            own.check_token(kind, name, reference, pod, _audiences(spec), named)
        now = int(self._tokens.now())
        token = "" if dry else self._tokens.issue(account, audiences, seconds, *bound)
        answer = {
            "kind": _KIND,
            "apiVersion": _VERSION,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": account.metadata.uid,
                "creationTimestamp": codec.format_seconds(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                **({"boundObjectRef": reference} if reference else {}),
            },
            "status": {"token": token, "expirationTimestamp": codec.format_seconds(now + seconds)},
        }
        return Answer(encode(answer), 201)

    async def _bound(
        self, namespace: str, account: str, reference: Mapping[str, Any]
    ) -> list[Bound]:
        """Return what a token is bound to; a pod's node is added, to be seen in the token."""
        # Only servers with a signing key import its library.
        from podsched.serve.server.access.service_accounts import Bound

        kind, version = str(reference.get("kind") or ""), str(reference.get("apiVersion") or "")
        name, uid = str(reference.get("name") or ""), str(reference.get("uid") or "")
        if kind not in ("Pod", "Secret", "Node") or version not in ("", "v1"):
            shown = f"{version[:100] or 'v1'}, Kind={kind[:100]}"
            raise bad_request(f"cannot bind token to object of type {shown}")
        item = await self._stored(kind, namespace, name)
        bound = [Bound(kind.lower(), name, item.metadata.uid)]
        if isinstance(item, Pod):
            if (item.spec.service_account_name or "default") != account:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{account}" to pod running with '
                    "different serviceaccount name."
                )
            if item.spec.node_name:
                node = self._core.cache.get(KINDS["Node"], item.spec.node_name)
                known = cast(Node, node.message).metadata.uid if node is not None else ""
                bound.append(Bound("node", item.spec.node_name, known))
        if uid and uid != item.metadata.uid:
            raise errors.conflict(KINDS[kind], name, _UID_MISMATCH.format(asked=uid[:100]))
        return bound

    async def _stored(self, kind: str, namespace: str, name: str) -> AnyObject:
        """Return an object that a token is for; the right to ``token`` is enough."""
        if not name:
            raise bad_request("spec.boundObjectRef.name: Required value")
        return await self._core.storage.message(KINDS[kind], namespace, name)

    # ------------------------------------------------------------------ discovery

    def discovery(self, request: Request, segments: Sequence[str]) -> Answer | None:
        """Answer OpenID Connect discovery; None for any other path."""
        if self._tokens is None or segments not in (_DISCOVERY, _KEY_SET):
            return None
        check_method(request, "GET", "HEAD")
        rights().check_path("get", "/" + "/".join(segments))
        keys = self._tokens.keys.jwks()
        if segments == _KEY_SET:
            return Answer(encode(keys), content_type="application/jwk-set+json")
        issuer = self._tokens.issuer
        return Answer(
            encode(
                {
                    "issuer": issuer,
                    "jwks_uri": f"{issuer.rstrip('/')}/openid/v1/jwks",
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": sorted(
                        {key["alg"] for key in keys["keys"]}
                    ),
                }
            )
        )


def _named_audiences(cache: WatchCache, pod: Pod) -> set[str]:
    """Return the audiences that a pod's volumes name, or the CSI drivers of its volumes."""
    found = token_audiences(pod)
    for name in _drivers(cache, pod):
        driver = cache.message(KINDS["CSIDriver"], name, CSIDriver)
        for asked in driver.spec.token_requests if driver is not None else ():
            found.add(str(codec.object_json(asked).get("audience") or ""))
    return found


def _drivers(cache: WatchCache, pod: Pod) -> set[str]:
    """Return the CSI drivers of a pod's volumes, of its claims too."""
    found = {volume.csi.driver for volume in pod.spec.volumes}
    for kind, name in references(pod):
        if kind == "PersistentVolumeClaim":
            key = local_key(KINDS[kind], pod.metadata.namespace, name)
            claim = cache.message(KINDS[kind], key, PersistentVolumeClaim)
            bound = claim.spec.volume_name if claim is not None else ""
            volume = cache.message(KINDS["PersistentVolume"], bound, PersistentVolume)
            found.add(volume.spec.csi.driver if volume is not None else "")
    return found


def _audiences(spec: Mapping[str, Any]) -> list[str]:
    found = spec.get("audiences") or []
    good = isinstance(found, list) and all(isinstance(item, str) for item in found)
    if not good:
        raise bad_request("spec.audiences: a list of strings was expected")
    if len(found) > _MOST_AUDIENCES or any(len(item) > _LONGEST_AUDIENCE for item in found):
        raise bad_request(
            f"spec.audiences: at most {_MOST_AUDIENCES} of {_LONGEST_AUDIENCE} characters"
        )
    return list(found)


def _seconds(spec: Mapping[str, Any]) -> int:
    found = spec.get("expirationSeconds")
    if found is None:
        return _DEFAULT_SECONDS
    if type(found) is not int:
        raise bad_request("spec.expirationSeconds: a whole number was expected")
    path = "spec.expirationSeconds"
    if found < _LEAST_SECONDS:
        raise _invalid("", path, f"{found}: may not specify a duration less than 10 minutes")
    if found > _MOST_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
        raise _invalid("", path, f"{found}: {text}")
    return found


def _invalid(name: str, field: str, what: str) -> ApiError:
    violation = Violation(field, f"Invalid value: {what}", "Invalid value")
    text = f'{_KIND}.{GROUP} "{name}" is invalid: {field}: {violation.description}'
    details = {"group": GROUP, "kind": _KIND, "causes": causes_of([violation])}
    return RestError(422, "Invalid", text, {**({"name": name} if name else {}), **details})
