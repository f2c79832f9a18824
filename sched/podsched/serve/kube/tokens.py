"""Provides bearer tokens for a kube-apiserver: fixed, from a file, or from an exec plugin."""

from __future__ import annotations

import asyncio
import json
import os
import time
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from podsched.config.errors import ConfigError, invalid, required
from podsched.serve.client.bearer_token import BearerToken
from podsched.serve.client.errors import Unauthorized

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
#: Timeout in seconds of a plugin; it may use the network but no terminal.
_PLUGIN_TIMEOUT = 60.0
#: Seconds before its expiry at which a token is no longer used.
_MARGIN = 10.0
_MAX_BYTES = 1 << 20
#: Bytes that are read of a plugin's output before the rest waits in the pipe.
_MAX_UNREAD = 1 << 16


class TokenSource(Protocol):
    """The source of ``Authorization: Bearer`` tokens."""

    async def token(self, *, renew: bool = False) -> str:
        """Return the token, "" for none; ``renew``: the last one was refused.

        Raises Unauthorized if none is available.
        """


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that never changes; "" for none."""

    value: str = field(default="", repr=False)

    async def token(self, *, renew: bool = False) -> str:
        """See ``TokenSource``."""
        return self.value


class FileToken:
    """A token in a file, reloaded when it changes. Raises CertificateError."""

    def __init__(self, path: Path) -> None:
        self._file = BearerToken(str(path))

    async def token(self, *, renew: bool = False) -> str:
        """See ``TokenSource``."""
        return self._file.latest()


class ExecToken:
    """A token printed by a program, see ``client.authentication.k8s.io/v1``."""

    def __init__(
        self,
        command: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        version: str,
        cluster: Mapping[str, Any] | None = None,
    ) -> None:
        """``cluster``: what the program is told about the cluster; None: nothing."""
        self._command = (command, *arguments)
        spec = {"interactive": False, **({"cluster": cluster} if cluster is not None else {})}
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        self._environment = {**environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        self._token = ""
        self._until = 0.0
        self._asking = asyncio.Lock()

    @classmethod
    def of(cls, content: object, folder: Path, cluster: Mapping[str, Any]) -> ExecToken:
        """Return the plugin that ``user.exec`` of a kubeconfig describes. Raises ConfigError.

        ``cluster``: what the plugin is told about the cluster if it asks for that.
        """
        if not isinstance(content, Mapping):
            raise ConfigError([invalid("user.exec", "***", "must be an object")])
        version, command = str(content.get("apiVersion", "")), str(content.get("command", ""))
        if version not in _API_VERSIONS:
            reason = f"must be {_API_VERSIONS[0]}"
            raise ConfigError([invalid("user.exec.apiVersion", version, reason)])
        if not command:
            raise ConfigError([required("user.exec.command")])
        if content.get("interactiveMode") == "Always":
            reason = "is not supported: this process has no terminal"
            raise ConfigError([invalid("user.exec.interactiveMode", "Always", reason)])
        if os.sep in command:
            command = str((folder / command).absolute())
        arguments, variables = content.get("args") or [], content.get("env") or []
        if not isinstance(arguments, list):
            raise ConfigError([invalid("user.exec.args", "***", "must be a list")])
        try:
            environment = {str(each["name"]): str(each["value"]) for each in variables}
        except (KeyError, TypeError):
            reason = "must be a list of names and values"
            # The values may be secrets.
            raise ConfigError([invalid("user.exec.env", "***", reason)]) from None
        told = cluster if content.get("provideClusterInfo") else None
        return cls(command, [str(each) for each in arguments], environment, version, told)

    async def token(self, *, renew: bool = False) -> str:
        """See ``TokenSource``."""
        asked_for = self._token
        async with self._asking:
            refused = renew and self._token == asked_for  # else another call has renewed it
            if refused or time.time() > self._until - _MARGIN:
                await self._ask()
        return self._token

    async def _ask(self) -> None:
        """Run the plugin and store its token and expiry. Raises Unauthorized."""
        environment = {**os.environ, **self._environment}
        name = self._command[0]
        try:
            async with asyncio.timeout(_PLUGIN_TIMEOUT):
                output = await _output(self._command, environment)
            status = json.loads(output)["status"]
            token, ends = str(status["token"]).strip(), status.get("expirationTimestamp")
            until = datetime.fromisoformat(ends).timestamp() if ends else float("inf")
            if not token.isprintable():
                raise ValueError("a token with control characters")
        except TimeoutError:
            raise Unauthorized(f"{name}: printed no token within {_PLUGIN_TIMEOUT:g} s") from None
        except OSError as error:
            raise Unauthorized(f"{name}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError):
            raise Unauthorized(f"{name}: printed no ExecCredential with a token") from None
        self._token, self._until = token, until


async def _output(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """Return a program's standard output. Raises OSError; Unauthorized if it fails."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(_MAX_UNREAD, loop),
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=None,
    )
    process = asyncio.subprocess.Process(transport, protocol, loop)
    assert process.stdout is not None
    try:
        output = await _read_all(process.stdout, command[0])
        await process.wait()
    finally:
        # Kills it if it runs, and closes the pipe. ``wait`` alone would not return while a pipe
        # that is too full is not read, or while a child of the program has it.
        transport.close()
        await process.wait()
    if process.returncode:
        raise Unauthorized(f"{command[0]}: ended with exit code {process.returncode}")
    return output


async def _read_all(stream: asyncio.StreamReader, name: str) -> bytes:
    try:
        await stream.readexactly(_MAX_BYTES + 1)
    except asyncio.IncompleteReadError as ended:
        return ended.partial
    raise Unauthorized(f"{name}: printed more than {_MAX_BYTES >> 20} MiB")
