"""Creates and reads X.509 certificates: a simple certificate authority, as ``sched certs`` uses it.

As in Kubernetes, a client's user is its certificate's common name, and its groups are the
certificate's organizations. Keys use the curve P-256. Non-goals: revocation, intermediate
authorities, keys in hardware; production clusters have their own authority.
"""

from __future__ import annotations

import ipaddress
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from podsched.lib.certificate_error import CertificateError
from podsched.lib.network import is_ip_address

#: Extended key usages: TLS server, TLS client.
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH

#: Max bytes of a common name or organization (RFC 5280, ub-common-name).
LONGEST_NAME = 64

#: New certificates are valid from this long ago, because other machines' clocks may be behind.
_CLOCK_SKEW = timedelta(minutes=5)
_LEAST_RSA_BITS = 2048
#: The errors of reading parts of a certificate or request, which are not parsed before.
_MALFORMED = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)

_PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a certificate; ``hosts`` are DNS names and IP addresses of a server."""

    user: str
    groups: Sequence[str] = ()
    hosts: Sequence[str] = ()
    usages: Sequence[x509.ObjectIdentifier] = field(default=(CLIENT,))


def new_authority(name: str, days: int) -> Pair:
    """Return a new self-signed authority; it may not certify further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name, ())
    builder = (
        _builder(subject, subject, key.public_key(), _after(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def certify(authority: Pair, request: Request, days: int) -> Pair:
    """Return a new key and its certificate, which ends with the authority at the latest.

    Raises CertificateError for a malformed request or an authority that has expired.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    return Pair(_certified(authority, request, key.public_key(), _end(authority, days)), key)


def new_signing_key() -> tuple[bytes, bytes]:
    """Return a new private key and its public key, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private, public


@dataclass(frozen=True, slots=True)
class SigningRequest:
    """What a certificate signing request asks for; ``others``: it has names of other types."""

    user: str
    groups: tuple[str, ...]
    dns: tuple[str, ...]
    ips: tuple[str, ...]
    others: bool


def _any_length() -> warnings.catch_warnings[None]:
    """Silence the library about names that others made longer than RFC 5280 permits.

    As in Kubernetes, such names are read; they are only not certified (``_name``).
    """
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def read_signing_request(pem: bytes) -> SigningRequest:
    """Read a certificate signing request. Raises CertificateError for an unusable one."""
    request = _signing_request(pem)
    try:
        names = _alternative_names(request.extensions)
        with _any_length():
            subject = request.subject
    except _MALFORMED as error:
        raise CertificateError(f"the request cannot be read: {error}") from None
    users = _values(subject, NameOID.COMMON_NAME)
    return SigningRequest(
        users[0] if len(users) == 1 else "",
        _values(subject, NameOID.ORGANIZATION_NAME),
        tuple(name.value for name in names if isinstance(name, x509.DNSName)),
        tuple(str(name.value) for name in names if isinstance(name, x509.IPAddress)),
        any(not isinstance(name, x509.DNSName | x509.IPAddress) for name in names),
    )


def _signing_request(pem: bytes) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_pem_x509_csr(pem)
        valid = request.is_signature_valid
    except _MALFORMED as error:
        raise CertificateError(f"no certificate request: {error}") from None
    if not valid:
        raise CertificateError("the request is not signed with its own key")
    return request


def certify_request(
    authority: Pair, pem: bytes, usages: Sequence[x509.ObjectIdentifier], seconds: float
) -> bytes:
    """Return a certificate in PEM for a request's key, with its user, groups and names.

    Raises CertificateError for a request that cannot be certified.
    """
    wanted, key = read_signing_request(pem), _signing_request(pem).public_key()
    if not isinstance(key, _PublicKey):
        raise CertificateError("the request's key must be RSA, elliptic-curve or Ed25519")
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _LEAST_RSA_BITS:
        raise CertificateError(f"the request's RSA key has fewer than {_LEAST_RSA_BITS} bits")
    request = Request(wanted.user, wanted.groups, (*wanted.dns, *wanted.ips), usages)
    end = _end(authority, seconds / 86400)
    return _certified(authority, request, key, end).public_bytes(Encoding.PEM)


def self_signed(name: str, hosts: Sequence[str]) -> tuple[Pair, Pair]:
    """Return a server's new certificate, and the new authority that has signed only this one."""
    days = 365
    authority = new_authority(f"{name}-ca", days)
    return certify(authority, Request(name, hosts=hosts, usages=(SERVER,)), days), authority


def renewed(authority: Pair, before: x509.Certificate, days: int) -> Pair:
    """Return a new key and its certificate, with the subject and extensions of an old one.

    It ends with the authority at the latest. Raises CertificateError if that has expired.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate.subject
    builder = _builder(before.subject, issuer, key.public_key(), _end(authority, days))
    for extension in before.extensions:
        # It identifies the key, so ``_builder`` has added that of the new one.
        if extension.oid != ExtensionOID.SUBJECT_KEY_IDENTIFIER:
            builder = builder.add_extension(extension.value, extension.critical)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def write_new(directory: Path, files: Mapping[str, bytes]) -> None:
    """Create files by name, readable only by their owner; create none if one of them exists.

    Raises CertificateError if one exists, OSError if the directory cannot be written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if there := sorted(name for name in files if os.path.lexists(directory / name)):
        raise CertificateError(f"{directory}: would overwrite {', '.join(there)}")
    written: list[Path] = []
    try:
        for name, content in files.items():
            (directory / name).parent.mkdir(mode=0o700, exist_ok=True)
            # O_EXCL with a mode: other users can never read the key, and a symbolic link that
            # another user has put there is not followed.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(directory / name, flags, 0o600), "wb") as file:
                written.append(directory / name)
                file.write(content)
    except BaseException:  # also Ctrl-C: a certificate without its key is never completed
        for path in written:
            path.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically; only its owner may read it, as before. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        # Root also renews the files of others; for others this changes nothing, or fails.
        with suppress(FileNotFoundError, PermissionError):
            before = path.stat()
            os.chown(file.fileno(), before.st_uid, before.st_gid)
        file.write(content)
    new.replace(path)


@contextmanager
def _reading(pem: bytes, source: str) -> Iterator[list[x509.Certificate]]:
    """Yield the certificates in a PEM file, whose parts the block may read.

    Raises CertificateError that names ``source``.
    """
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except _MALFORMED as error:
        raise CertificateError(f"{source}: no certificate in PEM format") from error
    try:
        with _any_length():
            yield certificates
    except _MALFORMED as error:
        raise CertificateError(f"{source}: cannot be read: {error}") from error


def read_certificate(path: Path) -> x509.Certificate:
    """Return the first certificate in a file. Raises CertificateError, OSError."""
    with _reading(path.read_bytes(), str(path)) as certificates:
        return certificates[0]


def read_pair(path: Path, key_path: Path | None = None) -> Pair:
    """Return a certificate and its key, which by default is in NAME.key for NAME.crt.

    Raises OSError, and CertificateError, also if the key is not an elliptic-curve key.
    """
    source = key_path or path.with_suffix(".key")
    if not source.exists():
        raise CertificateError(f"{path}: its key, {source.name}, is not here")
    certificate, key = path.read_bytes(), source.read_bytes()
    check_pair(certificate, key, (str(path), str(source)))
    private = load_pem_private_key(key, password=None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{source}: not a key that sched certs has made")
    return Pair(read_certificate(path), private)


def is_certified_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether the authority has signed the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (*_MALFORMED, InvalidSignature):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Description:
    """The parts of a certificate to show to people."""

    subject: str
    issuer: str
    hosts: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    def problem(self, now: datetime) -> str:
        """Return why the certificate is invalid, now or within 30 days; "" if it is not."""
        if now < self.not_before:
            return f"is not valid before {self.not_before:%Y-%m-%d %H:%M} UTC"
        if now >= self.not_after:
            return f"expired on {self.not_after:%Y-%m-%d %H:%M} UTC"
        left = (self.not_after - now).days
        return f"expires in {left} day{'s' * (left != 1)}" if left < 30 else ""


def describe(pem: bytes, source: str) -> list[Description]:
    """Describe the certificates in a PEM file. Raises CertificateError that names ``source``."""
    with _reading(pem, source) as certificates:
        return [_description(certificate) for certificate in certificates]


@dataclass(frozen=True, slots=True)
class Subject:
    """The user and groups in a client's certificate, and its expiry."""

    user: str
    groups: tuple[str, ...]
    not_after: datetime


def subject_of(pem: bytes) -> Subject:
    """Return the subject of the first certificate.

    Raises CertificateError for an unreadable one and unless it has exactly one common name.
    """
    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
    except _MALFORMED as error:
        raise CertificateError("no certificate in PEM format") from error
    try:
        with _any_length():
            subject = certificate.subject
    except _MALFORMED as error:  # a name that is no text
        raise CertificateError("its subject cannot be read") from error
    users = _values(subject, NameOID.COMMON_NAME)
    if len(users) != 1 or not users[0]:
        raise CertificateError("the certificate must have one common name (CN)")
    groups = _values(subject, NameOID.ORGANIZATION_NAME)
    return Subject(users[0], groups, certificate.not_valid_after_utc)


def check_pair(certificate: bytes, key: bytes, names: tuple[str, str]) -> None:
    """Raise CertificateError unless the key belongs to the first certificate; both are PEM.

    names: the paths of certificate and key, for the message.
    """
    with _reading(certificate, names[0]) as certificates:
        public = certificates[0].public_key()
    try:
        own = load_pem_private_key(key, password=None).public_key()
    except _MALFORMED as error:
        raise CertificateError(f"{names[1]}: no private key in PEM format") from error
    if own != public:
        raise CertificateError(f"{names[1]}: not the key of the certificate in {names[0]}")


def check_may_serve(pem: bytes, source: str) -> None:
    """Raise CertificateError that names ``source`` if the certificate is for clients only."""
    certificate = x509.load_pem_x509_certificates(pem)[0]
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if SERVER not in usages and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in usages:
        raise CertificateError(
            f"{source}: for clients only, and this process also listens with it: its extended key "
            "usage must include serverAuth"
        )


def user_in(pem: bytes) -> str:
    """Return the common name in the first certificate of a valid PEM file; "" if it has none."""
    with _any_length():
        subject = x509.load_pem_x509_certificates(pem)[0].subject
    return next(iter(_values(subject, NameOID.COMMON_NAME)), "")


def _description(certificate: x509.Certificate) -> Description:
    return Description(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        tuple(str(name.value) for name in _alternative_names(certificate.extensions)),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _alternative_names(extensions: x509.Extensions) -> Iterable[x509.GeneralName]:
    try:
        return extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()


def _certified(
    authority: Pair, request: Request, key: _PublicKey, end: datetime
) -> x509.Certificate:
    """Return a certificate of a client or server. Raises CertificateError."""
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    subject = _name(request.user, request.groups)
    builder = (
        _builder(subject, authority.certificate.subject, key, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(request.usages), critical=False)
        .add_extension(identifier, critical=False)
    )
    if request.hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in request.hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority.key, hashes.SHA256())


def _after(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def _end(authority: Pair, days: float) -> datetime:
    """Return when a new certificate ends: without its authority it would be of no use.

    Raises CertificateError if the authority has expired.
    """
    end = min(_after(days), authority.certificate.not_valid_after_utc)
    if end <= datetime.now(UTC):
        raise CertificateError("the authority that signs has expired")
    return end


def _builder(
    subject: x509.Name, issuer: x509.Name, key: _PublicKey, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    for value in (user, *groups):
        if not 0 < len(value.encode()) <= LONGEST_NAME:
            raise CertificateError(f'"{value}": names have 1 to {LONGEST_NAME} bytes')
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _values(name: x509.Name, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(str(attribute.value) for attribute in name.get_attributes_for_oid(oid))


def _host(host: str) -> x509.GeneralName:
    if is_ip_address(host):
        return x509.IPAddress(ipaddress.ip_address(host))
    labels = host.removeprefix("*.").split(".")
    plain = (label.replace("-", "x") for label in labels)
    if len(host) > 253 or not all(
        label.isascii() and label.isalnum() and len(label) < 64 for label in plain
    ):
        raise CertificateError(f'"{host}" is neither a host name nor an IP address')
    return x509.DNSName(host)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
