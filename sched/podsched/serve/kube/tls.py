"""Provides the TLS context for a kube-apiserver, reloaded when certificate files change.

Each request uses the current context. The pool keeps connections by context: new ones use the new
certificate, and idle ones with the old certificate are closed after a while.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from podsched.config.errors import ConfigError
from podsched.lib.changing_file import ChangingFile
from podsched.telemetry.logs import get_logger

_log = get_logger("kube")


class ClusterTls:
    """A TLS context that ``make`` creates from files. The first call's exceptions are raised."""

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        files: Iterable[Path],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: monotonic seconds."""
        self._make = make
        self._context = make()
        self._files = [ChangingFile(str(path), clock) for path in files]

    def latest(self) -> ssl.SSLContext:
        """Return the context for the next request.

        Files are replaced one by one, so the previous context is kept while they are inconsistent.
        """
        changed = [file.changed() for file in self._files]  # each is asked
        if any(changed):
            try:
                self._context = self._make()
            except ConfigError as error:
                _log.warning("Keeping the certificates in use", error=str(error))
        return self._context
