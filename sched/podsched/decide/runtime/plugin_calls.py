"""Turn exceptions of plugins into PluginFailure; the only place that does.

A plugin returns a Status for "does not fit". An exception is a bug or an outage. It becomes a
PluginFailure with kube-scheduler's message, which ends the pod's cycle with Code.ERROR. Its
traceback is logged once, although the pod is tried again and other pods may meet the same bug.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from podsched.framework.status import Code, Status, encodable
from podsched.telemetry.logs import get_logger

_log = get_logger("plugins")

P = ParamSpec("P")
R = TypeVar("R")

#: Max failures remembered as logged. A plugin has few lines that can fail.
_MOST_LOGGED = 1000
#: Plugin, type of the exception, file and line that raised it.
_logged: set[tuple[str, type[Exception], str, int]] = set()


class PluginFailure(Exception):
    """A plugin failed: the plugin is at fault, and the pod is retried with backoff."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin

    @property
    def status(self) -> Status:
        """Code.ERROR with the message, attributed to the plugin."""
        return Status(Code.ERROR, (str(self),), self.plugin)


def guarded(
    plugin: str, wording: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a plugin. ``wording`` has a place for the plugin's name, as in ``running %q plugin``.

    Raises PluginFailure for every exception of the plugin.
    """
    try:
        return call(*args, **kwargs)
    except PluginFailure:
        raise
    except Exception as error:
        raise failure_of(plugin, wording, error) from error


def failure_of(plugin: str, wording: str, error: Exception) -> PluginFailure:
    """Return the PluginFailure for an exception of a plugin; log the exception once."""
    _log_once(plugin, error)
    return PluginFailure(plugin, encodable(f"{wording.format(plugin)}: {error}"))


def _log_once(plugin: str, error: Exception) -> None:
    # The innermost frame tells bugs of a plugin apart.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or len(_logged) >= _MOST_LOGGED:
        return
    seen = (plugin, type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    if seen not in _logged:
        _logged.add(seen)
        _log.error("A plugin raised an exception", plugin=plugin, error=repr(error), exc_info=error)
