"""The backend of a Kubernetes cluster, against a server on the loopback interface."""

from __future__ import annotations

import pytest

from podsched.app.kube_backend import KubeBackend, KubeOptions
from podsched.config.errors import ConfigError
from podsched.config.kube_scheduler import ClientConnectionConfiguration
from podsched.config.leader_election import LeaderElectionSettings
from podsched.serve.kube.access import ClusterAccess
from podsched.telemetry.instruments import MetricRegistry
from support.kube_server import KubeStore, serve

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("queues", [True, False])
async def test_the_kinds_of_queues_have_to_be_there_only_if_queues_are_on(queues: bool) -> None:
    store = KubeStore()
    store.absent.add("kueue.x-k8s.io/v1beta2")
    async with serve(store) as url:
        connection, election = ClientConnectionConfiguration(), LeaderElectionSettings()
        options = KubeOptions(ClusterAccess(url), connection, election, queues=queues)
        backend = KubeBackend(options, "a", "a_1", MetricRegistry(), {})
        try:
            if queues:
                with pytest.raises(ConfigError, match="the cluster has no clusterqueues"):
                    await backend.connect()
            else:
                await backend.connect()
            follows = "ClusterQueue" in backend.informer._reflectors
            assert (backend.queues, follows) == (queues, queues)
        finally:
            await backend.close()
