"""Settings of leader election, with client-go's names, defaults and validation.

With these settings a failover takes at most lease_duration + retry_period * (1 + jitter_factor)
after the holder's last renewal, 19.4 s by default. The liveness key and the connections between the
replicas usually make it far shorter; the lease is the fallback when neither can be relied on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podsched.api.names import dns1123_label, dns1123_subdomain
from podsched.config.durations import format_duration
from podsched.config.errors import ConfigError, FieldError, invalid, required

#: client-go's ``leaderelection.JitterFactor``.
JITTER_FACTOR = 1.2
#: Seconds; the Lease has whole seconds, of 32 bits.
MIN_LEASE_DURATION, MAX_LEASE_DURATION = 1.0, 2.0**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionSettings:
    """Durations in seconds. Raises ``ConfigError`` with all errors if they do not fit together."""

    leader_elect: bool = True
    """Whether there may be other replicas. Without it, the scheduler takes the lock when it starts,
    even from another holder: it needs the lock's term for its writes."""
    lease_duration: float = 15.0
    """Time a standby waits after the last renewal it has seen before it takes the lock."""
    renew_deadline: float = 10.0
    """Time after which a holder that fails to renew stops leading; before others may start."""
    retry_period: float = 2.0
    """Time between attempts to acquire or renew."""
    jitter_factor: float = JITTER_FACTOR
    """Standbys wait retry_period * (1 + jitter_factor * [0, 1)), to avoid writing all at once."""
    release_on_cancel: bool = True
    """Whether a holder that stops empties the record, so that others can acquire it at once."""
    resource_lock: str = "leases"
    """Kind of the lock; Kubernetes supports no other."""
    resource_name: str = "kube-scheduler"
    """Name of the lock."""
    resource_namespace: str = "kube-system"
    """Namespace of the lock."""

    def __post_init__(self) -> None:
        if found := [*self._duration_errors(), *self._order_errors(), *self._lock_errors()]:
            raise ConfigError(found)

    @property
    def lock(self) -> str:
        """The "namespace/name" of the lock, as a Fence names it."""
        return f"{self.resource_namespace}/{self.resource_name}"

    def _duration_errors(self) -> Iterator[FieldError]:
        durations = {
            "leaseDuration": self.lease_duration,
            "renewDeadline": self.renew_deadline,
            "retryPeriod": self.retry_period,
        }
        for name, value in durations.items():
            if value <= 0:
                yield _invalid(name, format_duration(value), "must be greater than zero")
        if 0 < self.lease_duration < MIN_LEASE_DURATION:
            # It would be written as 0 seconds, which a Lease does not permit.
            shown, least = map(format_duration, (self.lease_duration, MIN_LEASE_DURATION))
            yield _invalid("leaseDuration", shown, f"must be at least {least}")
        if self.lease_duration > MAX_LEASE_DURATION:
            shown, most = map(format_duration, (self.lease_duration, MAX_LEASE_DURATION))
            yield _invalid("leaseDuration", shown, f"must be at most {most}")
        if self.jitter_factor < 0:
            yield _invalid("jitterFactor", self.jitter_factor, "must not be negative")

    def _order_errors(self) -> Iterator[FieldError]:
        """Yield the errors if a standby could take over before the leader has stopped leading."""
        lease, deadline, period = map(
            format_duration, (self.lease_duration, self.renew_deadline, self.retry_period)
        )
        if self.lease_duration <= self.renew_deadline:
            reason = f"must be greater than renewDeadline ({deadline})"
            yield _invalid("leaseDuration", lease, reason)
        # client-go checks this only when the elector is created; here it is reported with the rest.
        if self.renew_deadline <= self.jitter_factor * self.retry_period:
            reason = f"must be greater than {self.jitter_factor:g} * retryPeriod ({period})"
            yield _invalid("renewDeadline", deadline, reason)

    def _lock_errors(self) -> Iterator[FieldError]:
        if self.resource_lock != "leases":
            reason = 'resourceLock value must be "leases"'
            yield _invalid("resourceLock", self.resource_lock, reason)
        for name, value, rule in (
            ("resourceName", self.resource_name, dns1123_subdomain),
            ("resourceNamespace", self.resource_namespace, dns1123_label),
        ):
            if not value:
                yield required(f"leaderElection.{name}")
            else:
                # The lock is a Lease object, and both are parts of its keys in etcd.
                yield from (_invalid(name, value, reason) for reason in rule(value))


def _invalid(name: str, value: object, reason: str) -> FieldError:
    return invalid(f"leaderElection.{name}", value, reason)
