"""TLS to a kube-apiserver, with certificates read anew when their files change.

A request gets the context of its moment. The pool keeps connections by their context: new ones are
opened with the new certificate, those of the old one end when nothing has used them for a while.
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
    """The context that ``make`` makes of files. Raises what it raises, at first."""

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

        Files are replaced one after the other: while they cannot be used, what was is kept.
        """
        changed = [file.changed() for file in self._files]  # each is asked
        if any(changed):
            try:
                self._context = self._make()
            except ConfigError as error:
                _log.warning("Keeping the certificates in use", error=str(error))
        return self._context
