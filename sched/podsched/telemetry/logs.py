"""Structured logs: one configuration for the loggers of podsched and of its libraries.

``configure_logging`` is called once, by ``app`` or when an actor starts. Loggers of structlog and
of the standard library (aiohttp, grpc, opentelemetry) use the same processors and stream, and write
text for people or one JSON object per line. Secrets are masked: fields whose names suggest a
secret, at any depth, and credentials inside texts and tracebacks.

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
error          the text of an error
=============  ====================================================================
"""

from __future__ import annotations

import fnmatch
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO, TypeAlias, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from podsched.lib.printable import printable, printable_line

LogFormat = Literal["text", "json"]
LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MASK = "***"
#: klog's verbosity from which debug messages are logged, and the highest that is taken.
DEBUG_FROM, MAX_VERBOSITY = 4, 100

_SECRET_KEY = re.compile(
    r"(token|passw|secret|authorization|credential|cookie|api_?key|private_?key|key_?data)", re.I
)
# "Bearer xyz", "password=xyz", and the password in "scheme://user:password@host".
_SECRET_TEXT = (
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.I), rf"\1 {MASK}"),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), rf"\1:{MASK}@"),
    (
        re.compile(r"\b(\w*(?:token|password|passwd|secret))(\s*[=:]\s*)[^\s,;&\"')}]+", re.I),
        rf"\1\2{MASK}",
    ),
)
_MAX_DEPTH = 6
_TRACEBACKS = frozenset({"exception", "stack"})

# At info these log a line for each request or connection.
_QUIET = {"aiohttp.access": logging.WARNING, "asyncio": logging.WARNING, "grpc": logging.WARNING}


#: Levels of components: pattern of names, level.
Modules: TypeAlias = tuple[tuple[str, str], ...]
#: The type of podsched's loggers: ``log.info("Bound the pod", pod="ns/name", node="n1")``.
Logger: TypeAlias = structlog.typing.FilteringBoundLogger


def get_logger(component: str) -> Logger:
    """Return a logger for one component; may be called at import, before configuration."""
    return cast(Logger, structlog.get_logger(component=component))


def configure_logging(
    format: LogFormat = "text",  # noqa: A002 - the name users know from the flag
    level: str = "info",
    stream: TextIO | None = None,
    modules: Modules = (),
) -> None:
    """Configure all logging of the process; a second call replaces the first.

    ``level`` is debug, info, warning or error (``ValueError`` otherwise); ``stream`` is stderr by
    default; ``modules``: levels of components, for which ``level`` does not count.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}, one of {', '.join(LEVELS)}")
    out = stream if stream is not None else sys.stderr
    shared = _shared_processors()
    final = _final_processors(format, out)
    levels = _Levels(level, modules)
    structlog.configure(
        processors=[levels.drop, *shared, *final],
        wrapper_class=levels.logger,
        logger_factory=structlog.WriteLoggerFactory(out),
        # Saves about 5 µs per call. In return, loggers keep the configuration of their first use.
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _component],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    logging.getLogger().handlers[:] = [handler]
    levels.apply(level)


def set_verbosity(verbosity: int) -> None:
    """Log debug messages from ``DEBUG_FROM`` on, below it those of the configured level."""
    levels = structlog.get_config()["processors"][0].__self__
    assert isinstance(levels, _Levels)
    levels.apply("debug" if verbosity >= DEBUG_FROM else levels.configured)


def parse_modules(text: str) -> Modules:
    """Return the levels of ``queue=4,sched*=2``: debug from ``DEBUG_FROM`` on, else info.

    Raises ValueError.
    """
    found = []
    for part in filter(None, text.split(",")):
        pattern, _, number = part.partition("=")
        if not pattern or not re.fullmatch("[0-9]{1,4}", number):
            raise ValueError(f'"{part}" is not COMPONENT=LEVEL')
        found.append((pattern, "debug" if int(number) >= DEBUG_FROM else "info"))
    return tuple(found)


class _Levels:
    """From which level on the loggers log, by component; may change while they are in use."""

    def __init__(self, level: str, modules: Modules) -> None:
        self.configured = level
        self._modules = modules
        self._level = level
        self._by_component: dict[str, int] = {}
        #: The type of all loggers. It does nothing itself for what is below its base's level.
        self.logger: Any = type("Logger", (structlog.make_filtering_bound_logger(0),), {})

    def apply(self, level: str) -> None:
        """Use a level for all components that have none of their own, and for the libraries."""
        self._level = level
        self._by_component.clear()
        named = [LEVELS[of] for _, of in self._modules]
        # Loggers in use are of this type already: it gets another base.
        least = min(LEVELS[level], *named) if named else LEVELS[level]
        self.logger.__bases__ = (structlog.make_filtering_bound_logger(least),)
        logging.getLogger().setLevel(LEVELS[level])
        for name, quiet in _QUIET.items():
            logging.getLogger(name).setLevel(max(quiet, LEVELS[level]))

    def drop(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Drop a line below the level of its component."""
        severity = LEVELS.get(method, logging.ERROR)  # exception, critical
        if self._modules and severity < self._least(str(event.get("component", ""))):
            raise structlog.DropEvent
        return event

    def _least(self, component: str) -> int:
        if component not in self._by_component:
            named = (of for pattern, of in self._modules if fnmatch.fnmatchcase(component, pattern))
            self._by_component[component] = LEVELS[next(named, self._level)]
        return self._by_component[component]


def _shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]


def _final_processors(format: LogFormat, out: TextIO) -> list[Processor]:  # noqa: A002
    if format == "json":
        return [
            structlog.processors.format_exc_info,
            mask_secrets,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ]
    return [
        structlog.processors.format_exc_info,
        mask_secrets,
        keep_lines,
        structlog.dev.ConsoleRenderer(
            colors=out.isatty(),
            timestamp_key="time",
            pad_event_to=36,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def mask_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Replace secret fields' values, credentials in texts, and control characters.

    The latter because texts hold what others have stored, and logs are read on terminals.
    """
    return {
        key: MASK if _is_secret(key, value) else _mask(value, 0) for key, value in event.items()
    }


def keep_lines(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Escape newlines, so that no text looks like a line of its own; tracebacks have several."""
    return {
        key: printable_line(value) if isinstance(value, str) and key not in _TRACEBACKS else value
        for key, value in event.items()
    }


def masked(text: str) -> str:
    """Return a text without credentials and control characters."""
    return str(_mask(text, 0))


def _is_secret(key: object, value: object) -> bool:
    # Numbers and None reveal nothing ("tokens=3"), and are useful.
    return (
        isinstance(key, str)
        and not isinstance(value, bool | int | float | None)
        and _SECRET_KEY.search(key) is not None
    )


def _mask(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        for pattern, replacement in _SECRET_TEXT:
            value = pattern.sub(replacement, value)
        return printable(value)
    if isinstance(value, bool | int | float | None):
        return value
    if depth >= _MAX_DEPTH:
        return _mask(str(value), depth)
    if isinstance(value, Mapping):
        return {
            key: MASK if _is_secret(key, item) else _mask(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_mask(item, depth + 1) for item in value]
    return _mask(str(value), depth)


def _component(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    record = event.get("_record")
    if isinstance(record, logging.LogRecord):
        event["component"] = record.name
    return event
