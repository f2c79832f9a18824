"""Settings of an API server; each is a flag of ``sched apiserver``."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.config.flags import flag
from podsched.serve.server.access.settings import JwtSettings
from podsched.serve.server.audit.log import AuditSettings

MIB = 1 << 20
_STORAGE, _TLS, _TOKENS, _WATCHES = "Storage", "TLS", "Tokens", "Watches"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Defaults suit a cluster of some ten thousand nodes and one machine of 2 cores."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 takes a free one, to be read from ``ApiServer.port``."""

    kube_listen: str = flag(
        "",
        "HOST:PORT",
        "Listen address of Kubernetes' REST API over HTTP, for kubectl and client libraries.",
    )
    """Port 0 takes a free one, to be read from ``ApiServer.kube_port``."""

    tls_cert: str = flag("", "FILE", "Server certificate chain; turns on TLS.", _TLS)
    tls_key: str = flag("", "FILE", "Private key of --tls-cert.", _TLS)
    tls_client_ca: str = flag(
        "",
        "FILE",
        "CA certificates to verify clients with; requires a certificate of every client.",
        _TLS,
    )

    max_connections: int = flag(
        2000,
        "N",
        "Number of connections at a time to each address of the API; further ones are closed. To "
        "--kube-listen, clients of one address have half of them. At most an eighth of the files "
        "that the process may open.",
        min=1,
    )
    """One that is idle costs some 40 KB."""

    worker: int = 0
    workers: int = 1
    """Number of the processes that share these addresses, and which of them this is."""

    token_file: str = flag(
        "",
        "FILE",
        "Hashes of the bearer tokens that are accepted, with user and groups; sched auth token "
        "makes its lines.",
        _TOKENS,
    )
    jwt: JwtSettings | None = None
    """Whose JSON Web Tokens are accepted; None: nobody's."""
    token_listen: str = flag(
        "",
        "HOST:PORT",
        "Listen address for clients with tokens, where --tls-client-ca demands a certificate of "
        "those at --listen.",
        _TOKENS,
    )
    """gRPC's servers demand a certificate of all or of none of an address's clients."""

    require_namespaces: bool = flag(
        False, "", "Refuse objects in namespaces that do not exist, instead of making them."
    )

    watch_cache_events: int = flag(
        100_000,
        "N",
        "Number of changes kept in memory for watches that lag or resume.",
        _WATCHES,
        min=1,
    )
    """Who asks for older ones lists again. At 1,000 pods a second with three changes each, half a
    minute."""
    watch_cache_bytes: int = flag(
        64 * MIB,
        "BYTES",
        "Maximum size of these changes, in bytes of encoded events.",
        _WATCHES,
        min=1,
    )
    bookmark_seconds: float = flag(
        1.0,
        "SECONDS",
        "Time after which an idle watch gets a bookmark with the current revision.",
        _WATCHES,
        "--watch-bookmark-interval",
        min=0.05,
        max=5.0,
    )
    """Clients take a watch for broken that says nothing for 10 s."""

    event_ttl_seconds: int = flag(
        3600,
        "SECONDS",
        "Time after which Event objects are deleted.",
        _STORAGE,
        "--event-ttl",
        min=1,
    )
    max_events: int = flag(
        50_000, "N", "Number of Event objects beyond which the oldest are deleted.", _STORAGE, min=1
    )

    compaction_interval_seconds: float = flag(
        300.0,
        "SECONDS",
        "Interval at which etcd's history is compacted; 0 leaves that to etcd.",
        _STORAGE,
        "--etcd-compaction-interval",
        min=0.0,
    )
    etcd_quota_bytes: int = flag(
        2 << 30,
        "BYTES",
        "etcd's --quota-backend-bytes; a warning is logged at 80 % of it.",
        _STORAGE,
        min=1,
    )

    audit: AuditSettings | None = None
    """Where the audit log goes; None: there is none."""

    @property
    def authenticates(self) -> bool:
        """Whether callers are asked who they are; what each may do is then a matter of roles."""
        return bool(self.tls_client_ca or self.token_file or self.jwt)
