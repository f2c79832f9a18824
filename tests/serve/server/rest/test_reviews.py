"""Reviews of the caller over HTTP."""

from __future__ import annotations

from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.access.rights import Rights
from podsched.serve.server.pipeline import Pipeline
from support.api_world import World
from support.kube_client import KubeClient

ALICE = Identity("alice", frozenset({"staff"}), Authentication.TOKEN)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def as_alice(world: World) -> KubeClient:
    """A client without any right."""
    return KubeClient(world.core, Pipeline(authenticate=lambda _: ALICE, authorize=Rights))


async def test_who_asks_learns_who_he_is(world: World) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = (await as_alice(world).request("POST", path, {})).json
    assert answer["status"]["userInfo"]["username"] == "alice"


async def test_who_asks_learns_what_he_may_do(world: World, kube: KubeClient) -> None:
    spec = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}
    answers = [
        (await client.request("POST", REVIEWS, {"spec": spec})).json["status"]["allowed"]
        for client in (kube, as_alice(world))
    ]
    assert answers == [True, False]


async def test_who_may_not_is_refused_in_kubernetes_words(world: World) -> None:
    client = as_alice(world)
    pods = (await client.get("/api/v1/namespaces/default/pods")).json
    assert pods["message"] == (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )
    assert (await client.get("/version")).status == 200
