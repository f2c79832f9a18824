"""API servers on a real etcd, and clients of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from podsched.api.etcd_keys import ROOT, term_key
from podsched.lib.network import free_port
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.server.call_metrics import ServerTelemetry
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.etcd import EtcdOptions, EtcdStore, connect
from podsched.serve.store.protocol import Delete, Put, Store, Write
from podsched.v1.api_pb2 import Fence
from support.api_objects import LOCK
from support.eventually import PATIENCE


async def start_api_server(
    settings: ServerSettings, store: Store, *, observer: ServerTelemetry | None = None
) -> ApiServer:
    """A running API server; stopped again when it does not start."""
    server = ApiServer(settings, store, observer=observer)
    try:
        await server.start()
    except BaseException:
        await server.stop(0)
        raise
    return server


@dataclass
class Servers:
    """API servers on one etcd that is empty at first."""

    endpoint: str
    stores: list[EtcdStore] = field(default_factory=list)
    running: list[ApiServer] = field(default_factory=list)
    clients: list[ApiClient] = field(default_factory=list)

    async def start(self, settings: ServerSettings | None = None) -> ApiServer:
        """One more server, at a port that nobody else gets while it is stopped."""
        settings = settings or ServerSettings(port=free_port(), bookmark_seconds=0.2)
        store = await connect(EtcdOptions((self.endpoint,), request_timeout=PATIENCE))
        self.stores.append(store)
        server = await start_api_server(settings, store)
        self.running.append(server)
        return server

    def client(self, *servers: ApiServer) -> ApiClient:
        """A client of servers, the first one preferred."""
        options = ClientOptions(timeout=PATIENCE)
        client = ApiClient([server.address for server in servers], options)
        self.clients.append(client)
        return client

    async def new_term(self) -> Fence:
        """A leader takes the lock."""
        result = await self.stores[0].txn([], [Put(term_key(LOCK), b"me")])
        return Fence(lock=LOCK, term=result.revision)

    async def stop(self) -> None:
        """Everything, clients first."""
        for client in self.clients:
            await client.close()
        for server in self.running:
            await server.stop(0.5)
        for store in self.stores:
            await store.close()


@asynccontextmanager
async def api_servers(endpoint: str) -> AsyncIterator[Servers]:
    """No server yet; in the end all are stopped and what they stored is removed."""
    servers = Servers(endpoint)
    try:
        yield servers
    finally:
        await servers.stop()
        store = await connect(EtcdOptions((endpoint,), request_timeout=PATIENCE))
        kvs = (await store.range(ROOT)).kvs
        await store.write_many([Write((), (Delete(kv.key),)) for kv in kvs])
        await store.close()
