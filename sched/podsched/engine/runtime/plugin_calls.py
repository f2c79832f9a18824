"""The one place where exceptions of plugins become statuses.

A plugin says "does not fit" with a Status. An exception is a bug or an outage; here it is given
kube-scheduler's words and turned into PluginFailure, which ends the pod's cycle with Code.ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from podsched.framework.status import Code, Status

P = ParamSpec("P")
R = TypeVar("R")


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

    Raises PluginFailure for whatever the plugin raises.
    """
    try:
        return call(*args, **kwargs)
    except PluginFailure:
        raise
    except Exception as error:
        raise PluginFailure(plugin, f"{wording.format(plugin)}: {error}") from error
