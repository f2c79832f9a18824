"""What client commands share: options for the connection, and one place that handles errors."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from podsched.api.kinds import UnknownKindError
from podsched.api.manifest import ManifestError
from podsched.cli.errors import FAILED, UNREACHABLE, USAGE, fail, file_or_fail, report, warn
from podsched.cli.output import say
from podsched.lib.certificate_error import CertificateError
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import ClientError, TooManyRequests, Unavailable

DEFAULT_SERVER = "127.0.0.1:7443"

#: The environment variables that stand in for the TLS options.
TLS_VARIABLES = {
    "--tls-ca": "SCHED_TLS_CA",
    "--tls-cert": "SCHED_TLS_CERT",
    "--tls-key": "SCHED_TLS_KEY",
}
TOKEN_VARIABLE = "SCHED_TOKEN_FILE"

T = TypeVar("T")

Server = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        envvar="SCHED_SERVER",
        metavar="HOST:PORT[,...]",
        help=f"API servers to ask, by default {DEFAULT_SERVER}.",
        show_default=False,
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca",
        rich_help_panel="TLS to the API server",
        envvar="SCHED_TLS_CA",
        metavar="FILE",
        help="CA certificates to verify the API server's certificate with; turns on TLS.",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        rich_help_panel="TLS to the API server",
        envvar="SCHED_TLS_CERT",
        metavar="FILE",
        help="Client certificate for the API server.",
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        "--tls-key",
        rich_help_panel="TLS to the API server",
        envvar="SCHED_TLS_KEY",
        metavar="FILE",
        help="Private key of --tls-cert.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        rich_help_panel="TLS to the API server",
        envvar=TOKEN_VARIABLE,
        metavar="FILE",
        help="Bearer token for the API server, in place of a client certificate. Read again when "
        "it changes.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Namespace of objects that do not name one."
    ),
]


def endpoints(server: str) -> list[str]:
    """Return the addresses in a ``--server`` value; exit if one is malformed."""
    found = [part.strip() for part in (server or DEFAULT_SERVER).split(",") if part.strip()]
    for address in found:
        if "://" in address:
            fail(
                f'--server: "{address}" is a URL; sched speaks gRPC with HOST:PORT, such as '
                f"{DEFAULT_SERVER} (kubectl takes URLs)",
                USAGE,
            )
        host, _, port = address.rpartition(":")
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            fail(f'--server: "{address}" is not HOST:PORT', USAGE)
    if not found:
        fail(f'--server: "{server}" contains no HOST:PORT', USAGE)
    return found


def client_options(
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: TokenFile = None,
) -> ClientOptions:
    """Return how to connect: with the files given here or named by the environment."""
    given = {"--tls-ca": tls_ca, "--tls-cert": tls_cert, "--tls-key": tls_key}
    files = {}
    for option, path in given.items():
        variable = TLS_VARIABLES[option]
        named = os.environ.get(variable, "")
        fallback = Path(named) if named else None
        files[option] = file_or_fail(option if path else variable, path or fallback)
    ca, cert, key = files.values()
    if bool(cert) != bool(key):
        fail("--tls-cert and --tls-key must be used together", USAGE)
    if cert and not ca:
        fail("--tls-cert needs --tls-ca: a client certificate is only used with TLS", USAGE)
    named = os.environ.get(TOKEN_VARIABLE, "")
    option = "--token-file" if token_file else TOKEN_VARIABLE
    token = file_or_fail(option, token_file or (Path(named) if named else None))
    return ClientOptions(tls_ca=ca, tls_cert=cert, tls_key=key, token_file=token)


def open_client(addresses: Sequence[str], **options: Any) -> ApiClient:
    """Return a client that does not wait for a server, with other options where they are given."""
    told: set[str] = set()

    def warn_once(text: str) -> None:
        if text not in told:
            told.add(text)
            warn(text)

    options = {"wait_for_server": False, "on_warning": warn_once, **options}
    return ApiClient(addresses, replace(client_options(), **options))


def _credentials(client: ClientOptions) -> dict[str, str]:
    names = ("tls_ca", "tls_cert", "tls_key", "token_file")
    return {name: getattr(client, name) for name in names}


def _hint(server: str, cause: str, *, tls: bool) -> str:
    """Return what to try when a server answers unlike one of podsched's; "" for nothing."""
    if any(address.strip().endswith(":6443") for address in server.split(",")):
        return "; 6443 is where kubectl goes, sched speaks gRPC, at 7443 unless told otherwise"
    if tls or "refused" in cause.lower():
        return ""
    return "; if it serves TLS: " + ", ".join(TLS_VARIABLES.values()) + " name its files"


def with_client(
    server: str,
    work: Callable[[ApiClient], Awaitable[T]],
    client: ClientOptions | None = None,
    *,
    traceparent: str = "",
) -> T:
    """Run ``work`` with a client; exit with a line for errors that users can cause.

    ``client``: how to connect, where options say it; otherwise the environment does;
    ``traceparent``: of the trace that the calls are part of.
    """
    secured = {} if client is None else _credentials(client)

    async def run() -> T:
        opened = open_client(endpoints(server), traceparent=traceparent, **secured)
        try:
            return await work(opened)
        finally:
            await opened.close()

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except ClientError as exc:
        if isinstance(exc, Unavailable) and not isinstance(exc, TooManyRequests):
            # gRPC lists every attempt; the cause is at the end.
            cause = str(exc).rpartition(": ")[2].rstrip("]")
            where = server or DEFAULT_SERVER
            secured_by = client_options() if client is None else client
            hint = _hint(where, cause, tls=bool(secured_by.tls_ca))
            fail(f"cannot reach the API server at {where}: {cause}{hint}", UNREACHABLE)
        report("", exc)
        if "http2 header with status" in str(exc):
            where = server or DEFAULT_SERVER
            say(f"{where} serves something else: sched speaks gRPC, not HTTP", error=True)
        raise typer.Exit(FAILED) from None
    except (UnknownKindError, ManifestError, CertificateError) as exc:
        fail(str(exc))
