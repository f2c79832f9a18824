"""The life of a CertificateSigningRequest: who asks, who approves, who signs.

    create             anyone with the right; the server writes down who it is
    approve, deny      with the verb ``approve`` on the signer; for kubelets' certificates this
                       server does it itself (``certificate_signing``)
    sign               with the verb ``sign`` on the signer; likewise

Source: pkg/registry/certificates and plugin/pkg/admission/certificates of Kubernetes v1.36.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from podsched.api.field_errors import FieldError, invalid
from podsched.api.kinds import KINDS
from podsched.api.objects import CertificateSigningRequest, timestamp
from podsched.api.validation.certificates import APPROVED, DENIED
from podsched.lib.certificate_error import CertificateError
from podsched.serve.server import errors
from podsched.serve.server.access.identity import MASTERS, Identity
from podsched.serve.server.access.nodes import USER_PREFIX
from podsched.serve.server.access.rights import Rights, rights

REQUESTS: Final = KINDS["CertificateSigningRequest"]
GROUP: Final = REQUESTS.group
APPROVAL: Final = "approval"
#: Max requests at a time, and of one user: those that are finished are removed after an hour.
MAX_REQUESTS: Final = 5000
MAX_OF_USER: Final = MAX_REQUESTS // 2
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
KUBELET_SIGNERS: Final = (KUBELET_CLIENT, KUBELET_SERVING)
_API_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_DECISIONS: Final = frozenset({APPROVED, DENIED})


def complete(item: CertificateSigningRequest, caller: Identity, present: Mapping[str, int]) -> None:
    """Write the requester into a new request. Raises ApiError if there are too many.

    present: the number of requests that there are, by user.
    """
    total, own = sum(present.values()), present.get(caller.user, 0)
    if total >= MAX_REQUESTS or own >= MAX_OF_USER:
        cause = f"there are {total} certificate signing requests already, {own} of them yours"
        raise errors.too_many_requests(cause, 60.0)
    spec = item.spec
    spec.username, spec.uid = caller.user, caller.uid
    spec.groups[:] = sorted(caller.groups)
    spec.ClearField("extra")
    if caller.extra:
        spec.extra.update(caller.extra_by_key())


def request_errors(item: CertificateSigningRequest) -> list[FieldError]:
    """Return an error if the request inside cannot be read.

    Raises ApiError if it asks for more than its signer or the caller, a node, may, as Kubernetes'
    admission plugins CertificateSubjectRestriction and NodeRestriction.
    """
    # Only servers that get such requests import the library.
    from podsched.lib.certificates import read_signing_request

    try:
        asked = read_signing_request(base64.b64decode(item.spec.request))
    except (CertificateError, ValueError) as error:
        return [invalid("spec.request", "", str(error))]
    if item.spec.signer_name == _API_CLIENT and MASTERS in asked.groups:
        why = f"use of {_API_CLIENT} signer with {MASTERS} group is not allowed"
        raise errors.forbidden(REQUESTS, item.metadata.name, why)
    node = rights().node
    if node is not None and item.spec.signer_name in KUBELET_SIGNERS:
        name = asked.user.removeprefix(USER_PREFIX)
        if asked.user == name or not node.includes(name):
            why = f"can only create a node CSR with CN={USER_PREFIX}{node.pattern}"
            raise errors.forbidden(REQUESTS, item.metadata.name, why)
    return []


def keep_decision(
    new: CertificateSigningRequest, old: CertificateSigningRequest, now: float
) -> None:
    """Keep whether a request is approved or denied when its status is written."""
    others = [c for c in new.status.conditions if c.type not in _DECISIONS]
    kept = [c for c in old.status.conditions if c.type in _DECISIONS]
    new.status.ClearField("conditions")
    new.status.conditions.extend([*kept, *others])
    _set_times(new, now)


def keep_certificate(
    new: CertificateSigningRequest, old: CertificateSigningRequest, now: float
) -> None:
    """Keep all of the status but the decision when a request is approved or denied.

    A decision stays: it cannot be withdrawn, only be contradicted, which validation refuses.
    """
    decided = {c.type for c in old.status.conditions}
    added = [c for c in new.status.conditions if c.type in _DECISIONS - decided]
    new.status.CopyFrom(old.status)
    new.status.conditions.extend(added)
    _set_times(new, now)


def _set_times(item: CertificateSigningRequest, now: float) -> None:
    """Set the times of new conditions, as Kubernetes does; now: Unix time in seconds."""
    for condition in item.status.conditions:
        if not condition.status:
            condition.status = "True"
        for field in ("last_update_time", "last_transition_time"):
            if not condition.HasField(field):
                getattr(condition, field).CopyFrom(timestamp(now, whole=True))


def check_decision(
    own: Rights, new: CertificateSigningRequest, old: CertificateSigningRequest
) -> None:
    """Raise ApiError unless a caller may decide about, or sign, a request as it does."""
    before, now = ({c.type for c in item.status.conditions} for item in (old, new))
    if (now ^ before) & _DECISIONS:
        _check_signer(own, "approve", new)
    if old.status.certificate != new.status.certificate or (now ^ before) - _DECISIONS:
        _check_signer(own, "sign", new)


def _check_signer(own: Rights, verb: str, item: CertificateSigningRequest) -> None:
    signer = item.spec.signer_name
    every = f"{signer.partition('/')[0]}/*"
    if any(own.permit(verb, GROUP, "signers", "", name) for name in (signer, every)):
        return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise errors.forbidden(REQUESTS, item.metadata.name, why)
