"""A client that writes down each of its calls, with when it was invoked and answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

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
        keys = [f"pods/{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]
        async with self._recorded("create", keys) as answers:
            for result in await self._client.create_pods(pods):
                answers.append(_Answer(of_result(result), revision=result.resource_version))

    async def create(self, item: AnyObject) -> bool:
        """Create an object of any kind; return whether it is there."""
        meta, kind = item.metadata, kind_of(item)
        key = f"{kind.plural}/{meta.namespace}/{meta.name}".replace("//", "/")
        async with self._recorded("create", [key]) as answers:
            made = (await self._client.create(item)).metadata
            answers.append(_Answer(uid=made.uid, revision=int(made.resource_version)))
        [answer] = answers
        return answer.error is None or isinstance(answer.error, AlreadyExists)

    async def delete_pod(self, key: str, grace: int) -> None:
        """Delete the pod "namespace/name" that is there now."""
        uid, (namespace, name) = self._uid(key), key.split("/")
        async with self._recorded("delete", [f"pods/{key}"], uid):
            await self._client.delete("Pod", name, namespace, grace_period_seconds=grace, uid=uid)

    async def evict_pod(self, key: str) -> None:
        """Evict the pod that is there now, as far as its budget permits."""
        uid, (namespace, name) = self._uid(key), key.split("/")
        request = EvictRequest(namespace=namespace, name=name, preconditions=Preconditions(uid=uid))
        async with self._recorded("evict", [f"pods/{key}"], uid):
            await self._client.evict(request)

    def _uid(self, key: str) -> str:
        return self._live.world.uids.get(key, "")

    @asynccontextmanager
    async def _recorded(
        self, verb: str, keys: Sequence[str], uid: str = ""
    ) -> AsyncIterator[list[_Answer]]:
        """Record the call that the block makes, which adds an answer for each key if it has any.

        An error of the call is recorded and not raised.
        """
        invoked, answers = self._recorder.now, list[_Answer]()
        try:
            yield answers
        except (ClientError, asyncio.CancelledError) as error:
            answers[:] = [_Answer(error) for _ in keys]
            if not isinstance(error, ClientError):
                raise  # no answer but the end of the client
        finally:
            answers[:] = answers or [_Answer() for _ in keys]
            for key, (failed, made, revision) in zip(keys, answers, strict=True):
                call = Call(
                    client=self._name,
                    verb=verb,
                    key=key,
                    uid=made or uid,
                    invoked=invoked,
                    answered=self._recorder.now,
                    outcome=_outcome(failed),
                    revision=revision,
                    error=f"{type(failed).__name__}: {failed}"[:200] if failed else "",
                )
                self._recorder.write(call)


class _Answer(NamedTuple):
    """The error of an item, or the uid and revision of the object."""

    error: BaseException | None = None
    uid: str = ""
    revision: int = 0


def _outcome(error: BaseException | None) -> Outcome:
    if error is None:
        return Outcome.OK
    known = isinstance(error, ClientError) and not error.outcome_unknown
    return Outcome.FAILED if known else Outcome.UNKNOWN
