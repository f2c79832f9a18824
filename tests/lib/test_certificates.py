"""Certificates are what their requests say, and bad ones are named."""

from __future__ import annotations

import base64
import os
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store

from podsched.lib.certificate_error import CertificateError
from podsched.lib.certificates import (
    SERVER,
    Description,
    Request,
    certify,
    check_pair,
    describe,
    new_authority,
    read_signing_request,
    replace_file,
    subject_of,
    user_in,
    write_new,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_servers_certificate_is_valid_for_its_hosts_and_no_others() -> None:
    authority = new_authority("ca", 1)
    server = certify(authority, Request("s", (), ("api.example", "::1"), (SERVER,)), 1)
    policy = PolicyBuilder().store(Store([authority.certificate]))
    for host in (x509.DNSName("api.example"), x509.IPAddress(ip_address("::1"))):
        policy.build_server_verifier(host).verify(server.certificate, [])
    with pytest.raises(x509.verification.VerificationError):
        policy.build_server_verifier(x509.DNSName("other.example")).verify(server.certificate, [])


def test_a_client_is_a_user_with_groups_and_cannot_serve() -> None:
    authority = new_authority("ca", 1)
    client = certify(authority, Request("system:node:n", ("system:nodes",)), 1).certificate
    verifier = PolicyBuilder().store(Store([authority.certificate])).build_client_verifier
    assert client.subject.rfc4514_string() == "CN=system:node:n,O=system:nodes"
    usage = client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert SERVER not in usage
    assert verifier is not None
    client.verify_directly_issued_by(authority.certificate)


@pytest.mark.parametrize(
    "request_",
    [
        Request(""),
        Request("u" * 65),
        Request("é" * 33),
        Request("u", ("g" * 65,)),
        *(Request("u", (), (host,)) for host in ("", "a b", "a..b", "ä", "a" * 64, "a/b")),
    ],
    ids=repr,
)
def test_a_name_that_no_certificate_can_have_is_refused(request_: Request) -> None:
    with pytest.raises(CertificateError):
        certify(new_authority("ca", 1), request_, 1)


def test_files_are_for_their_owner_and_are_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    write_new(folder, {"a.key": b"1"})
    assert stat.S_IMODE((folder / "a.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    for there in ("a.key", "dangling"):
        with pytest.raises(CertificateError, match=there):
            write_new(folder, {"b.key": b"2", there: b"2"})
    assert (folder / "a.key").read_bytes() == b"1"
    assert not (folder / "b.key").exists(), "all or nothing"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_is_replaced_keeps_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "chown", lambda _, *owner: owners.append(owner))
    path = tmp_path / "a.key"
    replace_file(path, b"1")
    replace_file(path, b"2")
    found = path.stat()
    assert owners == [(found.st_uid, found.st_gid)]
    assert (path.read_bytes(), stat.S_IMODE(found.st_mode)) == (b"2", 0o600)


def test_no_file_is_left_when_the_writing_is_interrupted(tmp_path: Path) -> None:
    class Interrupted(dict[str, bytes]):
        def items(self) -> Any:
            yield "a.crt", b"1"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path, Interrupted())
    assert [*tmp_path.iterdir()] == []


def test_the_key_must_belong_to_the_certificate() -> None:
    authority = new_authority("ca", 1)
    one, other = (certify(authority, Request(name), 1) for name in "ab")
    names = ("crt", "key")
    check_pair(one.certificate_pem + authority.certificate_pem, one.key_pem, names)
    for certificate, key, says in (
        (one.certificate_pem, other.key_pem, "key: not the key of the certificate in crt"),
        (b"", one.key_pem, "crt: no certificate"),
        (one.certificate_pem[:-40], one.key_pem, "crt: no certificate"),
        (one.certificate_pem, b"", "key: no private key"),
        (one.certificate_pem, one.certificate_pem, "key: no private key"),
    ):
        with pytest.raises(CertificateError, match=says):
            check_pair(certificate, key, names)


@pytest.mark.parametrize(
    ("begin", "end", "says"),
    [
        (-1, 31, ""),
        (-1, 29, "expires in 29 days"),
        (-1, 1, "expires in 1 day"),
        (-2, -1, "expired on 2029-12-31 00:00 UTC"),
        (1, 90, "is not valid before 2030-01-02 00:00 UTC"),
    ],
)
def test_a_certificate_says_when_it_is_useless(begin: int, end: int, says: str) -> None:
    dates = (NOW + timedelta(days=days) for days in (begin, end))
    assert Description("s", "i", (), *dates).problem(NOW) == says


def test_every_certificate_of_a_bundle_is_described() -> None:
    authority = new_authority("ca", 1)
    server = certify(authority, Request("s", (), ("a.b", "10.0.0.1"), (SERVER,)), 1)
    found = describe(server.certificate_pem + authority.certificate_pem, "f")
    assert [(each.subject, each.issuer, each.hosts) for each in found] == [
        ("CN=s", "CN=ca", ("a.b", "10.0.0.1")),
        ("CN=ca", "CN=ca", ()),
    ]
    with pytest.raises(CertificateError, match="f: no certificate"):
        describe(b"nothing", "f")


def altered_certificate(old: str, new: str) -> bytes:
    """Return a certificate in which bytes, in hexadecimal digits, are replaced."""
    whole = certify(new_authority("ca", 1), Request("user"), 1).certificate
    altered = whole.public_bytes(Encoding.DER).replace(bytes.fromhex(old), bytes.fromhex(new))
    return x509.load_der_x509_certificate(altered).public_bytes(Encoding.PEM)


def test_a_certificate_that_is_malformed_is_told_from_a_file_without_one() -> None:
    twice = altered_certificate("0603551d0f", "0603551d0e")
    with pytest.raises(CertificateError, match=r"^f: cannot be read: Duplicate"):
        describe(twice, "f")


def test_a_certificate_with_a_key_of_an_unknown_kind_is_refused() -> None:
    unknown = altered_certificate("06072a8648ce3d0201", "06072a8648ce3d0209")
    with pytest.raises(CertificateError, match=r"^crt: cannot be read: Unknown key type"):
        check_pair(unknown, b"", ("crt", "key"))


@pytest.mark.filterwarnings("error")
def test_a_name_that_is_longer_than_certificates_permit_is_read_without_a_warning() -> None:
    name = "u" * 65
    with pytest.warns(UserWarning, match="length"):
        long = x509.NameAttribute(x509.NameOID.COMMON_NAME, name, _validate=False)
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([long])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    assert read_signing_request(pem).user == name
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    assert (subject_of(pem).user, user_in(pem)) == (name, name)
    assert [(each.subject, each.issuer) for each in describe(pem, "f")] == [(f"CN={name}",) * 2]


def altered_request(old: bytes, new: bytes) -> bytes:
    """Return a request with two extensions in which bytes are replaced, and its signature is valid.

    No builder makes requests that are malformed, but clients may send them.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "user")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for number in ("1.2.3.4", "1.2.3.5"):
        extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(number), b"\x05\x00")
        builder = builder.add_extension(extension, critical=False)
    body = builder.sign(key, hashes.SHA256()).tbs_certrequest_bytes
    assert old in body
    body = body.replace(old, new)
    signature = b"\x00" + key.sign(body, ec.ECDSA(hashes.SHA256()))
    ecdsa_with_sha256 = bytes.fromhex("300a06082a8648ce3d040302")
    whole = body + ecdsa_with_sha256 + b"\x03" + bytes([len(signature)]) + signature
    encoded = b"\x30\x81" + bytes([len(whole)]) + whole
    begin, end = (b"-----%s CERTIFICATE REQUEST-----\n" % word for word in (b"BEGIN", b"END"))
    return begin + base64.encodebytes(encoded) + end


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (bytes.fromhex("06032a0305"), bytes.fromhex("06032a0304")),
        (b"\x0c\x04user", b"\x0c\x04use\xff"),
        (b"\x0c\x04user", b"\x02\x04user"),
        (b"\x02\x01\x00\x30", b"\x02\x01\x09\x30"),
    ],
    ids=["an extension twice", "a name that is no UTF-8", "a name that is a number", "a version"],
)
def test_a_malformed_signing_request_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(CertificateError, match="request"):
        read_signing_request(altered_request(old, new))
