"""Settings of an API server; each is a flag of ``sched apiserver``."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.serve.server.access.settings import JwtSettings
from podsched.serve.server.audit.log import AuditSettings

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Defaults suit a cluster of some ten thousand nodes and one machine of 2 cores."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 takes a free one, to be read from ``ApiServer.port``."""

    kube_listen: str = ""
    """host:port on which Kubernetes' REST API is served over HTTP; empty: it is not. Port 0 takes a
    free one, to be read from ``ApiServer.kube_port``."""

    tls_cert: str = ""
    """File with the server's certificate chain (PEM); empty: no TLS."""
    tls_key: str = ""
    """File with the certificate's private key (PEM)."""
    tls_client_ca: str = ""
    """File with the authorities whose client certificates are demanded; empty: none is demanded."""

    max_connections: int = 2000
    """Connections at a time on each address of the API, or an eighth of the files that the process
    may open if that is less. One that is idle costs some 40 KB."""

    worker: int = 0
    workers: int = 1
    """Number of the processes that share these addresses, and which of them this is."""

    token_file: str = ""
    """File with the hashes of bearer tokens and whose they are; empty: none is accepted."""
    jwt: JwtSettings | None = None
    """Whose JSON Web Tokens are accepted; None: nobody's."""
    token_listen: str = ""
    """host:port for clients with tokens, which show no certificate, beside the address that demands
    one: gRPC's servers demand one of all or of none of an address's clients."""

    require_namespaces: bool = False
    """Whether objects need a namespace that exists; else it is made with the first one."""

    watch_cache_events: int = 100_000
    """Changes kept in memory for watchers that lag or resume; who asks for older ones lists again.
    At 1,000 pods a second with three changes each, half a minute."""
    watch_cache_bytes: int = 64 * MIB
    """The same bound in bytes of encoded events, whichever is reached first."""
    bookmark_seconds: float = 1.0
    """A watch on which nothing happened for so long says how far it has come; clients take a watch
    for broken that says nothing for 10 s."""

    event_ttl_seconds: int = 3600
    """Life of Event objects, as kube-apiserver's --event-ttl."""
    max_events: int = 50_000
    """Most Event objects kept; beyond it the oldest are deleted for new ones."""

    compaction_interval_seconds: float = 300.0
    """Time between compactions of etcd's history, as kube-apiserver's --etcd-compaction-interval;
    0 leaves compaction to etcd itself."""
    etcd_quota_bytes: int = 2 << 30
    """etcd's --quota-backend-bytes, of which 80 % is worth a warning; etcd's own default."""

    audit: AuditSettings | None = None
    """Where the audit log goes; None: there is none."""

    @property
    def authenticates(self) -> bool:
        """Whether callers are asked who they are; what each may do is then a matter of roles."""
        return bool(self.tls_client_ca or self.token_file or self.jwt)
