"""Settings of an API server; each is a flag of ``sched apiserver``."""

from __future__ import annotations

from dataclasses import dataclass, field

from podsched.config.flags import flag
from podsched.serve.server.access.settings import (
    JwtSettings,
    ServiceAccountSettings,
    SigningSettings,
)
from podsched.serve.server.audit.log import AuditSettings
from podsched.serve.server.kubelets.settings import KubeletSettings

MIB = 1 << 20
_STORAGE, _TLS, _TOKENS, _WATCHES = "Storage", "TLS", "Tokens", "Watches"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The defaults suit a cluster of about ten thousand nodes and a machine with 2 cores."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 chooses a free one (see ``ApiServer.port``)."""

    kube_listen: str = flag("", "HOST:PORT")
    """Listen address of Kubernetes' REST API over HTTP, for kubectl and client libraries.

    Port 0 chooses a free one (see ``ApiServer.kube_port``).
    """

    advertise_address: str = flag("", "ADDRESS")
    """IP address at which pods reach Kubernetes' REST API; by default that of --kube-listen, unless
    it is loopback.

    It becomes the address of the Service kubernetes in the namespace default, and so
    KUBERNETES_SERVICE_HOST in containers. With TLS alone.
    """

    service_cluster_ip_range: str = flag("10.96.0.0/12", "CIDR")
    """Network of the clusterIPs of Services; the same for all API servers of a cluster.

    IPv4 or IPv6, of at least 16 addresses. Services keep the addresses that they have if it
    changes. It must not overlap with the networks of nodes and pods.
    """

    tls_cert: str = flag("", "FILE", _TLS)
    """Server certificate chain; turns on TLS."""
    tls_key: str = flag("", "FILE", _TLS)
    """Private key of --tls-cert."""
    tls_client_ca: str = flag("", "FILE", _TLS)
    """CA certificates to verify clients with; requires a certificate of every client."""

    max_connections: int = flag(2000, "N", min=1)
    """Number of connections at a time to each address of the API; further ones are closed. To
    --kube-listen, clients of one address have half of them. At most an eighth of the files that the
    process may open. Beyond this number of watches, only those of schedulers, nodes and
    system:masters are served.

    An idle connection uses about 40 KB.
    """

    worker: int = 0
    workers: int = 1
    """Number of processes that share these addresses, and the index of this one."""

    token_file: str = flag("", "FILE", _TOKENS)
    """Hashes of the bearer tokens that are accepted, with user and groups; sched auth token makes
    its lines."""
    jwt: JwtSettings | None = None
    """Issuer whose JSON Web Tokens are accepted; None: none."""
    service_accounts: ServiceAccountSettings = field(default_factory=ServiceAccountSettings)
    """Tokens of ServiceAccounts."""
    signing: SigningSettings = field(default_factory=SigningSettings)
    """Certificates of kubelets."""
    token_listen: str = flag("", "HOST:PORT", _TOKENS)
    """Listen address for clients with tokens, where --tls-client-ca demands a certificate of those
    at --listen.

    A gRPC server requires certificates of all clients of an address or of none.
    """

    require_namespaces: bool = flag(False)
    """Refuse objects in namespaces that do not exist, instead of making them."""

    pod_group_claims: bool = flag(False)
    """Keep spec.resourceClaims of PodGroups, and of the templates of Workloads.

    As a kube-apiserver with the alpha feature gate DRAWorkloadResourceClaims.
    """

    watch_cache_events: int = flag(100_000, "N", _WATCHES, min=1)
    """Number of changes kept in memory for watches that lag or resume.

    A watch from an older revision must list again. At 1,000 pods a second with three changes each,
    this is half a minute.
    """
    watch_cache_bytes: int = flag(64 * MIB, "BYTES", _WATCHES, min=1)
    """Maximum size of these changes, in bytes of encoded events."""
    bookmark_seconds: float = flag(
        1.0, "SECONDS", _WATCHES, names="--watch-bookmark-interval", min=0.05, max=5.0
    )
    """Time after which an idle watch gets a bookmark with the current revision.

    Clients consider a watch broken after 10 s of silence.
    """

    event_ttl_seconds: int = flag(3600, "SECONDS", _STORAGE, names="--event-ttl", min=1)
    """Time after which Event objects are deleted."""
    max_events: int = flag(50_000, "N", _STORAGE, min=1)
    """Number of Event objects beyond which the oldest are deleted."""

    compaction_interval_seconds: float = flag(
        300.0, "SECONDS", _STORAGE, names="--etcd-compaction-interval", min=0.0
    )
    """Interval at which etcd's history is compacted; 0 leaves that to etcd."""
    etcd_quota_bytes: int = flag(2 << 30, "BYTES", _STORAGE, min=1)
    """etcd's --quota-backend-bytes; a warning is logged at 80 % of it."""

    kubelets: KubeletSettings = field(default_factory=KubeletSettings)
    """How kubelets are reached."""

    audit: AuditSettings | None = None
    """Settings of the audit log; None: no audit log."""

    @property
    def authenticates(self) -> bool:
        """Whether callers must authenticate; if so, roles determine their rights."""
        return bool(self.tls_client_ca or self.token_file or self.jwt)
