"""Signing keys, and API servers that issue tokens of ServiceAccounts."""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from podsched.api.etcd_keys import local_key, object_key
from podsched.api.kinds import KINDS, kind_of
from podsched.api.objects import AnyObject, ServiceAccount
from podsched.lib.certificates import new_signing_key
from podsched.serve.server.access.authentication import CallAuthenticator
from podsched.serve.server.access.service_accounts import ServiceAccountTokens
from podsched.serve.server.access.settings import ServiceAccountSettings
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.protocol import EventType, KeyValue, WatchBatch, WatchEvent
from support.access_world import identity
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient, Response


def write_signing_key(path: Path) -> Path:
    """A new private key in a file."""
    path.write_bytes(new_signing_key()[0])
    return path


def account_settings(directory: Path, **more: Any) -> ServiceAccountSettings:
    """Settings of a server with a signing key of its own."""
    key = write_signing_key(directory / "sa.key")
    return ServiceAccountSettings(token_key=str(key), **more)


def feed(cache: WatchCache, item: AnyObject) -> None:
    """An object is stored, or replaces the one of the same name."""
    kind, revision = kind_of(item), cache.revision + 1
    key = object_key(kind, local_key(kind, item.metadata.namespace, item.metadata.name))
    value = KeyValue(key, item.SerializeToString(), revision, revision, 1)
    cache.apply(WatchBatch(revision, [WatchEvent(EventType.PUT, value)]))


def gone(cache: WatchCache, item: AnyObject) -> None:
    """An object is removed."""
    kind, revision = kind_of(item), cache.revision + 1
    key = object_key(kind, local_key(kind, item.metadata.namespace, item.metadata.name))
    value = KeyValue(key, b"", 0, revision, 0)
    cache.apply(WatchBatch(revision, [WatchEvent(EventType.DELETE, value)]))


#: Past the clock that calls are checked with, which is not the world's.
LONG = 2**31


class Accounts:
    """An API server with the account default/builder and its pod web-1 on worker-1."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        cache = world.core.cache
        self.tokens = ServiceAccountTokens(account_settings(directory), cache, lambda: world.now)
        self.admin = KubeClient(world.core, tokens=self.tokens)

    async def start(self) -> None:
        account = ServiceAccount(metadata={"namespace": "default", "name": "builder"})
        mounted = pod("web-1")
        mounted.spec.node_name = "worker-1"
        mounted.spec.service_account_name = "builder"
        for item in (account, mounted):
            await self.world.core.creator.create(item)

    def asking(self, user: str, *groups: str) -> KubeClient:
        """A client with the rights of its roles."""
        caller = identity(user, *groups)
        rights = self.world.core.authorizer.rights_of
        pipeline = Pipeline(authenticate=lambda _: caller, authorize=rights)
        return KubeClient(self.world.core, pipeline, self.tokens)

    async def uid(self, kind: str, name: str) -> str:
        entry = await self.world.core.registry.get(kind, "default", name)
        return entry.message.metadata.uid

    async def reference(self, name: str = "web-1") -> dict[str, str]:
        return {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": await self.uid("Pod", name)}

    async def with_token(self, token: str, path: str) -> Response:
        """A request of a caller who presents a token."""
        headers = {"authorization": f"Bearer {token}"}
        return await self.authenticating().request("GET", path, headers=headers)

    def authenticating(self) -> KubeClient:
        """A client of a server that asks for tokens."""
        authenticate = CallAuthenticator(accounts=self.tokens)
        rights = self.world.core.authorizer.rights_of
        return KubeClient(self.world.core, Pipeline(None, authenticate, rights), self.tokens)

    def token(self, *audiences: str) -> str:
        """A token of the account that lasts long."""
        entry = self.world.core.cache.get(KINDS["ServiceAccount"], "default/builder")
        assert entry is not None and isinstance(entry.message, ServiceAccount)
        return self.tokens.issue(entry.message, audiences or self.tokens.audiences, LONG)


def signing_request(user: str, groups: Sequence[str], hosts: Sequence[str] = ()) -> bytes:
    """A certificate signing request with a new key, in PEM.

    hosts: those that begin with "DNS:" are DNS names, even if they are addresses.
    """
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        # Not validated, because clients may send names that no certificate can have.
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, user, _validate=False))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if hosts:
        found: list[x509.GeneralName] = []
        for host in hosts:
            try:
                found.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                found.append(x509.DNSName(host.removeprefix("DNS:")))
        builder = builder.add_extension(x509.SubjectAlternativeName(found), critical=False)
    key = ec.generate_private_key(ec.SECP256R1())
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
