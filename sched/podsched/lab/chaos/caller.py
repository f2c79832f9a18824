"""A client that writes down each of its calls, with when it was invoked and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Pod
from podsched.lab.chaos.live import Live
from podsched.lab.chaos.recorder import Recorder
from podsched.lab.chaos.records import Call, Outcome
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, ClientError, of_result
from podsched.v1.api_pb2 import EvictRequest, Preconditions


class Caller:
    """Creates, deletes and evicts; a call that fails is told by its record alone."""

    def __init__(self, name: str, client: ApiClient, recorder: Recorder, live: Live) -> None:
        self._name = name
        self._client = client
        self._recorder = recorder
        self._live = live

    async def create_pods(self, pods: Sequence[Pod]) -> None:
        """Create pods in one call."""
        invoked = self._recorder.now
        keys = [f"pods/{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]
        try:
            results = await self._client.create_pods(pods)
        except (ClientError, asyncio.CancelledError) as error:
            for key in keys:
                self._record("create", key, invoked, error=error)
            _go_on(error)
            return
        for key, result in zip(keys, results, strict=True):
            found = of_result(result)
            revision = result.resource_version
            self._record("create", key, invoked, error=found, revision=revision)

    async def create(self, item: AnyObject) -> bool:
        """Create an object of any kind; return whether it is there."""
        invoked = self._recorder.now
        meta, kind = item.metadata, kind_of(item)
        key = f"{kind.plural}/{meta.namespace}/{meta.name}".replace("//", "/")
        try:
            stored = await self._client.create(item)
        except (ClientError, asyncio.CancelledError) as error:
            self._record("create", key, invoked, error=error)
            _go_on(error)
            return isinstance(error, AlreadyExists)
        made = stored.metadata
        self._record("create", key, invoked, uid=made.uid, revision=int(made.resource_version))
        return True

    async def delete_pod(self, key: str, grace: int) -> None:
        """Delete the pod "namespace/name" that is there now."""
        await self._remove("delete", key, grace)

    async def evict_pod(self, key: str) -> None:
        """Evict the pod that is there now, as far as its budget permits."""
        await self._remove("evict", key, None)

    async def _remove(self, verb: str, key: str, grace: int | None) -> None:
        invoked = self._recorder.now
        full = f"pods/{key}"
        uid = self._live.world.uids.get(key, "")
        namespace, _, name = key.partition("/")
        conditions = Preconditions(uid=uid)
        try:
            if verb == "evict":
                await self._client.evict(
                    EvictRequest(namespace=namespace, name=name, preconditions=conditions)
                )
            else:
                await self._client.delete(
                    "Pod", name, namespace, grace_period_seconds=grace, uid=uid
                )
        except (ClientError, asyncio.CancelledError) as error:
            self._record(verb, full, invoked, error=error, uid=uid)
            _go_on(error)
            return
        self._record(verb, full, invoked, uid=uid)

    def _record(
        self,
        verb: str,
        key: str,
        invoked: float,
        *,
        error: BaseException | None = None,
        uid: str = "",
        revision: int = 0,
    ) -> None:
        self._recorder.write(
            Call(
                client=self._name,
                verb=verb,
                key=key,
                uid=uid,
                invoked=invoked,
                answered=self._recorder.now,
                outcome=_outcome(error),
                revision=revision,
                error=f"{type(error).__name__}: {error}"[:200] if error is not None else "",
            )
        )


def _outcome(error: BaseException | None) -> Outcome:
    if error is None:
        return Outcome.OK
    known = isinstance(error, ClientError) and not error.outcome_unknown
    return Outcome.FAILED if known else Outcome.UNKNOWN


def _go_on(error: BaseException) -> None:
    """Raise what is no answer but the end of the client."""
    if not isinstance(error, ClientError):
        raise error
