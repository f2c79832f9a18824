"""An API server from its parts: start, serve, drain, stop.

States: starting (listens, health NOT_SERVING) -> serving (cache loaded) -> draining (health
NOT_SERVING, watches ended, calls finishing) -> stopped. If following etcd ends by a bug, `wait`
raises it: the process should end.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from podsched.server.calls import CallObserver
from podsched.server.errors import ApiError
from podsched.server.expiry import EventExpiry
from podsched.server.feed import Feed
from podsched.server.listing import Lister
from podsched.server.pods import PodOperations
from podsched.server.registry import Registry
from podsched.server.service import OBJECTS, PODS, ObjectsService, PodsService
from podsched.server.settings import ServerSettings
from podsched.server.storage import ObjectStorage
from podsched.server.watchcache import WatchCache
from podsched.server.watching import Watcher
from podsched.store.protocol import Store

_RETRY_SECONDS = 0.5


class ApiServer:
    """One API server on a store that its owner opened and closes."""

    def __init__(
        self, settings: ServerSettings, store: Store, *, observer: CallObserver | None = None
    ) -> None:
        self._settings = settings
        self._observer = observer
        self.cache = WatchCache(max_events=settings.ring_events, max_bytes=settings.ring_bytes)
        self._feed = Feed(store, self.cache, settings)
        storage = ObjectStorage(store, self.cache, settings)
        self._lister = Lister(store, self.cache, self._feed, settings)
        self._watcher = Watcher(self.cache, self._feed, settings)
        expiry = EventExpiry(store, self.cache, settings)
        self.registry = Registry(storage, self.cache, self._feed, self._lister, expiry, settings)
        self.pods = PodOperations(storage, self.cache, self._feed)
        self._health = health.aio.HealthServicer()
        self._following: asyncio.Task[None] | None = None
        self._server: grpc.aio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """host:port that clients connect to."""
        return f"{self._settings.host}:{self.port}"

    @property
    def ready(self) -> bool:
        """Whether reads can be answered."""
        return self._feed.ready.is_set()

    @property
    def watchers(self) -> int:
        """Watch streams being served."""
        return self._watcher.watching

    async def start(self) -> None:
        """Listen, follow etcd, and return when everything can be answered.

        Raises OSError when the address cannot be had.
        """
        self._server = self._build()
        await self._server.start()
        self._following = asyncio.create_task(self._feed.run(), name="follow etcd")
        ready = asyncio.create_task(self._feed.ready.wait(), name="await cache")
        await asyncio.wait([ready, self._following], return_when=asyncio.FIRST_COMPLETED)
        if not self.ready:
            ready.cancel()
            await self._following  # raises what has ended it
        await self._ensure_built_in()
        for name in ("", OBJECTS, PODS):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def wait(self) -> None:
        """Until stopped; raises what ended following etcd."""
        if self._following is not None:
            await asyncio.shield(self._following)

    async def stop(self, grace: float = 5.0) -> None:
        """Drain for up to `grace` seconds and stop."""
        await self._health.enter_graceful_shutdown()
        self._watcher.close()
        if self._server is not None:
            await self._server.stop(grace)
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._following

    async def _ensure_built_in(self) -> None:
        while True:
            try:
                return await self.registry.ensure_built_in()
            except ApiError as error:
                if error.reason not in ("UNAVAILABLE", "OUTCOME_UNKNOWN"):
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    def _build(self) -> grpc.aio.Server:
        settings = self._settings
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", settings.max_message_bytes),
                ("grpc.max_send_message_length", -1),
                # Without it a second server on the same port would silently share it.
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 5000),
                ("grpc.http2.max_ping_strikes", 0),
            ]
        )
        objects = ObjectsService(self.registry, self._lister, self._watcher, settings)
        pods = PodsService(self.registry, self.pods, settings)
        server.add_generic_rpc_handlers(
            (objects.handlers(self._observer), pods.handlers(self._observer))
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection(
            (OBJECTS, PODS, health.SERVICE_NAME, reflection.SERVICE_NAME), server
        )
        address = f"{settings.host}:{settings.port}"
        try:
            if settings.tls_cert:
                self.port = server.add_secure_port(address, _credentials(settings))
            else:
                self.port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from error
        return server


def _credentials(settings: ServerSettings) -> grpc.ServerCredentials:
    pair = (Path(settings.tls_key).read_bytes(), Path(settings.tls_cert).read_bytes())
    if not settings.tls_client_ca:
        return grpc.ssl_server_credentials([pair])
    authorities = Path(settings.tls_client_ca).read_bytes()
    return grpc.ssl_server_credentials([pair], authorities, require_client_auth=True)


async def serve(
    settings: ServerSettings, store: Store, *, observer: CallObserver | None = None
) -> ApiServer:
    """A running API server."""
    server = ApiServer(settings, store, observer=observer)
    try:
        await server.start()
    except BaseException:
        await server.stop(0)
        raise
    return server
