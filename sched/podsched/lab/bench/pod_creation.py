"""Creates pods in the way that a benchmark asks for, and notes when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from podsched.api.objects import Pod, key_of
from podsched.lab.bench.cluster import BenchOptions, CreatePod, each
from podsched.lib.tasks import task_group
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import raise_first


class PodCreation:
    """Creates pods in batches, in a stream, one by one, or at a rate."""

    def __init__(self, client: ApiClient, create_pod: CreatePod, options: BenchOptions) -> None:
        """``create_pod`` creates pods that have their own call."""
        self._client = client
        self._create_pod = create_pod
        self._options = options

    async def create(self, pods: Sequence[Pod], rate: float, created: dict[str, float]) -> None:
        """Create pods, ``rate`` per second (0: as fast as possible); note when in ``created``."""
        options = self._options
        if rate:
            await self._create_at_rate(pods, rate, created)
        elif options.create_mode == "batch":
            for start in range(0, len(pods), options.batch_size):
                part = pods[start : start + options.batch_size]
                now = time.monotonic()
                created.update((key_of(pod), now) for pod in part)
                raise_first(await self._client.create_pods(part))
        elif options.create_mode == "stream":
            await self._stream(pods, created)
        else:

            async def create(pod: Pod) -> None:
                created[key_of(pod)] = time.monotonic()
                await self._create_pod(pod)

            await each(pods, create, options.in_flight)

    async def _stream(self, pods: Sequence[Pod], created: dict[str, float]) -> None:
        async with self._client.submit_pods() as stream:
            answers = []
            for pod in pods:
                created[key_of(pod)] = time.monotonic()
                answers.append(await stream.submit(pod))
            raise_first([await answer for answer in answers])

    async def _create_at_rate(
        self, pods: Sequence[Pod], rate: float, created: dict[str, float]
    ) -> None:
        """Create ``rate`` pods per second, also while calls of earlier ones are not answered."""
        began = time.monotonic()
        async with task_group() as calls:
            for index, pod in enumerate(pods):
                await asyncio.sleep(max(0.0, began + index / rate - time.monotonic()))
                created[key_of(pod)] = time.monotonic()
                calls.create_task(self._create_pod(pod), name=f"create {pod.metadata.name}")
