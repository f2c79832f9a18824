"""Approves and signs the certificates that kubelets request, and removes old requests.

    signer                                    approved at once                        usages
    kubernetes.io/kube-apiserver-client-      if the requester has the right          client auth
      kubelet                                 ``nodeclient``, or ``selfnodeclient``
                                              for its own name
    kubernetes.io/kubelet-serving             if a kubelet requests its own node's    server auth
                                              name and addresses, no other node's

Other requests wait for ``kubectl certificate approve``; these two signers sign whatever is
approved and has the form of a kubelet's certificate. A bootstrap token that was made for one node
gets a certificate for this node alone.

Kubernetes' controllers approve no serving certificate: a kubelet says itself which addresses it
has. Here they are signed by an authority that only API servers trust, and only for kubelets, so a
wrong address is of no use elsewhere. Without such an authority they wait, too. Source:
pkg/controller/certificates, v1.36.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, CertificateSigningRequest, Node, seconds_of, timestamp
from podsched.api.reasons import StatusCode
from podsched.api.validation.certificates import APPROVED, DENIED, FAILED
from podsched.lib.certificate_error import CertificateError
from podsched.lib.certificates import (
    CLIENT,
    SERVER,
    Pair,
    SigningRequest,
    certify_request,
    read_pair,
    read_signing_request,
)
from podsched.lib.event_loop import Turn
from podsched.lib.network import is_ip_address
from podsched.lib.remembering import remember_short
from podsched.serve.server.access.authorizer import Authorizer
from podsched.serve.server.access.bootstrap_tokens import (
    BOUND_NODE,
    SECRET_NAMESPACE,
    SECRET_PREFIX,
    USER_PREFIX,
    has_expired,
)
from podsched.serve.server.access.identity import NODES, Authentication, Identity
from podsched.serve.server.access.nodes import USER_PREFIX as NODE_PREFIX
from podsched.serve.server.access.settings import SigningSettings
from podsched.serve.server.admission import encoded
from podsched.serve.server.certificate_requests import (
    GROUP,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    MAX_REQUESTS,
    REQUESTS,
)
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.server.watchcache import WatchCache
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")
_NODE, _SECRET = KINDS["Node"], KINDS["Secret"]
#: What decides whether a request is approved at once.
_DECISIVE: Final = (REQUESTS, _NODE, _SECRET, KINDS["ClusterRole"], KINDS["ClusterRoleBinding"])
_TOKENS: Final = f"{SECRET_NAMESPACE}/{SECRET_PREFIX}"
_BOTH: Final = {"digital signature", "key encipherment"}
_USAGES: Final = {KUBELET_CLIENT: "client auth", KUBELET_SERVING: "server auth"}
_RESOURCE: Final = REQUESTS.plural
#: Min seconds between two rounds, and between two removals of old requests.
_COALESCE, _CLEAN_EVERY = 0.1, 60.0
#: Seconds for which a request stays after it was decided, and while it waits for a decision.
_DECIDED_SECONDS, _PENDING_SECONDS = 3600.0, 86_400.0
_APPROVING_REASON: Final = "AutoApproved"
#: Max characters of a request that is read only once; usual ones have up to 2,500.
_LONGEST_REQUEST: Final = 4096


class CertificateSigner:
    """Signs with the authorities in the settings. Raises CertificateError, OSError.

    now: Unix time in seconds.
    """

    def __init__(
        self,
        settings: SigningSettings,
        cache: WatchCache,
        storage: ObjectStorage,
        authorizer: Authorizer,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._storage = storage
        self._authorizer = authorizer
        self._now = now
        #: The names of the nodes at each address.
        self._nodes_at: dict[str, set[str]] = {}
        authority = _authority(settings.signing_cert, settings.signing_key)
        serving = authority
        if settings.serving_cert:
            serving = _authority(settings.serving_cert, settings.serving_key)
        self._authorities = {KUBELET_CLIENT: authority, KUBELET_SERVING: serving}

    async def run(self) -> None:
        """Handle requests until cancelled."""
        seen: tuple[int, ...] = ()
        cleaned = self._now()
        while True:
            # Before the look, so that a change during it ends the wait below.
            changed = self._cache.progress.next_change()
            # After a restore of etcd from a backup, other changes may have the same revisions.
            now = (self._cache.loads, *map(self._cache.last_change, _DECISIVE))
            if now != seen and (not self._cache.objects(REQUESTS) or await self.handle_all()):
                seen = now
            if self._now() - cleaned >= _CLEAN_EVERY:
                cleaned = self._now()
                await self.clean()
            await asyncio.sleep(_COALESCE)
            await asyncio.wait([changed], timeout=_CLEAN_EVERY)

    async def handle_all(self) -> bool:
        """Approve and sign what can be; return whether nothing has failed."""
        turn, good = Turn(), True
        waiting = [each for each in self._cache.objects(REQUESTS).values() if _waits(each.message)]
        if waiting:
            await self._read_addresses(turn)
        for entry in waiting:
            item = entry.message
            if isinstance(item, CertificateSigningRequest) and self._has_work(item):
                good = await self._change(entry, self._handled) and good
            if turn.is_over:
                await turn.give_way()
        return good

    async def _read_addresses(self, turn: Turn) -> None:
        """Read which nodes have which addresses."""
        found: dict[str, set[str]] = {}
        for entry in list(self._cache.objects(_NODE).values()):
            node = entry.message
            for item in node.status.addresses if isinstance(node, Node) else ():
                found.setdefault(item.address, set()).add(node.metadata.name)
            if turn.is_over:
                await turn.give_way()
        self._nodes_at = found

    async def clean(self) -> None:
        """Remove requests that were decided an hour ago, or were not for a day.

        Bootstrap tokens that have expired are removed too, as Kubernetes' token cleaner does.
        """
        now = self._now()
        for entry in list(self._cache.objects(_SECRET).values()):
            if entry.key.startswith(_TOKENS) and has_expired(entry.message, now):
                await self._remove(entry)
        for entry in list(self._cache.objects(REQUESTS).values()):
            item = entry.message
            if isinstance(item, CertificateSigningRequest) and _is_old(item, now):
                await self._remove(entry)

    async def _remove(self, entry: Entry) -> None:
        # Unless it has changed since the cache saw it: a token may have been renewed.
        await self._change(
            entry, lambda found: Step(None) if found.revision == entry.revision else None
        )

    async def _change(self, entry: Entry, change: Callable[[Entry], Step | None]) -> bool:
        try:
            await self._storage.mutate_one(Mutation(entry.kind, entry.key, change), None)
        except ApiError as error:
            if error.code is StatusCode.NOT_FOUND:
                return True
            _log.warning("A change is tried again", name=entry.key, error=error.message)
            return False
        return True

    def _has_work(self, item: CertificateSigningRequest) -> bool:
        approved = any(condition.type == APPROVED for condition in item.status.conditions)
        return _waits(item) and (approved or self._refusal(item) == "")

    def _handled(self, entry: Entry) -> Step | None:
        """Return the step that approves and signs a request; None if there is nothing to do."""
        item = entry.decode()
        assert isinstance(item, CertificateSigningRequest)
        if not self._has_work(item):
            return None
        if not any(condition.type == APPROVED for condition in item.status.conditions):
            text = "Auto approving the certificate of a kubelet after its requester was checked."
            _add_condition(item, self._now(), APPROVED, _APPROVING_REASON, text)
        try:
            certificate = self._signed(item)
        except CertificateError as error:
            _add_condition(item, self._now(), FAILED, "SignerValidationFailure", str(error))
        else:
            item.status.certificate = base64.b64encode(certificate).decode()
            _log.info(
                "Certificate of a kubelet signed",
                request=item.metadata.name,
                signer=item.spec.signer_name,
                requester=item.spec.username,
            )
        return Step(encoded(REQUESTS, item))

    def _signed(self, item: CertificateSigningRequest) -> bytes:
        """Return the certificate of an approved request. Raises CertificateError."""
        spec = item.spec
        pem = base64.b64decode(spec.request)
        if problem := _form_problem(spec.signer_name, read_signing_request(pem), {*spec.usages}):
            raise CertificateError(problem)
        usage = CLIENT if spec.signer_name == KUBELET_CLIENT else SERVER
        most = float(self._settings.signing_duration)
        wanted = float(spec.expiration_seconds) if spec.HasField("expiration_seconds") else most
        authority = self._authorities[spec.signer_name]
        return certify_request(authority, pem, (usage,), min(wanted, most))

    # ------------------------------------------------------------------ approval

    def _refusal(self, item: CertificateSigningRequest) -> str:
        """Return why a request is not approved at once, "" if it is."""
        spec = item.spec
        try:
            request = _read(spec.request)
        except (CertificateError, ValueError) as error:
            return str(error)
        if problem := _form_problem(spec.signer_name, request, {*spec.usages}):
            return problem
        if spec.signer_name == KUBELET_SERVING:
            return self._serving_refusal(item, request)
        own = spec.username == request.user
        identity = Identity(spec.username, frozenset(spec.groups), Authentication.NONE)
        try:
            rights = self._authorizer.rights_of(identity)
        except ApiError as error:
            return error.message
        if problem := self._token_problem(spec.username, request.user.removeprefix(NODE_PREFIX)):
            return problem
        asked = [f"{_RESOURCE}/nodeclient", *([f"{_RESOURCE}/selfnodeclient"] if own else [])]
        if any(rights.permit("create", GROUP, resource) for resource in asked):
            return ""
        return "the requester has no right to such a certificate"

    def _token_problem(self, user: str, node: str) -> str:
        """Return why a requester's bootstrap token is not for a node, "" if it is or has none."""
        if not user.startswith(USER_PREFIX):
            return ""
        entry = self._cache.get(_SECRET, f"{_TOKENS}{user.removeprefix(USER_PREFIX)}")
        if entry is None:
            # It may have been for another node: a refused request can outlive its token.
            return "the bootstrap token is gone"
        bound = entry.message.metadata.annotations.get(BOUND_NODE) or node
        return "" if bound == node else f"the bootstrap token is for node {bound}"

    def _serving_refusal(self, item: CertificateSigningRequest, request: SigningRequest) -> str:
        name = request.user.removeprefix(NODE_PREFIX)
        if len({pair.certificate for pair in self._authorities.values()}) == 1:
            # Clients of API servers trust it: a kubelet could pretend to be an API server.
            return "serving certificates have no authority of their own"
        if item.spec.username != request.user or NODES not in item.spec.groups:
            return "a serving certificate is approved only for the node that requests it"
        if self._cache.get(_NODE, name) is None:
            return f"node {name} is not registered"
        if others := set(request.dns) - {name}:
            return f"{min(others)} is not the node's name"
        for address in request.ips:
            nodes = self._nodes_at.get(address, set())
            if name not in nodes:
                return f"{address} is not an address of the node"
            if others := nodes - {name}:
                return f"{address} is an address of node {min(others)} too"
        return ""


@remember_short(MAX_REQUESTS, _LONGEST_REQUEST)
def _read(request: str) -> SigningRequest:
    """Read what a request asks for. Raises CertificateError, ValueError.

    One that waits is looked at each time that a node changes; to check its signature takes long.
    """
    return read_signing_request(base64.b64decode(request))


def _waits(item: AnyObject) -> bool:
    """Return whether an object is a request to one of the signers here, and is not decided."""
    if not isinstance(item, CertificateSigningRequest) or item.spec.signer_name not in _USAGES:
        return False
    types = {condition.type for condition in item.status.conditions}
    return not (item.status.certificate or types & {DENIED, FAILED})


def _form_problem(signer: str, request: SigningRequest, usages: set[str]) -> str:
    """Return why a request is none for a kubelet's certificate, "" if it is one."""
    if request.groups != (NODES,):
        return f'the organization must be "{NODES}"'
    if not request.user.startswith(NODE_PREFIX) or request.user == NODE_PREFIX:
        return f'the common name must be "{NODE_PREFIX}NAME"'
    if "*" in request.user:
        # Stands for many nodes (``access.nodes``).
        return "the node's name may have no *"
    if request.others:
        return "only DNS names and IP addresses may be requested"
    if any(map(is_ip_address, request.dns)):
        # Whether an address is the node's own is checked of IP addresses.
        return "an IP address may not be requested as a DNS name"
    names = bool(request.dns or request.ips)
    if names != (signer == KUBELET_SERVING):
        return "DNS names or IP addresses belong into a serving certificate, and only there"
    own = _USAGES[signer]
    if usages not in ({own, "digital signature"}, {own, *_BOTH}):
        return f'the usages must be "{own}", "digital signature" and maybe "key encipherment"'
    return ""


def _add_condition(
    item: CertificateSigningRequest, now: float, kind: str, reason: str, message: str
) -> None:
    at = timestamp(now, whole=True)
    item.status.conditions.add(
        type=kind,
        status="True",
        reason=reason,
        message=message,
        last_update_time=at,
        last_transition_time=at,
    )


def _is_old(item: CertificateSigningRequest, now: float) -> bool:
    decided = [seconds_of(c.last_update_time) for c in item.status.conditions]
    if decided:
        return max(decided) < now - _DECIDED_SECONDS
    return seconds_of(item.metadata.creation_timestamp) < now - _PENDING_SECONDS


def _authority(certificate: str, key: str) -> Pair:
    return read_pair(Path(certificate), Path(key) if key else None)
