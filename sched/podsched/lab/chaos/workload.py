"""Clients that use the system all the time.

steady      creates pods of several templates, and deletes each after a while
preempting  keeps the tight pool full of unimportant pods, and has important ones come now and then
draining    keeps a guarded application running, cordons a node of it and evicts its pods
claiming    creates pairs of pods that need the same exclusive volume
devices     creates pods with devices of their own and of shared claims, more than there are
ganging     creates groups of pods that start together, and deletes each as a whole

Their choices come from the seed, the system's answers do not. No call is repeated with the same
name, so that the history shows the outcome of calls whose answer was lost.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from podsched.api.conditions import is_pod_ready, is_terminating
from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Pod, key_of
from podsched.lab.chaos import shapes
from podsched.lab.chaos.history import World, apply
from podsched.lab.chaos.promises.devices import unused_claims
from podsched.lab.chaos.promises.ending import is_late, leaving_pods
from podsched.lab.chaos.recorder import Recorder
from podsched.lab.chaos.records import Call, Outcome, Revision
from podsched.lab.chaos.system import System
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, ClientError, of_result
from podsched.v1.api_pb2 import EvictRequest, Preconditions


class LiveWorld:
    """The present world, and counts; ``see`` is called with each revision."""

    def __init__(self, system: System, lock: str) -> None:
        self._system = system
        self._term_key = f"terms/{lock}"
        self.world = World()
        self.bound = 0
        """Bindings so far."""

    def see(self, revision: Revision) -> None:
        self._system.recorded = revision.number
        for change in revision.changes:
            if change.key == self._term_key:
                self._system.leader_identity = change.holder
        self.bound += sum(change.bound for change in apply(self.world, revision))

    @property
    def waiting(self) -> int:
        """The number of pods without a node."""
        return sum(not pod.spec.node_name for pod in self.world.pods.values())

    @property
    def has_late_pods(self) -> bool:
        """Whether some pending pod fits a node."""
        return any(is_late(self.world, key) for key in self.world.pods)

    @property
    def has_leaving_pods(self) -> bool:
        """Whether some pod is being deleted."""
        return any(True for _ in leaving_pods(self.world))

    @property
    def has_unused_claims(self) -> bool:
        """Whether some claim has devices that no pod needs."""
        return any(unused_claims(self.world))


class Caller:
    """Creates, deletes and evicts; errors of calls are recorded and not raised."""

    def __init__(self, name: str, client: ApiClient, recorder: Recorder, live: LiveWorld) -> None:
        self._name = name
        self._client = client
        self._recorder = recorder
        self._live = live

    async def create_pods(self, pods: Sequence[Pod]) -> None:
        keys = [f"pods/{key_of(pod)}" for pod in pods]
        async with self._recorded("create", keys) as answers:
            for result in await self._client.create_pods(pods):
                answers.append(_Answer(of_result(result), revision=result.resource_version))

    async def create(self, item: AnyObject) -> bool:
        """Create an object of any kind; return whether it exists."""
        meta, kind = item.metadata, kind_of(item)
        key = f"{kind.plural}/{meta.namespace}/{meta.name}".replace("//", "/")
        async with self._recorded("create", [key]) as answers:
            made = (await self._client.create(item)).metadata
            answers.append(_Answer(uid=made.uid, revision=int(made.resource_version)))
        [answer] = answers
        return answer.error is None or isinstance(answer.error, AlreadyExists)

    async def delete_pod(self, key: str, grace: int) -> None:
        """Delete the present pod "namespace/name"."""
        uid, (namespace, name) = self._uid(key), key.split("/")
        async with self._recorded("delete", [f"pods/{key}"], uid):
            await self._client.delete("Pod", name, namespace, grace_period_seconds=grace, uid=uid)

    async def evict_pod(self, key: str) -> None:
        """Evict the present pod, as far as its budget permits."""
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
        """Record the call of the block, which adds the answer for each key.

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


#: Pods beyond which no client creates more: what cannot be scheduled must not pile up.
MOST_PODS = 250
#: Steady clients: one that waits for an answer must not keep the others.
STEADY = 5
#: Gangs at a time, and the members of the largest.
GANGS, LARGEST_GANG = 4, 8
#: How often a steady client creates many pods at a time, and how many.
BURSTS, BURST = 0.08, 60
_PORTS = (8080, 8081, 8082)


class _Pods:
    """Makes new pods, each with a name of its own."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._numbers = itertools.count()

    def name(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"

    def any(self) -> Pod:
        kind = self._chance.random()
        if kind < 0.6:
            return shapes.plain(self.name("plain"), self._chance.choice(("100m", "250m", "1")))
        if kind < 0.85:
            return self.like("spread")
        return shapes.with_port(self.name("port"), self._chance.choice(_PORTS))

    def like(self, shape: str) -> Pod:
        pod: Pod = shapes.made(shape, self.name(shape))
        return pod

    def with_devices(self) -> Pod:
        shares = self._chance.random() < 0.2
        claim = self._chance.choice(shapes.SHARED_CLAIMS) if shares else ""
        return shapes.with_devices(self.name("device"), claim)


class Workload:
    """The clients; ``clients`` has them."""

    def __init__(self, caller: Caller, client: ApiClient, live: LiveWorld, seed: int) -> None:
        self._caller = caller
        self._client = client
        self._live = live
        self._chance = random.Random(f"workload {seed}")
        self._pods = _Pods(self._chance)

    async def prepare(self) -> None:
        """Create the initial objects. Raises TimeoutError."""
        async with asyncio.timeout(30):
            left = shapes.fixed()
            while left:
                left = [item for item in left if not await self._caller.create(item)]
                await asyncio.sleep(0.1)

    def clients(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Yield each client's name and its endless coroutine."""
        for number in range(STEADY):
            yield f"steady {number}", self._steady()
        for run in (
            self._reap,
            self._preempting,
            self._draining,
            self._claiming,
            self._devices,
            self._ganging,
        ):
            yield run.__name__.removeprefix("_"), run()

    def _mine(self, app: str) -> dict[str, Pod]:
        return {
            key: pod
            for key, pod in self._live.world.pods.items()
            if pod.metadata.labels.get("app") == app and not is_terminating(pod)
        }

    async def _steady(self) -> None:
        while True:
            await asyncio.sleep(STEADY * self._chance.uniform(0.1, 0.4))
            burst = self._chance.random() < BURSTS
            count = BURST if burst else self._chance.randint(1, 4)
            if len(self._live.world.pods) < MOST_PODS:
                await self._caller.create_pods([self._pods.any() for _ in range(count)])

    async def _reap(self) -> None:
        """Delete pods of the steady client and important ones after a while, in any order."""
        while True:
            await asyncio.sleep(0.3)
            old = [*self._mine("plain"), *self._mine("spread"), *self._mine("port")]
            surplus = len(old) - self._chance.randint(40, 80)
            for key in self._chance.sample(old, min(max(surplus, 0), 5)):
                await self._caller.delete_pod(key, self._chance.choice((0, 1)))

    async def _preempting(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.5, 2.0))
            if len(self._mine("low")) < 6:
                await self._caller.create_pods([self._pods.like("low")])
            high = self._mine("high")
            if len(high) < 3:
                await self._caller.create_pods([self._pods.like("high")])
            for key, pod in high.items():
                if is_pod_ready(pod) and self._chance.random() < 0.3:
                    await self._caller.delete_pod(key, 1)

    async def _draining(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.5, 1.5))
            guarded = self._mine("guarded")
            if len(guarded) < shapes.GUARDED_PODS:
                await self._caller.create_pods([self._pods.like("guarded")])
                continue
            node = self._chance.choice(sorted({pod.spec.node_name for pod in guarded.values()}))
            if node:
                await self._cordon(node, True)
                for key in [key for key, pod in guarded.items() if pod.spec.node_name == node]:
                    await self._caller.evict_pod(key)
                await self._cordon(node, False)

    async def _cordon(self, node: str, value: bool) -> None:
        """Cordon a node if possible; retry to uncordon it until that succeeds."""
        patch = {"spec": {"unschedulable": value or None}}
        while True:
            try:
                await self._client.patch("Node", node, patch)
                return
            except ClientError:
                if value:
                    return
                await asyncio.sleep(0.5)

    async def _claiming(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(1.0, 3.0))
            mine = self._mine("claiming")
            if len(mine) < 6:
                claim = self._pods.name("claim")
                if await self._caller.create(shapes.made("claim", claim)):
                    pods = [shapes.claiming(self._pods.name("claiming"), claim) for _ in range(2)]
                    await self._caller.create_pods(pods)
            for key, pod in mine.items():
                if is_pod_ready(pod) and self._chance.random() < 0.3:
                    await self._caller.delete_pod(key, 1)

    async def _devices(self) -> None:
        """Create pods with devices, many at a time, and delete running and waiting ones."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.3, 1.5))
            mine = self._mine("device")
            if len(mine) < shapes.DEVICES:
                count = self._chance.choice((1, 2, shapes.DEVICES))
                await self._caller.create_pods([self._pods.with_devices() for _ in range(count)])
            for key, pod in mine.items():
                if self._chance.random() < (0.3 if is_pod_ready(pod) else 0.1):
                    await self._caller.delete_pod(key, self._chance.choice((0, 1)))

    async def _ganging(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.5, 2.0))
            gangs: dict[str, dict[str, Pod]] = defaultdict(dict)
            for key, pod in self._mine("gang").items():
                gangs[pod.spec.scheduling_group.pod_group_name][key] = pod
            if len(gangs) < GANGS:
                size = self._chance.randint(2, LARGEST_GANG)
                group, members = shapes.gang(self._pods.name("gang"), size)
                if await self._caller.create(group):
                    await self._caller.create_pods(members)
            for members_by_key in gangs.values():
                pods = members_by_key.values()
                runs = all(is_pod_ready(pod) for pod in pods)
                size = int(next(iter(pods)).metadata.labels[shapes.MIN_COUNT])
                if len(pods) < size or (runs and self._chance.random() < 0.3):
                    for key in members_by_key:
                        await self._caller.delete_pod(key, 1)
