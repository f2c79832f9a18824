"""Structured logs: one configuration for the loggers of podsched and of its libraries.

``log_output.configure_logging`` is called once, by ``app`` or when an actor starts. Loggers of
structlog and of the standard library (aiohttp, grpc, opentelemetry) use the same processors and
stream, and write text for people or one JSON object per line. Secrets are masked: fields whose
names suggest a secret, at any depth, and credentials inside texts and tracebacks.

Field names are fixed, so that one query finds a pod in the logs of every process:

=============  ====================================================================
pod            "namespace/name"
uid            the pod's uid
node           node name
profile        scheduler name of the profile
plugin         plugin name
component      the part of podsched, or the library, that logs
cluster_event  a cluster event, by its label ("NodeAdd")
term           the leader's term, the token of its fence
lock           "namespace/name" of the lease
identity       a replica's identity
leader         the identity of the leader
revision       a revision of the store
kind, name     an object that is not a pod or a node
attempt        number of the pod's scheduling attempt
seconds        a duration
trace_id       the trace that a call or a scheduling attempt belongs to, if it is traced
error          the text of an error
=============  ====================================================================
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from podsched.api.trace_context import trace_id
from podsched.lib.printable import printable, shortened

if TYPE_CHECKING:
    import structlog
    from structlog.typing import EventDict, WrappedLogger

LogFormat = Literal["text", "json"]
LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MASK = "***"
#: Max bytes of a text in a log line.
MOST_OF_A_TEXT = 64 << 10
#: The verbosity (of klog) from which debug messages are logged, and the highest one accepted.
DEBUG_FROM, MAX_VERBOSITY = 4, 100

_SECRET_KEY = re.compile(
    r"(token|passw|secret|authorization|credential|cookie|api[_-]?key|private_?key|key_?data)", re.I
)
# "Bearer xyz", "password=xyz" or as JSON has it, and the password in "scheme://user:password@host".
_SECRET_TEXT = (
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.I), rf"\1 {MASK}"),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), rf"\1:{MASK}@"),
    (
        re.compile(
            r"\b(\w*(?:token|password|passwd|secret|api[_-]?key))([\"']?\s*[=:]\s*)"
            r"(?:([\"'])(?:(?!\3)[^\\]|\\.)*\3?|[^\s,;&\"')}]+)",
            re.I,
        ),
        rf"\1\2\3{MASK}\3",
    ),
)
_MAX_DEPTH = 6
#: Log levels by component: (pattern of component names, level).
Modules: TypeAlias = tuple[tuple[str, str], ...]
#: The type of podsched's loggers: ``log.info("Bound the pod", pod="ns/name", node="n1")``.
Logger: TypeAlias = "structlog.typing.FilteringBoundLogger"


def get_logger(component: str) -> Logger:
    """Return a logger for one component; may be called at import, before configuration."""
    return cast(Logger, _LazyLogger(component))


class _LazyLogger:
    """A logger that imports structlog when it logs first, so that other commands start faster."""

    def __init__(self, component: str) -> None:
        self._component = component

    @cached_property
    def _logger(self) -> Logger:
        import structlog

        return cast(Logger, structlog.get_logger(component=self._component))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)


def keeps_certificates(log: Logger) -> Callable[[str], None]:
    """Return a function that logs why changed certificate files are not used."""
    return lambda problem: log.warning("Keeping the certificates in use", error=problem)


def bind_trace(context: str) -> None:
    """Add a trace's id to everything that this task logs from now on; "": add no id.

    ``context``: a traceparent (``api.trace_context``).
    """
    from structlog.contextvars import bind_contextvars, unbind_contextvars

    if context:
        bind_contextvars(trace_id=trace_id(context))
    else:
        unbind_contextvars("trace_id")


def parse_modules(text: str) -> Modules:
    """Parse log levels by component, such as ``queue=4,sched*=2``.

    Numbers from ``DEBUG_FROM`` on mean debug, others info. Raises ValueError for an invalid text.
    """
    found = []
    for part in filter(None, text.split(",")):
        pattern, _, number = part.partition("=")
        if not pattern or not re.fullmatch("[0-9]{1,4}", number):
            raise ValueError(f'"{part}" is not COMPONENT=LEVEL')
        found.append((pattern, "debug" if int(number) >= DEBUG_FROM else "info"))
    return tuple(found)


def mask_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Mask values of secret fields and credentials, escape control characters, and cut long texts.

    Control characters, because texts contain what users have stored, and logs are read on
    terminals; long texts, because an extender's answer may have megabytes. A structlog processor.
    """
    shown = {key: MASK if _is_secret(key, value) else masked(value) for key, value in event.items()}
    # Only now: of a password that is cut, no pattern would find the rest.
    return {
        key: shortened(value, MOST_OF_A_TEXT) if isinstance(value, str) else value
        for key, value in shown.items()
    }


def _is_secret(key: object, value: object) -> bool:
    # Numbers and None reveal nothing ("tokens=3"), and are useful.
    return (
        isinstance(key, str)
        and not isinstance(value, bool | int | float | None)
        and _SECRET_KEY.search(key) is not None
    )


def masked(value: Any, depth: int = 0) -> Any:
    """Return a text, or plain data, with its secrets masked and its control characters escaped.

    ``depth``: of the value in the data; what is nested deeper than ``_MAX_DEPTH`` becomes a text.
    """
    if isinstance(value, str):
        for pattern, replacement in _SECRET_TEXT:
            value = pattern.sub(replacement, value)
        return printable(value)
    if isinstance(value, bool | int | float | None):
        return value
    if depth >= _MAX_DEPTH:
        return masked(str(value), depth)
    if isinstance(value, Mapping):
        return {
            key: MASK if _is_secret(key, item) else masked(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(item, depth + 1) for item in value]
    return masked(str(value), depth)
