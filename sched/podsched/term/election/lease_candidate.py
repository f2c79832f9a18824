"""Publish a replica's LeaseCandidate for Kubernetes' coordinated leader election.

    candidate publishes itself -> the API server pings all (pingTime) -> each answers (renewTime)
    -> the API server writes the Lease: holderIdentity is the candidate's name, strategy is set

As in client-go (tools/leaderelection), the object has the candidate's name, and is renewed whenever
the pingTime is later than the renewTime, and every five minutes. A candidate that ends does not
delete it: it does not answer the next ping, so it is not appointed, and the API server deletes the
object half an hour after its last renewal. Unlike in client-go, a deleted object is published again
within seconds instead of minutes, and the older API version is used if the cluster has no newer
one. Only the Lease decides who leads (``racing``, ``holding``).
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import orjson

from podsched.config.feature_gates import VERSION
from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.backoff import Backoff
from podsched.lib.list_watch import list_and_watch
from podsched.serve.client.errors import ClientError, Conflict, NotFound
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.writes import micro_time
from podsched.telemetry.logs import get_logger

_log = get_logger("election")

_GROUP: Final = "/apis/coordination.k8s.io"
#: Newest first; both have the same fields.
_VERSIONS: Final = ("v1beta1", "v1alpha2")
STRATEGY: Final = "OldestEmulationVersion"
#: Seconds of a watch, after which the candidate is renewed, as in client-go.
_WATCH_SECONDS = 300
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class LeaseCandidate:
    """Publishes one candidate; ``run`` it once, as a task. The caller closes ``http``."""

    def __init__(self, http: KubeHttp, settings: LeaderElectionSettings, identity: str) -> None:
        self._http = http
        self._settings = settings
        self._identity = identity
        #: Why this candidate cannot be appointed, "" if it is published.
        self.problem = "the LeaseCandidate is not published yet"

    async def run(self) -> None:
        """Publish the candidate and answer pings until cancelled; after failures, try again."""
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        async for _ in list_and_watch(
            self._stream, self._on_error, transient=(ClientError,), backoff=backoff
        ):
            pass

    async def _stream(self) -> AsyncGenerator[None, None]:
        collection = await self._collection()
        await self._renew(collection)
        self.problem = ""
        yield
        await self._answer_pings(collection)

    def _on_error(self, error: ClientError) -> None:
        if not isinstance(error, Conflict):  # a Conflict means that the API server has pinged
            self.problem = str(error)
            _log.warning("Could not publish the LeaseCandidate", error=str(error))

    async def _collection(self) -> str:
        """Return the path of the candidates. Raises NotFound if the cluster has none."""
        for version in _VERSIONS:
            try:
                found = await self._http.request("GET", f"{_GROUP}/{version}")
            except NotFound:
                continue
            if any(r.get("name") == "leasecandidates" for r in found.get("resources") or ()):
                namespace = quote(self._settings.resource_namespace, safe="")
                return f"{_GROUP}/{version}/namespaces/{namespace}/leasecandidates"
        raise NotFound(
            "the cluster serves no LeaseCandidates, so no leader is appointed: "
            "leave out --feature-gates CoordinatedLeaderElection=true"
        )

    async def _renew(self, collection: str, known: dict[str, Any] | None = None) -> None:
        path = f"{collection}/{quote(self._identity, safe='')}"
        now = micro_time(datetime.now(UTC))
        try:
            candidate = known or await self._http.request("GET", path)
        except NotFound:
            await self._http.request("POST", collection, body=self._new(collection, now))
            return
        spec = candidate.get("spec") or {}
        # The ping has the time of the API server, whose clock may be ahead. With a time before it,
        # the ping would remain unanswered, and each answer's event would call for another answer.
        renewed = {**candidate, "spec": {**spec, "renewTime": max(now, spec.get("pingTime") or "")}}
        await self._http.request("PUT", path, body=renewed)

    def _new(self, collection: str, now: str) -> dict[str, Any]:
        settings = self._settings
        version = f"{VERSION}.0"
        return {
            "apiVersion": collection.removeprefix("/apis/").partition("/namespaces/")[0],
            "kind": "LeaseCandidate",
            "metadata": {"name": self._identity, "namespace": settings.resource_namespace},
            "spec": {
                "leaseName": settings.resource_name,
                "binaryVersion": version,
                "emulationVersion": version,
                "strategy": STRATEGY,
                "renewTime": now,
            },
        }

    async def _answer_pings(self, collection: str) -> None:
        """Renew the candidate whenever it is pinged, until the watch ends."""
        params = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self._identity}",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with aclosing(self._http.lines(collection, params)) as chunks:
            async for lines in chunks:
                try:
                    event = orjson.loads(lines[-1])
                except orjson.JSONDecodeError:
                    return
                if event["type"] in ("DELETED", "ERROR"):
                    return
                if is_pinged(event["object"].get("spec") or {}):
                    await self._renew(collection, event["object"])


def is_pinged(spec: dict[str, Any]) -> bool:
    """Return whether the API server waits for an answer. MicroTimes sort like their texts."""
    return str(spec.get("pingTime") or "") > str(spec.get("renewTime") or "")
