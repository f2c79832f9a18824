"""What can be set on an API server."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Defaults suit a cluster of some ten thousand nodes and one machine of 2 cores."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 takes a free one, to be read from `ApiServer.port`."""

    tls_cert: str = ""
    """File with the server's certificate chain (PEM); empty: no TLS."""
    tls_key: str = ""
    """File with the certificate's private key (PEM)."""
    tls_client_ca: str = ""
    """File with the authorities whose client certificates are demanded; empty: none is demanded."""

    max_object_bytes: int = MIB
    """Largest object in bytes. etcd takes requests of 1.5 MiB by default."""
    max_message_bytes: int = 16 * MIB
    """Largest request in bytes; a batch of 5,000 large pods is about 10 MiB."""
    max_batch: int = 5000
    """Most items of one batch call."""
    max_response_bytes: int = 4 * MIB
    """Lists are cut into pages and watches into responses of about this many bytes."""

    ring_events: int = 100_000
    """Changes kept in memory for watchers that lag or resume; older ones mean to list again."""
    ring_bytes: int = 64 * MIB
    """The same bound in bytes of encoded events, whichever is reached first."""
    bookmark_seconds: float = 1.0
    """A watch on which nothing happened for so long says how far it has come."""

    watch_interval_seconds: float = 0.002
    """Least time between two responses of one watch; the first after a pause is sent at once."""

    event_ttl_seconds: int = 3600
    """Life of Event objects, as kube-apiserver's --event-ttl."""
    max_events: int = 50_000
    """Most Event objects kept; beyond it the oldest are deleted for new ones."""

    compaction_interval_seconds: float = 300.0
    """Time between compactions of etcd's history, as kube-apiserver's --etcd-compaction-interval;
    0 leaves compaction to etcd itself."""
    etcd_quota_bytes: int = 2 << 30
    """etcd's --quota-backend-bytes, of which 80 % is worth a warning; etcd's own default."""

    freshness_timeout_seconds: float = 4.0
    """How long a list waits for the watch cache before it fails with UNAVAILABLE; less than the
    clients' deadline of 10 s, so that they learn the cause and can ask another server."""
    write_timeout_seconds: float = 30.0
    """How long a write may take at the store before its outcome is reported as unknown."""
    max_write_rounds: int = 16
    """How often a write without a resourceVersion is tried anew on an object others change."""
