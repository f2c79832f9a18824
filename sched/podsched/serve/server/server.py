"""Runs an API server: start, serve, drain, stop.

States: starting (listens, health NOT_SERVING) -> serving (cache loaded) -> draining (health
NOT_SERVING, watches ended, calls finishing) -> stopped. If a bug ends the following of etcd,
``wait`` raises it, and the process should exit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import grpc
from google.protobuf.message import DecodeError
from grpc._cython import cygrpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from podsched.lib.certificate_files import CertificateFiles
from podsched.lib.certificates import describe
from podsched.lib.listening import REQUEST_SECONDS, connection_limit
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.server import errors
from podsched.serve.server.access.authentication import CallAuthenticator
from podsched.serve.server.access.bootstrap_tokens import BootstrapTokens
from podsched.serve.server.access.tokens import TokenFile
from podsched.serve.server.advertising import Advertiser, advertised_address
from podsched.serve.server.calls import bidirectional, oversized, unknown
from podsched.serve.server.core import ServerCore
from podsched.serve.server.fairness.flow_metrics import FlowTelemetry
from podsched.serve.server.fairness.gate import Gate
from podsched.serve.server.health import Health
from podsched.serve.server.kubelets.addresses import refusal
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.replicas import Replicas
from podsched.serve.server.rest.probes import Probes
from podsched.serve.server.scheduling import SCHEDULING, SchedulingService
from podsched.serve.server.service import AUTHORIZATION, OBJECTS, PODS, service_handlers
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Store
from podsched.telemetry.health import HealthChecks
from podsched.telemetry.logs import get_logger, keeps_certificates

if TYPE_CHECKING:
    from podsched.serve.server.access.jwt import JwtVerifier
    from podsched.serve.server.access.service_accounts import ServiceAccountTokens
    from podsched.serve.server.audit.log import AuditLog
    from podsched.serve.server.call_metrics import ServerTelemetry
    from podsched.serve.server.certificate_signing import CertificateSigner
    from podsched.serve.server.kubelets.client import KubeletClient
    from podsched.serve.server.rest.listener import KubeListener
    from podsched.serve.server.rest.visibility import PendingSource
    from podsched.serve.server.watchcache import WatchCache

#: The names in the health service; "" is the whole server.
SERVICES = ("", OBJECTS, PODS, AUTHORIZATION, SCHEDULING)

#: Max bytes of a request; a batch of 5,000 large pods has about 10 MiB.
MAX_MESSAGE_BYTES = 16 << 20

#: Max concurrent calls of a connection; further ones wait at the client.
MAX_STREAMS = 100
#: Milliseconds after which an idle connection is closed; clients reconnect.
MAX_IDLE_MS = 300_000
_METHOD = "ServerReflectionInfo"
#: The services that reflection lists.
_SERVICES = (*filter(None, SERVICES), HEALTH, reflection.SERVICE_NAME)
_log = get_logger("apiserver")


def _is_of_server(record: logging.LogRecord) -> bool:
    """Return whether a record of gRPC is not about an answer whose client has gone.

    Clients could cause those at any rate, each with a traceback.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, cygrpc.ExecuteBatchError)


logging.getLogger(cygrpc.__name__).addFilter(_is_of_server)


class ApiServer:
    """An API server on a store that the caller opens and closes."""

    def __init__(
        self,
        settings: ServerSettings,
        store: Store,
        *,
        observer: ServerTelemetry | None = None,
        flow_observer: FlowTelemetry | None = None,
        audit: AuditLog | None = None,
        probes: Probes | None = None,
        pending_of: Callable[[WatchCache], PendingSource] | None = None,
    ) -> None:
        """Wire the server.

        probes: answers /healthz and so on in the REST API. pending_of: makes the source of
        visibility.kueue.x-k8s.io, the workloads that wait in queues; None: that is not served.
        """
        self._pending_of = pending_of
        self._probes = probes or Probes(HealthChecks())
        self.kube: KubeListener | None = None
        self.kubelets: KubeletClient | None = None
        self._settings = settings
        self.core = ServerCore(settings, store)
        self.jwt: JwtVerifier | None = None
        self.tokens: ServiceAccountTokens | None = None
        self.signer: CertificateSigner | None = None
        self.advertiser: Advertiser | None = None
        self.gate = Gate(flow_observer)
        self.replicas = Replicas()
        self.scheduling = SchedulingService(
            self.replicas, self.core.storage, settings.worker, settings.workers
        )
        #: The steps of every call.
        self.pipeline = Pipeline(observer, gate=self.gate, audit=audit)
        self._health = Health(SERVICES)
        self._server: grpc.aio.Server | None = None
        self.port = self.token_port = self.kube_port = 0

    @property
    def address(self) -> str:
        """The host:port that clients connect to."""
        return f"{self._settings.host}:{self.port}"

    @property
    def ready(self) -> bool:
        """Whether reads can be answered."""
        return self.core.reflector.ready.is_set()

    async def start(self) -> None:
        """Listen, follow etcd, and return when all requests can be answered.

        Raises OSError if the address is not available, CertificateError for unusable TLS files and
        AccessError for unusable files of tokens or keys.
        """
        self.pipeline = self._pipeline()
        self._server = self._build()
        await self._server.start()
        if self._settings.kube_listen:
            await self._listen_for_kube()
        await self.core.start()
        await self.set_serving(True)

    async def set_serving(self, serving: bool, names: Sequence[str] = SERVICES) -> None:
        """Set the health service's answer: whether etcd is usable, which all other calls need."""
        self._health.set(serving, names)

    async def wait(self) -> None:
        """Wait until stopped; raise the error if following etcd failed."""
        await self.core.wait()

    async def stop(self, grace: float = 5.0) -> None:
        """Drain for up to ``grace`` seconds and stop."""
        self._health.close()
        # Streams first: they do not end by themselves, and would use up the whole grace period.
        self.core.watcher.close()
        self.core.submission.close()
        self.replicas.close()
        if self.kube is not None:
            await self.kube.stop(grace)
        if self.kubelets is not None:
            await self.kubelets.close()
        if self._server is not None:
            await self._server.stop(grace)
        await self.core.stop()
        self.gate.close()

    def _pipeline(self) -> Pipeline:
        """Return the pipeline with the authentication and authorization of the settings.

        Not made in the constructor, because it reads files.
        """
        settings = self._settings
        if settings.service_accounts.token_key:
            from podsched.serve.server.access.service_accounts import ServiceAccountTokens

            self.tokens = ServiceAccountTokens(settings.service_accounts, self.core.cache)
        if settings.signing.signing_cert:
            from podsched.serve.server.certificate_signing import CertificateSigner

            core = self.core
            self.signer = CertificateSigner(
                settings.signing, core.cache, core.storage, core.authorizer
            )
        if not settings.authenticates:
            return self.pipeline
        if settings.jwt is not None:
            from podsched.serve.server.access.jwt import JwtVerifier

            self.jwt = JwtVerifier(settings.jwt)
        authenticator = CallAuthenticator(
            certificates=bool(settings.tls_client_ca),
            tokens=TokenFile(settings.token_file) if settings.token_file else None,
            jwt=self.jwt,
            accounts=self.tokens,
            bootstrap=BootstrapTokens(self.core.cache) if settings.kube_listen else None,
        )
        authorizer = self.core.authorizer
        return replace(
            self.pipeline,
            authenticate=authenticator,
            authorize=authorizer.rights_of,
            prepare=authorizer.prepare,
        )

    async def _listen_for_kube(self) -> None:
        """Serve Kubernetes' REST API. Raises OSError, CertificateError."""
        # Imports aiohttp, which only servers with the REST API need.
        from podsched.serve.server.kubelets.client import KubeletClient
        from podsched.serve.server.rest.app import RestApp
        from podsched.serve.server.rest.handling import Handler
        from podsched.serve.server.rest.listener import KubeListener

        settings = self._settings
        files = None
        if settings.tls_cert:
            files = TlsFiles(settings.tls_client_ca, settings.tls_cert, settings.tls_key)
        self.kubelets = KubeletClient(settings.kubelets, self._refusal)
        pending = None if self._pending_of is None else self._pending_of(self.core.cache)
        handler = Handler(
            self.core, self.pipeline, self._probes, self.kubelets, self.tokens, pending
        )
        self.kube = KubeListener(RestApp(handler), files, settings.max_connections)
        host, _, port = settings.kube_listen.rpartition(":")
        await self.kube.start(host.strip("[]"), int(port), shared=settings.workers > 1)
        self.kube_port = self.kube.port
        address = advertised_address(settings.advertise_address, host)
        if address and settings.tls_cert and settings.worker == 0:
            core, endpoint = self.core, (address, self.kube_port)
            self.advertiser = Advertiser(core.creator, core.storage, core.cache, endpoint)

    def _refusal(self, ip: str, port: int) -> str:
        """Return why no kubelet may be asked at an address, "" if it may."""
        return refusal(ip, port, {self.port, self.token_port, self.kube_port})

    def _build(self) -> grpc.aio.Server:
        """Return the gRPC server with all services, listening but not started. Raises OSError."""
        settings, core, pipeline = self._settings, self.core, self.pipeline
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", -1),
                # With one worker, a second server must fail instead of silently sharing the port.
                ("grpc.so_reuseport", int(settings.workers > 1)),
                ("grpc.max_concurrent_streams", MAX_STREAMS),
                # With probes, gRPC enlarges a connection's flow-control window, and so the bytes
                # that it buffers of requests that are not read yet.
                ("grpc.http2.bdp_probe", 0),
                ("grpc.max_connection_idle_ms", MAX_IDLE_MS),
                # Per address; further connections are closed at once.
                (
                    "grpc.max_allowed_incoming_connections",
                    connection_limit(settings.max_connections),
                ),
                # Time for the HTTP/2 preface. A connection closed before it counts until then.
                ("grpc.server_handshake_timeout_ms", int(REQUEST_SECONDS * 1000)),
                # Time for the client to acknowledge the settings, 1 minute by default.
                ("grpc.http2.settings_timeout", int(REQUEST_SECONDS * 1000)),
                # Clients probe quiet connections every 10 s (``client.channels``). By default gRPC
                # answers such pings with GOAWAY, which would break idle watches.
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 5000),
                ("grpc.http2.max_ping_strikes", 0),
            ]
        )
        others = [self.scheduling.handlers(pipeline), self._health.handlers()]
        # gRPC asks the handlers in order.
        server.add_generic_rpc_handlers([oversized(pipeline)])
        server.add_generic_rpc_handlers([*service_handlers(core, pipeline), *others])
        # The one for unknown methods must be the last.
        server.add_generic_rpc_handlers([reflection_handlers(pipeline), unknown(pipeline)])
        address = f"{settings.host}:{settings.port}"
        self.port = self._listen(server, address, demanding=bool(settings.tls_client_ca))
        if settings.token_listen:
            self.token_port = self._listen(server, settings.token_listen, demanding=False)
        return server

    def _listen(self, server: grpc.aio.Server, address: str, *, demanding: bool) -> int:
        """Listen; return the port. demanding: require client certificates. Raises OSError."""
        port: int
        try:
            if self._settings.tls_cert:
                certificates = ServerCertificates(self._settings)
                port = server.add_secure_port(
                    address, certificates.credentials(demanding=demanding)
                )
            else:
                port = server.add_insecure_port(address)
        except RuntimeError as error:
            # gRPC's text says no more than this.
            reason = "it is in use, or not an address of this machine"
            raise OSError(f"cannot listen on {address}: {reason}") from error
        return port


def reflection_handlers(pipeline: Pipeline) -> grpc.GenericRpcHandler:
    """Return the handlers to register with gRPC; the audit log does not record their calls.

    gRPC's own reflection service would answer every client that can connect.
    """
    servicer = reflection.aio.ReflectionServicer(_SERVICES)

    async def reflect(requests: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for response in servicer.ServerReflectionInfo(_decoded(requests), None):
            yield response.SerializeToString()

    handler = bidirectional(_METHOD, reflect, replace(pipeline, audit=None))
    return grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, {_METHOD: handler})


async def _decoded(requests: AsyncIterator[bytes]) -> AsyncIterator[ServerReflectionRequest]:
    async for raw in requests:
        try:
            yield ServerReflectionRequest.FromString(raw)
        except DecodeError:
            raise errors.bad_request("the request cannot be decoded") from None


class ServerCertificates:
    """The certificate, key and client CAs in files. Raises CertificateError.

    gRPC asks for them before each handshake, so the next connection uses a new certificate.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._files = CertificateFiles(settings.tls_client_ca, settings.tls_cert, settings.tls_key)
        # gRPC calls from its own threads.
        self._lock = threading.Lock()

    def credentials(self, *, demanding: bool) -> grpc.ServerCredentials:
        """Return credentials that give each new connection the latest certificates.

        demanding: clients must present a certificate of one of the CAs.
        """
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self.changed, require_client_authentication=demanding
        )

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificates if the files have changed and are valid; None otherwise."""
        with self._lock:
            changed = self._files.changed(keeps_certificates(_log))
            return self._configuration() if changed else None

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        pems = self._files.pems
        assert pems.certificate is not None
        own = describe(pems.certificate, self._settings.tls_cert)[0]
        _log.info("Certificate loaded", subject=own.subject, not_after=own.not_after.isoformat())
        if problem := own.problem(datetime.now(UTC)):
            _log.warning("The server's certificate needs renewal", problem=problem)
        return grpc.ssl_server_certificate_configuration(
            [(pems.key, pems.certificate)], pems.authorities
        )
