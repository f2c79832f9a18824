"""Who may do what, over the network, with certificates and tokens of each role.

One API server with all its ways to authenticate, on a store in memory; real TLS, real gRPC.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from podsched.api.etcd_keys import term_key
from podsched.api.objects import DeviceClass, Lease, Pod, PriorityClass
from podsched.app.role_certificates import Wanted, make_missing
from podsched.lib.certificates import Request, certify, read_pair
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import AlreadyExists, ClientError, Forbidden, Unauthorized
from podsched.serve.server.access.settings import JwtSettings
from podsched.serve.server.access.tokens import append
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.access_world import binding_of
from support.api_objects import LOCK, binding, node, pod
from support.eventually import PATIENCE
from support.issuer import AUDIENCE, ISSUER, Issuer

pytestmark = pytest.mark.integration

ISSUED = Issuer()


@dataclass
class Guarded:
    """An API server that asks everybody, and its files."""

    folder: Path
    server: ApiServer
    store: MemoryStore
    clients: list[ApiClient]

    def with_certificate(self, user: str, *groups: str) -> ApiClient:
        """A client with a certificate of its own."""
        authority = read_pair(self.folder / "ca.crt")
        pair = certify(authority, Request(user, groups), days=1)
        name = f"client-{len(self.clients)}"
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        cert.write_bytes(pair.certificate_pem)
        key.write_bytes(pair.key_pem)
        tls = ClientOptions(tls_ca=self._ca, tls_cert=str(cert), tls_key=str(key), timeout=PATIENCE)
        return self._client(f"127.0.0.1:{self.server.port}", tls)

    def with_token(self, token: str) -> ApiClient:
        """A client with a token and no certificate."""
        file = self.folder / f"token-{len(self.clients)}"
        file.write_text(token)
        options = ClientOptions(tls_ca=self._ca, token_file=str(file), timeout=PATIENCE)
        return self._client(f"127.0.0.1:{self.server.token_port}", options)

    def _client(self, address: str, options: ClientOptions) -> ApiClient:
        self.clients.append(ApiClient(address, options))
        return self.clients[-1]

    @property
    def _ca(self) -> str:
        return str(self.folder / "ca.crt")


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """Two nodes; sam and the issuer's ida are submitters everywhere."""
    make_missing(tmp_path, Wanted())
    (tmp_path / "tokens").touch(mode=0o600)
    append(tmp_path / "tokens", "sams", "sam", (), datetime.now(UTC) + timedelta(days=1))
    append(tmp_path / "tokens", "late", "sam", (), datetime.now(UTC) - timedelta(days=1))
    jwks = str(ISSUED.write(tmp_path / "jwks"))
    settings = ServerSettings(
        tls_cert=str(tmp_path / "server.crt"),
        tls_key=str(tmp_path / "server.key"),
        tls_client_ca=str(tmp_path / "ca.crt"),
        token_file=str(tmp_path / "tokens"),
        token_listen="127.0.0.1:0",
        jwt=JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks=jwks),
        bookmark_seconds=0.1,
    )
    store = MemoryStore()
    world = Guarded(tmp_path, ApiServer(settings, store), store, [])
    await world.server.start()
    creator = world.server.core.creator
    for item in (
        node("n1"),
        node("n2"),
        binding_of("submitter", "sam"),
        binding_of("submitter", "ida"),
    ):
        await creator.create(item)
    await world.server.core.reflector.wait_until_fresh()
    yield world
    for client in world.clients:
        await client.close()
    await world.server.stop(0)
    await store.close()


async def refused(call: object) -> str:
    with pytest.raises(Forbidden) as caught:
        await call  # type: ignore[misc]
    assert not isinstance(caught.value, Unauthorized)
    return caught.value.message


def of(result: v1.BatchResult) -> ClientError | None:
    return errors.of_result(result)


async def test_each_role_does_its_own_and_nothing_else(guarded: Guarded) -> None:
    admin = guarded.with_certificate("admin", "system:masters")
    sam = guarded.with_token("sams")
    agent = guarded.with_certificate("system:node:n1", "system:nodes")
    scheduler = guarded.with_certificate("system:kube-scheduler")
    stranger = guarded.with_certificate("stranger")
    term = (await guarded.store.txn([], [Put(term_key(LOCK), b"s0")])).revision
    fence = v1.Fence(lock=LOCK, term=term)

    # A submitter creates pods and sees them, and that is all.
    await sam.create(pod("web"))
    await sam.get("Pod", "web")
    assert 'User "sam" cannot delete resource "pods"' in await refused(sam.delete("Pod", "web"))
    for forged in (fence, None):
        (result,) = await sam.bind_pods([binding("web", "n1")], fence=forged)
        assert 'cannot create resource "pods/binding"' in str(of(result)), "the fence is no secret"
    assert "nodes is forbidden" in await refused(sam.list("Node"))

    # An agent writes its own node, and binds nothing, with whatever term.
    agents_bind = await agent.bind_pods([binding("web", "n1")], fence=fence)
    assert isinstance(of(agents_bind[0]), Forbidden)
    await agent.update_status(node("n1"))
    assert "cannot be written by this node" in await refused(agent.update_status(node("n2")))
    lease = Lease()
    lease.metadata.namespace, lease.metadata.name = "kube-system", "kube-scheduler"
    assert "can only access node lease" in await refused(agent.create(lease))
    assert isinstance(of((await agent.create_many([node("n3")]))[0]), Forbidden)
    devices = DeviceClass()
    devices.metadata.name = "gpu"
    assert isinstance(of((await agent.create_many([devices]))[0]), Forbidden)
    groups = ("system:nodes", "system:hollow-devices")
    await guarded.with_certificate("system:node:n1", *groups).create(devices)
    assert isinstance(of((await agent.create_many([node("n1")]))[0]), AlreadyExists)

    # The scheduler binds in its term only, and never without one.
    (unfenced,) = await scheduler.bind_pods([binding("web", "n2")])
    assert "cannot bindunfenced" in str(of(unfenced))
    old = v1.Fence(lock=LOCK, term=term - 1)
    (late,) = await scheduler.bind_pods([binding("web", "n2")], fence=old)
    assert isinstance(of(late), errors.FenceLost)
    (nowhere,) = await scheduler.bind_pods([binding("web", "n9")], fence=fence)
    assert isinstance(of(nowhere), errors.NotFound)
    (bound,) = await scheduler.bind_pods([binding("web", "n2")], fence=fence)
    assert of(bound) is None
    # It makes the pods of ReplicaSets and Jobs, and no other objects that users make.
    await scheduler.create(pod("of-a-job"))
    priority = PriorityClass()
    priority.metadata.name = "mine"
    assert "priorityclasses.scheduling.k8s.io is forbidden" in await refused(
        scheduler.create(priority)
    )
    removal = v1.EvictRequest(name="web", grace_period_seconds=0, ignore_disruption_budgets=True)
    (others,) = await agent.evict_pods([removal])
    assert 'is bound to "n2", not to this node' in str(of(others))

    # Who has no role sees nothing; an administrator does everything.
    assert "pods is forbidden" in await refused(stranger.list("Pod"))
    stored = await admin.get("Pod", "web")
    assert isinstance(stored, Pod)
    assert stored.spec.node_name == "n2"
    await admin.delete("Pod", "web", grace_period_seconds=0)


async def test_tokens_are_accepted_refused_and_expire(guarded: Guarded) -> None:
    await guarded.with_token("sams").create(pod("a"))
    await guarded.with_token(ISSUED.token("ida")).create(pod("b"))
    for bad, says in (
        ("late", "the credential has expired"),
        ("unknown", "the token is not accepted"),
        (ISSUED.token("ida", exp=time.time() - 60), "expired"),
        (ISSUED.token("ida", aud="others"), "[Aa]udience"),
        (Issuer().token("ida"), "verification failed"),
    ):
        with pytest.raises(Unauthorized, match=says):
            await guarded.with_token(bad).get("Pod", "a")
    anonymous = ApiClient(
        f"127.0.0.1:{guarded.server.token_port}",
        ClientOptions(tls_ca=str(guarded.folder / "ca.crt")),
    )
    guarded.clients.append(anonymous)
    with pytest.raises(Unauthorized, match="has no client certificate or bearer token"):
        await anonymous.get("Pod", "a")


async def test_a_stream_ends_with_its_right_and_with_its_token(guarded: Guarded) -> None:
    request = v1.WatchRequest(kinds=["Pod"], send_initial_events=True)
    for seconds in (1.5, 10, 60):  # until a machine that is busy has begun before
        began, short = False, guarded.with_token(ISSUED.token("ida", exp=time.time() + seconds))
        with pytest.raises(Unauthorized, match="expired"):
            async for _ in short.watch_stream(request):
                began = True
        if began:
            break
    assert began
    admin = guarded.with_certificate("admin", "system:masters")
    with pytest.raises(Forbidden, match="cannot watch"):
        async for response in guarded.with_token("sams").watch_stream(request):
            if response.initial_events_end:
                await admin.delete("ClusterRoleBinding", "sam-submitter")


async def test_who_connects_without_a_certificate_is_not_heard(guarded: Guarded) -> None:
    options = ClientOptions(
        tls_ca=str(guarded.folder / "ca.crt"),
        token_file=str(guarded.folder / "sams"),
        timeout=1,
    )
    (guarded.folder / "sams").write_text("sams")
    client = ApiClient(f"127.0.0.1:{guarded.server.port}", options)
    guarded.clients.append(client)
    with pytest.raises(errors.Unavailable):
        await client.get("Pod", "a")


async def test_health_answers_everyone_who_can_connect(guarded: Guarded) -> None:
    credentials = grpc.ssl_channel_credentials((guarded.folder / "ca.crt").read_bytes())
    address = f"127.0.0.1:{guarded.server.token_port}"
    async with grpc.aio.secure_channel(address, credentials) as channel:
        answer = await channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
    assert answer == b"\x08\x01", "SERVING"
