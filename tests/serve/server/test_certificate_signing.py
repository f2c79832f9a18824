"""Certificates that kubelets request: which are approved at once, and what is signed."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from podsched.api.kinds import KINDS
from podsched.api.objects import CertificateSigningRequest, Node, Secret
from podsched.api.reasons import StatusCode
from podsched.lib import certificates
from podsched.lib.certificates import is_certified_by, new_authority, subject_of
from podsched.serve.server import certificate_requests, certificate_signing
from podsched.serve.server.access.bootstrap_policy import NODE_CLIENT
from podsched.serve.server.access.identity import SERVER, Identity, set_caller
from podsched.serve.server.access.settings import SigningSettings
from podsched.serve.server.certificate_requests import KUBELET_CLIENT, KUBELET_SERVING
from podsched.serve.server.certificate_signing import CertificateSigner
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rewriting import Rewrite
from podsched.v1.api_pb2 import DeleteRequest
from support.access_world import binding_of, calling, identity
from support.api_objects import node
from support.api_world import World
from support.service_accounts import signing_request

BOOTSTRAP = identity("system:bootstrap:abcdef", "system:bootstrappers")
KUBELET = identity("system:node:n1", "system:nodes")
CLIENT = ("digital signature", "client auth")
SERVING = ("digital signature", "server auth")


class Signing:
    """A server's signer, with two authorities."""

    def __init__(self, world: World, directory: Path, serving: str = "serving") -> None:
        """serving: the name of the authority that signs serving certificates."""
        self.world = world
        self.clients, self.servers = new_authority("a", 10), new_authority("b", 10)
        for name, pair in (("ca", self.clients), ("serving", self.servers)):
            (directory / f"{name}.crt").write_bytes(pair.certificate_pem)
            (directory / f"{name}.key").write_bytes(pair.key_pem)
        settings = SigningSettings(
            signing_cert=str(directory / "ca.crt"),
            signing_key=str(directory / "ca.key"),
            serving_cert=str(directory / f"{serving}.crt"),
            serving_key=str(directory / f"{serving}.key"),
        )
        core = world.core
        self.signer = CertificateSigner(
            settings, core.cache, core.storage, core.authorizer, lambda: world.now
        )

    async def ask(
        self,
        caller: Identity,
        signer: str = KUBELET_CLIENT,
        *,
        user: str = "system:node:n1",
        groups: tuple[str, ...] = ("system:nodes",),
        hosts: tuple[str, ...] = (),
        usages: tuple[str, ...] = (),
        seconds: int = 0,
    ) -> CertificateSigningRequest:
        """A caller's request, after the signer has looked at it."""
        item = CertificateSigningRequest(metadata={"name": "csr-1"})
        item.spec.signer_name = signer
        default = CLIENT if signer == KUBELET_CLIENT else SERVING
        item.spec.usages.extend(usages or default)
        if seconds:
            item.spec.expiration_seconds = seconds
        item.spec.request = base64.b64encode(signing_request(user, groups, hosts)).decode()
        with calling(self.world.core, caller):
            set_caller(caller)
            try:
                await self.world.core.creator.create(item)
            finally:
                set_caller(SERVER)
        return await self.look()

    async def make_token(self, node: str | None = None) -> None:
        """Make the bootstrap token of ``BOOTSTRAP``, for one node or for all."""
        secret = Secret(metadata={"namespace": "kube-system", "name": "bootstrap-token-abcdef"})
        if node is not None:
            secret.metadata.annotations["podsched.io/node"] = node
        await self.world.core.creator.create(secret)

    async def look(self) -> CertificateSigningRequest:
        await self.world.core.reflector.wait_until_fresh()
        await self.signer.handle_all()
        entry = await self.world.core.registry.get("CertificateSigningRequest", "", "csr-1")
        assert isinstance(entry.message, CertificateSigningRequest)
        return entry.message

    async def register(self, name: str, *addresses: str) -> None:
        item: Node = node(name)
        for address in addresses:
            item.status.addresses.add(type="InternalIP", address=address)
        await self.world.core.creator.create(item)

    async def approve(self) -> CertificateSigningRequest:
        """An administrator approves."""

        def make(entry: Entry) -> CertificateSigningRequest:
            item = entry.decode()
            assert isinstance(item, CertificateSigningRequest)
            item.status.conditions.add(type="Approved", status="True")
            return item

        kind = (await self.world.core.registry.get("CertificateSigningRequest", "", "csr-1")).kind
        await self.world.core.rewriter.rewrite(
            Rewrite(kind, "", "csr-1", "update", "approval", make)
        )
        return await self.look()


@pytest.fixture
def signing(world: World, tmp_path: Path) -> Signing:
    return Signing(world, tmp_path)


def issued(item: CertificateSigningRequest) -> x509.Certificate:
    assert item.status.certificate, item.status.conditions
    return x509.load_pem_x509_certificate(base64.b64decode(item.status.certificate))


def states(item: CertificateSigningRequest) -> list[str]:
    return [condition.type for condition in item.status.conditions]


async def test_a_bootstrap_token_gets_a_nodes_first_certificate(signing: Signing) -> None:
    await signing.make_token()
    item = await signing.ask(BOOTSTRAP, seconds=3600)
    certificate = issued(item)
    assert item.spec.username == "system:bootstrap:abcdef"
    assert states(item) == ["Approved"]
    assert is_certified_by(certificate, signing.clients.certificate)
    found = subject_of(certificate.public_bytes(Encoding.PEM))
    assert (found.user, found.groups) == ("system:node:n1", ("system:nodes",))
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [usage._name for usage in usages] == ["clientAuth"]
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert 3600 <= lasts.total_seconds() <= 3600 + 301


async def test_a_token_that_was_made_for_a_node_gets_no_other_name(signing: Signing) -> None:
    """Nor does it once the token is gone: until then the request only waits for a decision."""
    await signing.make_token("n2")
    assert states(await signing.ask(BOOTSTRAP)) == []
    secret = DeleteRequest(kind="Secret", namespace="kube-system", name="bootstrap-token-abcdef")
    await signing.world.core.deleter.delete(secret)
    assert states(await signing.look()) == []


async def test_a_token_that_was_made_for_a_node_gets_its_name(signing: Signing) -> None:
    await signing.make_token("n1")
    assert states(await signing.ask(BOOTSTRAP)) == ["Approved"]


async def test_a_kubelet_renews_its_own_certificate(signing: Signing) -> None:
    assert issued(await signing.ask(KUBELET))


@pytest.mark.parametrize("user", ["system:node:n2", "n1"])
@pytest.mark.parametrize("signer", [KUBELET_CLIENT, KUBELET_SERVING])
async def test_a_kubelet_requests_no_certificate_of_another_node(
    signing: Signing, signer: str, user: str
) -> None:
    """Not even one that an administrator would have to approve."""
    with pytest.raises(ApiError, match="can only create a node CSR with CN=system:node:n1"):
        await signing.ask(KUBELET, signer, user=user)


async def test_other_callers_get_no_certificate_at_once(signing: Signing) -> None:
    await signing.world.core.creator.create(binding_of("system:node-bootstrapper", "alice"))
    await signing.world.core.reflector.wait_until_fresh()
    assert states(await signing.ask(identity("alice"))) == []


@pytest.mark.parametrize(
    ("user", "groups", "hosts", "usages"),
    [
        ("admin", ("system:masters",), (), ()),
        ("system:node:n1", ("system:masters",), (), ()),
        ("system:node:n1", ("system:masters", "system:nodes"), (), ()),
        ("system:node:", ("system:nodes",), (), ()),
        ("system:node:*", ("system:nodes",), (), ()),
        ("alice", ("system:nodes",), (), ()),
        ("system:node:n1", ("system:nodes",), ("n1",), ()),
        ("system:node:n1", ("system:nodes",), (), ("client auth", "server auth")),
        ("system:node:n1", ("system:nodes",), (), ("digital signature", "cert sign")),
    ],
)
async def test_what_is_no_kubelets_certificate_is_neither_approved_nor_signed(
    signing: Signing,
    user: str,
    groups: tuple[str, ...],
    hosts: tuple[str, ...],
    usages: tuple[str, ...],
) -> None:
    await signing.make_token()
    item = await signing.ask(BOOTSTRAP, user=user, groups=groups, hosts=hosts, usages=usages)
    assert states(item) == []
    failed = await signing.approve()
    assert states(failed) == ["Approved", "Failed"]
    assert not failed.status.certificate


async def test_a_kubelet_gets_a_serving_certificate_for_its_name_and_addresses(
    signing: Signing,
) -> None:
    await signing.register("n1", "10.0.0.1")
    item = await signing.ask(KUBELET, KUBELET_SERVING, hosts=("n1", "10.0.0.1"))
    certificate = issued(item)
    assert is_certified_by(certificate, signing.servers.certificate)
    assert not is_certified_by(certificate, signing.clients.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["n1", "10.0.0.1"]


async def test_a_serving_certificate_waits_for_the_node_to_have_the_address(
    signing: Signing,
) -> None:
    assert states(await signing.ask(KUBELET, KUBELET_SERVING, hosts=("10.0.0.1",))) == []
    await signing.register("n1", "10.0.0.1")
    assert issued(await signing.look())


async def test_a_node_named_like_an_address_gets_no_certificate_for_another_nodes_address(
    signing: Signing,
) -> None:
    """A DNS name that is an address becomes one in the certificate."""
    await signing.register("n1", "10.0.0.1")
    await signing.register("10.0.0.1")
    kubelet = identity("system:node:10.0.0.1", "system:nodes")
    item = await signing.ask(
        kubelet, KUBELET_SERVING, user="system:node:10.0.0.1", hosts=("DNS:10.0.0.1",)
    )
    assert states(item) == []
    assert states(await signing.approve()) == ["Approved", "Failed"]


async def test_no_serving_certificate_is_approved_under_the_authority_of_clients(
    world: World, tmp_path: Path
) -> None:
    """Its addresses are what the node says: it could be that of the API server."""
    signing = Signing(world, tmp_path, serving="ca")
    await signing.register("n1", "10.0.0.1")
    assert states(await signing.ask(KUBELET, KUBELET_SERVING, hosts=("10.0.0.1",))) == []
    assert issued(await signing.approve())


@pytest.mark.parametrize("hosts", [("n2",), ("10.0.0.2",), ("10.0.0.3",), ("kubernetes",)])
async def test_a_kubelet_gets_no_serving_certificate_for_other_names(
    signing: Signing, hosts: tuple[str, ...]
) -> None:
    await signing.register("n1", "10.0.0.1", "10.0.0.3")
    await signing.register("n2", "10.0.0.2", "10.0.0.3")
    assert states(await signing.ask(KUBELET, KUBELET_SERVING, hosts=hosts)) == []


async def test_an_administrator_may_approve_what_is_not_approved_at_once(
    signing: Signing,
) -> None:
    await signing.ask(KUBELET, KUBELET_SERVING, hosts=("elsewhere",))
    assert issued(await signing.approve())


async def test_one_user_leaves_room_for_the_requests_of_others(
    signing: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_requests, "MAX_OF_USER", 1)
    await signing.ask(BOOTSTRAP, "example.com/own", usages=CLIENT)
    with pytest.raises(ApiError, match="already, 1 of them yours") as refused:
        await signing.ask(BOOTSTRAP, "example.com/own", usages=CLIENT)
    assert refused.value.code is StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(ApiError, match="already exists"):
        await signing.ask(KUBELET)


async def test_requests_of_other_signers_are_left_to_others(signing: Signing) -> None:
    await signing.make_token()
    item = await signing.ask(BOOTSTRAP, "example.com/own", usages=CLIENT)
    assert states(item) == []
    assert not (await signing.approve()).status.certificate


async def test_no_signer_is_asked_for_a_client_who_may_do_everything(signing: Signing) -> None:
    with pytest.raises(ApiError, match="signer with system:masters group is not allowed"):
        await signing.ask(
            BOOTSTRAP,
            "kubernetes.io/kube-apiserver-client",
            user="admin",
            groups=("staff", "system:masters"),
            usages=CLIENT,
        )


async def test_old_requests_are_removed(signing: Signing) -> None:
    await signing.make_token()
    await signing.ask(BOOTSTRAP)
    await signing.signer.clean()
    await signing.look()
    signing.world.now += 3601
    await signing.world.core.reflector.wait_until_fresh()
    await signing.signer.clean()
    with pytest.raises(ApiError, match="not found"):
        await signing.world.core.registry.get("CertificateSigningRequest", "", "csr-1")


async def test_expired_bootstrap_tokens_are_removed(signing: Signing) -> None:
    for name, expires in (("aaaaaa", "2023-01-01T00:00:00Z"), ("bbbbbb", "2100-01-01T00:00:00Z")):
        secret = Secret(type="bootstrap.kubernetes.io/token")
        secret.metadata.namespace = "kube-system"
        secret.metadata.name = f"bootstrap-token-{name}"
        secret.data["expiration"] = base64.b64encode(expires.encode()).decode()
        await signing.world.core.creator.create(secret)
    await signing.world.core.reflector.wait_until_fresh()
    await signing.signer.clean()
    await signing.world.core.reflector.wait_until_fresh()
    left = signing.world.core.cache.objects(KINDS["Secret"])
    assert list(left) == ["kube-system/bootstrap-token-bbbbbb"]


async def test_a_bootstrap_token_that_was_renewed_meanwhile_is_kept(signing: Signing) -> None:
    def token(expires: str) -> Secret:
        secret = Secret(type="bootstrap.kubernetes.io/token")
        secret.metadata.namespace = "kube-system"
        secret.metadata.name = "bootstrap-token-aaaaaa"
        secret.data["expiration"] = base64.b64encode(expires.encode()).decode()
        return secret

    world = signing.world
    await world.core.creator.create(token("2023-01-01T00:00:00Z"))
    await world.core.reflector.wait_until_fresh()
    other = await world.another()
    await world.core.stop()  # its cache stands still
    await other.registry.update(token("2100-01-01T00:00:00Z"))
    await signing.signer.clean()
    await other.registry.get("Secret", "kube-system", "bootstrap-token-aaaaaa")


async def test_a_request_that_cannot_be_read_is_refused(signing: Signing) -> None:
    item = CertificateSigningRequest(metadata={"name": "csr-1"})
    item.spec.signer_name, item.spec.usages[:] = KUBELET_CLIENT, CLIENT
    text = b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
    item.spec.request = base64.b64encode(text).decode()
    with pytest.raises(ApiError, match="no certificate request"):
        await signing.world.core.creator.create(item)


async def test_the_requester_is_who_asks_and_not_what_the_request_says(signing: Signing) -> None:
    item = CertificateSigningRequest(metadata={"name": "csr-2"})
    item.spec.signer_name, item.spec.usages[:] = KUBELET_CLIENT, CLIENT
    item.spec.username, item.spec.groups[:] = "system:node:n1", ["system:nodes"]
    item.status.conditions.add(type="Approved", status="True")
    item.spec.request = base64.b64encode(
        signing_request("system:node:n1", ("system:nodes",))
    ).decode()
    entry = await signing.world.core.creator.create(item)
    assert isinstance(entry.message, CertificateSigningRequest)
    assert entry.message.spec.username == "system:apiserver"
    assert states(entry.message) == []
    request = DeleteRequest(kind="CertificateSigningRequest", name="csr-2")
    await signing.world.core.deleter.delete(request)


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


async def test_a_request_that_another_key_has_signed_is_refused(signing: Signing) -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    raw = bytearray(builder.sign(_key(), hashes.SHA256()).public_bytes(Encoding.DER))
    raw[-1] ^= 1
    body = base64.encodebytes(bytes(raw)).decode()
    pem = f"-----BEGIN CERTIFICATE REQUEST-----\n{body}-----END CERTIFICATE REQUEST-----\n"
    item = CertificateSigningRequest(metadata={"name": "csr-1"})
    item.spec.signer_name, item.spec.usages[:] = KUBELET_CLIENT, CLIENT
    item.spec.request = base64.b64encode(pem.encode()).decode()
    with pytest.raises(ApiError, match=r"not signed with its own key|no certificate request"):
        await signing.world.core.creator.create(item)


async def test_a_name_that_is_too_long_in_bytes_fails_and_the_signer_goes_on(
    signing: Signing,
) -> None:
    await signing.make_token()
    item = await signing.ask(BOOTSTRAP, user="system:node:" + "é" * 30)
    assert not item.status.certificate
    assert states(item) == ["Approved", "Failed"]


async def test_a_request_fails_under_an_authority_that_has_expired_and_the_signer_goes_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signing = Signing(world, tmp_path)
    await signing.make_token()
    with monkeypatch.context() as patched:
        patched.setattr(certificates, "_CLOCK_SKEW", timedelta(days=10))
        expired = new_authority("a", -5)
    monkeypatch.setitem(signing.signer._authorities, KUBELET_CLIENT, expired)
    item = await signing.ask(BOOTSTRAP)
    assert not item.status.certificate
    assert states(item) == ["Approved", "Failed"]


async def test_a_request_that_waits_is_read_once(
    signing: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for a day, and nodes change all the time."""
    read: list[bytes] = []

    def reading(pem: bytes) -> certificates.SigningRequest:
        read.append(pem)
        return certificates.read_signing_request(pem)

    monkeypatch.setattr(certificate_signing, "read_signing_request", reading)
    assert states(await signing.ask(KUBELET, KUBELET_SERVING, hosts=("10.0.0.1",))) == []
    assert states(await signing.look()) == []
    assert len(read) == 1


async def test_no_node_is_looked_at_while_all_requests_are_decided(
    signing: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests stay for an hour, and nodes change all the time."""
    await signing.make_token()
    issued(await signing.ask(BOOTSTRAP))
    read: list[object] = []

    async def read_addresses(turn: object) -> None:
        read.append(turn)

    monkeypatch.setattr(signing.signer, "_read_addresses", read_addresses)
    await signing.look()
    assert not read


@pytest.mark.looptime
async def test_a_request_is_looked_at_again_when_its_requester_gets_the_right(
    signing: Signing,
) -> None:
    world = signing.world
    await world.core.creator.create(binding_of("system:node-bootstrapper", "alice"))
    await world.core.reflector.wait_until_fresh()
    assert states(await signing.ask(identity("alice"))) == []
    running = asyncio.create_task(signing.signer.run())
    await asyncio.sleep(1)
    await world.core.creator.create(binding_of(NODE_CLIENT, "alice"))
    await asyncio.sleep(1)
    running.cancel()
    entry = await world.core.registry.get("CertificateSigningRequest", "", "csr-1")
    assert isinstance(entry.message, CertificateSigningRequest)
    assert states(entry.message) == ["Approved"]


@pytest.mark.looptime
async def test_requests_are_handled_after_a_restore_of_etcd_to_the_same_revision(
    signing: Signing, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = signing.world.core.cache
    await signing.ask(BOOTSTRAP)
    handled: list[int] = []

    async def handle_all() -> bool:
        handled.append(cache.loads)
        return True

    monkeypatch.setattr(signing.signer, "handle_all", handle_all)
    requests = list(cache.objects(KINDS["CertificateSigningRequest"]).values())
    cache.load(requests, cache.revision)
    running = asyncio.create_task(signing.signer.run())
    await asyncio.sleep(1)
    cache.load(requests, cache.revision)
    await asyncio.sleep(1)
    running.cancel()
    assert handled == [cache.loads - 1, cache.loads]
