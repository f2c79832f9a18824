"""What every client command shares: the server's address, one connection, one place where errors
become lines.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer

from podsched.api.kinds import UnknownKindError
from podsched.api.manifest import ManifestError
from podsched.client.api_client import ApiClient
from podsched.client.channels import ClientOptions
from podsched.client.errors import ClientError, Unavailable

DEFAULT_SERVER = "127.0.0.1:7443"

#: Exit codes: 1 the request failed, 2 the command was not understood, 3 the server cannot be
#: reached.
FAILED, USAGE, UNREACHABLE = 1, 2, 3

#: The environment's names for how to reach the API servers by TLS.
TLS_VARIABLES = {
    "--tls-ca": "SCHED_TLS_CA",
    "--tls-cert": "SCHED_TLS_CERT",
    "--tls-key": "SCHED_TLS_KEY",
}

T = TypeVar("T")

Server = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        envvar="SCHED_SERVER",
        metavar="HOST:PORT[,...]",
        help="The API server, or several: the next is used when one fails. SCHED_TLS_CA, "
        "SCHED_TLS_CERT and SCHED_TLS_KEY name files for TLS.",
        show_default=DEFAULT_SERVER,
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca",
        rich_help_panel="TLS to the API server",
        envvar="SCHED_TLS_CA",
        metavar="FILE",
        help="Authorities that the API server's certificate is checked against (turns TLS on).",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        rich_help_panel="TLS to the API server",
        envvar="SCHED_TLS_CERT",
        metavar="FILE",
        help="Certificate to show to the API server.",
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        "--tls-key",
        rich_help_panel="TLS to the API server",
        envvar="SCHED_TLS_KEY",
        metavar="FILE",
        help="Its private key.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", help="The namespace of objects that do not say theirs."),
]


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print one clear line and exits."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(code)


def report(context: str, error: ClientError) -> None:
    """Print an error as a line, or as one line for each mistake when there are several."""
    print("\n".join(f"error: {line}" for line in error_lines(context, error)), file=sys.stderr)


def error_lines(context: str, error: ClientError) -> list[str]:
    """Return the lines of ``report``, without "error: "."""
    if len(error.violations) < 2:
        return [f"{context}{error}"]
    return [
        f"{context}{v.field}: {v.description}" if v.field else f"{context}{v.description}"
        for v in error.violations
    ]


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def endpoints(server: str) -> list[str]:
    """Return the addresses in a --server value."""
    found = [part.strip() for part in (server or DEFAULT_SERVER).split(",") if part.strip()]
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            fail(f'--server: "{address}" is not HOST:PORT', USAGE)
    return found


def file_or_fail(option: str, path: Path | None) -> str:
    """Return the path of a file that is there, "" for none, or one line and exit."""
    if path is None:
        return ""
    if not path.is_file():
        fail(f"{option}: {path}: no such file", USAGE)
    return str(path)


def client_options(
    ca: Path | None = None, cert: Path | None = None, key: Path | None = None
) -> ClientOptions:
    """How to reach the API servers: by TLS with files given here or named by the environment."""
    given = {"--tls-ca": ca, "--tls-cert": cert, "--tls-key": key}
    files = {}
    for option, path in given.items():
        variable = TLS_VARIABLES[option]
        named = os.environ.get(variable, "")
        fallback = Path(named) if named else None
        files[option] = file_or_fail(option if path else variable, path or fallback)
    tls_ca, tls_cert, tls_key = files.values()
    if bool(tls_cert) != bool(tls_key):
        fail("a client certificate needs its key: --tls-cert and --tls-key go together", USAGE)
    if tls_cert and not tls_ca:
        fail("a client certificate needs TLS: --tls-ca names the server's authorities", USAGE)
    return ClientOptions(tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)


def with_client(server: str, work: Callable[[ApiClient], Awaitable[T]]) -> T:
    """Run ``work`` with a client and turn what users can cause into a line and an exit code."""

    async def run() -> T:
        client = ApiClient(endpoints(server), client_options())
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough (`sched get pods | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except ClientError as exc:
        if isinstance(exc, Unavailable):
            fail(f"cannot reach the API server at {server or DEFAULT_SERVER}: {exc}", UNREACHABLE)
        report("", exc)
        raise typer.Exit(FAILED) from None
    except (UnknownKindError, ManifestError) as exc:
        fail(str(exc))
