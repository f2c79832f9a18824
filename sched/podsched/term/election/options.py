"""What the owner of an elector sets: callbacks and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podsched.lib.tls_contexts import TlsFiles
from podsched.term.election.events import StopReason
from podsched.v1 import api_pb2


def _ignore(_: object) -> None:
    pass


def _ignore_renewal(result: str, seconds: float) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ElectionCallbacks:
    """Called on changes of leadership; they must not block, and an exception ends the elector."""

    on_started_leading: Callable[[api_pb2.Fence], None] = _ignore
    on_stopped_leading: Callable[[StopReason], None] = _ignore
    on_new_leader: Callable[[str], None] = _ignore
    on_renewal: Callable[[str, float], None] = _ignore_renewal
    """Outcome of a renewal (renewed, refused, error), and its seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOptions:
    """Settings that KubeSchedulerConfiguration does not have."""

    listen_host: str | None = "127.0.0.1"
    """Where peers connect to; None: nowhere, so a killed leader is missed after 2 s."""
    listen_port: int = 0
    """0: any free port."""
    advertise_address: str = ""
    """The "host:port" or "host" as peers reach it; what is left out is as bound."""
    tls: TlsFiles | None = None
    """With it, peers are only those with a certificate of the same user, by mutual TLS."""
    liveness_ttl: int = 2
    """Seconds without a sign of life until standbys race; 2 is the least etcd grants; 0: off."""
    coordinated: bool = False
    """Whether the API server appoints the holder (Kubernetes' coordinated leader election)."""
    race_jitter: float = 0.02
    """Standbys that see the lock go free start within so many seconds of each other."""
