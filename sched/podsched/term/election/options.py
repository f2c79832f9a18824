"""The callbacks and options of an elector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podsched.lib.tls_contexts import TlsFiles
from podsched.term.election.events import StopReason
from podsched.v1 import api_pb2


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ElectionCallbacks:
    """Called on changes of leadership. They must not block; an exception ends the elector."""

    on_started_leading: Callable[[api_pb2.Fence], None] = _ignore
    on_stopped_leading: Callable[[StopReason], None] = _ignore
    on_new_leader: Callable[[str], None] = _ignore
    on_renewal: Callable[[str, float], None] = _ignore
    """Gets the outcome of a renewal (renewed, refused, error) and its duration in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOptions:
    """Settings that KubeSchedulerConfiguration does not have."""

    listen_host: str | None = "127.0.0.1"
    """The address for connections of peers; None: none, so a dead leader is noticed after 2 s."""
    listen_port: int = 0
    """0: any free port."""
    advertise_address: str = ""
    """The "host:port" or "host" that peers connect to; a missing part is the bound one."""
    tls: TlsFiles | None = None
    """If set, peers need a certificate of the same user (mutual TLS)."""
    liveness_ttl: int = 2
    """Seconds without a sign of life until standbys race; etcd's minimum is 2; 0: off."""
    election_timeout: float = 0.0
    """Seconds without a renewal until standbys take over from a silent leader; 0: only when its
    lease or liveness key has ended, or its connection broke."""
    coordinated: bool = False
    """Whether the API server appoints the holder (Kubernetes' coordinated leader election)."""
