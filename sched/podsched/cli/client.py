"""Code that client commands share: connection options and error handling."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, TypeVar

import typer

from podsched.api.manifest import ManifestError
from podsched.cli.errors import (
    FAILED,
    UNREACHABLE,
    USAGE,
    fail,
    file_or_fail,
    report,
    warn,
)
from podsched.cli.options import split_address
from podsched.cli.output import say
from podsched.config.flags import flag
from podsched.lib.certificate_error import CertificateError
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import ClientError, TooManyRequests, Unavailable

DEFAULT_SERVER = "127.0.0.1:7443"

#: Options of ``ClientOptions`` that environment variables such as SCHED_TLS_CA can set.
_CREDENTIALS = ("tls_ca", "tls_cert", "tls_key", "token_file")

T = TypeVar("T")

Server = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        envvar="SCHED_SERVER",
        metavar="HOST:PORT[,...]",
        help=f"API servers to use, by default {DEFAULT_SERVER}.",
        show_default=False,
    ),
]


def _named(namespace: str) -> str:
    """Return a namespace; exit if it is "", which would mean all namespaces."""
    if not namespace:
        fail('--namespace: "" is not the name of a namespace', USAGE)
    return namespace


Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Namespace of the objects, unless a manifest names another.",
        callback=_named,
    ),
]


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """The API servers to use."""

    server: Server = flag("")


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
        if not split_address("--server", address)[1]:
            fail(f'--server: "{address}" is not HOST:PORT', USAGE)
    if not found:
        fail(f'--server: "{server}" contains no HOST:PORT', USAGE)
    return found


def client_options(given: ClientOptions = ClientOptions()) -> ClientOptions:
    """Return the client options, with files from the options or the environment."""
    files: dict[str, Any] = {}
    for name in _CREDENTIALS:
        variable, path = f"SCHED_{name.upper()}", getattr(given, name)
        option = f"--{name.replace('_', '-')}" if path else variable
        files[name] = file_or_fail(option, path or os.environ.get(variable))
    if bool(files["tls_cert"]) != bool(files["tls_key"]):
        fail("--tls-cert and --tls-key must be used together", USAGE)
    if files["tls_cert"] and not files["tls_ca"]:
        fail("--tls-cert needs --tls-ca: a client certificate is only used with TLS", USAGE)
    return replace(given, **files)


def open_client(addresses: Sequence[str], options: ClientOptions, **more: Any) -> ApiClient:
    """Return a client that does not wait for a server; ``more`` replaces other options."""
    more = {"wait_for_server": False, "on_warning": cache(warn), **more}
    return ApiClient(addresses, replace(options, **more))


def _cause(error: str, server: str, *, tls: bool) -> str:
    """Return why no API server can be reached, with a hint about the likely mistake."""
    # gRPC lists every attempt; the cause is at the end. After a TLS handshake comes an "OK".
    cause = error.removesuffix(": OK").rpartition(": ")[2].rstrip("]")
    if any(address.strip().endswith(":6443") for address in server.split(",")):
        hint = "6443 is the port for kubectl; sched uses gRPC, by default at port 7443"
    elif "WRONG_VERSION_NUMBER" in error:
        cause, hint = "it does not serve TLS", "unset SCHED_TLS_CA"
    elif "CERTIFICATE_VERIFY_FAILED" in error:
        hint = "is SCHED_TLS_CA the CA certificate of this cluster?"
    elif "http1" in error:
        hint = "sched speaks gRPC, not HTTP"
    elif error.startswith("the server "):
        cause, hint = error, ""  # It was reached.
    elif any(word in cause.lower() for word in ("refused", "domain name", "resol")):
        hint = ""
    elif tls:
        hint = "if it requires client certificates, set SCHED_TLS_CERT and SCHED_TLS_KEY"
    else:
        hint = "if it serves TLS, set SCHED_TLS_CA, SCHED_TLS_CERT and SCHED_TLS_KEY"
    return f"{cause}; {hint}" if hint else cause


def with_client(
    server: str,
    work: Callable[[ApiClient], Awaitable[T]],
    client: ClientOptions | None = None,
    *,
    traceparent: str = "",
    of_replicas: bool = False,
) -> T:
    """Run ``work`` with a client; exit with a message for errors that users can cause.

    ``client``: the client options; None: those of the environment. ``traceparent``: the trace of
    the calls. ``of_replicas``: the API server passes the calls on to replicas, whose refusals have
    the status of an unreachable server; their ``reason`` tells them apart.
    """
    where, options = server or DEFAULT_SERVER, client or client_options()

    async def run() -> T:
        try:
            async with open_client(endpoints(server), options, traceparent=traceparent) as opened:
                return await work(opened)
        except KeyboardInterrupt:
            # A second Ctrl-C, in a task of ``work``: asyncio would show it as an error of this one.
            raise asyncio.CancelledError from None

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except ClientError as exc:
        refused = isinstance(exc, TooManyRequests) or (of_replicas and exc.reason)
        if isinstance(exc, Unavailable) and not refused:
            if exc.reason:
                fail(f"the API server at {where} cannot serve this now: {exc}", UNREACHABLE)
            cause = _cause(str(exc), where, tls=bool(options.tls_ca))
            fail(f"cannot reach the API server at {where}: {cause}", UNREACHABLE)
        report(exc)
        if "http2 header with status" in str(exc):
            say(f"{where} is not an API server of podsched: sched uses gRPC, not HTTP", error=True)
        raise typer.Exit(FAILED) from None
    except ManifestError as exc:
        fail(str(exc))
    except CertificateError as exc:
        fail(str(exc), USAGE)


class Outage:
    """Tells once that no API server answers, and once that one does again.

    One failure is no outage yet: another server may answer at once.
    """

    def __init__(self, tell: Callable[[bool], object]) -> None:
        """``tell``: called with True when an outage begins, with False when it ends."""
        self._tell = tell
        self._failures = 0

    def __call__(self, reached: bool) -> None:
        """Note that a server answered, or that none was reached."""
        if reached and self._failures > 1:
            self._tell(False)
        self._failures = 0 if reached else self._failures + 1
        if self._failures == 2:
            self._tell(True)


def outage_on_stderr(server: str) -> Outage:
    """Return an outage that is told on standard error."""
    where = f"The API server at {server or DEFAULT_SERVER}"

    def tell(begins: bool) -> None:
        state = "does not answer; trying again." if begins else "answers again."
        say(f"{where} {state}", error=True)

    return Outage(tell)


def for_each(
    server: str,
    named: Callable[[ApiClient], Awaitable[Iterable[T]]],
    act: Callable[[ApiClient, T], Awaitable[None]],
) -> None:
    """Call ``act`` for each target; exit with 1 if the server refused any of the calls.

    After a refusal, which is printed, the other targets follow.
    """

    async def work(client: ApiClient) -> bool:
        failed = False
        found = [*await named(client)]
        if not found:
            say("No resources found.", error=True)
        for each in found:
            try:
                await act(client, each)
            except Unavailable:
                raise
            except ClientError as exc:
                failed = True
                report(exc)
        return failed

    if with_client(server, work):
        raise typer.Exit(FAILED)
