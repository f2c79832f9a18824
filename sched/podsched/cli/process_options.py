"""Options of long-running commands, and the settings made of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import typer

from podsched.app.process import Process, ProcessOptions, run_process
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, file_or_fail, pair_or_fail
from podsched.cli.flags import flags_in_effect
from podsched.cli.options import split_address
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.config.settings import TelemetrySettings
from podsched.framework.plugin import PluginError
from podsched.lib.certificate_error import CertificateError
from podsched.lib.network import is_loopback, why_not_listen
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.client.channels import ClientOptions
from podsched.serve.server.access.settings import AccessError
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.errors import StoreError
from podsched.telemetry.http_server import HttpServerError

LOOPBACK = "127.0.0.1:0"
_OPERATORS_MISTAKES = (
    StoreError,
    HttpServerError,
    ConfigError,
    PluginError,
    CertificateError,
    AccessError,
    OSError,
)
_OBSERVABILITY = "Observability"


@dataclass(frozen=True, slots=True)
class ListenFlags:
    """The listen address for health and metrics, which every process has."""

    health_listen: str = flag(LOOPBACK, "HOST:PORT", _OBSERVABILITY)
    """Listen address of /healthz, /livez, /readyz and /metrics; port 0 picks a free port."""
    insecure_listen: bool = flag(False)
    """Allow listeners without TLS on addresses that other machines can reach."""


@dataclass(frozen=True, slots=True)
class PageFlags(ListenFlags):
    """Options of processes that can serve the page."""

    web_listen: str | None = flag(None, "HOST:PORT", _OBSERVABILITY, show_default=False)
    """Listen address of the page for browsers; port 0 picks a free port. Default: no page."""


def check_listener(
    option: str, address: str, *, tls: bool, insecure: bool, remedy: str
) -> tuple[str, int]:
    """Return host and port; exit if other machines could reach the address without TLS.

    ``remedy``: the options that turn TLS on.
    """
    host, port = split_address(option, address)
    if not (tls or insecure or is_loopback(host)):
        fail(
            f"{option} {address}: other machines can reach this address: use {remedy} (sched "
            "certs init makes certificates), or --insecure-listen to allow it without TLS",
            USAGE,
        )
    return host, port


def check_client_listener(
    option: str, address: str, tls: TlsFiles | None, *, insecure: bool
) -> tuple[str, int]:
    """Check a listener of a client of the API server, as ``check_listener`` does."""
    remedy = "--tls-ca, --tls-cert and --tls-key"
    return check_listener(option, address, tls=tls is not None, insecure=insecure, remedy=remedy)


def serving_files(client: ClientOptions) -> TlsFiles | None:
    """Return the TLS files for listeners of a client of the API server: its client certificate."""
    if not client.tls_cert:
        return None
    return TlsFiles(client.tls_ca, client.tls_cert, client.tls_key)


def etcd_options(options: EtcdOptions) -> EtcdOptions:
    """Return etcd's client options; exit if the options do not fit together."""
    if not options.endpoints:
        fail("--etcd-endpoints: give the address of at least one etcd member, HOST:PORT", USAGE)
    file_or_fail("--etcd-ca", options.ca)
    pair_or_fail({"--etcd-cert": options.cert, "--etcd-key": options.key})
    password = os.environ.get("SCHED_ETCD_PASSWORD") or None
    return replace(options, username=options.username or None, password=password)


def telemetry_settings(
    telemetry: TelemetrySettings, health_listen: str, trace_ratio: float = 0.0
) -> TelemetrySettings:
    """Return the settings with the health server's address; exit if that is malformed."""
    host, port = split_address("--health-listen", health_listen)
    return replace(telemetry, health_host=host, health_port=port, trace_sample_ratio=trace_ratio)


def instance_of(part: str) -> str:
    """Return a name that no other process of its kind has."""
    return f"{socket.gethostname()}_{part}"


def listen_or_fail(listening: Mapping[str, str | None]) -> None:
    """Exit unless it is possible to listen on all addresses; ``listening``: by their options.

    A listener's own error comes later and does not name the option, and gRPC adds a line to it.
    """
    found: dict[tuple[str, int], str] = {}
    for option, given in listening.items():
        if not given:
            continue
        address = split_address(option, given)
        if why := why_not_listen(*address):
            fail(f"{option} {given}: cannot listen: {why}", FAILED)
        if address[1] and (other := found.setdefault(address, option)) != option:
            fail(f"{option} {given}: {other} has this address: choose another port", USAGE)


def run_or_fail(
    ctx: typer.Context,
    options: ProcessOptions,
    main: Callable[[Process], Awaitable[None]],
    listening: Mapping[str, str | None],
) -> None:
    """Run a process to its end; exit with a message for errors that an operator can cause.

    ``listening``: the addresses that it will listen on, by their options.
    """
    listen_or_fail(listening)
    with fail_on(*_OPERATORS_MISTAKES):
        code = run_process(replace(options, flags=flags_in_effect(ctx)), main)
    raise typer.Exit(code)
