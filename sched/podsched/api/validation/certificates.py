"""CertificateSigningRequests (pkg/apis/certificates/validation).

What the request itself says is checked by the API server, which has the library for it.
"""

from __future__ import annotations

import base64
import re

from podsched.api.objects import CertificateSigningRequest
from podsched.api.validation.place import IMMUTABLE, Place

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_USAGES = frozenset(
    {
        *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign"),
        *("data encipherment", "decipher only", "digital signature", "email protection"),
        *("encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement"),
        *("key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
        *("server auth", "signing", "timestamping"),
    }
)
#: A signer: a domain, a slash and a path.
_SIGNER = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_SIGNER = 571
_LEAST_SECONDS = 600
#: Max characters of the request in base64; Kubernetes bounds only the whole object.
_LONGEST_REQUEST = 64 << 10
_BEGIN, _END = b"-----BEGIN CERTIFICATE REQUEST-----", b"-----END CERTIFICATE REQUEST-----"


def validate_certificate_signing_request(at: Place, item: CertificateSigningRequest) -> None:
    """Validate the form of a request."""
    here, spec = at("spec"), item.spec
    _check_request(here("request"), spec.request)
    here("usages").present(spec.usages, "usages must be provided")
    seen: set[str] = set()
    for each, usage in here("usages").each(spec.usages):
        if usage not in _USAGES:
            each.not_supported(usage, sorted(_USAGES))
        elif usage in seen:
            each.duplicate(usage)
        seen.add(usage)
    signer, good = spec.signer_name, _SIGNER.fullmatch(spec.signer_name[: _LONGEST_SIGNER + 1])
    if here("signerName").present(signer) and not (good and len(signer) <= _LONGEST_SIGNER):
        reason = "must be a fully qualified domain and path"
        here("signerName").invalid(signer[:_LONGEST_SIGNER], reason)
    if spec.HasField("expiration_seconds") and spec.expiration_seconds < _LEAST_SECONDS:
        here("expirationSeconds").invalid(
            spec.expiration_seconds,
            f"may not specify a duration less than {_LEAST_SECONDS} seconds",
        )


def _check_request(at: Place, request: str) -> None:
    if not at.within(len(request), _LONGEST_REQUEST):
        return
    try:
        pem = base64.b64decode(request, validate=True).strip()
    except ValueError:
        pem = b""
    if not (pem.startswith(_BEGIN) and pem.endswith(_END) and pem.count(b"-----BEGIN") == 1):
        at.invalid("", 'PEM block type must be "CERTIFICATE REQUEST" and there must be one')


def validate_certificate_signing_request_status_update(
    at: Place, new: CertificateSigningRequest, old: CertificateSigningRequest
) -> None:
    """Validate conditions and the certificate, which is issued once."""
    here = at("status")
    seen: set[str] = set()
    for each, condition in here("conditions").each(new.status.conditions):
        if not condition.type:
            each("type").required()
        elif condition.type in seen:
            each("type").duplicate(condition.type)
        elif condition.type in (APPROVED, DENIED, FAILED) and condition.status != "True":
            each("status").not_supported(condition.status, ["True"])
        seen.add(condition.type)
    if {APPROVED, DENIED} <= seen:
        here("conditions").invalid("", "Approved and Denied conditions are mutually exclusive")
    certificate = new.status.certificate
    if old.status.certificate and certificate != old.status.certificate:
        here("certificate").invalid("", IMMUTABLE)
    here("certificate").within(len(certificate), 4 * _LONGEST_REQUEST)
