"""``--trace``: start a trace with the command."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from podsched.api.trace_context import trace_id
from podsched.cli.output import say

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

Trace = Annotated[
    bool,
    typer.Option(
        "--trace",
        help="Trace the pods from this command until they are Running, and print the trace's id. "
        "Processes export their spans to their --otlp-endpoint, the command its own to "
        f"{_ENDPOINT}, if set.",
    ),
]


@contextmanager
def traced(command: str, *, wanted: bool) -> Iterator[str]:
    """Yield the context for a command's calls, "" if no trace is wanted."""
    if not wanted:
        yield ""
        return
    endpoint = os.environ.get(_ENDPOINT, "")
    if not endpoint:
        context = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        say(f"trace {trace_id(context)}", error=True)
        yield context
        return
    from podsched.telemetry.tracing import configure_tracing  # of the server extra; takes 0.3 s

    tracer = configure_tracing("podsched-cli", endpoint, instance=socket.gethostname())
    try:
        with tracer.start(command) as span:
            say(f"trace {trace_id(span.context)}", error=True)
            yield span.context
    finally:
        tracer.shutdown()
