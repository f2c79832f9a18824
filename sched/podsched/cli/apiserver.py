"""``sched apiserver``: serve the APIs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from podsched.app.process import Process, ProcessOptions
from podsched.cli.errors import USAGE, fail, fail_on, file_or_fail, pair_or_fail
from podsched.cli.flags import takes_flags
from podsched.cli.options import split_address
from podsched.cli.process_options import (
    PageFlags,
    check_listener,
    etcd_options,
    instance_of,
    run_or_fail,
    telemetry_settings,
)
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.config.settings import TelemetrySettings
from podsched.lib.files import read_file
from podsched.lib.network import is_loopback
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.server.access.settings import (
    JwtSettings,
    ServiceAccountSettings,
    SigningSettings,
)
from podsched.serve.server.audit.log import AuditSettings
from podsched.serve.server.kubelets.addresses import ADDRESS_TYPES
from podsched.serve.server.kubelets.settings import KubeletSettings
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.connection import EtcdOptions

if TYPE_CHECKING:
    from podsched.serve.server.audit.policy import AuditPolicy

_PANEL = "Audit"
#: Max bytes of an audit policy file.
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class _Flags(PageFlags):
    listen: str = flag("127.0.0.1:7443", "HOST:PORT")
    """Listen address of the gRPC API."""
    workers: int = flag(1, "N", min=1, max=64)
    """Number of processes that share these addresses, for machines with more cores than one process
    uses. Limits such as --max-connections hold for each process."""
    as_worker: str = flag("", hidden=True)
    """INDEX/WORKERS:SOCKET, set by the parent process."""


@dataclass(frozen=True, slots=True)
class AuditFlags:
    """Options of the audit log."""

    audit_log: Path | None = flag(None, "FILE", _PANEL)
    """File for the audit log. Default: no audit log."""
    audit_policy: Path | None = flag(None, "FILE", _PANEL)
    """Policy (audit.k8s.io/v1) for what is written. Default: level Metadata for every call."""
    audit_log_maxsize: int = flag(100, "MB", _PANEL, min=1)
    """Size at which a new file is started."""
    audit_log_maxbackup: int = flag(10, "N", _PANEL, min=0)
    """Number of old files to keep; 0: all."""
    audit_log_maxage: int = flag(0, "DAYS", _PANEL, min=0)
    """Number of days to keep old files; 0: no limit."""

    def settings(self) -> AuditSettings | None:
        """Return the settings, None without an audit log; exit if they are invalid."""
        if self.audit_log is None:
            if self.audit_policy is not None:
                fail("--audit-policy needs --audit-log", USAGE)
            return None
        return AuditSettings(
            path=self.audit_log,
            policy=None if self.audit_policy is None else _policy(self.audit_policy),
            max_bytes=self.audit_log_maxsize << 20,
            max_backups=self.audit_log_maxbackup,
            max_days=self.audit_log_maxage,
        )


@takes_flags
def apiserver(
    ctx: typer.Context,
    settings: ServerSettings,
    given: _Flags,
    etcd: EtcdOptions,
    jwt: JwtSettings,
    accounts: ServiceAccountSettings,
    signing: SigningSettings,
    kubelets: KubeletSettings,
    audit: AuditFlags,
    telemetry: TelemetrySettings,
) -> None:
    """Serve the gRPC API and, with --kube-listen, Kubernetes' REST API.

    The objects are stored in etcd.
    """
    from podsched.app.apiserver import run_apiserver

    etcd = etcd_options(etcd)
    _check_network(settings)
    _check_listeners(given, settings)
    host, port = split_address("--listen", given.listen)
    settings = replace(
        settings,
        host=host,
        port=port,
        jwt=jwt_settings(jwt),
        audit=audit.settings(),
        kubelets=kubelets,
        service_accounts=accounts,
        signing=signing,
    )
    _check_files(settings, accounts, signing, kubelets)
    check_tokens(settings)
    telemetry = telemetry_settings(telemetry, given.health_listen)
    instance, web = instance_of(given.listen), given.web_listen
    page = split_address("--web-listen", web) if web else None
    files = (settings.tls_client_ca, settings.tls_cert, settings.tls_key)
    tls = TlsFiles(*files) if settings.tls_cert else None
    options = ProcessOptions("apiserver", instance, telemetry, tls, web_listen=page)
    shared, own = _addresses(given, settings)
    if given.as_worker:
        settings, options = _worker(given.as_worker, settings, options)
    elif given.workers > 1:
        _run_workers(ctx, given.workers, shared, own, replace(options, web_listen=None))
    run_or_fail(ctx, options, lambda process: run_apiserver(process, settings, etcd), shared | own)


def _addresses(
    given: _Flags, settings: ServerSettings
) -> tuple[dict[str, str], dict[str, str | None]]:
    """Return the addresses that workers would share, and the others, by their options."""
    if given.as_worker:
        return {}, {}  # Its parent has them.
    shared = {
        "--listen": given.listen,
        "--kube-listen": settings.kube_listen,
        "--token-listen": settings.token_listen,
    }
    return shared, {"--health-listen": given.health_listen, "--web-listen": given.web_listen}


def _run_workers(
    ctx: typer.Context,
    workers: int,
    shared: Mapping[str, str],
    own: Mapping[str, str | None],
    options: ProcessOptions,
) -> None:
    """Run workers that share some addresses; others are this process's and the first worker's."""
    from podsched.app.workers import Reserved, run_workers

    async def run(process: Process) -> None:
        with ExitStack() as stack:
            reserved = [
                f"{option}={stack.enter_context(Reserved(address)).address}"
                for option, address in shared.items()
                if address
            ]

            def arguments(index: int, health: Path) -> list[str]:
                # The arguments of this command, then those that replace some of them: of a repeated
                # option the last one counts. Only the first worker serves the page.
                page = ["--web-listen="] if index else []
                worker = f"--as-worker={index}/{workers}:{health}"
                return [*sys.argv[1:], *reserved, *page, worker]

            await run_workers(process, workers, arguments)

    run_or_fail(ctx, options, run, {**shared, **own})


def _worker(
    given: str, settings: ServerSettings, options: ProcessOptions
) -> tuple[ServerSettings, ProcessOptions]:
    """Return the settings of one of several worker processes.

    A worker's health server is for the parent only. Each worker writes its own audit log, because a
    file with several writers cannot be rotated.
    """
    place, _, health = given.partition(":")
    index, _, workers = place.partition("/")
    audit = settings.audit
    if audit is not None:
        audit = replace(audit, path=audit.path.with_name(f"{audit.path.name}.{index}"))
    settings = replace(settings, worker=int(index), workers=int(workers), audit=audit)
    telemetry = replace(options.telemetry, health_host=health, health_port=0)
    instance = f"{options.instance}_{index}"
    return settings, replace(options, instance=instance, telemetry=telemetry, health_tls=None)


def _check_listeners(given: _Flags, settings: ServerSettings) -> None:
    """Exit if an address needs TLS and there is none."""
    tls, remedy = bool(settings.tls_cert), "--tls-cert, --tls-key and --tls-client-ca"
    addresses = {
        "--listen": given.listen,
        "--health-listen": given.health_listen,
        "--kube-listen": settings.kube_listen,
        "--web-listen": given.web_listen,
    }
    for option, address in addresses.items():
        if address:
            check_listener(option, address, tls=tls, insecure=given.insecure_listen, remedy=remedy)


def _check_network(settings: ServerSettings) -> None:
    from podsched.serve.server.advertising import advertised_address
    from podsched.serve.server.service_addresses import usable_network

    network = settings.service_cluster_ip_range
    if not usable_network(network):
        text = "must be a network of at least 16 addresses, such as 10.96.0.0/12"
        fail(f"--service-cluster-ip-range {network}: {text}", USAGE)

    given = settings.advertise_address
    if given and not advertised_address(given, ""):
        fail(f"--advertise-address {given}: must be an IP address that other machines reach", USAGE)


def _check_files(
    settings: ServerSettings,
    accounts: ServiceAccountSettings,
    signing: SigningSettings,
    kubelets: KubeletSettings,
) -> None:
    """Exit unless the files exist and fit together, and the types of addresses are known."""
    pair_or_fail({"--tls-cert": settings.tls_cert, "--tls-key": settings.tls_key})
    if settings.tls_client_ca and not settings.tls_cert:
        fail("--tls-client-ca needs --tls-cert and --tls-key", USAGE)
    file_or_fail("--tls-client-ca", settings.tls_client_ca)
    if accounts.verifying_keys and not accounts.token_key:
        fail("--service-account-key-file needs --service-account-signing-key-file", USAGE)
    file_or_fail("--service-account-signing-key-file", accounts.token_key)
    for path in accounts.verifying_keys:
        file_or_fail("--service-account-key-file", path)
    option = "--cluster-signing"
    pairs = {
        option: (signing.signing_cert, signing.signing_key),
        f"{option}-kubelet-serving": (signing.serving_cert, signing.serving_key),
    }
    for name, (certificate, key) in pairs.items():
        pair_or_fail({f"{name}-cert-file": certificate, f"{name}-key-file": key})
    if signing.serving_cert and not signing.signing_cert:
        fail(f"{option}-kubelet-serving-cert-file needs {option}-cert-file", USAGE)
    certificate, key = kubelets.client_certificate, kubelets.client_key
    pair_or_fail({"--kubelet-client-certificate": certificate, "--kubelet-client-key": key})
    file_or_fail("--kubelet-certificate-authority", kubelets.certificate_authority)
    for unknown in set(kubelets.address_types) - set(ADDRESS_TYPES):
        known = ", ".join(ADDRESS_TYPES)
        fail(f"--kubelet-preferred-address-types {unknown}: must be of {known}", USAGE)


def jwt_settings(jwt: JwtSettings) -> JwtSettings | None:
    """Return the settings of JSON Web Tokens; exit if the options do not fit together."""
    given = (jwt.issuer, jwt.audience, jwt.jwks)
    if not any(given):
        return None
    if not all(given):
        fail("--jwt-issuer, --jwt-audience and --jwt-jwks must be used together", USAGE)
    if not jwt.is_url:
        file_or_fail("--jwt-jwks", jwt.jwks)
    elif not jwt.jwks.startswith("https:") and not _is_local(jwt.jwks):
        why = "others on the network could replace the keys: use https"
        fail(f"--jwt-jwks {jwt.jwks}: {why}", USAGE)
    return jwt


def check_tokens(settings: ServerSettings) -> None:
    """Exit if tokens would be sent unencrypted, or if no client could use one."""
    file_or_fail("--token-file", settings.token_file)
    accepted, listen = bool(settings.token_file or settings.jwt), settings.token_listen
    if listen:
        split_address("--token-listen", listen)
    if listen and not (accepted and settings.tls_client_ca):
        fail("--token-listen needs --tls-client-ca, and --token-file or --jwt-issuer", USAGE)
    if accepted and settings.tls_client_ca and not listen:
        fail(
            "with --tls-client-ca, --listen requires client certificates: add --token-listen, an "
            "address for clients with tokens",
            USAGE,
        )
    if accepted and not settings.tls_cert and not is_loopback(settings.host):
        address = f"{settings.host}:{settings.port}"
        fail(f"--listen {address}: tokens would be sent unencrypted: add --tls-cert", USAGE)


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def _policy(path: Path) -> AuditPolicy:
    from podsched.serve.server.audit.policy import parse_policy

    with fail_on(OSError, UnicodeDecodeError, about=f"--audit-policy {path}", code=USAGE):
        text = read_file(path, _MOST).decode()
    with fail_on(ConfigError, code=USAGE):
        return parse_policy(text, str(path))
