"""Authenticates calls to etcd by a token, if etcd requires one."""

from __future__ import annotations

import grpc
from aetcd.rpc import rpc_pb2

from podsched.serve.store.connection import Connection, EtcdOptions
from podsched.serve.store.translate import is_auth_disabled, translate

Metadata = tuple[tuple[str, str], ...]


class AuthToken:
    """The token of a user and password, got when it is first needed."""

    def __init__(self, options: EtcdOptions) -> None:
        self._options = options
        #: None: to be got; "": etcd requires none.
        self._token: str | None = None

    async def metadata(self, connection: Connection) -> Metadata:
        """Return the metadata of calls, with the token if there is one. Raises StoreError.

        "hasleader" makes a member without a leader refuse the call instead of keeping it waiting.
        """
        has_leader = ("hasleader", "true")
        if self._options.username is None:
            return (has_leader,)
        if self._token is None:
            # The other members need not wait for one that is silent.
            async with connection.authenticating:
                if self._token is None:
                    self._token = await self._authenticate(connection)
        return (has_leader, ("token", self._token)) if self._token else (has_leader,)

    async def _authenticate(self, connection: Connection) -> str:
        """Return a token, "" if etcd does not require one."""
        options = self._options
        request = rpc_pb2.AuthenticateRequest(
            name=options.username, password=options.password or ""
        )
        try:
            answer = await connection.auth.Authenticate(request, timeout=options.request_timeout)
        except grpc.aio.AioRpcError as error:
            if is_auth_disabled(error):
                return ""
            raise translate(error, safe=True) from error
        return str(answer.token)

    def forget(self) -> bool:
        """Drop the token, so that the next call authenticates again; return False without a user.

        Also if another call has just dropped it: when etcd forgets its tokens, all calls under way
        fail. And if etcd required none before.
        """
        self._token = None
        return self._options.username is not None
