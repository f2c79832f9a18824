"""Send calls to an extender: POST of JSON to urlPrefix/verb, over HTTPS if configured.

Source: HTTPExtender.send and makeTransport of kube-scheduler v1.36. As in kube-scheduler, the
server's certificate is not checked with ``enableHTTPS`` and no CA. Errors of aiohttp become
ExtenderErrors.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from podsched.config.durations import format_duration
from podsched.config.errors import ConfigError, invalid
from podsched.config.extenders import Extender, ExtenderTLSConfig, redacted
from podsched.decide.extenders.wire import ExtenderError

#: The max size of any answer: all nodes of a cluster of 20,000 take some 60 MB.
MAX_ANSWER_BYTES = 128 << 20
#: Every answer may have this size: a reason of some hundred bytes for each of 20,000 nodes.
_LEAST_BYTES = 4 << 20
#: It may also have this many bytes per byte of the request: an extender that returns the nodes may
#: write the same objects as longer JSON.
_TIMES_SENT = 8


class HttpTransport:
    """Sends calls to one extender over HTTP.

    Connections are opened on demand and kept until ``close``.
    """

    def __init__(self, config: Extender, path: str = "extenders[0]") -> None:
        """Prepare calls; ``path`` is the extender's place in the configuration.

        Raises:
            ConfigError: for TLS files that cannot be used.
        """
        self._prefix = config.url_prefix.rstrip("/")
        self._timeout = config.http_timeout
        self._server_name = config.tls_config.server_name if config.tls_config else ""
        self._tls = _tls_context(config, f"{path}.tlsConfig")
        self._session: aiohttp.ClientSession | None = None

    async def send(self, verb: str, body: bytes) -> bytes:
        """Return the answer to one call. Raises ExtenderError."""
        url = f"{self._prefix}/{verb}"
        shown = redacted(url)
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        name = self._server_name or None
        try:
            # A redirect would send pods and nodes to a service that is not configured.
            async with self._opened().post(
                url, data=body, headers=headers, server_hostname=name, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    raise ExtenderError(
                        f"failed {verb} with extender at URL {shown}, code {answer.status}"
                    )
                return await _bounded(answer, most_of_answer(len(body)))
        except TimeoutError as error:
            after = format_duration(self._timeout)
            raise ExtenderError(f'Post "{shown}": no answer within {after}') from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise ExtenderError(f'Post "{shown}": {reason.replace(url, shown)}') from error

    def _opened(self) -> aiohttp.ClientSession:
        # Not created in the constructor, because a session needs a running event loop.
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls)
            timeout = aiohttp.ClientTimeout(total=self._timeout)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                # A compressed answer of some kilobytes can expand to gigabytes.
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections; calls under way fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None
            # aiohttp closes TLS connections in the loop's next turn.
            await asyncio.sleep(0)


def most_of_answer(sent: int) -> int:
    """Return the max size in bytes of the answer to a request of ``sent`` bytes.

    The limit is tight, because a parsed answer takes five times its size and more.
    """
    return min(_LEAST_BYTES + _TIMES_SENT * sent, MAX_ANSWER_BYTES)


async def _bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body. Raises ValueError if it is too large."""
    parts = []
    size = 0
    async for part in answer.content.iter_chunked(1 << 20):
        size += len(part)
        if size > most:
            raise ValueError(f"the answer is larger than {most / (1 << 20):.1f} MiB")
        parts.append(part)
    return b"".join(parts)


def _tls_context(config: Extender, path: str) -> ssl.SSLContext | bool:
    """Return aiohttp's ``ssl`` argument: a context, or True for the default. Raises ConfigError."""
    given = config.tls_config
    if given is None and not config.enable_https:
        return True
    tls = given or ExtenderTLSConfig()
    has_ca = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and has_ca:
        reason = "specifying a root certificates file with the insecure flag is not allowed"
        raise ConfigError([invalid(path, "", reason)])
    if missing := [invalid(f"{path}.{name}", file, why) for name, file, why in _unreadable(tls)]:
        raise ConfigError(missing)
    context = ssl.create_default_context()
    # As in kube-scheduler's ``makeTransport``, enableHTTPS without a CA does not verify the server.
    if tls.insecure or (config.enable_https and not has_ca):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if tls.ca_data:
            context.load_verify_locations(cadata=tls.ca_data.decode("ascii"))
        elif tls.ca_file:
            context.load_verify_locations(cafile=tls.ca_file)
    except (OSError, ValueError) as error:
        name = "caData" if tls.ca_data else "caFile"
        raise _unusable(f"{path}.{name}", "" if tls.ca_data else tls.ca_file, error) from error
    try:
        _load_certificate(context, tls)
    except (OSError, ValueError) as error:
        raise _unusable(path, tls.cert_file, error) from error
    return context


def _unreadable(tls: ExtenderTLSConfig) -> Iterator[tuple[str, str, str]]:
    """Yield (field, file, reason) for each file that cannot be opened."""
    for field, file, data in (
        ("caFile", tls.ca_file, tls.ca_data),
        ("certFile", tls.cert_file, tls.cert_data),
        ("keyFile", tls.key_file, tls.key_data),
    ):
        if not file or data:
            continue
        try:
            with open(file, "rb"):
                pass
        except (OSError, ValueError) as error:  # such as a null character in the name
            yield field, file, getattr(error, "strerror", None) or str(error)


def _unusable(path: str, file: str, error: Exception) -> ConfigError:
    return ConfigError([invalid(path, file, f"cannot be used: {error}")])


def _load_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    """Load the client certificate, if any. Raises OSError (also ssl.SSLError) or ValueError."""
    certificate, key = bool(tls.cert_file or tls.cert_data), bool(tls.key_file or tls.key_data)
    if certificate != key:
        raise ValueError("a certificate and its key must be given together")
    if not certificate:
        return
    # The ssl module reads certificates only from files, so data is written to a temporary
    # directory, which only this user can read.
    with tempfile.TemporaryDirectory(prefix="podsched-tls-") as directory:
        cert_file = _as_file(tls.cert_file, tls.cert_data, Path(directory) / "tls.crt")
        key_file = _as_file(tls.key_file, tls.key_data, Path(directory) / "tls.key")
        # An empty password, or an encrypted key would be asked about on the terminal.
        context.load_cert_chain(cert_file, key_file, password="")


def _as_file(name: str, data: bytes, place: Path) -> str:
    if not data:
        return name
    place.write_bytes(data)
    return str(place)
