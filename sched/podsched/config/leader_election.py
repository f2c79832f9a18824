"""Settings of leader election, with client-go's names, defaults and validation.

With these settings a failover takes at most lease_duration + retry_period * (1 + jitter_factor)
after the holder's last renewal, 19.4 s by default. The liveness key and the connections between the
replicas usually make it far shorter; the lease is the fallback when neither can be relied on.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsched.api.names import dns1123_label, dns1123_subdomain
from podsched.config.durations import format_duration
from podsched.config.errors import ConfigError, FieldError, invalid, required

#: client-go's ``leaderelection.JitterFactor``.
JITTER_FACTOR = 1.2
#: Seconds; the Lease has whole seconds.
MIN_LEASE_DURATION = 1.0


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
        if errors := self.errors():
            raise ConfigError(errors)

    @property
    def lock(self) -> str:
        """The "namespace/name" of the lock, as a Fence names it."""
        return f"{self.resource_namespace}/{self.resource_name}"

    def errors(self, path: str = "leaderElection") -> list[FieldError]:
        """Return the errors with Kubernetes' field paths below ``path``."""
        return [*self._duration_errors(path), *self._order_errors(path), *self._lock_errors(path)]

    def _duration_errors(self, path: str) -> list[FieldError]:
        durations = {
            "leaseDuration": self.lease_duration,
            "renewDeadline": self.renew_deadline,
            "retryPeriod": self.retry_period,
        }
        found = [
            invalid(f"{path}.{name}", format_duration(value), "must be greater than zero")
            for name, value in durations.items()
            if value <= 0
        ]
        if 0 < self.lease_duration < MIN_LEASE_DURATION:
            # It would be written as 0 seconds, which a Lease does not permit.
            shown, least = map(format_duration, (self.lease_duration, MIN_LEASE_DURATION))
            found.append(invalid(f"{path}.leaseDuration", shown, f"must be at least {least}"))
        if self.jitter_factor < 0:
            found.append(
                invalid(f"{path}.jitterFactor", self.jitter_factor, "must not be negative")
            )
        return found

    def _order_errors(self, path: str) -> list[FieldError]:
        """Return the errors if a standby could take over before the leader has stopped leading."""
        found = []
        if self.lease_duration <= self.renew_deadline:
            found.append(
                invalid(
                    f"{path}.leaseDuration",
                    format_duration(self.lease_duration),
                    f"must be greater than renewDeadline ({format_duration(self.renew_deadline)})",
                )
            )
        # client-go checks this only when the elector is created; here it is reported with the rest.
        if self.renew_deadline <= self.jitter_factor * self.retry_period:
            found.append(
                invalid(
                    f"{path}.renewDeadline",
                    format_duration(self.renew_deadline),
                    f"must be greater than {self.jitter_factor:g} * retryPeriod"
                    f" ({format_duration(self.retry_period)})",
                )
            )
        return found

    def _lock_errors(self, path: str) -> list[FieldError]:
        found = []
        if self.resource_lock != "leases":
            reason = 'resourceLock value must be "leases"'
            found.append(invalid(f"{path}.resourceLock", self.resource_lock, reason))
        for field, value, rule in (
            ("resourceName", self.resource_name, dns1123_subdomain),
            ("resourceNamespace", self.resource_namespace, dns1123_label),
        ):
            if not value:
                found.append(required(f"{path}.{field}"))
            else:
                # The lock is a Lease object, and both are parts of its keys in etcd.
                found += [invalid(f"{path}.{field}", value, reason) for reason in rule(value)]
        return found
