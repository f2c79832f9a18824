"""Options of ``sched scheduler`` with Kubernetes' names, units and defaults.

The options of controllers are those of kube-controller-manager, all others those of kube-scheduler.
As in kube-scheduler, options override the configuration file. Go's form of flags is understood,
too: ``--leader-elect=false``.
"""

from __future__ import annotations

import atexit
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsched.app.serving_certificate import serving_certificate
from podsched.cli.errors import USAGE, fail, fail_on, file_or_fail, pair_or_fail, warn
from podsched.cli.help_texts import Command
from podsched.cli.options import seconds_or_fail
from podsched.config.errors import ConfigError
from podsched.config.feature_gates import BOOLEANS, check_version, parse_gates
from podsched.config.flags import flag
from podsched.config.kube_flags import refusals
from podsched.config.settings import LogLevel
from podsched.lib.certificate_error import CertificateError
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tls_contexts import TlsFiles
from podsched.telemetry.logs import DEBUG_FROM, parse_modules

_ELECTION, _GATES, _DEPRECATED = "Leader election", "Feature gates", "Deprecated"
_OBSERVABILITY = "Observability"


@dataclass(frozen=True, slots=True)
class KubeFlags:
    """kube-scheduler's flags. Exits if podsched cannot implement a value."""

    write_config_to: Path | None = flag(None, "FILE")
    """Write the configuration in effect to a file, and exit."""
    leader_elect: bool | None = flag(
        None, "", _ELECTION, names="--leader-elect/--no-leader-elect", show_default=False
    )
    """Overrides leaderElection.leaderElect of the configuration."""
    leader_elect_lease_duration: str = flag("", "DURATION", _ELECTION)
    """Time after which others take over from a leader that does not renew its lease, unless they
    notice earlier that it is gone. Default: 15s."""
    leader_elect_renew_deadline: str = flag("", "DURATION", _ELECTION)
    """Time after which a leader that cannot renew its lease gives up. Default: 10s."""
    leader_elect_retry_period: str = flag("", "DURATION", _ELECTION)
    """Interval between attempts to acquire or renew the lease. Default: 2s."""
    leader_elect_resource_lock: str = flag("", "TYPE", _ELECTION)
    """Type of the lock; leases is the only one."""
    leader_elect_resource_name: str = flag("", "NAME", _ELECTION)
    """Name of the lease. Default: kube-scheduler."""
    leader_elect_resource_namespace: str = flag("", "NAME", _ELECTION)
    """Namespace of the lease. Default: kube-system."""
    feature_gates: list[str] | None = flag(None, "NAME=BOOL,...", _GATES)
    """Feature gates of kube-scheduler; values that podsched cannot implement are errors."""
    emulated_version: str = flag("", "VERSION", _GATES)
    """The version to behave as: only 1.36."""
    min_compatibility_version: str = flag("", "VERSION", _GATES)
    """The oldest version to be compatible with: only 1.36."""
    disabled_metrics: list[str] | None = flag(None, "NAME,...", _OBSERVABILITY)
    """Metrics to leave out of /metrics."""
    v: int | None = flag(None, "LEVEL", _OBSERVABILITY, names="--v -v", min=0)
    """Verbosity as a number; from 4 on, --log-level debug."""
    vmodule: str = flag("", "COMPONENT=LEVEL,...", _OBSERVABILITY)
    """Verbosity of components, which may have * in their names, such as queue=4."""
    pod_max_in_unschedulable_pods_duration: str = flag("5m", "DURATION", "Queue")
    """Time after which an unschedulable pod is retried without an event."""
    profiling: bool | None = flag(
        None, "", _DEPRECATED, names="--profiling/--no-profiling", show_default=False
    )
    """Deprecated: set enableProfiling in the configuration file."""
    contention_profiling: bool | None = flag(
        None,
        "",
        _DEPRECATED,
        names="--contention-profiling/--no-contention-profiling",
        show_default=False,
    )
    """Deprecated: set enableContentionProfiling in the configuration file."""

    def __post_init__(self) -> None:
        for field in self._deprecated:
            warn(f"deprecated flag: set {field} in the configuration file instead")

    @property
    def _deprecated(self) -> dict[str, Any]:
        profiling, contention = self.profiling, self.contention_profiling
        return _given({"enableProfiling": profiling, "enableContentionProfiling": contention})

    @property
    def overrides(self) -> dict[str, Any]:
        """The fields of the configuration that are set here, in the form of its file."""
        election = {
            "leaderElect": self.leader_elect,
            "leaseDuration": self.leader_elect_lease_duration,
            "renewDeadline": self.leader_elect_renew_deadline,
            "retryPeriod": self.leader_elect_retry_period,
            "resourceLock": self.leader_elect_resource_lock,
            "resourceName": self.leader_elect_resource_name,
            "resourceNamespace": self.leader_elect_resource_namespace,
        }
        return _given({**self._deprecated, "leaderElection": _given(election)})

    def gates(self) -> Mapping[str, bool]:
        """Return the feature gates; exit if podsched cannot implement them or the versions."""
        versions = {
            "--emulated-version": self.emulated_version,
            "--min-compatibility-version": self.min_compatibility_version,
        }
        return gates_or_fail(self.feature_gates, _given(versions))

    def log_modules(self) -> tuple[tuple[str, str], ...]:
        """Return the levels of components; exit if they are malformed."""
        with fail_on(ValueError, about="--vmodule", code=USAGE):
            return parse_modules(self.vmodule)

    def log_level(self, level: LogLevel) -> LogLevel:
        """Return the log level in effect; ``level`` is the value of ``--log-level``."""
        return "debug" if (self.v or 0) >= DEBUG_FROM else level

    def max_in_unschedulable(self) -> float:
        """Return the max seconds that pods stay unschedulable; exit if it is not a duration."""
        text = self.pod_max_in_unschedulable_pods_duration
        if text.replace(".", "", 1).isdecimal():
            return float(text)
        return seconds_or_fail("--pod-max-in-unschedulable-pods-duration", text)


def gates_or_fail(
    given: Sequence[str] | None, versions: Mapping[str, str] = {}
) -> Mapping[str, bool]:
    """Return the given feature gates; exit if podsched cannot implement them.

    ``versions``: versions to behave as, by their options, which are checked as well.
    """
    try:
        found = parse_gates(",".join(given or ()))
        for option, version in versions.items():
            check_version(option, version)
        return found
    except ConfigError as exc:
        fail("\nerror: ".join(str(exc).splitlines()), USAGE)


class KubeCommand(Command):
    """A command that takes kube-scheduler's flags as they are written for it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = [_usual(argument) for argument in args]
        if found := refusals(args):
            fail("\nerror: ".join(found), USAGE)
        return list(super().parse_args(ctx, self._plain(args)))

    def _plain(self, arguments: Sequence[str]) -> list[str]:
        """Return arguments with --flag=true and --flag=false as --flag and --no-flag."""
        flags = {
            option: (option, off)
            for param in self.params
            if getattr(param, "is_flag", False)
            for option in param.opts
            for off in [*param.secondary_opts, ""][:1]
        }
        found: list[str] = []
        for argument in arguments:
            name, equals, value = argument.partition("=")
            if not equals or name not in flags or value.lower() not in BOOLEANS:
                found.append(argument)
                continue
            on, off = flags[name]
            found += [on] if BOOLEANS[value.lower()] else [off] if off else []
        return found


def _usual(argument: str) -> str:
    """Return an argument in the usual form: in Go's, --a_b is --a-b."""
    name, equals, value = argument.partition("=")
    return (name.replace("_", "-") if name.startswith("--") else name) + equals + value


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, "", {})}


_PANEL = "Secure serving"
_PORT = 10259
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class ServingFlags:
    """Options for serving over HTTPS as kube-scheduler does, in place of ``--health-listen``.

    Any of these options turns it on. Exits if they contradict each other.
    """

    bind_address: str = flag("", "ADDRESS", _PANEL)
    """Address for HTTPS, in place of --health-listen. Default, if any of these options is given:
    0.0.0.0, all addresses."""
    secure_port: int | None = flag(None, "PORT", _PANEL, min=0, max=65535, show_default=False)
    """Port for HTTPS; 0: no HTTPS. Default: 10259."""
    cert_dir: Path | None = flag(None, "DIRECTORY", _PANEL)
    """Directory with kube-scheduler.crt and kube-scheduler.key, which are made if missing. Without
    it and --tls-cert-file, a certificate is made for this run."""
    tls_cert_file: Path | None = flag(None, "FILE", _PANEL)
    """Certificate for HTTPS, and its chain."""
    tls_private_key_file: Path | None = flag(None, "FILE", _PANEL)
    """Private key of --tls-cert-file."""
    tls_min_version: str = flag("", "VERSION", _PANEL, show_default=False)
    """Oldest version of TLS for HTTPS: VersionTLS12 or VersionTLS13."""
    client_ca_file: Path | None = flag(None, "FILE", _PANEL)
    """Certificate authorities of the clients. Without it and --tls-ca, only the paths that are
    always allowed can be read."""
    authorization_always_allow_paths: list[str] | None = flag(None, "PATH,...", _PANEL)
    """Paths that need no client certificate; /healthz, /livez and /readyz never need one."""

    def __post_init__(self) -> None:
        certificate, key = self.tls_cert_file, self.tls_private_key_file
        pair_or_fail({"--tls-cert-file": certificate, "--tls-private-key-file": key})
        file_or_fail("--client-ca-file", self.client_ca_file)
        for path in self.open_paths:
            if "*" in path[:-1]:
                option = "--authorization-always-allow-paths"
                fail(f"{option}: {path}: * may only be at the end", USAGE)
        if self.tls_min_version and self.tls_min_version not in _VERSIONS:
            versions = ", ".join(_VERSIONS)
            fail(f"--tls-min-version {self.tls_min_version}: must be one of {versions}", USAGE)

    @property
    def open_paths(self) -> tuple[str, ...]:
        """Paths that answer without a certificate; kube-scheduler, too, adds a leading slash."""
        paths = ",".join(self.authorization_always_allow_paths or []).split(",")
        return tuple(f"/{path.strip().removeprefix('/')}" for path in paths if path.strip())

    @property
    def https(self) -> bool:
        """Whether to serve as kube-scheduler does; --secure-port=0 turns it off, as there."""
        given = (
            self.bind_address,
            self.cert_dir,
            self.tls_cert_file,
            self.tls_min_version,
            self.client_ca_file,
        )
        return self.secure_port != 0 and (self.secure_port is not None or any(given))

    @property
    def address(self) -> str:
        """Where to listen, as HOST:PORT."""
        host = self.bind_address or "0.0.0.0"
        return f"{f'[{host}]' if ':' in host else host}:{self.secure_port or _PORT}"

    def tls(self, authorities: str) -> TlsFiles:
        """Return the files to serve with; exit if they cannot be made.

        ``authorities``: of clients, unless --client-ca-file names others.
        """
        oldest = _VERSIONS.get(self.tls_min_version, ssl.TLSVersion.TLSv1_2)
        certificate, key = self.tls_cert_file, self.tls_private_key_file
        if certificate is None or key is None:
            with (
                fail_on(OSError, about=f"--cert-dir {self.cert_dir or ''}"),
                fail_on(CertificateError, about="--cert-dir"),
            ):
                directory = self.cert_dir or _for_this_run()
                certificate, key = serving_certificate(directory, self.bind_address or "0.0.0.0")
        clients = str(self.client_ca_file or authorities)
        return TlsFiles(clients, str(certificate), str(key), oldest=oldest)


def _for_this_run() -> Path:
    directory = RunDirectory("certificates")
    atexit.register(directory.remove)
    return directory.path
