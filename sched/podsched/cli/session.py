"""What every client command shares: the server's address, one connection, one place where errors
become lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, NoReturn, TypeVar

import typer

from podsched.api.kinds import UnknownKindError
from podsched.api.manifest import ManifestError
from podsched.client.api_client import ApiClient
from podsched.client.errors import ClientError, Unavailable

DEFAULT_SERVER = "127.0.0.1:7443"

#: Exit codes: 1 the request failed, 2 the command was not understood, 3 the server cannot be
#: reached.
FAILED, USAGE, UNREACHABLE = 1, 2, 3

T = TypeVar("T")

Server = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        envvar="SCHED_SERVER",
        help="API server addresses, HOST:PORT, separated by commas.",
        show_default=DEFAULT_SERVER,
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace.")]


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Prints one clear line and exits."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(code)


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def endpoints(server: str) -> list[str]:
    """The addresses in a --server value."""
    found = [part.strip() for part in (server or DEFAULT_SERVER).split(",") if part.strip()]
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            fail(f'--server: "{address}" is not HOST:PORT', USAGE)
    return found


def with_client(server: str, work: Callable[[ApiClient], Awaitable[T]]) -> T:
    """Runs ``work`` with a client and turns what users can cause into a line and an exit code."""

    async def run() -> T:
        client = ApiClient(endpoints(server))
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
        fail(str(exc))
    except (UnknownKindError, ManifestError) as exc:
        fail(str(exc))
