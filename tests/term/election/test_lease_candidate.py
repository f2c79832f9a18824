"""Coordinated leader election: candidates are published, pinged and appointed. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from podsched.config.leader_election import LeaderElectionSettings
from podsched.term.election.elector import LeaderElector
from podsched.term.election.lease_candidate import LeaseCandidate
from podsched.term.election.lease_lock import LeaseLock
from podsched.term.election.options import ElectionCallbacks, ElectionOptions
from support.kube_server import Answer, KubeStore, MemoryHttp, refusal

pytestmark = pytest.mark.looptime

GROUP = "/apis/coordination.k8s.io"
SERVED = Answer(200, {"resources": [{"name": "leasecandidates"}]})
MISSING = refusal(404, "NotFound", "404 page not found")
LATER = "2999-01-02T03:04:05.000000Z"


class World:
    """One replica, and what the API server's coordinator does."""

    def __init__(self) -> None:
        self.store = KubeStore()
        self.history: list[str] = []
        http, settings = MemoryHttp(self.store, timeout=5.0), LeaderElectionSettings()
        self.candidate = LeaseCandidate(http, settings, "me")
        self.elector = LeaderElector(
            LeaseLock(http, settings, follows_holder=False),
            settings,
            "me",
            ElectionCallbacks(on_stopped_leading=lambda reason: self.history.append(reason.value)),
            options=ElectionOptions(listen_host=None, liveness_ttl=0, coordinated=True),
        )
        self.tasks = [asyncio.create_task(t.run()) for t in (self.candidate, self.elector)]

    @property
    def published(self) -> dict[str, Any]:
        return self.store.objects["leasecandidates"]["kube-system/me"]

    @property
    def lease(self) -> dict[str, Any]:
        return self.store.objects["leases"]["kube-system/kube-scheduler"]

    def appoint(self, holder: str, **spec: Any) -> None:
        times = {"acquireTime": LATER, "renewTime": LATER, "leaseDurationSeconds": 5}
        wanted = {"holderIdentity": holder, "strategy": "OldestEmulationVersion", **times, **spec}
        metadata = {"name": "kube-scheduler", "namespace": "kube-system"}
        self.store.put("leases", {"metadata": metadata, "spec": wanted})

    def prefer(self, holder: str) -> None:
        spec = {**self.lease["spec"], "preferredHolder": holder}
        self.store.put("leases", {**self.lease, "spec": spec})


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A replica on a cluster that serves candidates in one version, v1beta1 or the parameter."""
    version, world = getattr(request, "param", "v1beta1"), World()
    if version != "v1beta1":
        world.store.fail(MISSING, path=f"{GROUP}/v1beta1")
    world.store.fail(SERVED if version else MISSING, path=f"{GROUP}/v1")
    yield world
    for task in world.tasks:
        task.cancel()
    await asyncio.gather(*world.tasks, return_exceptions=True)


async def test_a_replica_publishes_what_is_chosen_by(world: World) -> None:
    await asyncio.sleep(5)
    spec = world.published["spec"]
    assert spec.pop("renewTime")
    assert spec == {
        "leaseName": "kube-scheduler",
        "binaryVersion": "1.36.0",
        "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    }
    assert world.published["apiVersion"] == "coordination.k8s.io/v1beta1"
    assert world.candidate.problem == ""


async def test_a_ping_is_answered_once(world: World) -> None:
    await asyncio.sleep(5)
    spec = {**world.published["spec"], "pingTime": "2020-01-02T03:04:05.000000Z", "renewTime": ""}
    world.store.put("leasecandidates", {**world.published, "spec": spec})
    await asyncio.sleep(5)
    assert world.published["spec"]["renewTime"] > world.published["spec"]["pingTime"]
    assert len(world.store.writes("PUT", "/leasecandidates/")) == 1


async def test_a_ping_of_a_server_whose_clock_is_ahead_is_answered_once(world: World) -> None:
    await asyncio.sleep(5)
    spec = {**world.published["spec"], "pingTime": LATER}
    world.store.put("leasecandidates", {**world.published, "spec": spec})
    for _ in range(200):
        await asyncio.sleep(0)
    assert world.published["spec"]["renewTime"] == LATER
    assert len(world.store.writes("PUT", "/leasecandidates/")) == 1


async def test_a_candidate_writes_no_lease_unless_it_is_appointed(world: World) -> None:
    await asyncio.sleep(60)
    assert "leases" not in world.store.objects
    world.appoint("another")
    await asyncio.sleep(60)
    assert not world.elector.is_leader()
    assert world.store.writes("PUT", "/leases/") == []


async def test_who_is_appointed_leads_and_keeps_the_strategy(world: World) -> None:
    world.appoint("me")
    await asyncio.sleep(20)
    assert world.elector.is_leader()
    assert world.lease["spec"]["strategy"] == "OldestEmulationVersion"
    assert world.lease["spec"]["renewTime"] != LATER


async def test_a_leader_stops_when_another_is_preferred_and_does_not_come_back(
    world: World,
) -> None:
    world.appoint("me")
    await asyncio.sleep(20)
    world.prefer("another")
    await asyncio.sleep(1)
    assert (world.elector.is_leader(), world.history) == (False, ["handed over"])
    released = world.lease["spec"]
    assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)
    assert "preferredHolder" not in released
    await asyncio.sleep(60)
    assert world.lease["spec"] == released
    world.appoint("me")
    await asyncio.sleep(5)
    assert world.elector.is_leader()


@pytest.mark.parametrize("world", [""], indirect=True)
async def test_a_cluster_without_candidates_is_said_to_have_none(world: World) -> None:
    await asyncio.sleep(0.5)
    assert "the cluster serves no LeaseCandidates" in world.candidate.problem


@pytest.mark.parametrize("world", ["v1alpha2"], indirect=True)
async def test_the_older_version_is_used_where_there_is_no_newer(world: World) -> None:
    await asyncio.sleep(5)
    assert world.published["apiVersion"] == "coordination.k8s.io/v1alpha2"
